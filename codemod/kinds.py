"""What a program is to begin with: plain, converted, or distributed by hand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .facts.model import Facts
    from .program import Program

# A look at the text: what may be distributed already.
HINT = re.compile(
    r"\b(?:distify|accelerate|deepspeed|fabric|lightning_fabric|horovod|fairscale|LOCAL_RANK|fully_shard|Distributed\w+|"
    r"FullyShardedDataParallel)\b|torch\.distributed|from torch import distributed"
)


class Kind(Enum):
    """How far a program is."""

    PLAIN = "runs on one process"
    CONVERTED = "uses the runtime"
    BY_HAND = "distributed by hand, or by another library"


def may_be_distributed(program: Program) -> bool:
    """Whether the text of a program names something by which it may be distributed."""
    return any(HINT.search(module.source) for module in program.modules)


def trains(files: Sequence[Facts]) -> bool:
    """Whether a program trains, if only by what a library runs backward."""
    from .rules.distributed import runs_backward, trainers

    loops = any(facts.is_training or runs_backward(facts) for facts in files)
    return loops and not any(True for facts in files for _ in trainers(facts))


def kind_of(files: Sequence[Facts]) -> Kind:
    """What a program is, by what its files call and import."""
    names = {name for facts in files for name in facts.calls}
    if any(name.startswith("distify.runtime.") for name in names):
        return Kind.CONVERTED
    from .rules._libraries import library_of
    from .rules.distributed import CALLS, PROCESSES, imports

    libraries = [library_of(name) for facts in files for _, name in imports(facts)] if trains(files) else []
    started = names & set(PROCESSES) and any(name.startswith("torch.distributed.") for name in names)
    if names & set(CALLS) or started or any(library is not None and library.shards for library in libraries):
        return Kind.BY_HAND
    return Kind.PLAIN
