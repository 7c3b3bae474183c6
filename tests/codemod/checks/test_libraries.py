"""Scripts that Accelerate, Fabric and DeepSpeed distribute."""

from __future__ import annotations

import pytest

from .by_hand import told

HEAD = """\
import deepspeed
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from lightning.fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

data = TensorDataset(torch.randn(64, 4), torch.randint(0, 3, (64,)))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Linear(4, 3)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
"""
ACCELERATE = """\
accelerator = Accelerator()
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
"""
FABRIC = """\
fabric = Fabric(devices=2)
fabric.launch()
loader = fabric.setup_dataloaders(loader)
model, optimizer = fabric.setup(model, optimizer)
"""
DEEPSPEED = """\
deepspeed.init_distributed()
sampler = DistributedSampler(data, shuffle=False)
loader = DataLoader(data, batch_size=8, sampler=sampler)
model, optimizer, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config="ds.json")
"""
LOOP = """\
for epoch in range(3):
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        {owner}.backward(loss)
        {step}.step()
"""
ACCELERATED = HEAD + ACCELERATE + LOOP.format(owner="accelerator", step="optimizer")
ENGINE = HEAD + DEEPSPEED + LOOP.format(owner="model", step="model")

HOROVOD = (
    HEAD.replace("import deepspeed\n", "import horovod.torch as hvd\n")
    + """\
hvd.init()
torch.cuda.set_device(hvd.local_rank())
sampler = DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank(), shuffle=False)
loader = DataLoader(data, batch_size=8, sampler=sampler)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
for epoch in range(3):
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
)


@pytest.mark.parametrize(
    "source",
    [
        ACCELERATED,
        ACCELERATED
        + "    accelerator.print(accelerator.reduce(loss).item())\n    print(accelerator.gather((loss, y))[0])\n",
        ACCELERATED
        + "if accelerator.is_main_process:\n    torch.save(accelerator.unwrap_model(model).state_dict(), 'm.pt')\n",
        HEAD + FABRIC + LOOP.format(owner="fabric", step="optimizer"),
        ENGINE + "model.save_checkpoint('out')\n",
        ENGINE.replace("model, optimizer, _, _ =", "engine, optimizer, _, _ =")
        .replace("model.backward", "engine.backward")
        .replace("model.step", "engine.step"),
        ACCELERATED.replace(
            "backward(loss)\n", "backward(loss)\n        nn.utils.clip_grad_norm_(model.parameters(), 1)\n"
        ),
        ACCELERATED.replace("F.cross_entropy(model(x), y)", "F.cross_entropy(model(x), y) if x is not None else None"),
        HEAD + FABRIC + LOOP.format(owner="fabric", step="optimizer") + "fabric.save('m.pt', {'model': model})\n",
        HOROVOD,
        HOROVOD + "    shown = hvd.allreduce(loss.detach())\n    if hvd.rank() == 0:\n        print(shown.item())\n",
        HOROVOD + "    loss = loss.detach()\n    hvd.allreduce_(loss)\n    print(loss.item())\n",
    ],
)
def test_what_is_correct_is_left_alone(source: str) -> None:
    assert told(source) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            ACCELERATED.replace(", loader)", ")").replace(", loader =", " ="),
            ("DST151", "loader = DataLoader(data, batch_size=8, shuffle=True)"),
        ),
        (ACCELERATED.replace("accelerator.backward(loss)", "loss.backward()"), ("DST251", "loss.backward()")),
        (ACCELERATED + "        print(loss.item())\n", ("DST551", "print(loss.item())")),
        (
            ACCELERATED + "if accelerator.is_main_process:\n    accelerator.wait_for_everyone()\n",
            ("DST651", "accelerator.wait_for_everyone()"),
        ),
        (ACCELERATED + "        if loss.item() < 0.1:\n            break\n", ("DST652", "if loss.item() < 0.1:")),
        (
            ACCELERATED + "torch.save(accelerator.unwrap_model(model).state_dict(), 'm.pt')\n",
            ("DST751", "torch.save(accelerator.unwrap_model(model).state_dict(), 'm.pt')"),
        ),
        (
            ENGINE + "if torch.distributed.get_rank() == 0:\n    model.save_checkpoint('out')\n",
            ("DST651", "model.save_checkpoint('out')"),
        ),
        (
            ACCELERATED.replace("Accelerator()", "Accelerator(mixed_precision='fp16')").replace(
                "backward(loss)\n", "backward(loss)\n        nn.utils.clip_grad_norm_(model.parameters(), 1)\n"
            ),
            ("DST252", "nn.utils.clip_grad_norm_(model.parameters(), 1)"),
        ),
        (ENGINE.replace("model.step()", "optimizer.step()"), ("DST252", "optimizer.step()")),
        (
            ACCELERATED.replace(
                "model, optimizer, loader = accelerator.prepare(model, ", "optimizer, loader = accelerator.prepare("
            ),
            ("DST351", "model = nn.Linear(4, 3)"),
        ),
        (
            ACCELERATED.replace("model(x)", "accelerator.unwrap_model(model)(x)"),
            ("DST352", "loss = F.cross_entropy(accelerator.unwrap_model(model)(x), y)"),
        ),
        (ACCELERATED + "        accelerator.print(loss.item())\n", ("DST551", "accelerator.print(loss.item())")),
        (
            HEAD
            + FABRIC
            + LOOP.format(owner="fabric", step="optimizer")
            + "if fabric.global_rank == 0:\n    fabric.save('m.pt', {})\n",
            ("DST651", "fabric.save('m.pt', {})"),
        ),
        (
            HOROVOD + "    loss = loss.detach()\n    hvd.allreduce(loss)\n    print(loss.item())\n",
            ("DST551", "print(loss.item())"),
        ),
        (
            HOROVOD + "    if hvd.rank() == 0:\n        hvd.allreduce(loss.detach())\n",
            ("DST651", "hvd.allreduce(loss.detach())"),
        ),
        (HOROVOD + "torch.save(model.state_dict(), 'm.pt')\n", ("DST751", "torch.save(model.state_dict(), 'm.pt')")),
    ],
)
def test_a_fault_is_found_where_it_stands(source: str, expected: tuple[str, str]) -> None:
    assert told(source) == [expected]
