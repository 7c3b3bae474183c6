import argparse

import torch

from config import device
from engine import evaluate, train_one_epoch
from lib import build_model
from lib.data import *
from utils import AverageMeter, save_checkpoint, set_seed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    set_seed(3)
    train_loader, test_loader = make_loaders(8)
    model, optimizer = build_model()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    best = 0.0
    for epoch in range(args.epochs):
        loss = train_one_epoch(model, train_loader, optimizer, epoch)
        acc = evaluate(model, test_loader)
        scheduler.step()
        print(f"epoch {epoch} loss {loss:.6f} acc {acc:.4f} lr {optimizer.param_groups[0]['lr']:.4f}")
        if acc >= best:
            best = acc
            save_checkpoint(model, optimizer, epoch)
    print("best", best)


if __name__ == "__main__":
    main()
