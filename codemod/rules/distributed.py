"""Leave scripts alone that run on several processes already.

A process group, a `DistributedSampler`, a wrapper or a trainer of another library shards data and reduces gradients by
itself; a second time would drop samples and scale gradients (Lightning-AI/pytorch-lightning#19891). Refused, whatever
else is in the file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..findings import finding
from . import Outcome, rule
from ._source import position

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

LIBRARIES = {
    "accelerate": "Accelerate",
    "lightning": "Lightning",
    "pytorch_lightning": "Lightning",
    "lightning_fabric": "Fabric",
    "deepspeed": "DeepSpeed",
    "horovod": "Horovod",
    "colossalai": "Colossal-AI",
    "composer": "Composer",
    "fairscale": "FairScale",
}
CALLS = (
    "torch.distributed.init_process_group",
    "torch.distributed.device_mesh.init_device_mesh",
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
    "torch.utils.data.DistributedSampler",
    "torch.utils.data.distributed.DistributedSampler",
    "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_shard",
    "torch.multiprocessing.spawn",
    "torch.multiprocessing.Process",
    "transformers.Trainer",
    "transformers.Seq2SeqTrainer",
)


@rule("distributed", order=0, gate=True)
def distributed(facts: Facts, options: Options) -> Iterator[Outcome]:
    """One error for a script that is distributed already."""
    found = [(call, name) for name in CALLS for call in facts.calls.get(name, ())]
    for call, name in sorted(found, key=lambda item: position(item[0]))[:1]:
        yield finding("DST107", call, f"the script is distributed already: it calls {name}", level="error")
    if not found:
        for node, title in imported(facts):
            yield finding("DST107", node, f"the script is distributed already: it uses {title}", level="error")
            return


def imported(facts: Facts) -> Iterator[tuple[ast.stmt, str]]:
    """Import statements of libraries that distribute."""
    for node in ast.walk(facts.tree):
        if isinstance(node, ast.Import):
            roots = [alias.name.split(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            roots = [node.module.split(".")[0]]
        else:
            continue
        for root in roots:
            if root in LIBRARIES:
                yield node, LIBRARIES[root]
