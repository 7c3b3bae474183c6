"""Abstract interpretation: comprehensions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import collating, expressions, row_loops, sinks
from .joins import join_all
from .local import is_leaf
from .values import EMPTY, GLOBAL, Value, union

if TYPE_CHECKING:
    from .frame import Frame
    from .interpreter import Interpreter


def comprehension(ip: Interpreter, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, frame: Frame) -> Value:
    members = _over_tuple(ip, node, frame)
    if members is not None:
        return members
    lazy = isinstance(node, ast.GeneratorExp) and not isinstance(ip.parents.get(node), ast.Call)
    value = _in_comprehension(
        ip,
        node.generators,
        frame,
        lambda: expressions.evaluate(ip, node.elt, frame) if lazy else _member(ip, node.elt, node.generators, frame),
    )
    over = ip.current.get(node.generators[0].iter, EMPTY)
    if len(node.generators) == 1 and not isinstance(node, ast.SetComp) and collating.picked(ip, over, frame):
        whole_list = EMPTY if ip.sites.quiet else Value(batch=GLOBAL, origin=node, weak=over.weak, params=value.params)
        return collating.listed(whole_list, value)
    taint = union([value.params, *[ip.sites.values.get(g.iter, EMPTY).params for g in node.generators]])
    if isinstance(node, ast.ListComp):
        cell = ip.allocate(node, frame)
        ip.heap.add(cell, value)
        row_loops.listed(ip, cell, node, frame)
        return Value(objs=frozenset({cell}), element=value, params=taint)
    return Value(element=value, params=taint)


def _over_tuple(ip: Interpreter, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, frame: Frame) -> Value | None:
    """A comprehension over a tuple of known length gives one of known length."""
    from . import stores

    generator = node.generators[0]
    if len(node.generators) > 1 or generator.ifs or isinstance(node, ast.SetComp):
        return None
    over = expressions.evaluate(ip, generator.iter, frame)
    if over.items is None or over.objs or over.params:
        return None
    saved, items = dict(frame.env), []
    for item in over.items:
        stores.store(ip, generator.target, item, None, frame)
        items.append(expressions.evaluate(ip, node.elt, frame))
    frame.env = saved
    if any(item.roles for item in items):
        return None  # objects made by one expression are one to this analysis, and no position is only one of them
    return Value(items=tuple(items))


def of_dict(ip: Interpreter, node: ast.DictComp, frame: Frame) -> Value:
    def body() -> Value:
        expressions.evaluate(ip, node.key, frame)
        return _member(ip, node.value, node.generators, frame)

    cell = ip.allocate(node, frame)
    known = _over_dict(ip, node, frame)
    for name, held in known.items():
        ip.heap.store(cell, name, held)
    value = join_all(known.values()) if known else _in_comprehension(ip, node.generators, frame, body)
    ip.heap.add(cell, value)
    return Value(objs=frozenset({cell}), params=value.params)


def _over_dict(ip: Interpreter, node: ast.DictComp, frame: Frame) -> dict[str, Value]:
    """`{k: f(v) for k, v in batch.items()}` of a dict whose keys are known: the value of each."""
    generator = node.generators[0]
    call, target = generator.iter, generator.target
    plain = len(node.generators) == 1 and not generator.ifs and isinstance(call, ast.Call) and not call.args
    if not plain or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return {}
    names = [part.id for part in getattr(target, "elts", ()) if isinstance(part, ast.Name)]
    if call.func.attr != "items" or len(names) != 2 or getattr(node.key, "id", "") != names[0]:
        return {}
    expressions.evaluate(ip, call, frame)
    cells = [ip.heap[cell] for cell in expressions.evaluate(ip, call.func.value, frame).objs]
    if not cells or not all(cell.attrs and cell.is_dict for cell in cells):
        return {}
    inner = [ip.heap[index] for cell in cells for held in cell.attrs.values() for index in held.objs]
    if any(cell.roles or cell.cls is not None or cell.ref is not None for cell in inner):
        return {}  # models and the like: what is made of each is told from the others by nothing
    saved, found = dict(frame.env), {}
    for name in dict.fromkeys(name for cell in cells for name in cell.attrs):
        held = join_all(cell.attrs.get(name, EMPTY) for cell in cells)
        frame.env |= {names[0]: Value(const=name), names[1]: held}
        found[name] = expressions.evaluate(ip, node.value, frame)
    frame.env = saved
    return found


def _in_comprehension(
    ip: Interpreter, generators: list[ast.comprehension], frame: Frame, body: Callable[[], Value]
) -> Value:
    from . import stores  # stores evaluates targets through this module

    saved, saved_loops, fetching = dict(frame.env), frame.loops, frame.fetching
    for generator in generators:
        frame.fetching = generator
        element = expressions.iterate(ip, generator.iter, frame)
        frame.fetching = None
        frame.loops = (*frame.loops, generator)
        stores.store(ip, generator.target, element, None, frame)
        for test in generator.ifs:
            expressions.decide(ip, test, frame)
    value = body()
    frame.env, frame.loops, frame.fetching = saved, saved_loops, fetching
    return value


def _member(ip: Interpreter, node: ast.expr, generators: list[ast.comprehension], frame: Frame) -> Value:
    """An element of a comprehension; where that goes over batches, what is computed outlives its batch."""
    value = expressions.evaluate(ip, node, frame)
    if any(generator in frame.alive for generator in generators) and not is_leaf(value):
        return sinks.as_global(ip, node, value, frame)
    return value
