"""Report star imports of torch.

Which names `from torch.optim import *` brings depends on the installed torch. Well-known ones are resolved; another,
which trains or loads all the same, would be taken for a function of somewhere else and left unconverted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..findings import finding
from . import Outcome, rule

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options


@rule("stars")
def stars(facts: Facts, options: Options) -> Iterator[Outcome]:
    """A warning for each star import of a torch module."""
    for node in facts.names.stars(facts.tree):
        if node.level == 0 and (node.module or "").split(".")[0] == "torch":
            message = f"'from {node.module} import *': only the best-known names of it are recognised"
            yield finding("DST604", node, message, level="warning")
