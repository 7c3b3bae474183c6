"""Parameters that the program updates by hand from their gradients (`p.data.add_(p.grad, alpha=-lr)`)."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..findings import Finding, finding
from . import owners
from .model import Facts, HandUpdate
from .places import passed, statement_of
from .values import EMPTY, Value

if TYPE_CHECKING:
    from .interpreter import Interpreter


def own(ip: Interpreter) -> None:
    """Models whose parameters are updated by hand are trained like those of an optimizer.

    An update stores into a parameter, or its data, what was computed from a parameter's `.grad`, through local
    variables too (`velocity = 0.9 * velocity + p.grad; p.data -= lr * velocity`).
    """
    from .attributes import root_all

    functions: dict[ast.AST, list[ast.Attribute]] = {}
    for read in (item for item in ip.made.grads if isinstance(item.ctx, ast.Load)):
        functions.setdefault(ip.names.scope(read), []).append(read)
    for function, reads in functions.items():
        parameters: dict[str, frozenset[int]] = {}
        for read in reads:
            text = ast.unparse(read.value)
            parameters[text] = parameters.get(text, frozenset()) | ip.sites.values.get(read.value, EMPTY).params
        for statement, text in _updates(_statements(function), set(reads), set(parameters)):
            cells = root_all(ip, parameters[text])
            ip.made.by_hand[statement] = ip.made.by_hand.get(statement, frozenset()) | cells
            ip.sites.own(cells)


def updates(ip: Interpreter, statements: list[ast.stmt]) -> list[HandUpdate]:
    """The updates that statements make, with the models that they train."""
    places = ((statement, _places(ip, ip.made.by_hand[statement])) for statement in statements)
    return [HandUpdate(statement, tuple(dict.fromkeys(place for _, place in found))) for statement, found in places]


def report(ip: Interpreter, statements: list[ast.stmt]) -> list[Finding]:
    """A finding for each update of parameters whose model can't be named: nothing can be prepared."""
    message = "A parameter is updated by hand from its gradient, and it belongs to no model that can be named."
    hint = "assign the model to a variable; a tensor of its own goes into a module: nn.ParameterList([w])"
    return [
        finding("DST202", statement, message, hint)
        for statement, cells in ((statement, ip.made.by_hand[statement]) for statement in statements)
        if not cells or len(dict(_places(ip, cells))) < len(cells)
    ]


def from_inner_gradients(facts: Facts) -> list[Finding]:
    """Parameters that follow what `torch.autograd.grad` returns, where no optimizer and no `.grad` tells the model."""
    calls = facts.calls.get("torch.autograd.grad", [])
    trains = any(_of_parameters(facts.value(value)) for call in calls for value in _inputs(call))
    for statement in _statements(facts.tree) if trains else ():
        if isinstance(statement, ast.Assign) and not isinstance(statement.targets[0], ast.Attribute):
            continue  # another value under a name
        stored, computed = _stores(statement)
        changed = [target for target in stored if facts.value(target).params]
        if any(_other(facts, target, item) for target in changed for item in computed):
            message = (
                "parameters follow gradients of torch.autograd.grad, and no optimizer tells which model is trained"
            )
            hint = "write loss.backward() and use p.grad, or build torch.optim.SGD (the same update)"
            return [finding("DST216", statement, message, hint)]
    return []


def _of_parameters(value: Value) -> bool:
    return bool(value.params) and not value.is_sample


def _inputs(call: ast.Call) -> list[ast.expr]:
    return [*call.args[1:2], *(item.value for item in call.keywords if item.arg == "inputs")]


def _other(facts: Facts, target: ast.expr, given: ast.expr) -> bool:
    """Whether something else of a parameter, as its gradient is, takes part."""
    own = ast.unparse(target)
    names = (item for item in ast.walk(given) if isinstance(item, (ast.Name, ast.Subscript)))
    return any(facts.value(item).params and ast.unparse(item) != own for item in names)


def _places(ip: Interpreter, cells: frozenset[int]) -> list[tuple[int, tuple[ast.stmt, str]]]:
    """For each model the statements that give it its first name, in every branch, with that name."""
    found = []
    for cell in sorted(cells):
        statement: ast.stmt | None = statement_of(ip.parents, ip.heap[cell].node)
        text = None if statement is None else owners.target_of(ip, statement, frozenset({cell}))
        if text is None:
            statement, text = _first_named(ip, cell)
        if statement is not None and text is not None:
            found.append((cell, (statement, text)))
    return found


def _first_named(ip: Interpreter, cell: int) -> tuple[ast.stmt | None, str | None]:
    """The first assignment of the script that holds a model made elsewhere: `model = build(args)`."""
    for module in ip.program.modules:
        for statement in _statements(module.tree):
            if isinstance(statement, (ast.Assign, ast.AnnAssign)):
                text = owners.target_of(ip, statement, frozenset({cell}))
                if text is not None:
                    return statement, text
    return None, None


def _statements(function: ast.AST) -> list[ast.stmt]:
    return [node for node in ast.walk(function) if isinstance(node, ast.stmt)]


def _updates(statements: list[ast.stmt], reads: set[ast.Attribute], parameters: set[str]) -> list[tuple[ast.stmt, str]]:
    """Statements that store what comes from a gradient into a parameter, with the text of that."""
    carriers: set[str] = set()
    found: dict[ast.stmt, str] = {}
    while True:
        before = len(carriers)
        for statement in statements:
            stored, computed = _stores(statement)
            if any(_carries(node, reads, carriers) for node in computed):
                texts = {ast.unparse(target) for target in stored}
                found.update((statement, text) for text in texts & parameters)
                carriers.update(text for text in texts - parameters if text.isidentifier())
        if len(carriers) == before:
            return list(found.items())


def _carries(node: ast.AST, reads: set[ast.Attribute], carriers: set[str]) -> bool:
    """Whether an expression reads a gradient, or a variable that was computed from one."""
    return any(part in reads or (isinstance(part, ast.Name) and part.id in carriers) for part in ast.walk(node))


def _stores(statement: ast.stmt) -> tuple[list[ast.expr], list[ast.expr]]:
    """What a statement stores into, and the expressions that it computes from: assignments and in-place methods."""
    if isinstance(statement, ast.AugAssign):
        return [_held(statement.target)], [statement.value]
    if isinstance(statement, ast.Assign):
        return [_held(target) for target in statement.targets], [statement.value]
    stored: list[ast.expr] = []
    computed: list[ast.expr] = []
    call = statement.value if isinstance(statement, ast.Expr) else None
    while isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        if call.func.attr.endswith("_"):
            stored = [_held(call.func.value)]
        computed += passed(call)
        call = call.func.value
    return stored, computed


def _held(target: ast.expr) -> ast.expr:
    """The parameter that `p.data` or `p.data[0]` is part of."""
    while isinstance(target, ast.Subscript) or (isinstance(target, ast.Attribute) and target.attr == "data"):
        target = target.value
    return target
