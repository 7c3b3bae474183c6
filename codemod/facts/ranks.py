"""What of a value is one process's own, or was agreed on by all, in a script that is distributed by hand."""

from __future__ import annotations

import ast
from enum import Enum
from typing import TYPE_CHECKING

from ..dataclass import dataclass
from .replacing import replace
from .values import EMPTY, Dep, Value, union

if TYPE_CHECKING:
    from .interpreter import Interpreter


class Mark(Enum):
    """What a value is made of, besides the batches of loaders."""

    RANK = "the number of the process, or a decision by it"
    AGREED = "the result of a collective"
    CLOCK = "the time of day"
    WRAPPER = "a model in its wrapper, on some way through the program"
    PROCESS = "something that is made up anew in each process, or tells it from others"


RANK: frozenset[object] = frozenset({Mark.RANK})
AGREED: frozenset[object] = frozenset({Mark.AGREED})
WRAPPER: frozenset[object] = frozenset({Mark.WRAPPER})
DEPTH = 3


def added(value: Value, found: frozenset[object]) -> Value:
    """A value that is also made of something."""
    return value if found <= value.ranks else replace(value, ranks=value.ranks | found)


def of(ip: Interpreter, node: ast.expr) -> frozenset[object]:
    """What an expression that was evaluated is made of."""
    return held(ip, ip.current.get(node, EMPTY))


def held(ip: Interpreter, value: Value, depth: int = DEPTH) -> frozenset[object]:
    """What a value, and what it holds, is made of; the attributes of objects apart."""
    found = value.ranks
    if value.is_sample or value.dep is Dep.PENDING:
        found = found | frozenset(source for source in value.sources if source in ip.made.apart)
    if depth:
        inner = [*(value.items or ()), *([value.element] if value.element is not None else [])]
        for cell in value.objs:
            kept = ip.heap[cell]
            if kept.cls is None and kept.ref is None and not kept.roles:
                inner += [kept.element, *kept.attrs.values()]
        found = found | union(held(ip, item, depth - 1) for item in inner)
    return found


@dataclass(frozen=True)
class Swayed:
    """A value is one in one process and another in the next, since a branch decided that on something of its own."""

    by: object


def deciding(ip: Interpreter, test: ast.expr) -> frozenset[object]:
    """What is known of a value that is stored in a branch on a condition."""
    found = of(ip, test)
    if Mark.AGREED in found:
        return frozenset()
    return frozenset(item if isinstance(item, Swayed) else Swayed(item) for item in found if not is_clock(item))


def is_clock(item: object) -> bool:
    """Whether a mark says nothing of what others decide."""
    return item in (Mark.CLOCK, Mark.PROCESS, Mark.WRAPPER)


def is_swayed(value: Value) -> bool:
    """Whether a value may differ by what one process decided, and was not agreed on since."""
    return Mark.AGREED not in value.ranks and any(isinstance(item, Swayed) for item in value.ranks)


def is_own(value: Value) -> bool:
    """Whether a value is made of one process's batches, and of nothing that the processes agreed on."""
    return Mark.AGREED not in value.ranks and any(isinstance(item, ast.AST) for item in value.ranks)
