"""A script in a folder of its own, which puts the project on the path."""

import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import torch

from vision import nets
from vision.options import Options
from vision.training import SegmentTrainer


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", default="small_net")
    parser.add_argument("--epochs", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    args = parse()
    options = Options(epochs=args.epochs, batch=6)
    torch.manual_seed(options.seed)
    net = nets.__dict__[args.arch](options.classes)
    print(sum(p.numel() for p in net.parameters()), "parameters")
    trainer = SegmentTrainer(net, options)
    trainer.run()
    for name, value in trainer.history.items():
        print(name, " ".join(f"{v:.5f}" for v in value))
