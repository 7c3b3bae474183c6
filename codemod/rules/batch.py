"""Batches made by hand: sliced where they meet a model, and random numbers per sample drawn at the whole batch's size.

    -x, y = get_batch("train")
    +x, y = runtime.split(get_batch("train"))
    -noise = torch.randn(images.size(0), 100, device=device)
    +noise = runtime.draw(torch.randn, images.size(0), 100, device=device)
    -out = model(x.view(args.batch_size, -1))
    +out = model(x.view(x.size(0), -1))

The replicated stream gives every process the very numbers of the original, each keeps its rows
(huggingface/transformers#37932, open-mmlab/mmdetection#1083).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import Argument, Callee, Replace, Span, Wrap
from . import Outcome, rule

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options


@rule("batch")
def batch(facts: Facts, options: Options) -> Iterator[Outcome]:
    """`runtime.split(…)`, `runtime.draw(…)` and `runtime.replicated(…)`."""
    runtime = facts.runtime_name
    for split in facts.splits:
        extra = {"dim": str(split.dim)} if split.dim else {}
        params: dict[str, object] = {"runtime": runtime, "name": "split", "options": extra}
        if isinstance(getattr(split.node, "ctx", None), ast.Store):
            continue  # a loop goes over it: the rule "iteration"
        yield Wrap(Span.of(split.node), "wrap", params, kind="batch", code="DST103")
    for size in facts.sizes:
        yield Replace(Span.of(size.node), "text", {"text": size.text}, kind="batch")
    for draw in facts.draws:
        span = Span.of(draw.call)
        call = {"runtime": runtime, "name": "draw"}
        yield Callee(span, "call", call, ("{{ callee }}",), kind="random numbers", code="DST104")
        if draw.of is not None:
            yield Argument(span, "of", draw.of, kind="random numbers", code="DST104")
    for drawn in facts.alike:
        call = {"runtime": runtime, "name": "replicated"}
        yield Callee(Span.of(drawn), "call", call, ("{{ callee }}",), kind="random numbers", code="DST125")
