"""What `two_nodes.py` trains: a plain script for one process, with blocks of a million parameters."""

import argparse
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.first = nn.Linear(20, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.last = nn.Linear(width, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--out", default="model.pt")
    args = parser.parse_args()
    torch.manual_seed(0)
    data = torch.randn(32 * args.steps, 20)
    loader = DataLoader(TensorDataset(data, data[:, :5].argmax(1)), batch_size=32, shuffle=True)
    model = Net(args.width, args.depth)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    seconds = []
    for step, (x, y) in enumerate(loader):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f} norm {norm.item():.5f}", flush=True)
        seconds.append(time.perf_counter() - start)
    torch.save(model.state_dict(), args.out)
    middle = sorted(seconds[1:])[len(seconds[1:]) // 2]
    sys.stderr.write(f"seconds of a step: {middle:.4f}\n")


if __name__ == "__main__":
    main()
