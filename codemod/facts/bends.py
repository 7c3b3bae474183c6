"""Which losses are sums of means and sums over the batch, and where they stop being that.

Gradients of micro-batches add up to those of a larger batch in such losses only. The root of a mean of means is another
number, and a sum divided by the number of its rows is no sum any more: added up over a window, it would be as many
times too large as the window holds micro-batches (huggingface/transformers#34191).
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import creation
from .losses import is_pure
from .marks import Bend
from .places import last_name, passed
from .replacing import replace
from .values import EMPTY, Dep, Value, union

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter
    from .model import Step

LINEAR = frozenset(
    [
        "add",
        "add_",
        "append",
        "as_tensor",
        "bfloat16",
        "cat",
        "clone",
        "contiguous",
        "cpu",
        "cuda",
        "data",
        "detach",
        "double",
        "expand",
        "extend",
        "float",
        "fsum",
        "half",
        "item",
        "mean",
        "neg",
        "numpy",
        "print",
        "requires_grad_",
        "reshape",
        "squeeze",
        "stack",
        "sub",
        "sub_",
        "subtract",
        "sum",
        "tensor",
        "to",
        "tolist",
        "type",
        "unsqueeze",
        "view",
    ]
)
DIVISIONS = frozenset({"div", "div_", "divide", "true_divide"})
PRODUCTS = frozenset({"mul", "mul_", "multiply", "prod", "dot"})
# Against division by zero: `total / max(count, 1)`.
GUARDS = frozenset({"clamp", "clamp_min", "clip", "max", "maximum"})
# Their arguments are sizes.
SHAPES = frozenset({"expand", "repeat", "reshape", "squeeze", "unsqueeze", "view"})
SUM, MEAN = "sum", "mean"


def followed(ip: Interpreter, node: ast.expr, value: Value, frame: Frame) -> Value:
    """The value of an expression with the reductions that it holds, and the places where they enter nonlinearly."""
    if frame.forward:
        return value
    reduced = reduction_at(ip, node)
    if reduced is not None:
        value = replace(value, terms=frozenset({reduced}))
    if node in ip.sites.gathers:
        # What is computed of rows of the whole batch is not to be had from a part of it.
        value = replace(value, terms=frozenset({MEAN}), bends=value.bends | {node})
    if isinstance(node, ast.BinOp):
        left, right = (ip.current.get(side, EMPTY) for side in (node.left, node.right))
        return combined(ip, node.op, node, (node.left, left), (node.right, right), value)
    if isinstance(node, (ast.UnaryOp, ast.Subscript, ast.Attribute)):
        inner = node.operand if isinstance(node, ast.UnaryOp) else node.value
        return carried(value, [ip.current.get(inner, EMPTY)])
    if isinstance(node, ast.Call) and reduced is None:
        return _called(ip, node, value)
    return value


def reduction_at(ip: Interpreter, node: ast.expr) -> str | None:
    """The kind of reduction that goes around an expression."""
    if node in ip.sites.counts:
        return SUM
    found = ip.sites.reductions.get(node)
    if found is None or found.converted:
        return None
    return SUM if found.kind == SUM else MEAN


def carried(value: Value, operands: list[Value]) -> Value:
    """A value that is linear in its operands."""
    terms, bends = union(map(terms_of, operands)), union(map(bends_of, operands))
    if terms <= value.terms and bends <= value.bends:
        return value
    return replace(value, terms=value.terms | terms, bends=value.bends | bends)


def combined(
    ip: Interpreter,
    op: ast.operator,
    node: ast.expr,
    left: tuple[ast.expr, Value],
    right: tuple[ast.expr, Value],
    value: Value,
    *,
    in_place: bool = False,
) -> Value:
    """A value that an operator makes of two; in place, there is no expression to write something around."""
    (_, a), (divisor, b) = left, right
    terms = terms_of(a), terms_of(b)
    if isinstance(op, (ast.Add, ast.Sub)) or not any(terms) or (isinstance(op, ast.Mod) and isinstance(a.const, str)):
        return carried(value, [a, b])
    if (
        isinstance(op, ast.Mult)
        and not all(terms)
        and not (a.is_sample and terms[1])
        and not (b.is_sample and terms[0])
    ):
        return carried(value, [a, b])
    ratio = isinstance(op, ast.Div) and terms[0] == {SUM}
    by_size = ratio and not terms[1] and _is_batch_size(ip, divisor)
    if isinstance(op, ast.Div) and not terms[1] and not by_size:
        return carried(value, [a, b])
    if not in_place and (by_size or (ratio and terms[1] == {SUM})):
        ip.sites.ratios[node] = divisor
    return _bent(ip, node, carried(value, [a, b]))


def _is_batch_size(ip: Interpreter, node: ast.expr) -> bool:
    """Whether an expression is the batch size that a loader was made with."""
    return isinstance(node, (ast.Name, ast.Attribute, ast.Constant)) and ip.text(node) in ip.batch_sizes.values()


def _bent(ip: Interpreter, node: ast.expr, value: Value) -> Value:
    """A value that is not linear in the reductions which it holds: like a mean, it is averaged over a window."""
    if SUM in terms_of(value):
        ip.sites.ratios.setdefault(node, None)
    return replace(value, terms=frozenset({MEAN}), bends=value.bends | {node})


def terms_of(value: Value) -> frozenset[str]:
    """The kinds of reductions that a value, or a member of it, is linear in."""
    inner = union(item.terms for item in value.items or ())
    return value.terms | inner | (value.element.terms if value.element is not None else frozenset())


def bends_of(value: Value) -> frozenset[ast.expr]:
    """Where a value, or a member of it, stopped being linear."""
    inner = union(item.bends for item in value.items or ())
    return value.bends | inner | (value.element.bends if value.element is not None else frozenset())


def _called(ip: Interpreter, node: ast.Call, value: Value) -> Value:
    """A call of a function of torch, of Python, or of a method of a number or tensor."""
    receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
    operands = [receiver] if receiver is not None else []
    operands += [arg.value if isinstance(arg, ast.Starred) else arg for arg in node.args]
    operands += [keyword.value for keyword in node.keywords]
    values = [(operand, ip.current.get(operand, EMPTY)) for operand in operands]
    qualified = ip.names.qualified(node.func) or ""
    name = qualified.rsplit(".", 1)[-1] or getattr(node.func, "attr", "")
    if qualified.startswith("distify.runtime."):
        return _of_runtime(ip, name, node, value, [v for _, v in values])
    if creation.is_creation(name):
        return value
    values = values[:1] if name in SHAPES else values
    called = ip.current.get(node.func, EMPTY)
    foreign = qualified.startswith(("torch.", "math.", "numpy.", "builtins."))
    method = receiver is not None and bool(values[0][1].terms)
    if called.defs or called.classes or not (foreign or method):
        return value
    holding = [item for item in values if terms_of(item[1])]
    if not holding or value.dep > Dep.SAMPLE:
        return carried(value, [v for _, v in values])
    numbers = values[1:] if foreign and receiver is not None else values
    if name in DIVISIONS and len(numbers) > 1:
        return combined(ip, ast.Div(), node, numbers[0], numbers[1], value)
    if name in PRODUCTS and len(numbers) > 1:
        return combined(ip, ast.Mult(), node, numbers[0], numbers[1], value)
    made = carried(value, [v for _, v in values])
    guards = name in GUARDS and terms_of(made) == {SUM}
    return made if guards or name in LINEAR else _bent(ip, node, made)


def _of_runtime(ip: Interpreter, name: str, node: ast.Call, value: Value, operands: list[Value]) -> Value:
    """A reduction that the source has already."""
    if name == "averaged":
        inner = node.args[0] if node.args else None
        return replace(carried(value, operands), terms=frozenset({MEAN}), bends=bends_of(operands[0]) - {inner})
    if name == "gather":
        return _bent(ip, node, value)
    if name not in ("mean", "sum", "max", "min"):
        return value
    made = carried(value, operands)
    return replace(made, terms=frozenset({SUM if name == "sum" else MEAN}))


def of_step(ip: Interpreter, step: Step) -> tuple[Bend, ...]:
    """Where the losses of a training step stop being sums of means and sums, in source order."""
    values = [ip.sites.values.get(loss, EMPTY) for loss in step.losses]
    found = union(bends_of(value) for value in values)
    return tuple(_bend(ip, node) for node in sorted(found, key=lambda n: (n.lineno, n.col_offset)))


def _bend(ip: Interpreter, node: ast.expr) -> Bend:
    divisor = ip.sites.ratios.get(node)
    held = ip.sites.values.get(divisor, EMPTY) if divisor is not None else EMPTY
    if held.batch.exact:
        return Bend(node, ratio=True)
    if divisor is not None and _is_repeatable(divisor):
        return Bend(node, ratio=True, divisor=_unguarded(ip, divisor))
    return Bend(node, sums=node in ip.sites.ratios)


def _unguarded(ip: Interpreter, node: ast.expr) -> ast.expr:
    """A count without what keeps it from being zero, which would count as well when windows are added up."""
    if isinstance(node, ast.Call):
        parts = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        name = last_name(node.func)
        parts += node.args
        guards = name in GUARDS
    else:
        parts = [node.left, node.right] if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) else []
        guards = bool(parts)
    counts = [part for part in parts if terms_of(ip.sites.values.get(part, EMPTY)) == {SUM}]
    return _unguarded(ip, counts[0]) if guards and len(counts) == 1 else node


def _is_repeatable(node: ast.expr) -> bool:
    """Whether an expression can be written twice: pure, or the count of a mask by methods without effects."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        name = node.func.attr
        harmless = (name in LINEAR | GUARDS and not name.endswith("_")) or name in ("any", "all", "count_nonzero")
        return harmless and all(_is_repeatable(part) for part in [node.func.value, *passed(node)])
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("len", "float", "int", "max") and all(_is_repeatable(part) for part in node.args)
    if isinstance(node, ast.Compare):
        return all(is_pure(part) for part in (node.left, *node.comparators))
    if isinstance(node, ast.BinOp):
        return _is_repeatable(node.left) and _is_repeatable(node.right)
    return is_pure(node)


__all__ = ["combined", "followed", "of_step"]
