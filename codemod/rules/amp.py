"""Fold the script's own mixed precision into the runtime's, where another precision or backend is asked for.

    -with torch.autocast("cuda", dtype=torch.float16):
    +with runtime.autocast():
    -scaler.scale(loss).backward()
    -scaler.unscale_(optimizer)
    -scaler.step(optimizer)
    -scaler.update()
    +runtime.backward(loss)
    +runtime.step(optimizer)

A scaler that is used in other ways too (kept in checkpoints, passed on, asked for its scale) becomes
`runtime.scaler()`, which stands for the scale of the runtime. The runtime unscales before it clips, once, and skips a
step on all processes or none (pytorch/examples#1196, huggingface/accelerate#4294, pytorch/pytorch#64632). Without such
options the script's own scaler stays and does what it did: a note says so. An autocast inside a module is a part of the
model, and gives way only to a precision that is asked for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import Callee, Dedent, Delete, Ref, Replace, Span
from ..facts.values import Role
from ..findings import finding
from . import Outcome, rule
from ._amp import AUTOCASTS, SCALERS, folds, is_off, own_precision
from ._source import calls, dotted, has_role, in_module_class, setting

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

FOLDED = ("scale", "unscale_", "step", "update")
ASKED = ("state_dict", "load_state_dict", "is_enabled", "get_scale")
SWITCHES = ("enabled", "device")  # arguments of a scaler that the runtime knows better
ARITHMETIC = (ast.Mult, ast.Div, ast.Pow, ast.FloorDiv)
CONDITIONAL = "the script switches its mixed precision by a condition; now the precision of the runtime decides (fp32)"


@rule("amp", order=34)
def amp(facts: Facts, options: Options) -> Iterator[Outcome]:
    """`GradScaler` and `torch.autocast` of the script."""
    asked = "precision" in options.given()
    contexts = [
        call for call in calls(facts, *AUTOCASTS) if not is_off(call) and (asked or not in_module_class(facts, call))
    ]
    scalers = calls(facts, *SCALERS)
    uses = list(scaler_uses(facts))
    handed_on = list(handed(facts))
    if not (contexts or scalers or uses or handed_on):
        return
    if not folds(facts, options):
        if contexts or scalers:
            yield finding("DST401", scalers[0] if scalers else contexts[0])
        return
    switched = [call for call in [*scalers, *contexts] if not is_off(call)]
    if switched and setting(facts, options, "precision") is None and facts.worked_out(own_precision) is None:
        yield finding(
            "DST401",
            switched[0],
            CONDITIONAL,
            "give --precision bf16 or fp16, or leave out --backend and --accumulate",
            level="warning",
        )
    for call in contexts:
        yield folded_context(facts, options, call)
    for reference in handed_on:
        yield from folded_reference(facts, reference)
    asks = [use for use in uses if use.attr == "get_scale"]
    for use in uses:
        yield from folded_use(facts, use, bool(asks))
    for call in scalers:
        yield from folded_scaler(facts, call, uses)


def folded_context(facts: Facts, options: Options, call: ast.Call) -> Outcome:
    """The runtime's autocast in the place of torch's; no block under fp32."""
    item = facts.parents[call]
    block = facts.parents[item]
    if setting(facts, options, "precision") == "fp32" and isinstance(block, ast.With) and len(block.items) == 1:
        return Dedent(Span.of(block), kind="precision")
    params = {"function": f"{facts.runtime_name}.autocast", "arguments": []}
    return Replace(Span.of(call), "applied", params, kind="precision")


def handed(facts: Facts) -> Iterator[ast.expr]:
    """Where the class of torch's autocast is handed on and not called: `partial(torch.autocast, …)`."""
    for node in facts.nodes:
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            parent = facts.parents[node]
            called = isinstance(parent, ast.Call) and parent.func is node
            if not called and facts.names.qualified(node) in AUTOCASTS:
                yield node


def folded_reference(facts: Facts, node: ast.expr) -> Iterator[Outcome]:
    """A partial autocast becomes the runtime's, which takes no arguments; any other goes on past the runtime."""
    call = facts.parents[node]
    if isinstance(call, ast.Call) and facts.names.qualified(call.func) == "functools.partial" and call.args[0] is node:
        part = f"{facts.runtime_name}.autocast"
        yield Replace(Span.of(call), "part", {"part": part}, kind="precision")
    else:
        message = "this autocast is not replaced, and decides over the precision of the runtime where it is entered"
        yield finding("DST401", node, message, "write `with runtime.autocast():` where it is entered", level="warning")


def scaler_uses(facts: Facts) -> Iterator[ast.Attribute]:
    """Attributes that are read from a scaler."""
    for node in facts.nodes:
        if isinstance(node, ast.Attribute) and has_role(facts, node.value, Role.SCALER):
            yield node


def folded_use(facts: Facts, use: ast.Attribute, asked: bool) -> Iterator[Outcome]:
    """One method of a scaler: the loss alone, a step of the runtime, or nothing.

    Where the scale is asked for, its updates stay: before and after them it is another one.
    """
    call = facts.parents[use]
    if not isinstance(call, ast.Call) or use.attr not in (*FOLDED, *ASKED):
        yield finding("DST402", use)
        return
    statement = facts.parents[call]
    arguments = [*call.args, *call.keywords]
    updates = use.attr == "update" and not arguments
    if use.attr == "step":
        yield Callee(Span.of(call), "call", {"runtime": facts.runtime_name, "name": "step"}, kind="step")
    elif use.attr == "scale" and len(call.args) == 1 and not call.keywords:
        yield Replace(Span.of(call), "part", {"part": Ref.to(call.args[0])}, kind="precision")
    elif isinstance(statement, ast.Expr) and (use.attr == "unscale_" or (updates and not asked)):
        yield Delete(Span.of(statement), kind="precision")
    elif use.attr == "get_scale" and is_factor(facts, call):
        message = "the scale is a factor here, but the runtime's losses and inner gradients are not multiplied by it"
        yield finding("DST402", use, message, "leave the factor out: runtime.grad(…) is never scaled")
    elif use.attr not in ASKED and not updates:
        yield finding("DST402", use)


def is_factor(facts: Facts, call: ast.Call) -> bool:
    """Whether a scale takes part in products or quotients, directly or by the name that it is given."""
    statement = facts.parents[call]
    names = {dotted(target) for target in statement.targets} if isinstance(statement, ast.Assign) else set()
    read = [node for node in facts.nodes if node is call or (dotted(node) in names - {None})]
    found = [facts.parents[node] for node in read]
    return any(isinstance(parent, ast.BinOp) and isinstance(parent.op, ARITHMETIC) for parent in found)


def folded_scaler(facts: Facts, call: ast.Call, uses: list[ast.Attribute]) -> Iterator[Outcome]:
    """A scaler that nothing is left of goes; another one becomes the runtime's."""
    statement = facts.parents[call]
    set_up = any(item.arg not in SWITCHES for item in call.keywords)
    plain = all(use.attr in FOLDED for use in uses) and not passed_on(facts, uses)
    if isinstance(statement, ast.Assign) and plain and not set_up:
        yield Delete(Span.of(statement), kind="precision")
    elif call.args and (facts.names.qualified(call.func) or "").startswith("torch.cuda."):
        yield finding("DST402", call, "its first argument is not the device", "name the arguments: init_scale=…")
    else:
        params = {"runtime": facts.runtime_name, "name": "scaler"}
        yield Callee(Span.of(call), "call", params, kind="precision")


def passed_on(facts: Facts, uses: list[ast.Attribute]) -> bool:
    """Whether a scaler is used as a whole: passed, returned, tested."""
    reads = {id(use.value) for use in uses}
    return any(
        isinstance(node, (ast.Name, ast.Attribute))
        and isinstance(node.ctx, ast.Load)
        and id(node) not in reads
        and has_role(facts, node, Role.SCALER)
        for node in facts.nodes
    )
