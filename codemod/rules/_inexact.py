"""What a window can't give: losses that are no sum of means, and results that outlive the end of the window."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..edits import Ref, Span, Wrap
from ..findings import Finding, finding
from ._source import contains, function_of, position

if TYPE_CHECKING:
    from ..facts.model import Facts, Step
    from . import Outcome


def inexact(facts: Facts, step: Step) -> Iterator[Outcome]:
    """Quotients of sums are told to the window; what else is no sum of means and sums is reported.

    Micro-batches add up to a larger batch in those only: the root of a mean of means is another number
    (huggingface/transformers#34191).
    """
    done: set[tuple[str, int]] = set()
    for bend in step.bends:
        if bend.ratio:
            divisor = {} if bend.divisor is None else {"by": Ref.to(bend.divisor)}
            params = {"runtime": facts.runtime_name, "name": "averaged", "options": divisor}
            yield Wrap(Span.of(bend.node), "wrap", params, kind="accumulate")
        else:
            found = finding("DST215" if bend.sums else "DST212", bend.node)
            if (found.code, id(facts.statement(bend.node))) not in done:
                yield found
            done.add((found.code, id(facts.statement(bend.node))))


def outliving(facts: Facts, moved: Iterable[ast.stmt]) -> Iterator[Finding]:
    """An error for each name that only the window's end binds and that is read where every micro-batch goes."""
    statements = list(moved)
    for statement in statements:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        for name in {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}:
            scope = function_of(facts, statement)
            reads = [
                part
                for part in ast.walk(scope)
                if isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Load)
            ]
            if any(position(r) > position(statement) and not any(contains(s, [r]) for s in statements) for r in reads):
                yield finding("DST213", statement)
                break
