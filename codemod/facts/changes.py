"""Parameters that the program changes, or whose gradients it uses, once training has begun: whole there."""

from __future__ import annotations

import ast
from itertools import takewhile
from typing import TYPE_CHECKING

from . import owners
from .attributes import root_all
from .marks import Opened
from .places import stands_in, statement_of
from .values import EMPTY, Role, Value, union

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter

_ITERATORS = ("parameters", "named_parameters")
_KEEP = ("requires_grad_", "detach_", "retain_grad", "zero_grad")
RUNTIME = "distify.runtime.whole"


def in_place(ip: Interpreter, name: str, node: ast.expr, value: Value, frame: Frame) -> bool:
    """Whether a method or function changes a parameter (`p.data.clamp_(…)`, `nn.init.zeros_(p)`); it is noted then."""
    held = value if value.is_param or value.element is None else value.element  # `torch._foreach_mul_(list, 0.9)`
    if not (name.endswith("_") and not name.endswith("__") and name not in _KEEP and held.is_param):
        return False
    note(ip, node, held, frame)
    return True


def note(ip: Interpreter, node: ast.expr, value: Value, frame: Frame, grads: bool = False) -> None:
    """Parameters are changed at an expression, or their gradients are used.

    Args:
        node: what holds the parameter: `p`, `p.data`, `model.fc.weight`, `model.parameters()`.
        value: its value.
        grads: the gradients are meant.
    """
    cells = root_all(ip, value.params)
    if _in_forward(ip, frame) or in_optimizer(ip, frame):
        return
    if not cells & ip.sites.owned & ip.owned_now or not _has_begun(ip, cells, frame):
        return
    found = _by_iterator(ip, node, value, frame) or _by_module(ip, node, frame) or _by_name(ip, node, cells, frame)
    statement, texts = found or (statement_of(ip.parents, node), frozenset())
    _keep(ip, statement, texts, cells, grads)


def _keep(ip: Interpreter, statement: ast.stmt, texts: frozenset[str], cells: frozenset[int], grads: bool) -> None:
    """Write a place down, with what is known of it already."""
    old = ip.sites.opened.get(statement)
    if old is not None:
        texts, cells, grads = old.models | texts, old.cells | cells, grads or old.grads
    ip.sites.keep(ip.sites.opened, statement, Opened(statement, texts, cells, grads))


def _in_forward(ip: Interpreter, frame: Frame) -> bool:
    """Whether a forward runs; other methods of a model that run no module are code like any other."""
    return any(
        getattr(current.node, "name", "") in ("forward", "__call__") or current.node in ip.made.running_defs
        for current in takewhile(lambda item: item.forward, frame.chain())
    )


def in_optimizer(ip: Interpreter, frame: Frame) -> bool:
    """Whether an optimizer that the program defines runs: what it does to its parameters is its step."""
    holders = (ip.parents.get(current.node) for current in frame.chain() if current.node is not None)
    return any(isinstance(holder, ast.ClassDef) and ip.classes.is_optimizer(holder) for holder in holders)


def is_read(ip: Interpreter, value: Value, frame: Frame) -> bool:
    """Whether a parameter is read outside of a forward: once training has begun, in methods that run no module too."""
    if not frame.forward:
        return not in_optimizer(ip, frame)
    cells = root_all(ip, value.params)
    return bool(cells & ip.owned_now) and _has_begun(ip, cells, frame) and not _in_forward(ip, frame)


def of_model(ip: Interpreter, node: ast.expr, value: Value, frame: Frame) -> None:
    """A model is given to what goes over its parameters, as an average of them does, or sets them anew."""
    cells = root_all(ip, value.objs)
    if not frame.forward and cells & ip.sites.owned & ip.owned_now and _has_begun(ip, cells, frame):
        _keep(ip, statement_of(ip.parents, node), frozenset({ip.text(node)}), cells, False)


def _has_begun(ip: Interpreter, cells: frozenset[int], frame: Frame) -> bool:
    """Whether a step may have run before: what stands earlier initialises the model."""
    loops = any(loop in ip.made.training_loops or ip.loop_sources.get(loop) for loop in frame.loops)
    return loops or bool(cells & ip.ran_now)


Place = tuple[ast.stmt, frozenset[str]]


def _by_iterator(ip: Interpreter, node: ast.expr, value: Value, frame: Frame) -> Place | None:
    """`for p in model.parameters(): …`, or a function that is given them: the statement that makes the iterator."""
    call = value.arg
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _ITERATORS):
        return None
    statement = statement_of(ip.parents, call)
    inner: ast.AST = node
    for current in frame.chain():
        if stands_in(ip.parents, inner, statement):
            return statement, frozenset({ip.text(call.func.value)})
        if current.call is None:
            return None
        inner = current.call
    return None


def _by_module(ip: Interpreter, node: ast.expr, frame: Frame) -> Place | None:
    """`model.fc.weight.data.zero_()`: the module that a chain of attributes begins with."""
    current: ast.expr = node
    while isinstance(current, (ast.Attribute, ast.Subscript, ast.Call)):
        inner = current.func if isinstance(current, ast.Call) else current.value
        held = ip.current.get(inner, EMPTY)
        roles = held.roles | union(ip.heap[cell].roles for cell in held.objs)
        if isinstance(current, ast.Attribute) and Role.MODEL in roles and held.objs:
            return statement_of(ip.parents, node), frozenset({ip.text(inner)})
        current = inner
    return None


def _by_name(ip: Interpreter, node: ast.expr, cells: frozenset[int], frame: Frame) -> Place | None:
    """Parameters from a list, or from an optimizer's groups: the models by their names, around the loop over them."""
    names = {owners.name_of(ip, cell, frame) for cell in cells}
    statement = statement_of(ip.parents, node)
    outer = ip.parents.get(statement)
    while isinstance(outer, (ast.For, ast.If)):
        element = ip.current.get(outer.iter, EMPTY).element if isinstance(outer, ast.For) else EMPTY
        if isinstance(outer, ast.For) and (element is None or not element.params & cells):
            break
        statement = outer if isinstance(outer, ast.For) else statement
        outer = ip.parents.get(outer)
    return None if None in names else (statement, frozenset(name for name in names if name is not None))


def outermost(ip: Interpreter, found: list[Opened]) -> list[Opened]:
    """The places without those that lie in others of the same models, or in a block that opens them already."""
    kept = []
    for item in found:
        node: ast.AST | None = ip.parents.get(item.statement)
        while node is not None:
            other = ip.sites.opened.get(node)
            if other is not None and item.cells <= other.cells and (other.grads or not item.grads):
                break
            if isinstance(node, ast.With) and _opens(ip, node):
                break
            node = ip.parents.get(node)
        if node is None:
            kept.append(item)
    return kept


def is_open(ip: Interpreter, node: ast.AST, cells: frozenset[int]) -> bool:
    """Whether models are whole at a node because it stands in a place where they are opened."""
    current: ast.AST | None = node
    while current is not None:
        item = ip.sites.opened.get(current)
        if (item is not None and cells <= item.cells) or (isinstance(current, ast.With) and _opens(ip, current)):
            return True
        current = ip.parents.get(current)
    return False


def _opens(ip: Interpreter, node: ast.With) -> bool:
    calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
    return any(ip.names.qualified(call.func) == RUNTIME for call in calls)
