"""Training loops as people write them by hand: one process, DDP, FSDP2 (with `sharded.py`), DeepSpeed."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext

import sharded
import tasks
import torch
import torch.distributed as dist
from arguments import parser
from meter import Meter
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer


def main() -> None:
    """Train with the loop that is asked for."""
    made = parser("gpt2-124m")
    made.add_argument("--loop", choices=LOOPS, required=True)
    made.add_argument("--precision", choices=tasks.TYPES, default="fp32")
    made.add_argument("--no-window", action="store_true", help="synchronise gradients after every batch")
    made.add_argument("--local-batchnorm", action="store_true")
    made.add_argument("--recompute", action="store_true", help="recompute activations in backward")
    made.add_argument("--meta", action="store_true", help="give memory to each process's part of the parameters only")
    made.add_argument("--offload", action="store_true", help="parameters and the optimizer's state on the host")
    args = made.parse_args()
    _, world, device = tasks.place()
    library = "nccl" if device.type == "cuda" else "gloo"
    if args.offload and device.type == "cuda":
        library = "cpu:gloo,cuda:nccl"  # norms of gradients on the host
    if world > 1:
        dist.init_process_group(library)
    elif args.loop.startswith(("fsdp2", "zero")):
        dist.init_process_group(library, init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
    task = tasks.build(args.model, args.steps * args.batch_size, args.meta)
    if not args.local_batchnorm:
        task.share_batchnorm(world, device)
    LOOPS[args.loop](args, task, device)
    if dist.is_initialized():
        dist.destroy_process_group()


def single(args: Namespace, task: tasks.Task, device: torch.device) -> None:
    """One process."""
    model = task.model.to(device)
    if args.compile:
        model.compile()
    train(args, task, device, model, task.optimizer(model.parameters()), autocast(args, device))


def ddp(args: Namespace, task: tasks.Task, device: torch.device) -> None:
    """`DistributedDataParallel` whose gradients are views of its buckets."""
    model = DistributedDataParallel(
        task.model.to(device), device_ids=[device] if device.type == "cuda" else None, gradient_as_bucket_view=True
    )
    if args.compile:
        model.compile()

    def sync(last: bool) -> AbstractContextManager[None]:
        return nullcontext() if last or args.no_window else model.no_sync()

    train(args, task, device, model, task.optimizer(model.parameters()), autocast(args, device), sync)


def fsdp2(args: Namespace, task: tasks.Task, device: torch.device) -> None:
    """`fully_shard`, one group per block, computing in the lower precision."""
    model = sharded.shard(args, task, device)
    assert isinstance(model, FSDPModule)

    def sync(last: bool) -> AbstractContextManager[None]:
        model.set_requires_gradient_sync(last or args.no_window)
        return nullcontext()

    if args.loop == "fsdp2-local":
        parts = sharded.Parts(model)
        train(args, task, device, model, task.optimizer(parts.local), nullcontext, sync, parts.clip)
    else:
        train(args, task, device, model, task.optimizer(model.parameters()), nullcontext, sync)


def autocast(args: Namespace, device: torch.device) -> Callable[[], AbstractContextManager[None]]:
    """A function that makes autocast's context for the precision."""
    dtype = tasks.TYPES[args.precision]
    return lambda: torch.autocast(device.type, dtype, enabled=dtype != torch.float32)


def always(last: bool) -> AbstractContextManager[None]:
    """Nothing to synchronise."""
    return nullcontext()


def train(
    args: Namespace,
    task: tasks.Task,
    device: torch.device,
    model: nn.Module,
    optimizer: Optimizer,
    cast: Callable[[], AbstractContextManager[None]],
    sync: Callable[[bool], AbstractContextManager[None]] = always,
    clip: Callable[[Iterable[nn.Parameter], float], object] = nn.utils.clip_grad_norm_,
) -> None:
    """The loop of all but DeepSpeed."""
    rank, world, _ = tasks.place()
    loader = tasks.loader(task.data, args.batch_size // world, args.workers, rank, world)
    scaler = torch.amp.GradScaler(device.type, enabled=args.precision == "fp16")
    meter, size = Meter(), args.accumulate
    model.train()
    for step, batch in enumerate(loader):
        x, y = task.inputs(batch, device)
        last = (step + 1) % size == 0 or step + 1 == args.steps
        if step % size == 0:
            model.zero_grad()
        with sync(last):
            with cast():
                logits = model(x)  # held as long as in the plain scripts
                loss = task.loss(logits, y)
            scaler.scale(loss / size if size > 1 else loss).backward()
        if last:
            if task.clip:
                scaler.unscale_(optimizer)
                clip(model.parameters(), task.clip)
            scaler.step(optimizer)
            scaler.update()
        if step % args.log_every == 0:
            show(step, loss)
        meter.step()
    meter.finish()
    show(step, loss)


def deepspeed(args: Namespace, task: tasks.Task, device: torch.device) -> None:
    """DeepSpeed's engine, with an optimizer of torch."""
    import deepspeed

    rank, world, _ = tasks.place()
    rows = args.batch_size // world
    loader = tasks.loader(task.data, rows, args.workers, rank, world)
    config = {
        "train_micro_batch_size_per_gpu": rows,
        "gradient_accumulation_steps": args.accumulate,
        "gradient_clipping": task.clip,
        "bf16": {"enabled": args.precision == "bf16"},
        "fp16": {"enabled": args.precision == "fp16"},
        "zero_optimization": {"stage": int(args.loop[-1]), "overlap_comm": True, "contiguous_gradients": True},
        "steps_per_print": 10**9,
    }
    model = task.model.to(device)
    engine, *_ = deepspeed.initialize(
        model=model, optimizer=task.optimizer(model.parameters()), config=config, dist_init_required=False
    )
    if args.compile:
        engine.compile()
    meter, dtype = Meter(), tasks.TYPES[args.precision]
    engine.train()
    for step, batch in enumerate(loader):
        x, y = task.inputs(batch, device)
        loss = task.loss(engine(x.to(dtype) if x.is_floating_point() else x), y)
        engine.backward(loss)
        engine.step()
        if step % args.log_every == 0:
            show(step, loss)
        meter.step()
    meter.finish()
    show(step, loss)


def show(step: int, loss: Tensor) -> None:
    """Print the loss of the whole batch."""
    shown = loss.detach().clone()
    if dist.is_initialized():
        dist.all_reduce(shown)
        shown /= dist.get_world_size()
    if not dist.is_initialized() or dist.get_rank() == 0:
        print(f"step {step} loss {shown.item():.6f}", flush=True)


LOOPS: dict[str, Callable[[Namespace, tasks.Task, torch.device], None]] = {
    "single": single,
    "ddp": ddp,
    "fsdp2": fsdp2,
    "fsdp2-tuned": fsdp2,
    "fsdp2-local": fsdp2,
    "zero1": deepspeed,
    "zero2": deepspeed,
    "zero3": deepspeed,
}


if __name__ == "__main__":
    main()
