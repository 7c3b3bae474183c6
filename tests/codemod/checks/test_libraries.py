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
    ],
)
def test_a_fault_is_found_where_it_stands(source: str, expected: tuple[str, str]) -> None:
    assert told(source) == [expected]
