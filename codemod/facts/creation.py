"""Tensors that are created: with this rank's rows, with the whole batch's, or at random."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import alike, collating, combining, deciding, naming, numbered, sinks
from .local import deep_sources
from .marks import Draw
from .replacing import replace
from .torchnames import words
from .values import EMPTY, GLOBAL, REDUCED, Batch, Dep, Value, tensor, union, whole

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter

Operand = tuple[ast.expr, Value]

_FILLED = words(
    "zeros ones full empty zeros_like ones_like full_like empty_like new_zeros new_ones new_full new_empty new"
)
_RANDOM_SIZED = {"rand", "randn", "randint"}
_RANDOM_LIKE = {"rand_like", "randn_like", "randint_like"}
_RANDOM_OF_VALUES = {
    "bernoulli", "multinomial", "normal", "poisson", "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout",
    "feature_alpha_dropout", "gumbel_softmax", "rrelu",
}  # fmt: skip
_RANDOM_IN_PLACE = {
    "normal_",
    "uniform_",
    "random_",
    "bernoulli_",
    "exponential_",
    "log_normal_",
    "cauchy_",
    "geometric_",
}
_DECIDING = _RANDOM_SIZED | _RANDOM_LIKE | {"bernoulli", "multinomial", "normal", "poisson", "randperm"}
_RANGES = {"arange", "range", "eye", "linspace"}
_MEASURED = _RANGES | {"zeros", "ones", "empty", "rand", "randn"}


def is_creation(name: str) -> bool:
    """Whether a function makes a new tensor or draws random numbers."""
    every = _FILLED | _RANDOM_SIZED | _RANDOM_LIKE | _RANDOM_OF_VALUES | _RANDOM_IN_PLACE | _RANGES
    return name in every or name == "randperm"


def create(
    ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """Value of a creating call."""
    value = _create(ip, name, operands, keywords, node, frame)
    for operand, _ in operands if frame.forward and name in _MEASURED else ():
        for part in operand.elts if isinstance(operand, (ast.Tuple, ast.List)) else [operand]:
            deciding.measured(ip, part, ip.current.get(part, EMPTY), frame)
    if frame.forward and (name in _DECIDING or name in _RANDOM_IN_PLACE):
        alike.note(ip, operands, keywords, value, node, frame)
    trained = "requires_grad" in keywords and keywords["requires_grad"][1].const is True
    loose = trained and value.dep is Dep.GLOBAL and not frame.forward and not frame.loops
    return replace(value, is_param=True, loose=True) if loose else value


def _create(
    ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    everything = [*operands, *keywords.values()]
    values = [v for _, v in everything]
    if name == "randperm":
        for operand, value in operands:
            if value.dep is Dep.ROWS and not frame.forward:
                sinks.count(ip, operand, frame)
        rows = any(v.batch.exact for v in values)
        return Value(batch=whole(0, 1) if rows else REDUCED, origin=node if frame.loops else None)
    if name == "normal" and _batch_dim([], keywords) is not None:
        return _with_rows(
            ip, "randn", _batch_dim([], keywords) or 0, union(deep_sources(v) for v in values), node, frame
        )
    if name in _RANDOM_OF_VALUES | _RANDOM_IN_PLACE:
        return _random_of_values(ip, operands, keywords, node, frame)
    like = next((v for v in values[:1] if v.is_sample), None)
    if name.endswith("_like"):
        return _like(ip, name, like, values, node, frame)
    operands = operands[1:] if name.startswith("new_") else operands
    _count_values(ip, name, operands, keywords, frame)
    dim = _batch_dim(operands, keywords)
    sources = union([v.sources for v in values])
    if dim is not None:
        return _with_rows(ip, name, dim, sources, node, frame)
    counted = next((i for i, v in enumerate(_sizes_given(operands, keywords)) if v.batch.exact), None)
    if counted is not None:
        return Value(batch=whole(counted, 1 if name in _RANGES else None), origin=node)
    if name in _RANDOM_SIZED:
        # Sized like a whole batch, it is as whole as that; one row, or a number, goes to all samples.
        sizes = _sizes_given(operands, keywords)
        fresh = frame.loops and not any(v.measured for v in sizes) and bool(sizes) and sizes[0].const != 1
        return Value(batch=GLOBAL, origin=node if fresh else None, size0=_first_size(ip, operands, keywords))
    return Value(batch=GLOBAL, size0=_first_size(ip, operands, keywords) if name in _FILLED else None, made=node)


def _count_values(
    ip: Interpreter, name: str, operands: list[Operand], keywords: dict[str, Operand], frame: Frame
) -> None:
    """Row counts that a tensor is filled with, or drawn from, are numbers like any other: `randint(0, n, (2,))`."""
    if name == "randint":
        given = operands if "size" in keywords else operands[:-1]
    elif name in ("full", "new_full"):
        given = operands[1:]
    else:
        return
    given = given + [keywords[key] for key in ("low", "high", "fill_value") if key in keywords]
    for operand, value in given if not frame.forward else ():
        if value.dep is Dep.ROWS:
            sinks.count(ip, operand, frame)


def _with_rows(
    ip: Interpreter, name: str, dim: int, sources: frozenset[ast.AST], node: ast.Call, frame: Frame
) -> Value:
    """Created with this rank's rows in its shape."""
    value = Value(batch=Batch(Dep.SAMPLE, dim=dim), sources=sources)
    if name in _RANDOM_SIZED:
        _draw(ip, node, value, frame, dim)
        return value
    value = replace(value, built=frozenset({node}))
    if name in _RANGES:
        value = replace(value, origin=node, batch=replace(value.batch, ndim=2 if name == "eye" else 1))
        return numbered.numbered(ip, value, node, frame)
    return value


def _like(ip: Interpreter, name: str, like: Value | None, values: list[Value], node: ast.Call, frame: Frame) -> Value:
    if values and values[0].batch.whole:
        return Value(batch=replace(values[0].batch, ragged=False), origin=node)
    if like is None:
        origin = node if name in _RANDOM_LIKE and any(v.origin for v in values) else None
        return Value(batch=GLOBAL, origin=origin, params=union(v.params for v in values))
    value = tensor(replace(like.batch, ragged=False), like)
    if name in _RANDOM_LIKE:
        _draw(ip, node, value, frame, like.batch.dim)
    return value


def _draw(ip: Interpreter, node: ast.Call, value: Value, frame: Frame, dim: int | None) -> None:
    """A random tensor with a batch dimension is drawn whole and sliced."""
    if frame.forward or sinks.is_runtime_argument(ip, node):
        return
    if dim != 0:
        ip.sites.report("DST105", node, "A random tensor has its batch dimension not first; it can't be drawn whole.")
        return
    ip.sites.keep(ip.sites.draws, node, Draw(node, naming.of_text(ip, node, value, frame)))


def typed(ip: Interpreter, operands: list[Operand], node: ast.Call, frame: Frame) -> Value:
    """`torch.FloatTensor(rows, 3)` makes a tensor, `torch.FloatTensor(array)` converts one."""
    collated = collating.joined(ip, "tensor", operands, {}, node)
    if collated is not None:
        return collated
    sources = union(v.sources for _, v in operands)
    dim = _batch_dim(operands, {})
    if dim is not None:
        return Value(batch=Batch(Dep.SAMPLE, dim=dim), sources=sources, built=frozenset({node}))
    if len(operands) == 1 and operands[0][1].dep > Dep.ROWS:
        return operands[0][1]
    picked = any(v.origin is not None for _, v in operands)
    return Value(batch=GLOBAL, origin=node if picked else None, size0=_first_size(ip, operands, {}), made=node)


def counts_rows(ip: Interpreter, node: ast.expr) -> bool:
    """Whether an argument (a shape) holds a row count that is made global."""
    parts = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
    return any(part in ip.sites.counts for part in parts)


def settle(ip: Interpreter, value: Value) -> None:
    """A range over this rank's rows is used as values: it must continue over the ranks (`runtime.draw`)."""
    if value.is_sample and isinstance(value.origin, ast.Call):
        ip.sites.keep(ip.sites.draws, value.origin, Draw(value.origin))


POSITIONS = "A range over this process's rows is compared with a number, which tells positions in the whole batch."
POSITIONS_HINT = (
    "compare the range where it is made: torch.arange(len(x)) > 0; or take runtime.draw(torch.arange, len(x))"
)


def settle_compared(ip: Interpreter, values: list[Value], node: ast.expr) -> None:
    """A range over this rank's rows that is compared with a number tells positions in the whole batch, so it must
    continue over the ranks: `torch.arange(len(x)) > 0`. One that has a name may number the slice's rows elsewhere."""
    ranges = [v for v in values if v.is_sample]
    others = [v for v in values if not v.is_sample]
    if len(ranges) != 1 or any(v.dep > Dep.GLOBAL or v.batch.data or v.batch.whole or v.origin for v in others):
        return
    for made in ranges[0].built if len(ranges[0].built) == 1 else ():
        if isinstance(made, ast.Call) and ip.names.qualified(made.func) in ("torch.arange", "numpy.arange"):
            if any(part is made for part in ast.walk(node)):
                ip.sites.keep(ip.sites.draws, made, Draw(made))
            else:
                ip.sites.report("DST110", node, POSITIONS, POSITIONS_HINT)


def _random_of_values(
    ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand], node: ast.Call, frame: Frame
) -> Value:
    """Random numbers drawn from per-sample values: outside a forward, drawn from the whole batch."""
    everything = [*operands, *keywords.values()]
    if frame.forward or not any(v.is_sample for _, v in everything):
        values = [v for _, v in everything]
        origin = node if any(v.origin is not None for v in values) else None
        if not any(v.is_sample for v in values):
            size0 = next((v.size0 for v in values[:1]), None)
            return Value(batch=REDUCED, origin=origin, size0=size0)
        return combining.elementwise(ip, everything, node, frame)
    for operand, value in everything:
        if value.is_sample:
            sinks.gather(ip, operand, value, frame, "DST104")
    return Value(batch=REDUCED, origin=node)


def _sizes(operands: list[Operand], keywords: dict[str, Operand]) -> list[Value]:
    """Values of the sizes of a shape given as separate ints, a tuple, or a tensor's shape."""
    given = keywords.get("size")
    if given is not None:
        return list(given[1].items) if given[1].items is not None else [given[1]]
    found: list[Value] = []
    for _, value in operands:
        found.extend(value.items if value.items is not None else (value,))
    return found


def _sizes_given(operands: list[Operand], keywords: dict[str, Operand]) -> list[Value]:
    """Values of the sizes of a new shape: of the tuple among the operands, if there is one."""
    tuples = [o for o in operands if o[1].items is not None]
    return _sizes(tuples or operands, keywords)


def _batch_dim(operands: list[Operand], keywords: dict[str, Operand]) -> int | None:
    """Which dimension of a new shape is this rank's rows, `None` if none is."""
    for index, value in enumerate(_sizes_given(operands, keywords)):
        if value.dep is Dep.ROWS:
            return index
        if value.shape_dim is not None and value.shape_dim >= 0:
            return index + value.shape_dim
    return None


def _first_size(ip: Interpreter, operands: list[Operand], keywords: dict[str, Operand]) -> str | None:
    """Source text (or constant) of the first size of a shape."""
    for node, value in [keywords["size"]] if "size" in keywords else operands:
        if isinstance(node, (ast.Tuple, ast.List)):
            if not node.elts:
                return None
            node = node.elts[0]
            value = ip.sites.values.get(node, value)
        return repr(value.const) if isinstance(value.const, int) else value.size0 or ip.text(node)
    return None
