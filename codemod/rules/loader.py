"""Shard each loader that feeds a model.

    -loader = DataLoader(dataset, batch_size=64, shuffle=True)
    +loader = runtime.shard(DataLoader(dataset, batch_size=64, shuffle=True))

Each process takes its slice of every batch that the original would have drawn, in the original's order; sampler, batch
sampler, collate function and workers stay the user's (pytorch/pytorch#38174, pytorch/pytorch#31771,
huggingface/accelerate#2865, huggingface/accelerate#679, huggingface/accelerate#2754). A loader none of whose batches
reaches a model (dataset statistics, vocabularies) is left whole: every process needs all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import Span, Wrap
from . import Outcome, rule

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options


@rule("loader")
def loader(facts: Facts, options: Options) -> Iterator[Outcome]:
    """`runtime.shard(…)` around loaders whose batches reach a model."""
    for item in facts.loaders:
        if item.feeds_model and not item.sharded:
            params = {"runtime": facts.runtime_name, "name": "shard", "options": {}}
            yield Wrap(Span.of(item.call), "wrap", params, kind="loader", code="DST101")
