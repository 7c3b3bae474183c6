"""The lattice of abstract values: batch types, roles, and the structure of containers and instances."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterable
from enum import Enum

from ..dataclass import dataclass
from .batchtypes import BOTTOM, COUNTED, EXACT_ROWS, GLOBAL, REDUCED, ROWS, SAMPLE, Batch, Dep, whole
from .replacing import quick, replace


class Role(Enum):
    """What a value is in a training script."""

    MODEL = "model"
    OPTIMIZER = "optimizer"
    SCHEDULER = "scheduler"
    LOADER = "loader"
    DATASET = "dataset"
    SAMPLER = "sampler"
    CRITERION = "criterion"
    SCALER = "scaler"
    DEVICE = "device"
    WRITER = "writer"


@dataclass(frozen=True)
class FunctionRef:
    """A function of the program, with the object that it is bound to and the arguments that `partial` gave it.

    `free` are variables of the function around it that are its own: what a decorator wraps is in one variable.
    """

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    bound: int | None = None
    given: tuple[tuple[int | str, Value], ...] = ()
    free: tuple[tuple[str, Value], ...] = ()

    @property
    def shift(self) -> int:
        """Position of the parameter that the first argument of a call goes to."""
        return (self.bound is not None) + sum(isinstance(key, int) for key, _ in self.given)


class _Nothing(Enum):
    NOTHING = "no constant"
    VARIES = "no constant, or several"


NOTHING = _Nothing.NOTHING
PACKED = "packed"  # reason of a SAMPLE whose rows are the time steps of sequences of different lengths
VARIES = _Nothing.VARIES


@dataclass(frozen=True, eq=False)
class Value:
    """What is known of an expression's value.

    Attributes:
        batch: dependence on the batch.
        roles: what the value is.
        objs: heap cells it may be.
        items: members of a tuple of known length.
        names: their names in a named tuple.
        element: what iterating or indexing it gives, where it has no known length.
        ref: dotted name of something outside the program (module, class, function); several joined by "|", and too
            many as `SEVERAL`.
        defs: functions of the program it may be.
        classes: classes of the program it may be.
        const: its value where it is a literal.
        sources: loader calls and split expressions that its rows come from.
        params: heap cells of the models whose parameters it holds.
        is_param: it is a parameter itself.
        loose: a parameter of no module: `nn.Parameter(…)`, `torch.zeros(…, requires_grad=True)`.
        origin: expression that picked the rows of a hand-made batch (a GLOBAL whose dim 0 is a batch).
        also: expressions that picked hand-made batches which a SAMPLE may be instead.
        piece: a part of data that is in no loop yet: where a loop gets it, it is a batch.
        weak: its rows were picked as a range (`data[i:i + n]`), which may as well be a range of time steps.
        whole: a prepared model computed it from a whole batch.
        measured: a size read from a replicated tensor.
        wrapped: a model in `nn.DataParallel`, whatever runs.
        part: something that a library's model holds, not the model itself.
        arg: argument expression of the call that passed it into the current function.
        shape_dim: for a shape, the index of the batch dimension (-1: none of a shape).
        arrival: statement and target where a PENDING was unpacked.
        size0: source text of the first size of a created tensor.
        made: expression that created it (the call of a function that returns it).
        foreign: call of code outside the program that made it.
        opaque: a batch or model output of unknown structure.
        leaf: a tensor of a batch as it was fetched, perhaps moved to a device.
        distribution: a `torch.distributions` object with a distribution per sample.
        rows: a list with one entry for each sample of the batch that is collated.
        stream: a generator of the program, whose elements are made one after another.
        terms: kinds of the reductions over the batch ("sum", "mean") that it is linear in.
        bends: expressions in which reductions over the batch went into it in a way that is not linear.
        ranks: what of it is one process's own, or was agreed on, in scripts distributed by hand (see `ranks`).
        built: expressions at which a SAMPLE has to be made whole, or a ROWS counted, if not where it is used.
    """

    batch: Batch = BOTTOM
    roles: frozenset[Role] = frozenset()
    objs: frozenset[int] = frozenset()
    items: tuple[Value, ...] | None = None
    names: tuple[str, ...] = ()
    element: Value | None = None
    ref: str | None = None
    defs: frozenset[FunctionRef] = frozenset()
    classes: frozenset[ast.ClassDef] = frozenset()
    const: Hashable = NOTHING
    sources: frozenset[ast.AST] = frozenset()
    params: frozenset[int] = frozenset()
    is_param: bool = False
    loose: bool = False
    origin: ast.expr | None = None
    also: frozenset[ast.expr] = frozenset()
    piece: bool = False
    weak: bool = False
    whole: bool = False
    measured: bool = False
    wrapped: bool = False
    part: bool = False
    arg: ast.expr | None = None
    shape_dim: int | None = None
    arrival: tuple[ast.stmt, str] | None = None
    size0: str | None = None
    made: ast.expr | None = None
    foreign: ast.Call | None = None
    opaque: bool = False
    leaf: bool = False
    distribution: bool = False
    rows: bool = False
    stream: bool = False
    built: frozenset[ast.expr] = frozenset()
    ranks: frozenset[object] = frozenset()
    terms: frozenset[str] = frozenset()
    bends: frozenset[ast.expr] = frozenset()

    def __eq__(self, other: object) -> bool:
        """As a dataclass has it, three times as fast: two values are compared for each expression."""
        return self is other or (other.__class__ is Value and self.__dict__ == other.__dict__)

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__.values()))

    @property
    def dep(self) -> Dep:
        """Shorthand for `batch.dep`."""
        return self.batch.dep

    @property
    def is_sample(self) -> bool:
        """Whether it has one row per sample."""
        return self.batch.dep is Dep.SAMPLE

    def with_batch(self, batch: Batch) -> Value:
        """The same value with another batch type."""
        return replace(self, batch=batch, leaf=False)

    def has(self, role: Role) -> bool:
        """Whether it may have a role."""
        return role in self.roles


EMPTY = Value()
quick(Value, EMPTY)
HOST = Value(batch=GLOBAL)


def tensor(batch: Batch, *operands: Value) -> Value:
    """A fresh tensor (or number) of a batch type, whose rows come from the operands'."""
    local = [v for v in operands if v.batch.dep in (Dep.SAMPLE, Dep.ROWS)]
    built = union(v.built for v in local) if local and all(v.built for v in local) else frozenset()
    return Value(
        batch=batch,
        sources=union(v.sources for v in operands),
        params=union(v.params for v in operands),
        built=built if batch.dep in (Dep.SAMPLE, Dep.ROWS) else frozenset(),
    )


def union(sets: Iterable[frozenset]) -> frozenset:  # type: ignore[type-arg]
    """Union of frozensets."""
    return frozenset().union(*sets)


def is_empty(value: Value) -> bool:
    """Whether nothing is known of a value; most are told apart without comparing all fields."""
    if value is EMPTY:
        return True
    return value.batch.dep is Dep.BOTTOM and not value.objs and value.ref is None and value == EMPTY


__all__ = [
    "BOTTOM",
    "COUNTED",
    "EMPTY",
    "EXACT_ROWS",
    "GLOBAL",
    "HOST",
    "NOTHING",
    "PACKED",
    "REDUCED",
    "ROWS",
    "SAMPLE",
    "VARIES",
    "Batch",
    "Dep",
    "FunctionRef",
    "Role",
    "Value",
    "tensor",
    "union",
    "whole",
]
