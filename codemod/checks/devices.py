"""Processes that all use the first device (marcoamonteiro/pi-GAN#22).

dist.init_process_group("nccl")
model.to("cuda")                    # torch.cuda.set_device(local_rank) before it
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..findings import Finding, finding
from ..rules._libraries import library_of
from ..rules._source import position
from . import Kind, check

if TYPE_CHECKING:
    from ..facts.model import Facts

CHOOSES = ("set_device", "CUDA_VISIBLE_DEVICES", "device_id", "device_mesh", "init_device_mesh", "set_device_index")


@check("devices", Kind.BY_HAND)
def devices(facts: Facts) -> Iterator[Finding]:
    """The first use of a bare `cuda` in a program that sets no device."""
    nodes = [node for file in facts.program for node in file.nodes]
    words = {word for node in nodes for word in words_of(node)}
    if any(name.startswith("torch.distributed.rpc.") for file in facts.program for name in file.calls):
        return
    if words & set(CHOOSES) or "init_process_group" not in words:
        return
    if any(library_of(name.split(".")[0]) for file in facts.program for name in file.calls):
        return
    bare = sorted((node for node in facts.nodes if is_bare(facts, node)), key=position)
    if bare:
        yield finding("DST951", bare[0])


def words_of(node: ast.AST) -> Iterator[str]:
    """The names in a node."""
    for name in ("attr", "id", "arg"):
        found = getattr(node, name, None)
        if isinstance(found, str):
            yield found
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def is_bare(facts: Facts, node: ast.AST) -> bool:
    """Whether a node moves something to a device without a number: `.cuda()`, `.to("cuda")`, `torch.device("cuda")`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr == "cuda":
        return not node.args and not node.keywords
    first = node.args[0] if len(node.args) == 1 else None
    text = first.value if isinstance(first, ast.Constant) else None
    return text == "cuda" and node.func.attr in ("to", "device")
