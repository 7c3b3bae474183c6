"""Weights that a program sends itself, without a wrapper; no check by itself."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..facts.collectives import SPACE
from ..facts.places import passed
from ._collectives import of_program as collectives_of

if TYPE_CHECKING:
    from ..facts.model import Facts


def sends_weights(facts: Facts, call: ast.Call) -> bool:
    """Whether a collective is given parameters."""
    if not collectives_of(facts).is_direct(call) or not (facts.names.qualified(call.func) or "").startswith(SPACE):
        return False
    values = [facts.value(part) for item in passed(call) for part in ast.walk(item) if isinstance(part, ast.expr)]
    return any(value.is_param or value.params for value in values)


def weights_sent(facts: Facts) -> bool:
    """Whether a collective of the program is given parameters."""
    return any(
        isinstance(node, ast.Call) and sends_weights(file, node) for file in facts.program for node in file.nodes
    )
