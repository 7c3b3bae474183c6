"""Reduce over the processes, there and then, where the batch dimension disappears.

    -loss = F.cross_entropy(model(image), label)
    +loss = runtime.mean(F.cross_entropy(model(image), label))
    -correct += (logits.argmax(1) == label).sum().item()
    +correct += runtime.sum((logits.argmax(1) == label).sum()).item()

Everything downstream is then the same on every process: prints, early stopping, sums of losses, `sqrt(mse)`, NaN checks
(huggingface/transformers#34242, huggingface/accelerate#540, Lightning-AI/pytorch-lightning#379, pytorch/pytorch#77562).
A mean is weighted by what the local mean divided by: rows, or `by=`. Losses that a forward returned are reduced where
they arrive; per-sample values that leave the iteration are gathered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..dataclass import replace
from ..edits import InsertAfter, Span, Wrap
from . import Outcome, rule

if TYPE_CHECKING:
    import ast

    from ..facts.model import Facts
    from ..options import Options


@rule("reduction", order=40)
def reduction(facts: Facts, options: Options) -> Iterator[Outcome]:
    """`runtime.mean`, `sum`, `max`, `min`, `gather` and `full` around expressions, or after their arrival."""
    for item in facts.reductions:
        if not item.converted:
            yield wrapped(facts, item.node, item.kind, "reduction", by=item.by, of=item.of)
    for count in facts.counts:
        yield wrapped(facts, count.node, "sum", "count", of=count.of)
    for gathered in facts.gathers:
        given = {"dim": str(gathered.dim or ""), "of": gathered.of}
        template = "gather_parts" if gathered.parts else "gather_rows" if gathered.rows else "wrap"
        yield replace(wrapped(facts, gathered.node, "gather", "gathered", template, **given), code=gathered.why)
    for full in facts.fulls:
        yield wrapped(facts, full.node, "full", "parameters")
    for arrival in facts.arrivals:
        params = {
            "runtime": facts.runtime_name,
            "name": arrival.kind,
            "target": arrival.target,
            "options": extras(by=arrival.by, of=arrival.of),
        }
        yield InsertAfter(Span.of(arrival.statement), "arrival", params, kind="reduction")


def wrapped(facts: Facts, node: ast.expr, name: str, kind: str, template: str = "wrap", **options: str | None) -> Wrap:
    """An expression inside a call of the runtime."""
    params = {"runtime": facts.runtime_name, "name": name, "options": extras(**options)}
    return Wrap(Span.of(node), template, params, kind=kind)


def extras(**options: str | None) -> dict[str, str]:
    """The keyword arguments that are needed."""
    return {name: value for name, value in options.items() if value}
