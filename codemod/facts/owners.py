"""Which optimizer owns the parameters of which models, and how both are named where the optimizer is built."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .made import InPlace, MadeOptimizer
from .places import passed
from .replacing import replace
from .values import EMPTY, Role, Value, union

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Frame, Interpreter


def own_parameters(
    ip: Interpreter, node: ast.Call, arguments: Arguments, frame: Frame, ref: str, made: frozenset[int]
) -> None:
    """An optimizer is built over these parameters: their models are prepared, with it, where it gets its name.

    Args:
        node: the call that builds it.
        ref: its dotted class name.
        made: its own heap cells.
    """
    from .attributes import root, root_all

    cells = owned_by(ip, arguments)
    ip.sites.own(cells)
    first = not cells <= ip.owned_now
    late = bool(frame.loops) and bool(cells & ip.ran_now)
    ip.owned_now |= cells
    where = frame
    while where.caller is not None and where.call is not None and isinstance(where.statement, ast.Return):
        where = where.caller
    statement = where.statement
    if statement is None:
        return
    hidden = _bound_inside(ip, node)
    hidden |= ip.names.bound_later(ip.names.scope(statement), statement.end_lineno or statement.lineno)
    hidden |= _left_by_loops(ip, ip.names.scope(statement), statement)
    named = {cell: name_of(ip, cell, where, hidden) for cell in cells}
    if where is frame:
        for cell, text in named.items():
            given = _receiver(ip, cell, node, hidden)
            if given is not None and (text is None or _is_chosen(given)):
                named[cell] = ip.text(given)
    known = ip.made.optimizers.get(node)
    if known is not None:
        cells |= root_all(ip, known.cells)
        made |= known.made
    names = {(cell, text) for cell, text in named.items() if text is not None}
    again = {cell for cell, text in named.items() if text is not None}
    names |= {(c, text) for c, text in (known.names if known else ()) if root(ip, c) == c and c not in again}
    loose = loose_in(ip, node) if where is frame else frozenset()
    here = in_place(ip, node, frame, frozenset(named), known.in_place if known else None)
    late = late if first or known is None else known.late
    ip.made.optimizers[node] = MadeOptimizer(
        node, statement, None, frozenset(names), cells, ref, made, loose, here, late
    )


def in_place(
    ip: Interpreter, node: ast.Call, frame: Frame, cells: frozenset[int], known: InPlace | None
) -> InPlace | None:
    """How the call that builds an optimizer can name what it trains, `None` if it can't name all of it."""
    texts: set[str | None] = set(loose_in(ip, node))
    for cell in cells:
        given = _receiver(ip, cell, node, frozenset(), plain=True)
        texts.add(name_of(ip, cell, frame) if given is None else ip.text(given))
    if frame.statement is None or not texts or None in texts:
        return None
    texts |= set(known.models) if known else set()
    every = cells | known.cells if known else cells
    return InPlace(frame.statement, tuple(sorted(text for text in texts if text)), every)


def loose_in(ip: Interpreter, node: ast.Call) -> frozenset[str]:
    """Source texts of the parameters of no module among the arguments of an optimizer, `*params` for a list of them."""
    found: set[str] = set()
    todo: list[ast.AST] = [*passed(node)]
    while todo:
        part = todo.pop()
        value = ip.current.get(part, EMPTY)
        names = isinstance(part, (ast.Name, ast.Attribute, ast.Subscript))
        if names and value.is_param and value.loose and value.items is None:
            found.add(ip.text(part))
        elif names and holds_loose(ip, value):
            found.add(f"*{ip.text(part)}")
        elif not names:
            todo += list(ast.iter_child_nodes(part))
    return frozenset(found)


def holds_loose(ip: Interpreter, value: Value) -> bool:
    """Whether a list holds parameters of no module."""
    inner = [*(value.items or ()), *([value.element] if value.element is not None else [])]
    inner += [ip.heap[cell].element for cell in value.objs if not ip.heap[cell].is_dict and not ip.heap[cell].roles]
    return any(v.is_param and v.loose for v in inner)


def name_optimizers(ip: Interpreter) -> None:
    """Give every optimizer, and its models, the names after its statement, once all statements were interpreted."""
    for call, item in ip.made.optimizers.items():
        text = target_of(ip, item.statement, item.made)
        if text is None and item.in_place is not None:
            here = item.in_place
            names = {cell: model for cell in here.cells for model in here.models[:1]}
            ip.made.optimizers[call] = replace(
                item, text=None, statement=here.statement, names=frozenset(names.items()), loose=frozenset(here.models)
            )
            continue
        names = dict(item.names)
        returned = not any(part is call for part in ast.walk(item.statement))
        for cell in item.cells if returned else item.cells - names.keys():
            model = target_of(ip, item.statement, frozenset({cell}))
            if model is not None:
                names[cell] = model
        if any(cell not in names for cell in item.cells):
            message = "A model that this optimizer trains has no name where it is built."
            ip.sites.report("DST202", call, message, "assign the model to a variable before its optimizer is built")
        ip.made.optimizers[call] = replace(item, text=text, names=frozenset(names.items()), in_place=None)


def owned_by(ip: Interpreter, arguments: Arguments) -> frozenset[int]:
    """Models whose parameters are among the arguments, or in the groups that these hold."""
    from .attributes import root_all

    return root_all(ip, union(_parameters_in(ip, v) for _, v in arguments.all))


def _parameters_in(ip: Interpreter, value: Value, depth: int = 4) -> frozenset[int]:
    """Models whose parameters a value holds: a group in a list, a list in a group that a loop filled."""
    found, level, seen = value.params, value.objs, frozenset[int]()
    for _ in range(depth):
        held = [ip.heap[cell] for cell in level - seen if not ip.heap[cell].roles]
        inside = [item for cell in held for item in (cell.element, *cell.attrs.values())]
        found |= union(item.params for item in inside)
        level, seen = union(item.objs for item in inside), seen | level
    return found


def target_of(ip: Interpreter, statement: ast.stmt, cells: frozenset[int]) -> str | None:
    """Source text of what names an object after the statement that builds it: a target, or a part of one."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    found: list[tuple[int, str]] = []
    for target in targets:
        for part in ast.walk(target) if isinstance(target, ast.AST) else ():
            if isinstance(part, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(part.ctx, ast.Store):
                value = ip.sites.values.get(part, EMPTY)
                found += [(depth, text) for cell, text, depth in paths(ip, value, ip.text(part)) if cell in cells]
    return min(found, key=lambda item: item[0])[1] if found else None


def paths(ip: Interpreter, value: Value, text: str, depth: int = 0) -> Iterator[tuple[int, str, int]]:
    """Objects reached from a named value, each with its source text and the number of steps."""
    if value.items is None and not value.part:
        for cell in value.objs:
            yield cell, text, depth
    if depth > 2:
        return
    for index, item in enumerate(value.items or ()):
        yield from paths(ip, item, f"{text}[{index}]", depth + 1)
    for cell in value.objs if value.items is None else ():
        held = ip.heap[cell]
        for name, kept in held.attrs.items():
            if held.cls is not None and (not held.roles or _is_plain(ip, kept)):  # a model's own list registers nothing
                yield from paths(ip, kept, f"{text}.{name}", depth + 1)
            elif held.cls is None and held.ref is None and not held.roles:
                yield from paths(ip, kept, f'{text}["{name}"]', depth + 1)
        if held.cls is None and held.ref is None and not held.roles and depth < 2:
            every = f"*{text}.values()" if isinstance(held.node, (ast.Dict, ast.DictComp)) else f"*{text}"
            yield from ((inner, every, 3) for inner in held.element.objs)


def _is_plain(ip: Interpreter, value: Value) -> bool:
    """Whether a value is a list or a dict."""
    cells = [ip.heap[cell] for cell in value.objs]
    return bool(cells) and all(cell.cls is None and cell.ref is None and not cell.roles for cell in cells)


def _bound_inside(ip: Interpreter, node: ast.AST) -> frozenset[str]:
    """Names that comprehensions around a node bind: they mean nothing after its statement."""
    found: set[str] = set()
    current: ast.AST | None = node
    while current is not None and not isinstance(current, ast.stmt):
        for generator in getattr(current, "generators", []):
            found.update(part.id for part in ast.walk(generator.target) if isinstance(part, ast.Name))
        current = ip.parents.get(current)
    return frozenset(found)


def _left_by_loops(ip: Interpreter, scope: ast.AST, statement: ast.stmt) -> frozenset[str]:
    """Names that still hold the last item of a loop that has ended, where others that it had may be meant too."""
    if scope not in ip.bindings:
        ip.bindings[scope] = _bindings(scope)
    last = statement.end_lineno or statement.lineno
    found = {name.id: loop for name, loop in ip.bindings[scope] if name.lineno <= last}
    return frozenset(name for name, loop in found.items() if loop is not None and (loop.end_lineno or 0) < last)


def _bindings(scope: ast.AST) -> list[tuple[ast.Name, ast.For | None]]:
    """The names that are assigned in a scope, in source order, with the loop that each is the target of."""
    nodes = [n for n in ast.walk(scope) if isinstance(n, (ast.Name, ast.For))]
    stores = [n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    targets = {part: loop for loop in nodes if isinstance(loop, ast.For) for part in ast.walk(loop.target)}
    return [(name, targets.get(name)) for name in sorted(stores, key=lambda n: (n.lineno, n.col_offset))]


def _is_chosen(node: ast.expr) -> bool:
    """Whether an expression takes one of several models by a variable: `nets[name]`."""
    return isinstance(node, ast.Subscript) and not isinstance(node.slice, (ast.Constant, ast.UnaryOp))


def name_of(ip: Interpreter, cell: int, frame: Frame, hidden: frozenset[str] = frozenset()) -> str | None:
    """How a function can name a model: a variable, an attribute of `self`, `self`, a part of a variable."""
    current: Frame | None = frame
    while current is not None:
        found = _named_in(ip, cell, current, hidden)
        if found is not None:
            return found
        current = current.outer
    for name, value in frame.root.env.items():
        if name not in hidden and cell in value.objs and value.items is None and not value.part:
            return name
    current = frame
    while current is not None:
        for name, value in current.env.items():
            if name in hidden:
                continue
            for held, text, _ in paths(ip, value, name):
                if held == cell:
                    return text
        current = current.outer
    return None


def _named_in(ip: Interpreter, cell: int, frame: Frame, hidden: frozenset[str]) -> str | None:
    """The variable of one function that holds a model, or the attribute of its `self`."""
    for name, value in frame.env.items():
        is_model = value.has(Role.MODEL) or Role.MODEL in ip.heap[cell].roles
        if name in hidden or cell not in value.objs or not is_model or value.items is not None or value.part:
            continue
        if frame.self_cell != cell or name == self_name(frame):
            return name
    own = frame.self_cell
    if own is not None:
        for name, value in ip.heap[own].attrs.items():
            if cell in value.objs and value.items is None and not value.part:
                return f"{self_name(frame)}.{name}"
    return None


def self_name(frame: Frame) -> str:
    """Name of a method's first parameter."""
    args = getattr(frame.node, "args", None)
    return str(args.args[0].arg) if args is not None and args.args else "self"


def _receiver(
    ip: Interpreter, cell: int, node: ast.Call, hidden: frozenset[str], *, plain: bool = False
) -> ast.expr | None:
    """What `.parameters()` is called on in the optimizer's own arguments: `nets["a"].parameters()`."""
    from .attributes import root

    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and part.attr in ("parameters", "named_parameters"):
            value = ip.current.get(part.value, EMPTY)
            if any(isinstance(name, ast.Name) and name.id in hidden for name in ast.walk(part.value)):
                continue
            if plain and any(isinstance(inner, ast.Call) for inner in ast.walk(part.value)):
                continue
            if cell in {root(ip, held) for held in value.objs}:
                return part.value
    return None
