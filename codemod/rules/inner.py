"""Leave files alone in which a forward trains: what the rest of it computes of the batch can't be told.

An explainer or an adapter that fits itself while it is called runs the same lines within a forward and around one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.runtimecalls import TRAINED
from . import Outcome, rule

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options


@rule("inner", order=3, gate=True)
def inner(facts: Facts, options: Options) -> Iterator[Outcome]:
    """The finding of the facts, which stands for all of the file."""
    yield from [item for item in facts.findings if item.message == TRAINED][:1]
