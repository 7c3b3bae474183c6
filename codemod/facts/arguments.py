"""Evaluated arguments of a call."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import expressions
from .joins import join_all
from .replacing import replace
from .values import EMPTY, Value

if TYPE_CHECKING:
    from .frame import Frame
    from .interpreter import Interpreter

Operand = tuple[ast.expr, Value]


class Arguments:
    """Evaluated arguments of a call.

    Attributes:
        positional, keywords: operands (expression and value).
        unpacked: values given by `*args` and `**kwargs`.
        star: an element of a `*args` of unknown length, which the parameters from there on are.
        rest: a value of a `**kwargs` whose names aren't known, which any other parameter may be: `model(**batch)`.
    """

    def __init__(self, ip: Interpreter, node: ast.Call, frame: Frame) -> None:
        self.node = node
        self.positional: list[Operand] = []
        self.keywords: dict[str, Operand] = {}
        self.unpacked: list[Operand] = []
        self.receiver: Value = EMPTY
        self.star: Value | None = None
        self.rest: Operand | None = None
        for item in node.args:
            if isinstance(item, ast.Starred):
                self._star(ip, item, frame)
            else:
                self.positional.append((item, expressions.evaluate(ip, item, frame)))
        for keyword in node.keywords:
            value = expressions.evaluate(ip, keyword.value, frame)
            if keyword.arg is not None:
                self.keywords[keyword.arg] = (keyword.value, value)
            else:
                self._unpack(ip, keyword.value, value)

    def _star(self, ip: Interpreter, item: ast.Starred, frame: Frame) -> None:
        value = expressions.evaluate(ip, item.value, frame)
        if value.items is not None:
            self.positional.extend((item.value, v) for v in value.items)
            self._grown(ip, item, value)
        elif value.shape_dim is not None:
            self.positional.append((item.value, value))  # the sizes of a shape are as good as the shape
        else:
            element = expressions.evaluate(ip, item, frame)
            self.unpacked.append((item.value, element))
            self.star = element
            self.positional.append((item.value, element))
            self._grown(ip, item, value)

    def _grown(self, ip: Interpreter, item: ast.Starred, value: Value) -> None:
        """A list that began with known members and got more."""
        later = ip.heap.grown(value)
        if later != EMPTY:
            self.star = later
            self.unpacked.append((item.value, later))
            self.positional.append((item.value, later))

    def _unpack(self, ip: Interpreter, node: ast.expr, value: Value) -> None:
        self.unpacked.append((node, value))
        for cell in value.objs:
            for name, held in ip.heap[cell].attrs.items():
                self.keywords.setdefault(name, (node, held))
        held = _of_any_name(ip, value)
        if held != EMPTY:
            self.rest = (node, held)

    @property
    def all(self) -> list[Operand]:
        """Every operand."""
        rest = [] if self.rest is None else [self.rest]
        return [*self.positional, *self.keywords.values(), *rest]

    def get(self, position: int, name: str) -> Value:
        """Value of a parameter given by position or by name, `EMPTY` if it is not given."""
        if name in self.keywords:
            return self.keywords[name][1]
        return self.positional[position][1] if len(self.positional) > position else EMPTY


def _of_any_name(ip: Interpreter, value: Value) -> Value:
    """A value of a mapping whose names aren't known: of what a collate function of a library returns, or a dict made
    by a comprehension over it."""
    if value.opaque and value.items is None and not value.objs:
        return replace(value, opaque=False)
    cells = [ip.heap[cell] for cell in sorted(value.objs)]
    return join_all(cell.element for cell in cells if cell.is_dict and not cell.attrs)
