"""Parameters that a script updates itself, without an optimizer: exact on ddp, where a gradient is whole everywhere.

     for p in model.parameters():
         p.data.add_(p.grad, alpha=-lr)

The model is prepared, and the update stays as it is. Loss scaling, accumulation windows and sharded parameters need a
step that the runtime makes (pytorch/examples/word_language_model trains so).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..findings import finding
from . import Outcome, rule
from ._source import SHARDED, setting

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options


@rule("by_hand")
def by_hand(facts: Facts, options: Options) -> Iterator[Outcome]:
    """Refuse what needs an optimizer's step."""
    backend, precision = setting(facts, options, "backend"), setting(facts, options, "precision")
    size = setting(facts, options, "accumulate")
    reasons = [
        f"--backend {backend}" if backend in SHARDED else "",
        "--precision fp16" if precision == "fp16" else "",
        f"--accumulate {size}" if size not in (None, 1) else "",
    ]
    reason = next(filter(None, reasons), None)
    if reason is not None:
        message = f"parameters are updated by hand from their gradients, which {reason} can't follow"
        yield from (finding("DST216", item.statement, message) for item in facts.updates if item.models)
