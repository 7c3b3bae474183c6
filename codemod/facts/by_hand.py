"""Parameters that the program updates by hand from their gradients (`p.data.add_(p.grad, alpha=-lr)`)."""

from __future__ import annotations

import ast

from ..findings import Finding, finding
from .made import Made
from .model import Facts


def report(facts: Facts, made: Made) -> list[Finding]:
    """A finding for each statement that updates a parameter by hand: no optimizer tells whose gradients to reduce."""
    found: dict[ast.stmt, Finding] = {}
    for read in made.grad_reads:
        if not facts.holds(read):
            continue
        statement = facts.statement(read)
        parameter = ast.unparse(read.value) if isinstance(read, ast.Attribute) else ""
        if _updates(statement, parameter):
            message = "A parameter is updated by hand from its gradient; without an optimizer nothing is prepared."
            hint = "use torch.optim.SGD (the same update), which can be handed to runtime.prepare(…)"
            found[statement] = finding("DST202", statement, message, hint)
    return list(found.values())


def _updates(statement: ast.stmt, parameter: str) -> bool:
    """Whether a statement stores into a parameter or its data."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.AugAssign):
        targets = [statement.target]
    elif isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        function = statement.value.func
        if isinstance(function, ast.Attribute) and function.attr.endswith("_"):
            targets = [function.value]
    return any(ast.unparse(target) in (parameter, f"{parameter}.data") for target in targets)
