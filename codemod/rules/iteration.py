"""Parts of data that a loop goes over are cut to each process's rows where its body begins.

     for x, y in zip(inputs.split(32), labels.split(32)):
    +    x, y = runtime.split((x, y))

What the loop goes over stays whole: the original's batches, in its order and number.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import InsertBefore, Span
from . import Outcome, rule

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options


@rule("iteration", order=25)
def iteration(facts: Facts, options: Options) -> Iterator[Outcome]:
    """`x, y = runtime.split((x, y))` at the top of a loop."""
    for split in facts.splits:
        if isinstance(getattr(split.node, "ctx", None), ast.Store):
            loop = facts.enclosing(split.node, ast.For, ast.AsyncFor)
            assert isinstance(loop, (ast.For, ast.AsyncFor))
            params = {
                "runtime": facts.runtime_name,
                "name": "split",
                "target": _target(facts, split.node),
                "several": isinstance(split.node, (ast.Tuple, ast.List)),
                "options": {"dim": str(split.dim)} if split.dim else {},
            }
            yield InsertBefore(Span.of(loop.body[0]), "of_iteration", params, kind="batch", code="DST103")


def _target(facts: Facts, target: ast.expr) -> str:
    """The names that a loop assigns, without parentheses of their own."""
    text = facts.text(target)
    return text[1:-1].strip() if isinstance(target, (ast.Tuple, ast.List)) and text[0] in "([" else text
