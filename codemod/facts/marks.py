"""What the analysis marks at expressions, for the rules to edit: plain records over `ast` nodes, read-only."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..dataclass import dataclass

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Reduction:
    """A place where the batch dimension disappears outside a prepared forward.

    Attributes:
        node: the expression to wrap: `runtime.<kind>(node)`.
        kind: "mean", "sum", "max" or "min".
        by: source text of the divisor (`runtime.mean(node, by=…)`), `None` for rows.
        of: source text of a tensor of the batch, where more than one batch is alive; else `None`.
        converted: the source already has the reduction.
    """

    node: ast.expr
    kind: str
    by: str | None = None
    of: str | None = None
    converted: bool = False


@dataclass(frozen=True)
class Arrival:
    """A value that a prepared forward already reduced over its slice (`logits, loss = model(x, y)`).

    `statement` is the assignment after which `target = runtime.<kind>(target)` goes; `target` is source text.
    """

    statement: ast.stmt
    target: str
    kind: str
    by: str | None = None
    of: str | None = None


@dataclass(frozen=True)
class Count:
    """A host integer of this rank's rows that must be the global one here: `runtime.sum(node)`."""

    node: ast.expr
    of: str | None = None


@dataclass(frozen=True)
class Gathered:
    """Per-sample values that leave the iteration, or are indexed by global position: `runtime.gather(node, dim)`.

    `parts`: the node is a list of tensors, not of one object per row: `runtime.gather(tuple(node))`.
    `why`: the code of the catalogue that tells why, "" where they only leave the iteration.
    `rows`: it has one object per row, but may be a tuple: `runtime.gather(list(node))`.
    """

    node: ast.expr
    dim: int = 0
    of: str | None = None
    parts: bool = False
    why: str = ""
    rows: bool = False


@dataclass(frozen=True)
class Draw:
    """A random call whose shape has this rank's rows: `runtime.draw(callee, …)`."""

    call: ast.Call
    of: str | None = None


@dataclass(frozen=True)
class Split:
    """An expression holding a whole (global) batch that meets slices or feeds a model: `runtime.split(node, dim)`."""

    node: ast.expr
    dim: int = 0


@dataclass(frozen=True)
class Bend:
    """Where a loss stops being a sum of means and sums over the batch, which is what a window can add up.

    Attributes:
        node: the expression.
        ratio: it is a sum over the batch divided by a count of the batch: `runtime.averaged(node, by=divisor)`.
        divisor: the expression that divides, `None` where that is the number of the batch's rows.
        sums: a sum over the batch goes in, which would be as many times too large as the window holds micro-batches.
    """

    node: ast.expr
    ratio: bool = False
    divisor: ast.expr | None = None
    sums: bool = False


@dataclass(frozen=True)
class Full:
    """Parameters of a prepared model read outside its forward in a value that counts: `runtime.full(node)`."""

    node: ast.expr


@dataclass(frozen=True)
class Opened:
    """A statement that changes parameters of prepared models, or uses their gradients: `with runtime.whole(…):`.

    Attributes:
        statement: what goes into the block.
        models: source texts of the models, valid there; empty where they have no name.
        cells: their objects, for the analysis itself.
        grads: whether gradients are meant.
    """

    statement: ast.stmt
    models: frozenset[str]
    cells: frozenset[int]
    grads: bool = False


@dataclass(frozen=True)
class Pad:
    """A packed sequence of this rank's rows is padded to its longest; `packed` is the source text of the sequence."""

    node: ast.Call
    packed: str


@dataclass(frozen=True)
class Size:
    """The loader's batch size in the shape of a slice: `text` is the number of the slice's rows, as source text."""

    node: ast.expr
    text: str
