"""The options of the training scripts."""

from __future__ import annotations

import argparse


def parser(model: str) -> argparse.ArgumentParser:
    """What every training script takes.

    Args:
        model: name of the model, if none is given.
    """
    made = argparse.ArgumentParser()
    made.add_argument("--model", default=model)
    made.add_argument("--batch-size", type=int, default=16, help="samples of all processes together")
    made.add_argument("--steps", type=int, default=100)
    made.add_argument("--workers", type=int, default=2)
    made.add_argument("--log-every", type=int, default=10)
    made.add_argument("--accumulate", type=int, default=1)
    made.add_argument("--compile", action="store_true")
    return made
