"""What a test of a type says about a name: `isinstance(x, torch.Tensor)`, `type(batch) in (tuple, list)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..dataclass import dataclass
from .replacing import replace
from .values import BOTTOM, Dep, Value

if TYPE_CHECKING:
    from .interpreter import Interpreter

_CONTAINERS = {
    *(f"builtins.{name}" for name in ("tuple", "list", "dict", "set")),
    *(f"{home}.{name}" for home in ("collections.abc", "typing") for name in ("Mapping", "Sequence")),
}
_TENSORS = {"torch.Tensor", "torch.FloatTensor", "torch.LongTensor", "torch.autograd.Variable"}


@dataclass(frozen=True)
class Tested:
    """A name that is a tensor where a test holds (or where it doesn't), and a container otherwise."""

    name: str
    tensor: bool

    def narrow(self, value: Value, holds: bool) -> Value | None:
        """The value where the test came out one way; `None` if it can't have."""
        return as_tensor(value) if holds == self.tensor else as_container(value)


def tested(ip: Interpreter, test: ast.expr) -> Tested | None:
    """What a test says of the type of a name, `None` if nothing."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = tested(ip, test.operand)
        return None if inner is None else Tested(inner.name, not inner.tensor)
    if isinstance(test, ast.Call) and test.args and isinstance(test.args[0], ast.Name):
        called = ip.names.qualified(test.func)
        if called == "torch.is_tensor":
            return Tested(test.args[0].id, True)
        if called == "builtins.isinstance" and len(test.args) == 2:
            return _of_kinds(ip, test.args[0].id, test.args[1], True)
        return None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.left, ast.Call):
        return None
    left = test.left
    if (
        ip.names.qualified(left.func) != "builtins.type"
        or len(left.args) != 1
        or not isinstance(left.args[0], ast.Name)
    ):
        return None
    found = _of_kinds(ip, left.args[0].id, test.comparators[0], isinstance(test.ops[0], (ast.In, ast.Is, ast.Eq)))
    return found if isinstance(test.ops[0], (ast.In, ast.NotIn, ast.Is, ast.IsNot, ast.Eq, ast.NotEq)) else None


def _of_kinds(ip: Interpreter, name: str, node: ast.expr, positive: bool) -> Tested | None:
    kinds = {ip.names.qualified(item) for item in (node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node])}
    if kinds <= _TENSORS:
        return Tested(name, positive)
    # Of one kind of container, the others are not ruled out where the test fails, but tensors are what is meant.
    return Tested(name, not positive) if kinds <= _CONTAINERS else None


def as_tensor(value: Value) -> Value | None:
    """A value that is a tensor."""
    if value.dep is Dep.BOTTOM and (value.items is not None or value.element is not None):
        return None
    return replace(value, opaque=False, items=None, element=None)


def as_container(value: Value) -> Value | None:
    """A value that is a tuple, a list or a dict."""
    inside = value.items is not None or value.element is not None or bool(value.objs)
    if value.is_sample and not value.opaque and not inside:
        return None
    if value.opaque:
        return value
    return replace(value, batch=BOTTOM, made=None)
