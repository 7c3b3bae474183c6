"""Open models for changes that the script makes to their parameters by hand.

    +with runtime.whole(critic):
    +    for p in critic.parameters():
    +        p.data.clamp_(-0.01, 0.01)

Weight clipping, averaged weights that are swapped in and out, `vector_to_parameters`, a layer set by hand, and norms of
gradients that are printed. Where a backend cuts parameters into parts these are whole in the block, and what changed
goes back to the parts; else a change would be lost at the next step, or a norm be that of a part
(pytorch/pytorch#72548). Under an explicit `--backend ddp` there is nothing to open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import Enclose, Span
from ..findings import finding
from . import Outcome, rule
from ._source import contains, setting
from ._whole import is_possible

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options


@rule("whole", order=38)
def whole(facts: Facts, options: Options) -> Iterator[Outcome]:
    """`with runtime.whole(…):` around statements."""
    backend = setting(facts, options, "backend")
    if backend == "ddp":
        return
    updates = [update.statement for update in facts.updates]  # they have a finding where they are no matter of ddp
    for item in (item for item in facts.opened if not contains(item.statement, updates)):
        if is_possible(facts, item):
            params = {"runtime": facts.runtime_name, "models": sorted(item.models), "grads": item.grads}
            span = Span.of(item.statement)
            yield Enclose(span, span, "whole", params, kind="parameters")
        elif backend is not None and not item.grads:  # gradients have a finding of their own
            yield finding("DST308", item.statement)
