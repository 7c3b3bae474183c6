"""A correct script that is distributed by hand, in which tests plant a fault or a near miss."""

from __future__ import annotations

import functools
import textwrap

from distify.codemod.checking import check_source
from distify.codemod.findings import Finding
from distify.codemod.rewrite import Result
from tests.codemod.facts.snippets import NET

HEAD = (
    """\
import json
import os
import sys
import time
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset, random_split
from torch.utils.data.distributed import DistributedSampler


"""
    + NET
    + """\
def average(value):
    value = value.detach().clone()
    dist.all_reduce(value)
    return value / dist.get_world_size()

"""
)
START = """\
dist.init_process_group("nccl")
rank = dist.get_rank()
local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
device = torch.device("cuda", local)
"""
DATA = """\
data = TensorDataset(torch.randn(29, 4), torch.randint(0, 3, (29,)))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=7, sampler=sampler)
"""
MODEL = """\
model = DDP(Net().to(device), device_ids=[local])
opt = torch.optim.SGD(model.parameters(), lr=0.1)
"""
STEP = """\
opt.zero_grad()
loss = F.cross_entropy(model(x), y)
loss.backward()
opt.step()
"""
SAVE = """\
if rank == 0:
    torch.save(model.module.state_dict(), "model.pt")
"""


def script(
    *,
    head: str = "",
    start: str = START,
    data: str = DATA,
    model: str = MODEL,
    before: str = "",
    epoch: str = "sampler.set_epoch(epoch)",
    step: str = STEP,
    after_step: str = "",
    after_epoch: str = "",
    after: str = SAVE,
) -> str:
    """A training script; what isn't given is correct."""
    texts = (head, start, data, model, before, epoch, step, after_step, after_epoch, after)
    head, start, data, model, before, epoch, step, after_step, after_epoch, after = (
        textwrap.dedent(text).strip("\n") + "\n" for text in texts
    )
    batch = textwrap.indent(f"x, y = x.to(device), y.to(device)\n{step}{after_step}", "    ")
    body = f"{epoch}for x, y in loader:\n{batch}{after_epoch}"
    return f"{HEAD}{head}{start}{data}{model}{before}for epoch in range(3):\n{textwrap.indent(body, '    ')}{after}"


@functools.cache
def checked(source: str) -> Result:
    """What `distify check` finds in a source."""
    return check_source(source.encode(), "train.py")


def found(source: str) -> list[Finding]:
    """The findings about a source."""
    return list(checked(source).findings)


def told(source: str) -> list[tuple[str, str]]:
    """The codes of the findings, each with the line that it is about."""
    lines = source.splitlines()
    return [(item.code, lines[item.span.line - 1].strip()) for item in found(source)]
