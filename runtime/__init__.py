"""The runtime that converted scripts call: the same training run, on more processes."""

from __future__ import annotations

from . import launcher, output

launcher.agree_on_hashes()  # may replace the process: before anything else happens
output.install()

from .accumulate import accumulate  # noqa: E402
from .averaged import averaged  # noqa: E402
from .checkpoint import load, load_state_dict, save, state_dict  # noqa: E402
from .clone import clone  # noqa: E402
from .cycle import cycle  # noqa: E402
from .extremes import max, min  # noqa: E402
from .full import full, whole  # noqa: E402
from .gather import gather  # noqa: E402
from .gradients import backward, frozen, grad  # noqa: E402
from .guard import any, barrier, main_first, on_main  # noqa: E402
from .optim import clip_grad_norm_, clip_grad_value_, step  # noqa: E402
from .precision import autocast  # noqa: E402
from .prepare import prepare  # noqa: E402
from .process import device, init, is_main, rank, shutdown, world_size  # noqa: E402
from .reduce import mean, sum  # noqa: E402
from .replicated import replicated  # noqa: E402
from .saved_state import latest, load_state, save_state  # noqa: E402
from .scaler import scaler  # noqa: E402
from .shard import shard  # noqa: E402
from .split import draw, split  # noqa: E402
from .stopping import stopping  # noqa: E402

__all__ = [
    "accumulate",
    "any",
    "autocast",
    "averaged",
    "backward",
    "barrier",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clone",
    "cycle",
    "device",
    "draw",
    "frozen",
    "full",
    "gather",
    "grad",
    "init",
    "is_main",
    "latest",
    "load",
    "load_state",
    "load_state_dict",
    "main_first",
    "max",
    "mean",
    "min",
    "on_main",
    "prepare",
    "rank",
    "replicated",
    "save",
    "save_state",
    "scaler",
    "shard",
    "shutdown",
    "split",
    "state_dict",
    "step",
    "stopping",
    "sum",
    "whole",
    "world_size",
]
