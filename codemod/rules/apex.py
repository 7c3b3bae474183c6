"""Refuse the mixed precision of apex, which torch's own has replaced.

It patches functions of torch, casts models and changes the step of optimizers in place: what a
script trains can't be told from its source any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..findings import finding
from . import Outcome, rule
from ._source import calls

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

APEX = ("apex.amp.initialize", "apex.amp.init", "apex.fp16_utils.FP16_Optimizer")


@rule("apex", order=2, gate=True)
def apex(facts: Facts, options: Options) -> Iterator[Outcome]:
    """Where apex takes a model or an optimizer over."""
    for call in calls(facts, *APEX):
        yield finding("DST404", call)
