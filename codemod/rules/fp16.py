"""What fp16 can't hold: numbers beyond its range, and conditions that take an infinite norm for the end.

A tensor of half precision can't be filled with -1e9 (NVIDIA/apex#1052, facebookresearch/fairseq#3575). While the loss
scale is being found, the first norms of gradients are infinite and their steps are skipped (`torch.amp.GradScaler`): a
script that ends there would end at its first step.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..findings import finding
from . import Outcome, rule
from ._source import RUNTIME, argument, bindings, calls, is_exit, method_calls, setting

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

LARGEST = 65504.0  # of IEEE 754 binary16
NORMS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad.clip_grad_norm_", f"{RUNTIME}.clip_grad_norm")
LEAVES = (ast.Return, ast.Raise, ast.Break)


@rule("fp16")
def fp16(facts: Facts, options: Options) -> Iterator[Outcome]:
    """Findings under `--precision fp16`."""
    if setting(facts, options, "precision") != "fp16":
        return
    fillers = [
        *((call, argument(call, 1, "value")) for call, _ in method_calls(facts, "masked_fill", "masked_fill_")),
        *((call, argument(call, 0, "value")) for call, _ in method_calls(facts, "fill_")),
        *((call, argument(call, 1, "fill_value")) for call in calls(facts, "torch.full_like")),
    ]
    for call, filler in fillers:
        number = None if filler is None else facts.value(filler).const
        if isinstance(number, (int, float)) and LARGEST < abs(number) < float("inf"):
            yield finding("DST405", call)
    norms = set(calls(facts, *NORMS))
    for node in facts.nodes if norms else ():
        if isinstance(node, ast.If) and ends(facts, node) and asks_for(facts, node.test, norms):
            yield finding("DST406", node)


def ends(facts: Facts, node: ast.If) -> bool:
    """Whether a branch leaves its function or loop, or the program."""
    inner = [item for statement in node.body for item in ast.walk(statement)]
    return any(isinstance(item, LEAVES) or is_exit(facts, item) for item in inner)


def asks_for(facts: Facts, test: ast.expr, norms: set[ast.Call]) -> bool:
    """Whether a condition asks for the norm that clipping returned."""
    names = [node for node in ast.walk(test) if isinstance(node, ast.Name)]
    values = [value for name in names for value in bindings(facts, name) if value is not None]
    return any(part in norms for value in [test, *values] for part in ast.walk(value))
