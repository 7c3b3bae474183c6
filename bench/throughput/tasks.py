"""What the hand-written loops and the libraries' loops train, in the pieces that they put together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler
from workload import CONVNETS, GPT, MLPS, Block, Bottleneck, ConvNet, Images, Perceptron, Points, Tokens, shape_of

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass
class Task:
    """One model with its data.

    Attributes:
        model: on the CPU.
        data: samples of inputs and targets.
        block: class of its repeated blocks.
        optimizer: builds the optimizer from parameters.
        clip: largest norm of the gradients; 0 for no clipping.
        images: whether the inputs are images of bytes.
    """

    model: nn.Module
    data: Dataset[Any]
    block: type[nn.Module]
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer]
    clip: float = 0.0
    images: bool = False

    def inputs(self, batch: Any, device: torch.device) -> tuple[Tensor, Tensor]:
        """Inputs and targets of a batch, on the device."""
        x, y = (t.to(device, non_blocking=True) for t in batch)
        if self.images:
            x = x.to(memory_format=torch.channels_last).float() / 255
        return x, y

    def share_batchnorm(self, world: int, device: torch.device) -> None:
        """Let BatchNorm see the batches of all processes, where torch's layer can: it refuses the CPU."""
        if world > 1 and device.type == "cuda":
            self.model = nn.SyncBatchNorm.convert_sync_batchnorm(self.model)  # type: ignore[no-untyped-call]

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Mean cross entropy, in float32.

        Autocast computes it so from logits of the lower precision, without a copy of them: 4 ms of a step of GPT-2 124M
        on an H200. Where the whole model is cast there is no autocast, and the logits are.
        """
        if not torch.is_autocast_enabled(logits.device.type):
            logits = logits.float()
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def build(name: str, samples: int, meta: bool = False) -> Task:
    """The task of that name; what the plain scripts build, in the same order of random numbers.

    Args:
        name: of the model.
        samples: that there are.
        meta: build a GPT without memory for its parameters.
    """
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    if name.startswith("gpt2"):
        shape = shape_of(name)
        with torch.device("meta" if meta else "cpu"):
            model = GPT(shape)
        return Task(model, Tokens(samples, shape), Block, adamw, clip=1.0)
    if name in CONVNETS:
        torch.backends.cudnn.benchmark = True
        stages = CONVNETS[name]
        model = ConvNet(stages).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return Task(model, Images(samples, stages), Bottleneck, sgd, images=True)
    return Task(Perceptron(MLPS[name]), Points(samples), nn.Linear, small_adamw)


def adamw(parameters: Iterable[nn.Parameter]) -> Optimizer:
    """Of the GPTs."""
    return torch.optim.AdamW(parameters, lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)


def small_adamw(parameters: Iterable[nn.Parameter]) -> Optimizer:
    """Of the perceptron."""
    return torch.optim.AdamW(parameters, lr=1e-3, fused=True)


def sgd(parameters: Iterable[nn.Parameter]) -> Optimizer:
    """Of the convolutional network."""
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, weight_decay=1e-4, fused=True)


def loader(data: Dataset[Any], rows: int, workers: int, rank: int = 0, world: int = 1) -> DataLoader[Any]:
    """A loader of this process's rows of each batch."""
    sampler: DistributedSampler[Any] | None = (
        DistributedSampler(data, world, rank, shuffle=False) if world > 1 else None
    )
    return DataLoader(data, rows, sampler=sampler, num_workers=workers, pin_memory=torch.cuda.is_available())


def place() -> tuple[int, int, torch.device]:
    """Rank, number of processes, and this process's device."""
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if not torch.cuda.is_available():
        return rank, world, torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return rank, world, device
