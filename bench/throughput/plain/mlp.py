"""Train a small perceptron on one GPU: a plain script, which distify converts when the bench runs."""

import torch
from arguments import parser
from meter import Meter
from torch.nn import functional as F
from torch.utils.data import DataLoader
from workload import MLPS, Perceptron, Points


def main() -> None:
    args = parser("mlp").parse_args()
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(
        Points(args.steps * args.batch_size),
        batch_size=args.batch_size,
        num_workers=args.workers,
        pin_memory=torch.cuda.is_available(),
    )
    model = Perceptron(MLPS[args.model]).to(device)
    if args.compile:
        model.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    meter = Meter()
    model.train()
    for step, (features, labels) in enumerate(loader):
        features = features.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(features), labels)
        loss.backward()
        optimizer.step()
        if step % args.log_every == 0:
            print(f"step {step} loss {loss.item():.6f}", flush=True)
        meter.step()
    meter.finish()
    print(f"step {step} loss {loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
