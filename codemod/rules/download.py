"""Download once: the main process first, the others find it done.

    -train_set = datasets.MNIST("data", train=True, download=True)
    +with runtime.main_first():
    +    train_set = datasets.MNIST("data", train=True, download=True)

All processes at once would corrupt the files of each other (pytorch/tutorials#3065, vllm-project/llm-compressor#3030).
Neighbouring statements share a block. A condition on the file system goes into the block with what it decides, so that
all processes enter it, one after the other; also where the script makes a missing file by itself, or removes one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import Enclose, Span
from ..findings import finding
from . import Outcome, rule
from ._downloads import fetches
from ._fetched import of_program as fetched_of
from ._order import before_start, shared_condition
from ._settle import Training
from ._source import index_in, position
from ._turns import is_settled, taken_in_turn

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options


@rule("download", order=20)
def download(facts: Facts, options: Options) -> Iterator[Outcome]:
    """`with runtime.main_first():` around statements that download."""
    training = facts.worked_out(Training)
    found: dict[int, ast.stmt] = {}
    fetched = fetched_of(facts)
    for name, group in facts.calls.items():
        for call in group:
            if (
                fetched.holds(call)
                or not fetches(facts, call, name)
                or facts.value(call.func).defs
                or is_settled(facts, call)
            ):
                continue
            statement = shared_condition(facts, call) or facts.statement(call)
            if is_simple(statement) and not training.runs(statement) and not before_start(facts, statement):
                found[id(statement)] = statement
            else:
                yield finding("DST131", call)
    found.update((id(condition), condition) for condition in taken_in_turn(facts, fetched))
    for first, last in neighbours(facts, sorted(found.values(), key=position)):
        params = {"runtime": facts.runtime_name}
        yield Enclose(Span.of(first), Span.of(last), "main_first", params, kind="download", code="DST112")


def is_simple(statement: ast.stmt) -> bool:
    """Whether a statement can be guarded as a whole."""
    return isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return, ast.If))


def neighbours(facts: Facts, statements: list[ast.stmt]) -> Iterator[tuple[ast.stmt, ast.stmt]]:
    """First and last statement of each run of statements that stand one after the other."""
    first = last = None
    for statement in statements:
        block = facts.block(statement)
        if last is not None and facts.block(last) is block and index_in(block, statement) == index_in(block, last) + 1:
            last = statement
            continue
        if first is not None and last is not None:
            yield first, last
        first = last = statement
    if first is not None and last is not None:
        yield first, last
