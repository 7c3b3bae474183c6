"""`functools.partial`: a callable that keeps arguments until it is called."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING

from .replacing import replace
from .values import EMPTY, FunctionRef, Value, union

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Frame, Interpreter

_KIND = "partial"


def make(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """Value of `partial(function, …)`: a function of the program with arguments given ahead, or an object."""
    function = arguments.get(0, "func")
    if function.defs:
        return replace(function, defs=frozenset(_ahead(ref, arguments) for ref in function.defs))
    call = frame.call if frame.node is not None else None
    cell = ip.heap.allocate(node, _KIND, context=(frame.self_cell, call), loops=frame.loops)
    ip.heap.store(cell, "func", function)
    ip.made.partials[cell] = arguments
    return Value(objs=frozenset({cell}), params=union(v.params for _, v in arguments.all))


def _ahead(ref: FunctionRef, arguments: Arguments) -> FunctionRef:
    """A function with the arguments that it gets before those of its calls."""
    by_position = [(ref.shift + i, value) for i, (_, value) in enumerate(arguments.positional[1:])]
    by_name = [(name, value) for name, (_, value) in arguments.keywords.items()]
    return replace(ref, given=(*ref.given, *by_position, *by_name))


def is_partial(ip: Interpreter, cell: int) -> bool:
    """Whether an object was made by `partial`."""
    return ip.heap[cell].kind == _KIND and cell in ip.made.partials


def completed(ip: Interpreter, cell: int, arguments: Arguments, node: ast.Call) -> tuple[Value, Arguments]:
    """The function that a partial object calls, and all arguments that it then gets: the kept ones first."""
    kept = ip.made.partials[cell]
    result = copy.copy(arguments)
    result.positional = [*kept.positional[1:], *arguments.positional]
    result.keywords = {**kept.keywords, **arguments.keywords}
    result.unpacked = [*kept.unpacked, *arguments.unpacked]
    result.receiver = EMPTY
    ip.made.written[node] = _written(ip, kept.node, node)
    return ip.heap[cell].attrs.get("func", EMPTY), result


def _written(ip: Interpreter, kept: ast.Call, call: ast.Call) -> ast.Call | None:
    """The call as it would be written without the partial, `None` if what that keeps has no name at the call."""
    options = [*kept.args[1:], *[item.value for item in kept.keywords]]
    near = (ip.names.scope(call), ip.names.module(call).tree)
    if not all(isinstance(item, ast.Constant) or ip.names.scope(item) in near for item in options):
        return None
    given = {item.arg for item in call.keywords}
    keywords = [*[item for item in kept.keywords if item.arg not in given], *call.keywords]
    return ast.copy_location(ast.Call(call.func, [*kept.args[1:], *call.args], keywords), call)


def as_written(ip: Interpreter, call: ast.Call) -> ast.Call | None:
    """A call with the arguments that its callee keeps for it, `None` if they can't be written there."""
    return ip.made.written.get(call, call)
