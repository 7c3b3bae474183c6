"""Train a convolutional network on one GPU: a plain script, which distify converts when the bench runs."""

import torch
from arguments import parser
from meter import Meter
from torch.nn import functional as F
from torch.utils.data import DataLoader
from workload import CONVNETS, ConvNet, Images


def main() -> None:
    args = parser("convnet").parse_args()
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    stages = CONVNETS[args.model]
    loader = DataLoader(
        Images(args.steps * args.batch_size, stages),
        batch_size=args.batch_size,
        num_workers=args.workers,
        pin_memory=torch.cuda.is_available(),
    )
    model = ConvNet(stages).to(device, memory_format=torch.channels_last)
    if args.compile:
        model.compile()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=True)
    meter = Meter()
    model.train()
    for step, (images, labels) in enumerate(loader):
        images = images.to(device, non_blocking=True).to(memory_format=torch.channels_last).float() / 255
        labels = labels.to(device, non_blocking=True)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        if step % args.log_every == 0:
            print(f"step {step} loss {loss.item():.6f}", flush=True)
        meter.step()
    meter.finish()
    print(f"step {step} loss {loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
