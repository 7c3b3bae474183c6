"""The same training with Accelerate and with Lightning Fabric, as their manuals write it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any

import tasks
import torch
import torch.distributed as dist
from arguments import parser
from hand import show
from meter import Meter
from torch import nn

PRECISIONS = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}


def main() -> None:
    """Train with the library that is asked for."""
    made = parser("gpt2-124m")
    made.add_argument("--loop", choices=LOOPS, required=True)
    made.add_argument("--precision", choices=tasks.TYPES, default="fp32")
    made.add_argument("--local-batchnorm", action="store_true")
    args = made.parse_args()
    _, world, device = tasks.place()
    task = tasks.build(args.model, args.steps * args.batch_size)
    if not args.local_batchnorm:
        task.share_batchnorm(world, device)
    LOOPS[args.loop](args, task, device)
    if dist.is_initialized():
        dist.destroy_process_group()


def accelerate(args: Namespace, task: tasks.Task, device: torch.device) -> None:
    """Accelerate, with DDP or FSDP2."""
    from accelerate import Accelerator, FullyShardedDataParallelPlugin

    plugin = None
    if args.loop.endswith("fsdp2"):
        plugin = FullyShardedDataParallelPlugin(
            fsdp_version=2,
            auto_wrap_policy="transformer_based_wrap",
            transformer_cls_names_to_wrap=[task.block.__name__],
        )
    accelerator = Accelerator(
        mixed_precision="no" if args.precision == "fp32" else args.precision,
        gradient_accumulation_steps=args.accumulate,
        fsdp_plugin=plugin,
        cpu=device.type == "cpu",
    )
    loader = tasks.loader(task.data, args.batch_size // accelerator.num_processes, args.workers)
    model: nn.Module = task.model
    if args.compile:
        model.compile()
    model, optimizer, loader = accelerator.prepare(model, task.optimizer(model.parameters()), loader)
    meter = Meter()
    model.train()
    for step, batch in enumerate(loader):
        x, y = task.inputs(batch, accelerator.device)
        with accelerator.accumulate(model):
            logits = model(x)  # held as long as in the plain scripts
            loss = task.loss(logits, y)
            accelerator.backward(loss)
            if task.clip and accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), task.clip)
            optimizer.step()
            optimizer.zero_grad()
        if step % args.log_every == 0:
            show(step, loss)
        meter.step()
    meter.finish()
    show(step, loss)


def fabric(args: Namespace, task: tasks.Task, device: torch.device) -> None:
    """Lightning Fabric, with DDP or FSDP."""
    try:
        from lightning.fabric import Fabric
        from lightning.fabric.strategies import FSDPStrategy
    except ImportError:
        from lightning_fabric import Fabric
        from lightning_fabric.strategies import FSDPStrategy

    _, world, _ = tasks.place()
    strategy: Any = "ddp" if world > 1 else "auto"
    if args.loop.endswith("fsdp"):
        strategy = FSDPStrategy(auto_wrap_policy={task.block})
    fabric = Fabric(
        accelerator="gpu" if device.type == "cuda" else "cpu",
        devices=world,
        strategy=strategy,
        precision=PRECISIONS[args.precision],
    )
    fabric.launch()
    loader = fabric.setup_dataloaders(tasks.loader(task.data, args.batch_size // world, args.workers))
    model = torch.compile(task.model) if args.compile else task.model
    model = fabric.setup_module(model)
    optimizer = fabric.setup_optimizers(task.optimizer(model.parameters()))
    meter, size = Meter(), args.accumulate
    model.train()
    for step, batch in enumerate(loader):
        x, y = task.inputs(batch, fabric.device)
        last = (step + 1) % size == 0 or step + 1 == args.steps
        with fabric.no_backward_sync(model, enabled=not last):
            logits = model(x)  # held as long as in the plain scripts
            loss = task.loss(logits, y)
            fabric.backward(loss / size if size > 1 else loss)
        if last:
            if task.clip:
                fabric.clip_gradients(model, optimizer, max_norm=task.clip)
            optimizer.step()
            optimizer.zero_grad()
        if step % args.log_every == 0:
            show(step, loss)
        meter.step()
    meter.finish()
    show(step, loss)


LOOPS: dict[str, Callable[[Namespace, tasks.Task, torch.device], None]] = {
    "accelerate-ddp": accelerate,
    "accelerate-fsdp2": accelerate,
    "fabric-ddp": fabric,
    "fabric-fsdp": fabric,
}


if __name__ == "__main__":
    main()
