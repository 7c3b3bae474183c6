"""Batches that are kept while the next one is fetched: the latest batch is not the one in use, so each is named.

input, target = self.next_input, self.next_target
self.preload()                              # fetches the next batch
…
for item in loader:
    yield last, False                       # the batch before this one
    last = item
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .local import deep_sources, is_leaf
from .places import COMPREHENSIONS, DEFINITIONS, inside
from .values import EMPTY, Value

if TYPE_CHECKING:
    from .interpreter import Interpreter

_TARGETS = (ast.Name, ast.Attribute)
Walk = tuple[bool, bool]  # whether it reads the target before it is assigned, and whether it surely assigns it


def fetched(ip: Interpreter, value: Value) -> None:
    """A batch was asked for by `next`."""
    ip.sites.asked |= deep_sources(value)


def kept(ip: Interpreter, value: Value) -> None:
    """A value is kept in an object: a batch that was asked for may be used after the next one is fetched."""
    for cell in value.objs:
        if ip.heap[cell].is_dict:
            for item in ip.heap[cell].attrs.values():
                _note(ip, item, ip.sites.asked)
    _note(ip, value, ip.sites.asked)


def carried(ip: Interpreter, loop: ast.For | ast.AsyncFor | ast.While) -> None:
    """What a loop fetches and only its next iteration uses."""
    for text, values in _assigned(ip, loop).items():
        begin = loop.test if isinstance(loop, ast.While) else loop.target
        if _read_first([begin, *loop.body], text)[0]:
            for value in values:
                _note(ip, value, deep_sources(value))


def _note(ip: Interpreter, value: Value, among: Iterable[ast.AST]) -> None:
    found = deep_sources(value) & set(among) - set(ip.sites.splits)
    if found - ip.sites.ahead and _holds_leaf(value):
        ip.sites.ahead |= found
        ip.sites.changed = True


def _holds_leaf(value: Value) -> bool:
    return is_leaf(value) or any(_holds_leaf(item) for item in value.items or ())


def _assigned(ip: Interpreter, loop: ast.AST) -> dict[str, list[Value]]:
    """The names and attributes that a loop's body assigns batches to, by their text."""
    found: dict[str, list[Value]] = {}
    if loop not in ip.stores:
        parts = [part for part in inside(loop) if isinstance(part, _TARGETS) and isinstance(part.ctx, ast.Store)]
        ip.stores[loop] = [(part, ast.unparse(part)) for part in parts]
    for part, text in ip.stores[loop]:
        value = ip.sites.values.get(part, EMPTY)
        if deep_sources(value) and _holds_leaf(value):
            found.setdefault(text, []).append(value)
    return found


def _read_first(nodes: Iterable[ast.AST], text: str) -> Walk:
    """Whether statements, in their order, read a target before they assign it."""
    for node in nodes:
        reads, assigns = _walk(node, text)
        if reads or assigns:
            return reads, assigns
    return False, False


def _walk(node: ast.AST, text: str) -> Walk:
    if isinstance(node, _TARGETS) and ast.unparse(node) == text:
        return isinstance(node.ctx, ast.Load), isinstance(node.ctx, ast.Store)
    if isinstance(node, DEFINITIONS):
        return False, False
    if isinstance(node, COMPREHENSIONS):
        own = any(ast.unparse(part) == text for made in node.generators for part in ast.walk(made.target))
        return not own and _read_first(ast.iter_child_nodes(node), text)[0], False
    if isinstance(node, ast.Assign):
        return _read_first([node.value, *node.targets], text)
    if isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
        return _read_first([node.value, node.target] if node.value is not None else [], text)
    if isinstance(node, ast.AugAssign):
        return ast.unparse(node.target) == text or _walk(node.value, text)[0], False
    if isinstance(node, ast.If):
        return _either(_walk(node.test, text), [node.body, node.orelse], text)
    if isinstance(node, ast.Try):
        paths = [[*node.body, *node.orelse], *([*handler.body] for handler in node.handlers)]
        return _either((False, False), paths, text, node.finalbody)
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return _read_first([node.iter, node.target, *node.body], text)
    return _read_first(ast.iter_child_nodes(node), text)


def _either(test: Walk, paths: list[list[ast.stmt]], text: str, after: Iterable[ast.stmt] = ()) -> Walk:
    """Of alternatives: one of them reads, or all of them assign (or leave)."""
    if test[0] or test[1]:
        return test
    found = [(_read_first(path, text), _leaves(path)) for path in paths]
    if any(reads for (reads, _), _ in found):
        return True, False
    if all(assigns or leaves for (_, assigns), leaves in found):
        return False, True
    return _read_first(after, text)


def _leaves(path: list[ast.stmt]) -> bool:
    return bool(path) and isinstance(path[-1], (ast.Raise, ast.Return, ast.Break, ast.Continue))


def is_ahead(ip: Interpreter, value: Value) -> bool:
    """Whether a value may come from a batch that was kept while the next one was fetched."""
    return bool(deep_sources(value) & ip.sites.ahead)


def check(ip: Interpreter, node: ast.AST, value: Value, of: str | None) -> None:
    """Refuse a value of such a batch where nothing in reach names it."""
    if of is None and is_ahead(ip, value):
        message = "Another batch may have been fetched since the one that this is of, and nothing here names that one."
        hint = "compute it where the batch's own tensors are at hand, as in loss = criterion(model(x), y)"
        ip.sites.report("DST102", node, message, hint)
