"""Checkpoints that only the wrapped model can load, and loads that all processes make to one device.

torch.save(model.state_dict(), path)        # keys begin with "module.": model.module.state_dict()
torch.load(path)                            # map_location="cpu" (pytorch/examples#969, pytorch/pytorch#3805)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..findings import Finding, finding
from ..rules._source import calls, keyword_value, method_calls
from . import Kind, check

if TYPE_CHECKING:
    from ..facts.model import Facts


@check("checkpoints", Kind.BY_HAND)
def checkpoints(facts: Facts) -> Iterator[Finding]:
    """`state_dict()` of a wrapper, and `torch.load` without `map_location`."""
    sharded = any("FullyShardedDataParallel" in name for file in facts.program for name in file.calls)
    renamed = any(map(is_prefix, (node for file in facts.program for node in file.nodes)))
    for call, callee in method_calls(facts, "state_dict") if not sharded and not renamed else ():
        if facts.value(callee.value).wrapped:
            yield finding("DST752", call)
    if not any(named(node) for file in facts.program for node in file.nodes):
        return
    for call in calls(facts, "torch.load"):
        unpacked = any(keyword.arg is None for keyword in call.keywords)
        if keyword_value(call, "map_location") is None and len(call.args) < 2 and not unpacked:
            yield finding("DST753", call)


def is_prefix(node: ast.AST) -> bool:
    """Whether a node is what the keys of a wrapper begin with: the program takes it off, or puts it on."""
    return isinstance(node, ast.Constant) and node.value in ("module.", "module")


def named(node: ast.AST) -> bool:
    """Whether a node names CUDA devices."""
    text = node.value if isinstance(node, ast.Constant) else getattr(node, "attr", None)
    return isinstance(text, str) and text.startswith("cuda")
