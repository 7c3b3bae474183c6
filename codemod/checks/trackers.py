"""A tracker that every process starts: as many runs as processes (huggingface/pytorch-image-models#1309).

wandb.init(project="digits")        # if dist.get_rank() == 0:
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.places import passed
from ..facts.ranks import Mark
from ..findings import Finding, finding
from ..rules._source import position
from . import Kind, check
from ._guards import of_program as guards_of

if TYPE_CHECKING:
    from ..facts.model import Facts

STARTS = ("wandb.init", "mlflow.start_run", "neptune.init_run", "comet_ml.Experiment", "comet_ml.start", "trackio.init",
          "aim.Run", "clearml.Task.init", "swanlab.init")  # fmt: skip


@check("trackers", Kind.BY_HAND)
def trackers(facts: Facts) -> Iterator[Finding]:
    """Calls that start a run, on all processes."""
    for call in sorted((node for node in facts.nodes if isinstance(node, ast.Call)), key=position):
        name = facts.names.qualified(call.func) or ""
        if name not in STARTS and not name.endswith(".SummaryWriter"):
            continue
        own = any(Mark.RANK in facts.value(item).ranks for item in passed(call))
        if not own and not guards_of(facts).guarded(facts, call, perhaps=True):
            yield finding("DST851", call)
