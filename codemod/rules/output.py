"""Let the main process alone make the calls that write.

    -plt.savefig("loss.png")
    +runtime.on_main(plt.savefig, "loss.png")

All processes compute what is written (a reduction among the arguments needs all of them: pytorch/pytorch#143536), the
main one writes it; a failure there is raised everywhere (NVIDIA/cosmos-framework#65). Under a condition on the file
system, where a faster process may have decided otherwise, nothing waits for the others: all take the whole condition
in turn (see `download`), or the call is under `if runtime.is_main():`. Standard output and trackers (TensorBoard,
wandb, MLflow, tqdm) need no edit: the runtime switches them (huggingface/pytorch-image-models#1309).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import Callee, Enclose, Span
from ..findings import finding
from . import Outcome, rule
from ._fetched import of_program as fetched_of
from ._order import before_start, depends_on_files, on_main_only, shared_condition
from ._writers import writers

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options


@rule("output")
def output(facts: Facts, options: Options) -> Iterator[Outcome]:
    """Calls that write files or start programs: by the main process only."""
    fetched = fetched_of(facts)
    for call in writers(facts):
        if not fetched.holds(call) and shared_condition(facts, call) is None:
            yield from written(facts, call)


def written(facts: Facts, call: ast.Call) -> Iterator[Outcome]:
    """A call that writes: by the main process, if its result isn't used."""
    statement = facts.parents[call]
    if on_main_only(facts, call):
        return
    if not isinstance(statement, ast.Expr) or before_start(facts, call):
        yield finding("DST802", call)
    elif depends_on_files(facts, call):
        params = {"runtime": facts.runtime_name}
        span = Span.of(statement)
        yield Enclose(span, span, "is_main", params, kind="output", code="DST801")
    else:
        params = {"runtime": facts.runtime_name, "name": "on_main"}
        yield Callee(Span.of(call), "call", params, ("{{ callee }}",), kind="output", code="DST801")
