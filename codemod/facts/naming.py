"""Which tensor names the batch of a value (`of=`), where several batches are alive."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from . import ahead
from .local import deep_sources
from .places import FUNCTIONS
from .values import Value

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter


def of_text(ip: Interpreter, node: ast.AST, value: Value, frame: Frame) -> str | None:
    """Source text of a tensor of the batch that a value belongs to, where it has to be named.

    A tensor that the expression itself reads comes first: in a function called for several batches, it is the right
    one at each call.
    """
    frame = next((found for found in frame.chain() if _home_of(found) is _home(ip, node)), frame)
    sources = deep_sources(value)
    ip.sites.meet(sources)
    here = frame.env if _home(ip, node) is _home_of(frame) else {}
    inside = [part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)]
    # What is not read here may be the batch before, or the next one, where they are fetched ahead.
    near = inside if ahead.is_ahead(ip, value) else [*inside, *here]
    fit = [name for name in near if _is_rows_of(here.get(name), sources)]
    home = _home(ip, node)
    ip.sites.computed |= {(home, name) for name in fit if not here[name].leaf}
    if not needs_name(ip, value, frame):
        return None
    found = min(fit, key=lambda name: ((home, name) in ip.sites.computed, name not in inside), default=None)
    found = found or next((ip.text(part) for part in _parts(node) if _is_rows_of(ip.current.get(part), sources)), None)
    ahead.check(ip, node, value, found)
    return found


def _parts(node: ast.AST) -> Iterator[ast.expr]:
    """Names that an expression reads, then members of what holds them: `batch[1]`, `batch["image"]`, `sample.image`."""
    yield from (part for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load))
    called = {part.func for part in ast.walk(node) if isinstance(part, ast.Call)}
    for part in ast.walk(node):
        if part in called:
            continue  # a method
        held = part
        while isinstance(held, (ast.Attribute, ast.Subscript)):
            if isinstance(held, ast.Subscript) and not isinstance(held.slice, ast.Constant):
                break
            held = held.value
        if isinstance(part, (ast.Attribute, ast.Subscript)) and isinstance(held, ast.Name):
            yield part


def rows_text(value: Value, frame: Frame) -> str | None:
    """Source text of the number of a value's rows, by a name of the running function that has as many."""
    names = [name for name, held in frame.env.items() if _is_rows_of(held, deep_sources(value))]
    return f"{names[0]}.size(0)" if names else None


def _is_rows_of(value: Value | None, sources: frozenset[ast.AST]) -> bool:
    """Whether a value is a tensor with the rows of these sources' batches, samples first."""
    if value is None or not value.is_sample or value.items is not None:
        return False
    if value.batch.dim != 0 or value.opaque or value.built:
        return False
    plain = not value.batch.ragged and not value.batch.reason
    return plain and bool(value.sources) and value.sources <= sources


def _home(ip: Interpreter, node: ast.AST) -> ast.AST | None:
    """The function in which a node stands, `None` for the module."""
    current = ip.parents.get(node)
    while current is not None and not isinstance(current, FUNCTIONS):
        current = ip.parents.get(current)
    return current


def _home_of(frame: Frame) -> ast.AST | None:
    return frame.node if isinstance(frame.node, FUNCTIONS) else None


def argument_of(frame: Frame, name: str) -> ast.expr | None:
    """The expression that the running function was given for a parameter, if it still is that."""
    args = getattr(frame.node, "args", None)
    if frame.call is None or not isinstance(args, ast.arguments):
        return None
    for keyword in frame.call.keywords:
        if keyword.arg == name:
            return keyword.value
    names = [a.arg for a in [*args.posonlyargs, *args.args]]
    if name not in names:
        return None
    position = names.index(name) - (frame.self_cell is not None)
    given = frame.call.args
    plain = 0 <= position < len(given) and not any(isinstance(a, ast.Starred) for a in given)
    return given[position] if plain else None


def after_filling(ip: Interpreter, origin: ast.expr, operand: ast.expr, frame: Frame) -> ast.expr:
    """Where a batch made by hand is split: where it was picked; if its rows are written after that, where it is used.

    What a function was given is split where that is called.
    """
    if origin not in ip.made.filled:
        return origin
    where: Frame | None = frame
    while isinstance(operand, ast.Name) and where is not None:
        given = argument_of(where, operand.id)
        if given is None or _is_assigned(where.node, operand.id):
            break
        operand, where = given, where.caller
    return operand


def _is_assigned(function: ast.AST | None, name: str) -> bool:
    """Whether a function assigns a name."""
    nodes = ast.walk(function) if function is not None else ()
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in nodes)


def needs_name(ip: Interpreter, value: Value, frame: Frame) -> bool:
    """Whether batches of more than one source are alive, or the loop over the source is over."""
    sources = deep_sources(value)
    if not sources:
        return False
    if ahead.is_ahead(ip, value) or any(_is_fetched_ahead(source, frame) for source in sources & set(ip.sites.splits)):
        return True
    if _is_one_of_several(ip, sources, frame):
        return True
    for current in frame.chain():
        for loop, groups in current.alive.items():
            if any(group & sources for group in groups) and (loop is None or loop in frame.loops):
                return len(groups) > 1
    return is_over(value, frame)


def is_over(value: Value, frame: Frame) -> bool:
    """Whether the loop over the batches that a value comes from has ended."""
    sources = deep_sources(value)
    loops = [
        loop
        for current in frame.chain()
        for loop, groups in current.alive.items()
        if any(group & sources for group in groups)
    ]
    return bool(loops) and not any(loop is None or loop in frame.loops for loop in loops)


def _is_fetched_ahead(source: ast.AST, frame: Frame) -> bool:
    """Whether a hand-made batch was fetched before the iteration that uses it (others may have been in between)."""
    if not frame.loops or frame.statement is None:
        return False
    loop = frame.loops[-1]
    inside = any(part is source for part in ast.walk(loop))
    here = getattr(frame.statement, "lineno", 0)
    return not inside or getattr(source, "lineno", 0) > here


def _is_one_of_several(ip: Interpreter, sources: frozenset[ast.AST], frame: Frame) -> bool:
    """Whether the running loop makes batches by hand that never meet those that a value comes from.

    In the first phase it is not known yet which of them meet.
    """
    made = frozenset(ip.sites.splits)
    if ip.assume_feeds or not frame.loops or not sources & made:
        return False
    inside = {part for part in ast.walk(frame.loops[-1]) if part in made}
    return bool(sources & inside) and bool(inside - ip.sites.one_batch(sources))
