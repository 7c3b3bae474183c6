"""Training steps of which nothing can be sharded: every process would compute the whole of them.

Numbers stay equal, but processes gain nothing. Where other steps of the program are sharded, that is a warning; where
none is, the program is refused, by the name of what it does: a graph trained as a whole, an environment that is played
in, weights made for each task, or else batches in which no samples can be told apart.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..findings import Finding, finding
from . import bends, expressions, models
from .places import last_name
from .steps import position
from .values import EMPTY, Role, Value

if TYPE_CHECKING:
    from .interpreter import Interpreter
    from .model import Facts, Step

GRAPHS = ("torch_geometric", "dgl", "torch_sparse", "torch_scatter")
BETWEEN_ROWS = ("index_add", "scatter_add", "scatter_reduce", "spmm")
META = ("higher", "learn2learn")
FUNCTIONAL = ("torch.func.functional_call", "torch.nn.utils.stateless.functional_call")
GRADIENTS = ("torch.autograd.grad", "distify.runtime.grad")
STEPPED = frozenset({Role.OPTIMIZER, Role.SCHEDULER, Role.SCALER, Role.MODEL})
WHOLE = "No input of this step can be sharded: every process computes the whole of it."
FIXED = "This step trains on the same tensors every time, and on no batches: every process would compute the whole."
UNTOLD = "No samples can be told apart in what this step trains on: every process would compute the whole of it."


def report(files: list[Facts], ip: Interpreter) -> None:
    """Add a finding about training steps that are not sharded, where there are any."""
    every = [(facts, step) for facts in files for step in facts.steps]
    steps = [(facts, step) for facts, step in every if step.forwards or step.backwards]
    if not steps and not (ip.sites.feeds or ip.sites.splits):
        steps = every  # its forward and its backward are in other functions, and nothing is sharded anywhere
    whole = [(facts, step) for facts, step in steps if not _is_sharded(ip, step)]
    if not whole:
        return
    errors = any(item.level == "error" for facts in files for item in facts.findings)
    unknown = not all(item.models for item in ip.made.optimizers.values())  # refused for that
    if errors or unknown or len(whole) < len(steps) or not all(_is_seen(ip, step) for _, step in whole):
        for facts, step in whole:
            if not any(item.code == "DST118" for item in facts.findings):
                facts.findings.append(finding("DST118", _place(step), WHOLE))
        return
    for facts in files:
        facts.findings = [item for item in facts.findings if item.code != "DST118"]
    facts, refusal = _refusal(files, ip, *whole[0])
    facts.findings.append(refusal)


def _is_sharded(ip: Interpreter, step: Step) -> bool:
    """Whether an input of a step is a slice, or its loss is reduced over the processes."""
    inputs = _inputs(step)
    values = [ip.sites.values.get(node, EMPTY) for node in inputs]
    if any(expressions.deep_sources(value) or models.held_sources(ip, value) for value in values):
        return True
    return not inputs and _is_reduced(ip, step)


def _is_reduced(ip: Interpreter, step: Step) -> bool:
    return any(bends.terms_of(ip.sites.values.get(loss, EMPTY)) for loss in step.losses)


def _is_seen(ip: Interpreter, step: Step) -> bool:
    """Whether a step that is not sharded is known to be the same everywhere.

    A forward in another function than the step's is not among its inputs; a loader may feed it.
    """
    return not _is_reduced(ip, step) and (bool(_inputs(step)) or not (ip.sites.feeds or ip.sites.splits))


def _inputs(step: Step) -> list[ast.expr]:
    """What the forwards of a step are called with."""
    given = [node for item in step.forwards for node in [*item.call.args, *(k.value for k in item.call.keywords)]]
    return [node.value if isinstance(node, ast.Starred) else node for node in given]


def _place(step: Step) -> ast.Call:
    return step.forwards[0].call if step.forwards else (*step.backwards, *step.optimizer_steps)[0]


def _refusal(files: list[Facts], ip: Interpreter, facts: Facts, step: Step) -> tuple[Facts, Finding]:
    """The finding for a program none of whose steps is sharded, and the file that it stands in."""
    for file in files:
        for code, nodes in (
            ("DST143", _inner_updates(file, ip)),
            ("DST142", _environments(file, ip)),
            ("DST141", _graphs(file, ip)),
        ):
            found = min(nodes, key=position, default=None)
            if found is not None:
                # A graph is refused where the model takes it, the others where they happen.
                return (facts, finding(code, _place(step))) if code == "DST141" else (file, finding(code, found))
    message = FIXED if _is_fixed(facts, step) else UNTOLD
    if ip.refutation is not None:
        message = f"{UNTOLD[:-1]}. Cut by rows, line {ip.refutation.span.line} is wrong: {ip.refutation.message}"
    return facts, finding("DST140", _place(step), message)


def _inner_updates(facts: Facts, ip: Interpreter) -> Iterator[ast.Call]:
    """Weights made from others by a gradient, for a loss that is taken through them."""
    for name, called in facts.calls.items():
        if name in FUNCTIONAL or name.split(".")[0] in META:
            yield from called
        elif name in GRADIENTS:
            for call in called:
                inputs = call.args[1] if len(call.args) > 1 else next((k.value for k in call.keywords if k.arg), None)
                if inputs is not None and _holds_parameters(ip.sites.values.get(inputs, EMPTY)):
                    yield call


def _holds_parameters(value: Value) -> bool:
    inner = (*(value.items or ()), *([value.element] if value.element is not None else []))
    return bool(value.params) or any(_holds_parameters(item) for item in inner)


def _environments(facts: Facts, ip: Interpreter) -> Iterator[ast.Call]:
    """`state, reward, done, _ = env.step(action)`: something that is neither optimizer nor schedule is stepped, and
    what comes of it is used."""
    for node in facts.nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "step"):
            continue
        stepped = facts.value(node.func.value)
        known = node in ip.made.steps or node in ip.made.scheduler_steps or stepped.roles & STEPPED
        if node.args and not known and isinstance(facts.parents[node], (ast.Assign, ast.AnnAssign, ast.Tuple)):
            yield node


def _graphs(facts: Facts, ip: Interpreter) -> Iterator[ast.AST]:
    """Layers that pass values between rows, or a loss of some rows of what was computed of all."""
    for name, called in facts.calls.items():
        if name.split(".")[0] in GRAPHS or name == "torch.sparse.mm":
            yield from called
    for node in facts.nodes:
        passes = isinstance(node, ast.Call) and last_name(node.func).rstrip("_") in BETWEEN_ROWS
        if passes or (isinstance(node, ast.Subscript) and _picks(ip, node)):
            yield node


def _picks(ip: Interpreter, node: ast.Subscript) -> bool:
    """Whether rows of what a model computed are picked by a mask or by their numbers."""
    index = ip.sites.values.get(node.slice, EMPTY).const
    named = isinstance(node.slice, (ast.Name, ast.Attribute)) and not isinstance(index, int)
    return named and ip.sites.values.get(node.value, EMPTY).whole


def _is_fixed(facts: Facts, step: Step) -> bool:
    """Whether nothing that the forwards are called with is bound inside the loop or function of the step."""
    home: ast.AST = step.loop or facts.enclosing(_place(step), ast.FunctionDef, ast.AsyncFunctionDef) or facts.tree
    inside = list(ast.walk(home))
    bound = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in inside if isinstance(node, ast.arg)}
    used = {node.id for given in _inputs(step) for node in ast.walk(given) if isinstance(node, ast.Name)}
    return bool(used) and step.loop is not None and not used & bound
