"""Fully sharded models: what is built before they are, and norms of one process's part.

optimizer = AdamW(model.parameters())       # build it after
model = FSDP(model)                         # (facebookresearch/fairscale#423, huggingface/accelerate#3213)
…
nn.utils.clip_grad_norm_(model.parameters(), 1.0)       # model.clip_grad_norm_(1.0) (pytorch/pytorch#72548)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..findings import Finding, finding
from ..rules._source import calls, position
from . import Kind, check
from ._collectives import FULLY_SHARDED

if TYPE_CHECKING:
    from ..facts.model import Facts

OLD = FULLY_SHARDED[:2]


@check("shards", Kind.BY_HAND)
def shards(facts: Facts) -> Iterator[Finding]:
    """Optimizers built before sharding in the same function, and clipping past the sharded model's own method."""
    for call in calls(facts, *FULLY_SHARDED):
        home = facts.enclosing(call, ast.FunctionDef, ast.AsyncFunctionDef)
        models = facts.value(call.args[0]).objs if call.args else frozenset()
        for item in facts.optimizers:
            same = facts.enclosing(item.call, ast.FunctionDef, ast.AsyncFunctionDef) is home
            owned = any(facts.value(part).objs & models for part in ast.walk(item.call) if isinstance(part, ast.expr))
            if same and owned and position(item.call) < position(call):
                yield finding("DST255", item.call)
    whole = any(is_full(facts, call) for file in facts.program for call in calls(file, *OLD))
    if whole:
        for clip in calls(facts, "torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad.clip_grad_norm_"):
            yield finding("DST256", clip)


def is_full(facts: Facts, call: ast.Call) -> bool:
    """Whether a model is cut into shards, as it is unless its strategy says otherwise."""
    given = next((item.value for item in call.keywords if item.arg == "sharding_strategy"), None)
    return not (isinstance(given, ast.Attribute) and given.attr == "NO_SHARD")
