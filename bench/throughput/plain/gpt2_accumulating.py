"""Train a GPT-2 on one GPU with gradients of several batches per step, summed by the script itself."""

import torch
from arguments import parser
from meter import Meter
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader
from workload import GPT, Tokens, shape_of


def main() -> None:
    args = parser("gpt2-124m").parse_args()
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shape = shape_of(args.model)
    loader = DataLoader(
        Tokens(args.steps * args.batch_size, shape),
        batch_size=args.batch_size,
        num_workers=args.workers,
        pin_memory=torch.cuda.is_available(),
    )
    model = GPT(shape).to(device)
    if args.compile:
        model.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    meter = Meter()
    model.train()
    optimizer.zero_grad()
    for step, (tokens, targets) in enumerate(loader):
        tokens = tokens.to(device, non_blocking=True)
        targets = targets.to(device, non_blocking=True)
        logits = model(tokens)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        (loss / args.accumulate).backward()
        if (step + 1) % args.accumulate == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        if step % args.log_every == 0:
            print(f"step {step} loss {loss.item():.6f}", flush=True)
        meter.step()
    meter.finish()
    print(f"step {step} loss {loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
