"""Fold the script's own mixed precision into the runtime's, where another precision or backend is asked for.

    -with torch.autocast("cuda", dtype=torch.float16):
    +with runtime.autocast():
    -scaler.scale(loss).backward()
    -scaler.unscale_(optimizer)
    -scaler.step(optimizer)
    -scaler.update()
    +runtime.backward(loss)
    +runtime.step(optimizer)

The runtime unscales before it clips, once, and skips a step on all processes or none (pytorch/examples#1196,
huggingface/accelerate#4294, pytorch/pytorch#64632). Without such options the script's own scaler stays and does what it
did: a note says so.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import Callee, Dedent, Delete, Ref, Replace, Span
from ..facts.values import Role
from ..findings import finding
from . import Outcome, rule
from ._amp import AUTOCASTS, SCALERS, folds, scales_always
from ._source import calls, has_role, in_module_class, keyword_value, setting

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

FOLDED = ("scale", "unscale_", "step", "update")
HARMLESS = (*FOLDED, "state_dict", "load_state_dict", "is_enabled")


@rule("amp", order=34)
def amp(facts: Facts, options: Options) -> Iterator[Outcome]:
    """`GradScaler` and `torch.autocast` of the script."""
    blocks = [block for block in own_blocks(facts) if not in_module_class(facts, block)]
    scalers = calls(facts, *SCALERS)
    if not blocks and not scalers:
        return
    if not folds(facts, options):
        yield finding("DST401", scalers[0] if scalers else blocks[0])
        return
    if scalers and setting(facts, options, "precision") is None and not scales_always(facts):
        yield finding(
            "DST401",
            scalers[0],
            "the script switches its loss scaling by a condition; now the precision of the runtime decides (fp32)",
            "give --precision fp16, or leave out --backend and --accumulate",
            level="warning",
        )
    for block in blocks:
        yield from folded_block(facts, options, block)
    uses = list(scaler_uses(facts))
    for use in uses:
        yield from folded_use(facts, use)
    for call in scalers:
        statement = facts.parents[call]
        if isinstance(statement, ast.Assign) and all(use.attr in FOLDED for use in uses) and not handed_on(facts, uses):
            yield Delete(Span.of(statement), kind="precision")


def own_blocks(facts: Facts) -> Iterator[ast.With]:
    """`with` statements that enter one of torch's autocast contexts, switched on."""
    for node in ast.walk(facts.tree):
        if not isinstance(node, ast.With):
            continue
        for item in node.items:
            call = item.context_expr
            if isinstance(call, ast.Call) and facts.names.qualified(call.func) in AUTOCASTS:
                switch = keyword_value(call, "enabled")
                if not (isinstance(switch, ast.Constant) and switch.value is False):
                    yield node
                    break


def folded_block(facts: Facts, options: Options, block: ast.With) -> Iterator[Outcome]:
    """The runtime's autocast in the place of torch's; none under fp32."""
    if setting(facts, options, "precision") == "fp32" and len(block.items) == 1:
        yield Dedent(Span.of(block), kind="precision")
        return
    for item in block.items:
        call = item.context_expr
        if isinstance(call, ast.Call) and facts.names.qualified(call.func) in AUTOCASTS:
            params = {"function": f"{facts.runtime_name}.autocast", "arguments": []}
            yield Replace(Span.of(call), "applied", params, kind="precision")


def scaler_uses(facts: Facts) -> Iterator[ast.Attribute]:
    """Attributes that are read from a scaler."""
    for node in ast.walk(facts.tree):
        if isinstance(node, ast.Attribute) and has_role(facts, node.value, Role.SCALER):
            yield node


def folded_use(facts: Facts, use: ast.Attribute) -> Iterator[Outcome]:
    """One method of a scaler: the loss alone, a step of the runtime, or nothing."""
    call = facts.parents[use]
    statement = facts.parents[call]
    arguments = [*call.args, *call.keywords] if isinstance(call, ast.Call) else []
    if not isinstance(call, ast.Call) or use.attr not in HARMLESS:
        yield finding("DST402", use)
    elif use.attr == "step":
        yield Callee(Span.of(call), "call", {"runtime": facts.runtime_name, "name": "step"}, kind="step")
    elif use.attr == "scale" and len(call.args) == 1 and not call.keywords:
        yield Replace(Span.of(call), "part", {"part": Ref.to(call.args[0])}, kind="precision")
    elif isinstance(statement, ast.Expr) and (use.attr == "unscale_" or (use.attr == "update" and not arguments)):
        yield Delete(Span.of(statement), kind="precision")
    elif use.attr in FOLDED:
        yield finding("DST402", use)


def handed_on(facts: Facts, uses: list[ast.Attribute]) -> bool:
    """Whether a scaler is used as a whole: passed, returned, tested."""
    reads = {id(use.value) for use in uses}
    return any(
        isinstance(node, (ast.Name, ast.Attribute))
        and isinstance(node.ctx, ast.Load)
        and id(node) not in reads
        and has_role(facts, node, Role.SCALER)
        for node in ast.walk(facts.tree)
    )
