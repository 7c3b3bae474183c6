"""FSDP2 by hand: how a model is cut, and a step on each process's own parts."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable

import tasks
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard


def shard(args: Namespace, task: tasks.Task, device: torch.device) -> nn.Module:
    """Cut the task's model: one group per block, one for the rest."""
    dtype = tasks.TYPES[args.precision]
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    if dtype == torch.float32:
        policy = MixedPrecisionPolicy()
    offload = CPUOffloadPolicy() if args.offload else OffloadPolicy()
    keep = args.loop in ("fsdp2-tuned", "fsdp2-local")
    model = task.model if args.meta or args.offload else task.model.to(device)
    places = [(m, name, child) for m in model.modules() for name, child in m.named_children()]
    for parent, name, block in places:
        if isinstance(block, task.block):
            if args.compile:
                block.compile()
            if args.recompute:
                block = checkpoint_wrapper(block)
                setattr(parent, name, block)
            fully_shard(block, mp_policy=policy, reshard_after_forward=not keep, offload_policy=offload)
    fully_shard(model, mp_policy=policy, reshard_after_forward=not keep, offload_policy=offload)
    if args.meta:
        model.to_empty(device="cpu" if args.offload else device)
        initialise(model)
    return model


def initialise(model: nn.Module) -> None:
    """Give a GPT's empty parameters values, part by part: as the model does, with other random numbers."""
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)
        elif isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]


class Parts:
    """This process's parts of a model's parameters as plain tensors, which an optimizer updates without DTensor.

    Attributes:
        model: that FSDP2 cut.
        local: a parameter for each of the model's, in the memory of its part.
    """

    def __init__(self, model: nn.Module) -> None:
        self.whole = list(model.parameters())
        self.local = [nn.Parameter(part(p)) for p in self.whole]

    def clip(self, parameters: Iterable[nn.Parameter], limit: float) -> None:
        """Hand the parts their gradients, cut to a norm of all; one collective."""
        for p, mine in zip(self.whole, self.local):
            mine.grad = None if p.grad is None else part(p.grad)
        grads = [mine.grad for mine in self.local if mine.grad is not None]
        square = nn.utils.get_total_norm(grads).square()
        dist.all_reduce(square)
        nn.utils.clip_grads_with_norm_(self.local, limit, square.sqrt())


def part(tensor: Tensor) -> Tensor:
    """The part of a DTensor that this process holds."""
    found: Tensor = tensor.detach()._local_tensor  # type: ignore[attr-defined]
    return found
