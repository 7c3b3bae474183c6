"""Leave scripts alone that run on several processes already, or whose training loop is a library's.

A process group, a `DistributedSampler`, a wrapper or a trainer of another library shards data and reduces gradients by
itself; a second time would drop samples and scale gradients (Lightning-AI/pytorch-lightning#19891). Refused, whatever
else is in the file, and in files that train nothing by themselves too: the loop of `Trainer(…)` is not theirs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.places import last_name
from ..findings import finding
from . import Outcome, rule
from ._libraries import TPU_HINT, TPUS, Library, library_of, trainer_of
from ._source import position

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

CALLS = (
    "torch.distributed.init_process_group",
    "torch.distributed.device_mesh.init_device_mesh",
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
    "torch.utils.data.DistributedSampler",
    "torch.utils.data.distributed.DistributedSampler",
    "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_shard",
    "torch.distributed.pipelining.pipeline",
    "torch.distributed.pipelining.PipelineStage",
    "torch.distributed.pipeline.sync.Pipe",
    "torch.distributed.tensor.parallel.parallelize_module",
    "torch.distributed.rpc.init_rpc",
)
PROCESSES = ("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes", "torch.multiprocessing.Process")


@rule("distributed", order=0, gate=True)
def distributed(facts: Facts, options: Options) -> Iterator[Outcome]:
    """One error for a script that is distributed already, or that leaves the training to a library."""
    found = sorted(((call, name) for name in CALLS for call in facts.calls.get(name, ())), key=lambda i: position(i[0]))
    if found:
        call, name = found[0]
        yield finding("DST107", call, f"The script is distributed already: it calls {name}.")
        return
    for look in (libraries, tpus, processes):
        outcome = next(look(facts), None)
        if outcome is not None:
            yield outcome
            return


def libraries(facts: Facts) -> Iterator[Outcome]:
    """A library that distributes: its trainer is built here, or a loop of the script's own runs under it."""
    for node, library in trainers(facts):
        message = f"The training loop is inside {library.title}: there is none here to convert."
        yield finding("DST144", node, message, library.hint)
    if not (facts.is_training or runs_backward(facts)):
        return
    for statement, name in imports(facts):
        found = library_of(name)
        if found is not None and found.shards:
            message = f"The script is distributed already: it uses {found.title}."
            yield finding("DST107", statement, message, found.hint)


def trainers(facts: Facts) -> Iterator[tuple[ast.AST, Library]]:
    """Where trainers of libraries are built, or run where a star import hides what built them."""
    derived = facts.worked_out(subclasses)
    for node in facts.nodes:
        if not isinstance(node, ast.Call):
            continue
        library = trainer_of(facts.names.qualified(node.func) or "") or derived.get(last_name(node.func))
        if library is not None:
            yield node, library
    stars = [library_of(node.module or "") for node in facts.names.stars(facts.tree) if node.level == 0]
    for library in filter(None, stars):
        for node in facts.nodes:
            if isinstance(node, ast.Attribute) and node.attr in library.methods:
                yield node, library


def subclasses(facts: Facts) -> dict[str, Library]:
    """The classes of the program that derive from a library's trainer."""
    found: dict[str, Library] = {}
    classes = [(file, node) for file in facts.program for node in file.nodes if isinstance(node, ast.ClassDef)]
    for _ in range(3):  # as deep as such classes are derived from each other
        for file, node in classes:
            for base in node.bases:
                library = trainer_of(file.names.qualified(base) or "") or found.get(last_name(base))
                if library is not None:
                    found[node.name] = library
    return found


def tpus(facts: Facts) -> Iterator[Outcome]:
    """Code for TPUs, which has steps and loaders of its own."""
    called = [call for name, found in facts.calls.items() if name.split(".")[0] in TPUS for call in found]
    yield from (finding("DST146", call, hint=TPU_HINT) for call in sorted(called, key=position))


def processes(facts: Facts) -> Iterator[Outcome]:
    """Processes that the script starts: Hogwild, or another way of its own to train on several."""
    nodes = [node for node in facts.nodes if isinstance(node, ast.Call)]
    shared = any(last_name(node.func) == "share_memory" for node in nodes)
    for node in sorted(nodes, key=position):
        started = last_name(node.func) == "Process" and any(item.arg == "target" for item in node.keywords)
        if facts.names.qualified(node.func) in PROCESSES or (shared and started):
            message = "" if not shared else "The script starts processes that share the model's memory (Hogwild)."
            yield finding("DST145", node, message)


def imports(facts: Facts) -> Iterator[tuple[ast.stmt, str]]:
    """The import statements of a file with the modules that they name."""
    for node in facts.nodes:
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node, node.module


def runs_backward(facts: Facts) -> bool:
    """Whether something in a file runs backward, if only by a method of an object that nothing is known of."""
    return any(isinstance(node, ast.Attribute) and node.attr == "backward" for node in facts.nodes)
