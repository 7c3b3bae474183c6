"""What a process needs while a sharded model starts: `python bench/start_memory.py [--gigabytes 1] [--nproc 2]`.

A GPT-like model of that size is built, initialised twice (by its modules, then by `apply`), prepared with fsdp and
trained for a few steps, without and with `meta_init`; `--checkpoint` recomputes its blocks, `--offload` keeps its parts
in host memory. One JSON line each: peak resident memory of the process and peak memory of its GPU, in MiB, the largest
of all ranks; losses, which must be equal; seconds until the first step.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time

WIDTH, LENGTH, WORDS = 1024, 16, 1000


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=1.0, help="of the model's fp32 parameters")
    parser.add_argument("--nproc", type=int, default=2)
    parser.add_argument("--rows", type=int, default=4, help="of a global batch")
    parser.add_argument("--steps", type=int, default=2, help="of training; 0 to look at the start alone")
    parser.add_argument("--checkpoint", action="store_true", help="checkpoint_activations=True")
    parser.add_argument("--offload", action="store_true", help="offload='cpu'")
    parser.add_argument("--only", choices=["plain", "meta"], help="one of the two runs")
    parser.add_argument("--inside", choices=["plain", "meta"], help=argparse.SUPPRESS)
    return parser.parse_args()


def run(args: argparse.Namespace) -> None:
    """One rank of one run."""
    import torch
    import torch.distributed as dist
    from torch import nn

    from distify import runtime

    runtime.init(
        backend="fsdp",
        meta_init=args.inside == "meta",
        checkpoint_activations=args.checkpoint,
        offload="cpu" if args.offload else "none",
    )
    began = time.time()
    torch.manual_seed(0)
    count = max(2, round(args.gigabytes * 2**30 / 4 / (12 * WIDTH**2)))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(WORDS, WIDTH)
            layer = lambda: nn.TransformerEncoderLayer(WIDTH, 16, 4 * WIDTH, 0.0, "gelu", batch_first=True)  # noqa: E731
            self.blocks = nn.ModuleList([layer() for _ in range(count)])
            self.head = nn.Linear(WIDTH, WORDS)
            self.apply(self.first)

        def first(self, module: nn.Module) -> None:
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            x = self.embed(words)
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    model = Model().to(runtime.device())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    runtime.prepare(model, optimizer)
    started, start = time.time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    gpu = torch.cuda.is_available()
    start_gpu = torch.cuda.max_memory_allocated() >> 20 if gpu else 0
    losses = []
    for _ in range(args.steps):
        words = runtime.split(torch.randint(0, WORDS, (args.rows, LENGTH)).to(runtime.device()))
        optimizer.zero_grad()
        loss = runtime.mean(nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten()))
        runtime.backward(loss)
        runtime.clip_grad_norm_(model.parameters(), 1.0)
        runtime.step(optimizer)
        losses.append(loss.item())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    mine = (start, start_gpu, peak, torch.cuda.max_memory_allocated() >> 20 if gpu else 0)
    table: list[tuple[int, ...]] = [mine] * runtime.world_size()
    dist.all_gather_object(table, mine)
    largest = [max(column) for column in zip(*table)]
    if runtime.is_main():
        size = sum(p.numel() for p in model.parameters()) * 4 >> 20
        result = {
            "meta_init": args.inside == "meta",
            "checkpoint_activations": args.checkpoint,
            "offload": args.offload,
            "processes": runtime.world_size(),
            "model_mib": size,
            "start_host_mib": largest[0],
            "start_gpu_mib": largest[1],
            "host_mib": largest[2],
            "gpu_mib": largest[3],
            "start_s": round(started, 1),
            "losses": losses,
            "torch": torch.__version__,
            "device": torch.cuda.get_device_name() if gpu else "cpu",
        }
        print(json.dumps(result), flush=True)


def main() -> None:
    args = options()
    if args.inside:
        run(args)
        return
    for kind in [args.only] if args.only else ["plain", "meta"]:
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={args.nproc}"]
        command = [*launcher, os.path.abspath(__file__), *sys.argv[1:], "--inside", kind]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
