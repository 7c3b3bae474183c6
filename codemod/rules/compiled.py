"""Take `fullgraph=True` out where the runtime has to work between two graphs.

    -model = torch.compile(model, fullgraph=True)
    +model = torch.compile(model)

It changes no number: torch raises an error where a graph would end. Under FSDP and ZeRO 3 parameters are gathered
inside of a forward, and a function that calls a model, or a compiled model beside the one that is prepared, has the
runtime's work inside. A model that stays whole and is compiled in its own place keeps the option.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import Argument, Span
from ..facts.values import Role
from ..findings import finding
from . import Outcome, rule
from ._settle import Training
from ._source import argument, calls, has_role, keyword_value, method_calls, setting

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

OPTION = "fullgraph"


@rule("compiled")
def compiled(facts: Facts, options: Options) -> Iterator[Outcome]:
    """The option goes, with a note."""
    cut = is_cut(facts, options)
    training = facts.worked_out(Training)
    for call in calls(facts, "torch.compile"):
        subject = argument(call, 0, "model")
        parent = facts.parents[call]
        if not is_asked(call):
            continue
        if subject is None:
            inside = isinstance(parent, (ast.FunctionDef, ast.ClassDef)) and training.enters(parent)
        elif has_role(facts, subject, Role.MODEL):
            inside = cut or is_beside(facts, subject, parent)
        else:
            inside = any(training.enters(item.node) for item in facts.value(subject).defs)
        if inside:
            yield from without(call)
    for call, callee in method_calls(facts, "compile"):
        if cut and is_asked(call) and has_role(facts, callee.value, Role.MODEL):
            yield from without(call)


def is_cut(facts: Facts, options: Options) -> bool:
    """Whether the parameters of a model are gathered inside of its forward."""
    backend = setting(facts, options, "backend")
    return backend == "fsdp" or (backend == "deepspeed" and setting(facts, options, "zero_stage") == 3)


def is_asked(call: ast.Call) -> bool:
    """Whether a graph must be whole, or may have to be."""
    value = keyword_value(call, OPTION)
    return value is not None and not (isinstance(value, ast.Constant) and not value.value)


def is_beside(facts: Facts, subject: ast.expr, parent: ast.AST) -> bool:
    """Whether what is compiled has another name than the model."""
    if isinstance(parent, ast.Assign):
        return facts.text(subject) not in [facts.text(target) for target in parent.targets]
    return False


def without(call: ast.Call) -> Iterator[Outcome]:
    """The call without the option."""
    yield Argument(Span.of(call), OPTION, None, kind="prepare")
    yield finding("DST309", call)
