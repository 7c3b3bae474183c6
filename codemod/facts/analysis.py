"""Facts about a program, file by file: interpretation in two phases, then the records that rules read.

The first phase takes every loader for one whose batches are sharded, and finds out which models are owned by an
optimizer and which batches reach them; the second starts afresh with that knowledge.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from ..budget import UNLIMITED, Budget
from ..findings import finding
from ..fstrings import fstring_spans
from ..program import Module, Program
from ..trees import children
from . import by_hand, ranks, records
from .entry import Entries
from .interpreter import Interpreter
from .model import Facts
from .names import Names
from .replacing import replace
from .steps import position
from .values import EMPTY, Dep, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..findings import Finding

MAX_PASSES = 12
RENAMED = ("torch.autograd.grad", "torch.autograd.backward")


def analyse(source: str, path: str) -> Facts:
    """Facts about one file by itself.

    Args:
        source: its decoded text.
        path: as given, for messages.

    Raises:
        SyntaxError: the text is no Python of the running version.
    """
    return analyse_program(Program.single(path, source))[0]


def analyse_program(program: Program, budget: Budget = UNLIMITED) -> list[Facts]:
    """Facts about the files of a program, the script first; folders without a file of their own have none.

    Args:
        program: its files.
        budget: the time that it may take.

    Raises:
        Exceeded: it takes longer.
    """
    for module in program.modules:
        fstring_spans(module.source, module.tree)
    nodes = [node for module in program.modules for node in module.nodes]
    parents = {child: parent for parent in nodes for child in children(parent)}
    names = Names(program.modules, parents)
    files = [_bare(module, parents, names) for module in program.modules if module.path]
    shared: dict[Callable[[Facts], Any], Any] = {}
    for facts in files:
        facts.program, facts.shared, facts.budget = files, shared, budget
    if not (any(_may_train(facts) for facts in files) and any(map(_names_gradient, nodes))):
        return files
    ip = _best(program, parents, names, budget)
    made = ip.made
    training = bool((made.backwards or made.gradients) and (made.optimizers or any(made.by_hand.values())))
    entries = Entries(program, names)
    for facts, module in zip(files, [module for module in program.modules if module.path]):
        facts.value = lambda node: _with_roles(ip, ip.sites.values.get(node, EMPTY))
        facts.is_training = training
        _add_renamed(facts)
        if training and module is program.entry:
            facts.entry_statement = entries.statement()
    (records.fill if training else _report_untrained)(files, ip)
    return files


def _add_renamed(facts: Facts) -> None:
    """Calls of torch's gradient functions by a name that the script gave them: `grad = torch.autograd.grad`."""
    for node in facts.nodes:
        if isinstance(node, ast.Call) and facts.names.qualified(node.func) is None:
            ref = facts.value(node.func).ref or ""
            if ref in RENAMED:
                facts.calls.setdefault(ref, []).append(node)


def _bare(module: Module, parents: dict[ast.AST, ast.AST], names: Names) -> Facts:
    """A file before its interpretation."""
    calls = _calls(module, names)
    facts = Facts(module.path, module.source, module.tree, module.nodes, parents, names, lambda node: EMPTY, calls)
    _name_runtime(facts, names)
    return facts


def _report_untrained(files: list[Facts], ip: Interpreter) -> None:
    for facts in files:
        facts.findings = [*_unseen_optimizer(facts, ip), *by_hand.from_inner_gradients(facts)]


def _unseen_optimizer(facts: Facts, ip: Interpreter) -> list[Finding]:
    """Backward runs and something steps, but no optimizer is built here: training that can't be converted."""
    backwards = [call for call in ip.made.backwards if facts.holds(call)]
    if not backwards and any(facts.holds(item.call) for item in ip.made.optimizers.values()):
        # An optimizer is built, and what is run backward comes from a library that nothing is known of.
        backwards = [
            node
            for node in facts.nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward"
        ]
    updates = by_hand.report(ip, list(filter(facts.holds, ip.made.by_hand)))
    steps = [
        node
        for node in facts.nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "step"
    ]
    if not backwards or updates or not steps:
        return updates if backwards else []
    message = "What this backward trains is not known: no optimizer is built here."
    hint = "give the script that builds it, whose imports are followed, or build it here from the model's parameters"
    if ip.made.optimizers:
        message = "What this backward trains is not known: its loss comes from code that can't be seen into."
        hint = "compute the loss from the model's output; precision is set by --precision, so leave out apex"
    return [finding("DST202", min(backwards, key=position), message, hint)]


def _with_roles(ip: Interpreter, value: Value) -> Value:
    """A value with the roles that its objects were found to have by their use."""
    if value.objs:
        value = replace(value, roles=value.roles.union(*(ip.heap[cell].roles for cell in value.objs)))
    return ranks.added(value, ranks.held(ip, value)) if ip.program.by_hand else value


def _calls(module: Module, names: Names) -> dict[str, list[ast.Call]]:
    found: dict[str, list[ast.Call]] = {}
    for node in module.nodes:
        if isinstance(node, ast.Call):
            qualified = names.qualified(node.func)
            if qualified is not None:
                found.setdefault(qualified, []).append(node)
    return found


def _name_runtime(facts: Facts, names: Names) -> None:
    """How the file names the runtime, or will."""
    for node in facts.nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "distify" and node.level == 0:
            for alias in node.names:
                if alias.name == "runtime":
                    facts.runtime_name, facts.runtime_imported = alias.asname or alias.name, True
                    return
    facts.runtime_name = "distify_runtime" if names.is_bound("runtime", facts.tree) else "runtime"


def _may_train(facts: Facts) -> bool:
    """A cheap look before the interpretation: something is stepped or runs backward."""
    return "torch.autograd.grad" in facts.calls or any(
        isinstance(node, ast.Attribute) and node.attr in ("backward", "step", "clip_grad_norm_") for node in facts.nodes
    )


def _names_gradient(node: ast.AST) -> bool:
    """Whether code names gradients or a backward in any way: without, whatever it steps is no optimizer.

    Large libraries that step through ranges or over timers are spared the interpretation.
    """
    name = getattr(node, "attr", None) or getattr(node, "id", None) or getattr(node, "name", None)
    text = name if name is not None else getattr(node, "value", None)
    return isinstance(text, str) and (text.rpartition(".")[2] == "grad" or ("backward" in text and " " not in text))


def _best(program: Program, parents: dict[ast.AST, ast.AST], names: Names, budget: Budget) -> Interpreter:
    """Interpret under the first assumption on hand-made batches that nothing in the program contradicts.

    Their samples lie along the first dimension, or along the second; else every process computes whole batches, which
    is exact as well, only no faster.
    """
    refutation = None
    for split_dim in (0, 1):
        ip = _interpret(program, parents, names, split_dim, budget)
        refuted = next((f for f in ip.sites.findings.values() if f.level == "error"), None)
        if refuted is None or not ip.sites.splits:
            return ip
        refutation = refutation or refuted
    ip = _interpret(program, parents, names, None, budget)
    ip.refutation = refutation
    for origin in ip.whole:
        ip.sites.report("DST118", origin)
    return ip


def _interpret(
    program: Program, parents: dict[ast.AST, ast.AST], names: Names, split_dim: int | None, budget: Budget
) -> Interpreter:
    first = _first(program, parents, names, split_dim, budget)
    second = Interpreter(program, dict(parents), names, split_dim, budget)
    for cell in first.heap.cells:
        second.heap.allocate(cell.node, cell.kind, context=cell.context, cls=cell.cls, ref=cell.ref, loops=cell.loops)
    for index, cell in enumerate(first.heap.cells):
        second.heap[index].root = cell.root
    second.sites.owned = set(first.sites.owned)
    second.sites.feeds = set(first.sites.feeds)
    second.sites.splits = dict(first.sites.splits)
    second.sites.met = set(first.sites.met)
    second.loop_sources = {loop: sources & first.sites.feeds for loop, sources in first.loop_sources.items()}
    second.made.training_defs = first.made.training_defs
    second.made.training_loops = first.made.training_loops
    second.made.running_defs = first.made.running_defs
    second.made.making_defs = first.made.making_defs
    second.made.step_defs = first.made.step_defs
    second.made.inner_defs = first.made.inner_defs
    second.made.foreign_models, second.made.stepped = first.made.foreign_models, first.made.stepped
    second.made.hooked = first.made.hooked
    second.made.batch_functions = first.made.batch_functions
    second.made.filled = first.made.filled
    second.batch_sizes = first.batch_sizes
    second.uses_minus_100 = first.uses_minus_100
    second.assume_feeds = False
    _converge(second)
    return second


def _first(
    program: Program, parents: dict[ast.AST, ast.AST], names: Names, split_dim: int | None, budget: Budget
) -> Interpreter:
    """The first phase; afresh once it is known what foreign calls make: batches were gathered for such models."""
    known: set[ast.Call] = set()
    stepped: set[tuple[ast.AST | None, str]] = set()
    while True:
        ip = Interpreter(program, dict(parents), names, split_dim, budget)
        ip.made.foreign_models, ip.made.stepped = set(known), set(stepped)
        _converge(ip)
        if ip.made.foreign_models <= known and ip.made.stepped <= stepped:
            return ip
        known, stepped = known | ip.made.foreign_models, stepped | ip.made.stepped


def _converge(ip: Interpreter) -> None:
    """Passes until neither objects nor recorded places change; values are those of the last pass."""
    for _ in range(MAX_PASSES):
        ip.heap.changed = False
        ip.sites.start()
        ip.run()
        by_hand.own(ip)
        if not (ip.heap.changed or ip.sites.changed):
            break
    ip.sites.prune()


__all__ = ["Dep", "analyse", "analyse_program"]
