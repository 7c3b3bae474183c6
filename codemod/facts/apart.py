"""Loaders that give each process batches of its own, as their sampler or their data tells."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .collectives import SPACE
from .ranks import DEPTH, Mark, held
from .values import EMPTY, Value

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Interpreter


def loader(ip: Interpreter, arguments: Arguments, node: ast.Call) -> None:
    """Whether a loader gives each process batches of its own, as its sampler or its data tells."""
    sampler, batches = arguments.get(4, "sampler"), arguments.get(5, "batch_sampler")
    data = arguments.get(0, "dataset")
    if any(_is_apart(ip, value) for value in (sampler, batches, data)):
        ip.made.apart.add(node)
    elif any(_is_unknown(ip, value) for value in (sampler, batches)) or not data.objs:
        ip.made.unclear.add(node)


def _is_apart(ip: Interpreter, value: Value, depth: int = DEPTH) -> bool:
    """Whether a sampler or data set gives each process something of its own."""
    if Mark.RANK in held(ip, value):
        return True
    for cell in value.objs if depth else ():
        kept = ip.heap[cell]
        if (kept.ref or "").endswith("DistributedSampler"):
            return True
        if kept.cls is not None and any(_asks_for_rank(ip, base) for base in ip.classes.lineage(kept.cls)):
            return True
        inner = [kept.attrs[name] for name in ("sampler", "dataset") if name in kept.attrs]
        if any(Mark.RANK in held(ip, item) for item in kept.attrs.values()):
            return True
        if any(_is_apart(ip, item, depth - 1) for item in inner):
            return True
    return any(_is_apart(ip, item, depth - 1) for item in value.items or ()) if depth else False


def _asks_for_rank(ip: Interpreter, base: ast.ClassDef | str) -> bool:
    """Whether a class asks for the number of its process."""
    if isinstance(base, str):
        return base.endswith("DistributedSampler")
    names = (ip.names.qualified(node.func) or "" for node in ast.walk(base) if isinstance(node, ast.Call))
    return any(name.startswith(SPACE) for name in names)


def _is_unknown(ip: Interpreter, value: Value) -> bool:
    """Whether something is given that nothing is known of."""
    if value == EMPTY or value.const is None:
        return False
    known = [cell for cell in value.objs if (ip.heap[cell].ref or "").startswith("torch.utils.data.")]
    return len(known) < max(len(value.objs), 1)
