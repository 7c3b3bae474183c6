"""Calls that run a module: the program's own forward, a loss, a layer, a library's model."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import (
    attributes,
    calls,
    combining,
    containers,
    expressions,
    hooks,
    library_losses,
    losscalls,
    losses,
    naming,
    numbered,
    packing,
    single_rows,
)
from .joins import join_all
from .local import is_local
from .marks import Split
from .replacing import replace
from .values import EMPTY, HOST, Batch, Dep, FunctionRef, Role, Value, tensor

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Frame, Interpreter

_RECURRENT = {"RNN", "LSTM", "GRU"}


def run(ip: Interpreter, cell: int, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """Call an object: a module's forward, or a callable instance's `__call__`."""
    value = hooks.after(ip, cell, arguments, node, frame, _run(ip, cell, arguments, node, frame))
    return _computed(value) if attributes.is_prepared(ip, cell) and not frame.forward else value


def _computed(value: Value) -> Value:
    """What a model makes of a hand-made batch is no batch that is picked: it is split with its input."""
    items = None if value.items is None else tuple(_computed(v) for v in value.items)
    return replace(value, origin=None, made=None, items=items, whole=value.dep is Dep.GLOBAL)


def _run(ip: Interpreter, cell: int, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    held = ip.heap[cell]
    ip.note_way(frame, ip.made.running_defs)
    prepared = attributes.is_prepared(ip, cell)
    if prepared and not frame.forward:
        _reached(ip, cell, None, arguments, node, frame)
    if held.cls is not None:
        is_model = Role.MODEL in held.roles
        method = ip.classes.runs(held.cls) if is_model else ip.classes.method(held.cls, "__call__")
        if method is not None:
            ref = FunctionRef(method, cell)
            forward = frame.forward or is_like_prepared(ip, cell)
            result = calls.invoke(ip, ref, arguments, node, frame, forward=forward)
            return numbered.returned(ip, result, frame) if forward else result
    in_turn = containers.run(ip, cell, arguments, node, frame)
    return in_turn if in_turn is not None else _library_module(ip, held.ref, held.node, arguments, node, frame)


def is_like_prepared(ip: Interpreter, cell: int) -> bool:
    """Whether a module is prepared, or a copy or teacher of the class of one: its forward is the same source text."""
    if attributes.is_prepared(ip, cell):
        return True
    cls = ip.heap[cell].cls
    return cls is not None and any(ip.heap[owned].cls is cls for owned in ip.sites.owned)


def run_method(ip: Interpreter, ref: FunctionRef, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """Call a method of a module: part of a forward, unless it trains, iterates over a loader, or computes a loss.

    A method that computes a loss and that no forward calls is code like any other: the loss is reduced there.
    """
    assert ref.bound is not None
    if frame.forward and ref.node not in ip.made.inner_defs:
        ip.made.inner_defs.add(ref.node)
        ip.sites.changed = True
    if frame.forward or ref.node in ip.made.training_defs or not is_like_prepared(ip, ref.bound):
        return calls.invoke(ip, ref, arguments, node, frame)
    if not attributes.is_prepared(ip, ref.bound):
        return numbered.returned(ip, calls.invoke(ip, ref, arguments, node, frame, forward=True), frame)
    name = getattr(ref.node, "name", "")
    if ref.node in ip.made.step_defs and ref.node not in ip.made.inner_defs:
        return calls.invoke(ip, ref, arguments, node, frame)
    result = numbered.returned(ip, calls.invoke(ip, ref, arguments, node, frame, forward=True), frame)
    if name not in ("forward", "__call__") and _reduces(ip, result) and ref.node not in ip.made.step_defs:
        ip.made.step_defs.add(ref.node)
        ip.sites.changed = True
    if ref.node in ip.made.running_defs and not name.startswith("__"):
        _reached(ip, ref.bound, None if name == "forward" else name, arguments, node, frame)
    return result


def _reduces(ip: Interpreter, value: Value) -> bool:
    """Whether a value is, or holds, something that was reduced over a slice."""
    held = [*(value.items or ()), *([value.element] if value.element is not None else [])]
    for cell in value.objs:
        if ip.heap[cell].is_dict:
            held.extend(ip.heap[cell].attrs.values())
    return value.dep is Dep.PENDING or any(_reduces(ip, v) for v in held)


def _reached(
    ip: Interpreter, cell: int, method: str | None, arguments: Arguments, node: ast.Call, frame: Frame
) -> None:
    """A prepared model runs: the loaders of its inputs are sharded, hand-made batches are split."""
    for operand, value in arguments.all:
        sources = expressions.deep_sources(value) | held_sources(ip, value)
        ip.sites.feed(sources)
        for origin, dim in _origins(value):
            if dim is None and _is_weak(value) and not _is_understood(ip, cell):
                ip.whole[origin] = None
            elif _is_training(ip, origin, frame) and not single_rows.is_looked_at(ip, origin, node, frame):
                place = naming.after_filling(ip, origin, operand, frame)
                combining.split(ip, place, dim)
                if value.size0 is not None:
                    ip.batch_sizes[place] = value.size0  # what else has so many rows has those of this batch
                _remember_function(ip, origin)
    ip.ran_now.add(attributes.root(ip, cell))
    holder = node.func.value if isinstance(node.func, ast.Attribute) and method else node.func
    ip.made.forwards[node] = (ip.text(holder), method)


def held_sources(ip: Interpreter, value: Value, depth: int = 3) -> frozenset[ast.AST]:
    """Sources of what a container of the program holds (a batch in a dict)."""
    found: frozenset[ast.AST] = frozenset()
    for cell in value.objs if depth else ():
        for held in (ip.heap[cell].element, *ip.heap[cell].attrs.values()):
            found |= expressions.deep_sources(held) | held_sources(ip, held, depth - 1)
    return found


def _origins(value: Value) -> list[tuple[ast.expr, int | None]]:
    """Expressions that picked the hand-made and whole batches in a value, with the dimension of the rows if known."""
    found: list[tuple[ast.expr, int | None]] = []
    listed = value.rows  # what a model does with a list of samples can't be told
    if value.origin is not None and value.dep is Dep.GLOBAL and not listed and not _stays_whole(value):
        found.append((value.origin, value.batch.dim if value.batch.whole else None))
    for item in value.items or ():
        found.extend(_origins(item))
    return found


def _stays_whole(value: Value) -> bool:
    """Whether a whole batch can't be cut: rows of another number, or along no known dimension."""
    return value.batch.whole and (value.batch.ragged or value.batch.dim is None)


def _is_weak(value: Value) -> bool:
    return value.weak or any(_is_weak(v) for v in value.items or ())


def _is_understood(ip: Interpreter, cell: int) -> bool:
    """Whether the interpretation sees what a model does with its batch dimension."""
    held = ip.heap[cell]
    return held.cls is not None or (held.ref or "").startswith("torch.nn.")


def _is_training(ip: Interpreter, origin: ast.expr, frame: Frame) -> bool:
    """Whether a hand-made batch feeds a step (or comes from a function whose batches do)."""
    if frame.loops and frame.loops[-1] in ip.made.training_loops:
        return True
    return bool(_functions(ip, origin) & ip.made.batch_functions)


def _functions(ip: Interpreter, origin: ast.expr) -> set[ast.AST]:
    if not isinstance(origin, ast.Call):
        return set()
    callee = ip.sites.values.get(origin.func, EMPTY)
    return {ref.node for ref in callee.defs}


def _remember_function(ip: Interpreter, origin: ast.expr) -> None:
    for function in _functions(ip, origin):
        if function not in ip.made.batch_functions:
            ip.made.batch_functions.add(function)
            ip.sites.changed = True


def _library_module(
    ip: Interpreter, ref: str | None, creation: ast.AST, arguments: Arguments, node: ast.Call, frame: Frame
) -> Value:
    """Call a module that the program does not define."""
    operands = arguments.all
    values = [v for _, v in operands]
    name = losses.module_loss(ref)
    if name is not None and isinstance(creation, ast.Call):
        if not any(is_local(v) for v in values):
            return Value(batch=Batch(Dep.GLOBAL, data=any(v.batch.data for v in values)))
        return losscalls.apply(ip, losses.of_module(ip, name, node, creation), operands, node, frame)
    last = (ref or "").rsplit(".", 1)[-1]
    if last in _RECURRENT or (last == "<dynamic>" and _is_recurrent(ip, creation, node)):
        return _recurrent(ip, last, creation, values, node)
    if last in ("RNNCell", "GRUCell"):
        return _same(values)
    if last == "LSTMCell":
        return Value(items=(_same(values), _same(values)))
    if last == "MultiheadAttention":
        return Value(items=(_same(values[:1]), _same(values[:1])))
    if last == "Flatten":
        first = values[0] if values else EMPTY
        dim = 0 if first.batch.dim == 0 else None
        return first.with_batch(replace(first.batch, dim=dim, ndim=None)) if first.is_sample else first
    if last == "AdaptiveLogSoftmaxWithLoss":
        loss = tensor(Batch(Dep.PENDING, kind="mean"), *values)
        return Value(items=(_same(values), loss))
    value = _same(values)
    library = last == "<dynamic>" or not (ref or "").startswith("torch.nn.")
    if not library or not value.is_sample:
        return value
    return replace(value, opaque=True, batch=replace(value.batch, by=library_losses.divisor(ip, ref, arguments)))


def _same(values: list[Value]) -> Value:
    """The batch dimension stays where it is in the first per-sample input."""
    sample = next((v for v in values if v.is_sample), None)
    if sample is not None:
        return tensor(replace(sample.batch, ndim=None), *values)
    joined = join_all(values)
    origin = joined.origin
    if joined.dep in (Dep.BOTTOM, Dep.ROWS):
        return HOST
    data = Batch(Dep.GLOBAL, data=joined.batch.data) if joined.dep is Dep.GLOBAL else joined.batch
    return replace(tensor(data, *values), origin=origin, weak=joined.weak)


def _is_recurrent(ip: Interpreter, creation: ast.AST, node: ast.Call) -> bool:
    """Whether `getattr(nn, kind)(…)` is one of RNN, LSTM, GRU: by its options, or by the pair that a call gives."""
    options = {k.arg for k in creation.keywords} if isinstance(creation, ast.Call) else set()
    statement = ip.parents.get(node)
    pair = isinstance(statement, ast.Assign) and any(
        isinstance(t, ast.Tuple) and len(t.elts) == 2 for t in statement.targets
    )
    return pair or bool(options & {"num_layers", "batch_first", "bidirectional"})


def _recurrent(ip: Interpreter, name: str, creation: ast.AST, values: list[Value], node: ast.Call) -> Value:
    """RNN, LSTM, GRU: the output like the input, the hidden state with its batch dimension second."""
    keywords = {k.arg: k.value for k in creation.keywords} if isinstance(creation, ast.Call) else {}
    first = keywords.get("batch_first")
    batch_first = first is not None and not (isinstance(first, ast.Constant) and first.value is False)
    if values and values[0].is_sample:
        if values[0].batch.dim == 0 and not batch_first:
            ip.sites.report("DST111", node, "A recurrent layer runs along the dimension that holds the samples.")
        for state in values[1:]:
            for made in {v.made for v in (state, *(state.items or ())) if v.made is not None and v.dep is Dep.GLOBAL}:
                ip.sites.keep(ip.sites.splits, made, Split(made, dim=1))
    if values and packing.is_packed(values[0]):
        steps = (values[0].items or ())[0]
        output = packing.packed_like(steps, steps.with_batch(replace(steps.batch, ndim=None)))
        hidden = tensor(Batch(Dep.SAMPLE, dim=1), steps)
        return Value(items=(output, Value(items=(hidden, hidden)) if name == "LSTM" else hidden))
    output = _same(values[:1])
    if not output.is_sample:
        hidden = output
    else:
        hidden = output.with_batch(Batch(Dep.SAMPLE, dim=1))
    state = Value(items=(hidden, hidden)) if name == "LSTM" else hidden
    if name == "<dynamic>" and hidden.is_sample:
        state = replace(hidden, opaque=True)
    return Value(items=(output, state))
