"""Rows joined and cut: cat, stack, chunk, split, unbind."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import combining, dims, doubt, loops, sinks, views
from .joins import join_all
from .local import deep_sources
from .places import last_name
from .replacing import replace
from .values import REDUCED, Batch, Dep, Value, tensor, union, whole

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter

Operand = tuple[ast.expr, Value]


def ints(operands: list[Operand], keywords: dict[str, Operand], *names: str) -> list[int | None]:
    """Constant integer arguments after the receiver (given one by one, as a tuple, or by keyword)."""
    values: list[Value] = []
    for _, value in operands[1:]:
        values.extend(value.items if value.items is not None else (value,))
    for name in names:
        if name in keywords:
            held = keywords[name][1]
            values.extend(held.items if held.items is not None else (held,))
    return [v.const if isinstance(v.const, int) else None for v in values]


def _members(ip: Interpreter, value: Value, frame: Frame) -> list[Value]:
    if value.items is not None:
        return list(value.items)
    return [loops.element(ip, value, frame)]


def cat(ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame) -> Value:
    """cat: along another dimension the rows stay; along the batch's, slices become two slices in a row."""
    container = operands[0]
    members = _members(ip, container[1], frame)
    over = doubt.dims_of(ip, operands, keywords, 1, frame)
    samples = [v for v in members if v.is_sample]
    if not samples:
        return tensor(join_all(members).batch, *members)
    nodes = container[0].elts if isinstance(container[0], (ast.Tuple, ast.List)) else []
    found = {v.batch.dim for v in samples}
    dim = found.pop() if len(found) == 1 else None
    inside = list(zip(nodes, members)) if len(nodes) == len(members) else [container]
    doubtful = doubt.settle(ip, over, inside, node, frame, of=samples[0])
    if doubtful is not None:
        return doubtful
    if dim is not None and dims.touch(samples[0].batch, 0 if over is None else over):
        return _in_a_row(ip, container, members, samples, nodes, node, frame)
    met = combining.meet(ip, list(zip(nodes, members)), frame) if len(nodes) == len(members) else None
    if met is not None:
        return met
    return tensor(Batch(Dep.SAMPLE, dim=dim, ndim=samples[0].batch.ndim), *samples)


def _in_a_row(
    ip: Interpreter,
    container: Operand,
    members: list[Value],
    samples: list[Value],
    nodes: Sequence[ast.expr],
    node: ast.Call,
    frame: Frame,
) -> Value:
    """Slices one after another: the whole has another order, so that the parts are gathered where that is needed."""
    built: frozenset[ast.expr] = frozenset()
    for item, value in zip(nodes, members):
        built |= value.built or frozenset({item} if value.is_sample else ())
    mixed = len({deep_sources(v) for v in samples}) > 1 and bool(nodes)
    if (mixed or len(samples) < len(members)) and not frame.forward:
        for item, value in zip(nodes, members):
            if value.is_sample:
                sinks.gather(ip, item, value, frame)
        # Batches of several loaders become one, which can be cut again: a rank may hold a filler row of one of them.
        ragged = len(samples) < len(members)
        return Value(batch=whole(0, samples[0].batch.ndim, ragged=ragged), origin=None if ragged else node)
    built = built if nodes else union(v.built for v in members) or frozenset({container[0]})
    first, count = samples[0].batch, len(nodes) or 0
    batch = Batch(Dep.SAMPLE, dim=first.dim, ndim=first.ndim, reason=f"cat{count}")
    return replace(tensor(batch, *samples), built=built)


def beside(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """hstack, column_stack, dstack: along another dimension than the rows; vectors by hstack in a row."""
    members = _members(ip, operands[0][1], frame)
    first = next((v.batch for v in members if v.is_sample), None)
    if first is None or (first.ndim == 1 and last_name(node.func) == "hstack"):
        return cat(ip, operands, keywords, node, frame)
    nodes = operands[0][0].elts if isinstance(operands[0][0], (ast.Tuple, ast.List)) else []
    met = combining.meet(ip, list(zip(nodes, members)), frame) if len(nodes) == len(members) else None
    return met if met is not None else tensor(replace(first, ndim=None), *members)


def stack(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    listed, where = operands[0][1], ints(operands, keywords, "dim")
    if listed.rows and listed.is_sample and listed.batch.dim == 0:  # a list with an entry for each sample
        first = where[0] if where else 0
        return tensor(Batch(Dep.SAMPLE, dim=first if first is not None and first >= 0 else None), listed)
    members = _members(ip, listed, frame)
    value = join_all(members)
    if not value.is_sample:
        return tensor(value.batch, *members)
    at, dim = (where[0] if where else 0), value.batch.dim
    new = None if dim is None or at is None else dim + 1 if 0 <= at <= dim else dim
    return tensor(Batch(Dep.SAMPLE, dim=new), *members)


def cut(ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame) -> Value:
    """chunk, split: parts of every sample, parts of the batch, or the slices that stand in a row."""
    value, over = operands[0][1], doubt.dims_of(ip, operands, keywords, 2, frame)
    part = replace(value, batch=replace(value.batch, reason=""), items=None, opaque=False, leaf=False)
    doubtful = doubt.settle(ip, over, operands[:1], node, frame)
    if doubtful is not None:
        return Value(element=doubtful)
    along = value.batch.dim is not None and dims.touch(value.batch, 0 if over is None else over)
    if value.batch.whole and not frame.forward:
        for operand, held in _listed(operands[1:2]):
            if held.dep is Dep.ROWS:
                sinks.count(ip, operand, frame)
    if not value.is_sample or not along:
        return Value(element=part, sources=value.sources)
    if _undoes_cat(value.batch, [*operands[1:2], *keywords.values()]):
        return Value(element=replace(part, built=frozenset()), sources=value.sources)
    pieces = combining.coupled(ip, [*operands[:1], *_listed(operands[1:2])], node, frame, whole(0, ragged=True))
    return Value(element=pieces) if pieces.batch.whole else pieces


def _listed(operands: list[Operand]) -> list[Operand]:
    """The members of a list among the operands (`split([n, n])`), else the operands."""
    found: list[Operand] = []
    for node, value in operands:
        if isinstance(node, (ast.Tuple, ast.List)) and value.items is not None:
            found.extend(zip(node.elts, value.items))
        else:
            found.append((node, value))
    return found


def _undoes_cat(batch: Batch, sizes: list[Operand]) -> bool:
    """Whether slices in a row are taken apart: `chunk(2)` of two, `split(n)`, `split([n, n])` of `n` rows each."""
    if not batch.reason.startswith("cat") or not sizes:
        return False
    value = sizes[0][1]
    if isinstance(value.const, int):
        return batch.reason == f"cat{value.const}"
    return all(v.dep is Dep.ROWS and v.batch.exact for v in value.items or (value,))


def unbind(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    value, over = operands[0][1], doubt.dims_of(ip, operands, keywords, 1, frame)
    doubtful = doubt.settle(ip, over, operands[:1], node, frame)
    if doubtful is not None:
        return Value(element=doubtful)
    at, dim = over if isinstance(over, int) else 0 if over is None else None, value.batch.dim
    if value.is_sample and dim is not None and at is not None and dims.touch(value.batch, at):
        rows = combining.coupled(ip, operands[:1], node, frame, REDUCED)
        return Value(element=rows) if rows.dep is Dep.GLOBAL else rows
    new = dim - 1 if dim is not None and at is not None and 0 <= at < dim else dim
    return Value(element=views.moved(value, new), sources=value.sources)


def pad_sequence(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """Rows that are as long as the longest of them: of the whole batch, so the sequences are gathered first."""
    given = keywords.get("batch_first") or (operands[1] if len(operands) > 1 else None)
    dim = 0 if given is not None and given[1].const is True else 1
    listed, value = operands[0] if operands else keywords["sequences"]
    if ip.sites.quiet:
        return tensor(Batch(Dep.SAMPLE, dim=dim), value)
    if frame.forward and _is_packed_next(ip, node):
        return tensor(Batch(Dep.SAMPLE, dim=dim), value)
    if value.batch.whole and not frame.forward:
        return Value(batch=whole(dim), origin=node)  # gathered already
    if frame.forward or not (value.leaf or value.rows):
        hint = "pad in the loader's collate_fn, which has the whole batch"
        message = "pad_sequence pads to the longest sequence that it is given, and each process has its own."
        ip.sites.report("DST122", node, message, hint)
        return tensor(Batch(Dep.SAMPLE, dim=dim), value)
    sinks.gather(ip, listed, value, frame)
    return Value(batch=whole(dim), origin=node)


def _is_packed_next(ip: Interpreter, node: ast.Call) -> bool:
    """Whether all that is done with what was padded is to pack it, without the padding."""
    held = ip.parents.get(node)
    uses: list[ast.AST] = [node]
    if isinstance(held, ast.Assign) and len(held.targets) == 1 and isinstance(held.targets[0], ast.Name):
        name = held.targets[0].id
        loads = [n for n in ast.walk(ip.names.scope(held)) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
        uses = [n for n in loads if n.id == name]
    parents = [ip.parents.get(use) for use in uses]
    packs = "torch.nn.utils.rnn.pack_padded_sequence"
    return all(
        isinstance(p, ast.Call) and ip.names.qualified(p.func) == packs and use in p.args
        for p, use in zip(parents, uses)
    )
