"""One process among several: `init`, `shutdown`, and what they decide."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist

from . import (
    backends,
    bypass,
    collectives,
    copies,
    entropy,
    exits,
    faults,
    output,
    raw,
    saving,
    spilled,
    stopping,
    streams,
)
from .accumulate import Windows
from .batches import Batches
from .batchnorm import install as whole_batchnorm
from .config import Config, ConfigError, parse, resolve
from .gpus import choose_device
from .joining import join, timeout
from .launcher import Launcher, launched, read_launcher
from .lost import Lost
from .meeting import END, Disagreement, meet, open_channel
from .precision import Precision
from .saved_files import CheckpointError
from .state import DistifyError, require, state
from .streams import Streams
from .trace import unwritable
from .uncompiled import uncompiled


@uncompiled
def init(
    *,
    backend: str | None = None,
    precision: str | None = None,
    accumulate: int | None = None,
    batch: str | None = None,
    batchnorm: str | None = None,
    zero_stage: int | None = None,
    shard_size: int | None = None,
    reshard: str | None = None,
    offload: str | None = None,
    checkpoint_activations: bool | None = None,
    meta_init: bool | None = None,
) -> None:
    """Join the processes of this run and set it up; once, before the script seeds, builds a model or opens data.

    What isn't given here comes from `DISTIFY_*` in the environment, then from `[tool.distify]` in the nearest
    pyproject.toml above the script, then from the defaults. Without a launcher the run has one process.

    Args:
        backend: "ddp" (default), "fsdp" or "deepspeed".
        precision: "fp32" (default), "bf16" or "fp16".
        accumulate: loader batches per optimizer step, at least 1 (default).
        batch: "global" (default): each rank takes a slice of the batch; "per-device": each rank draws whole batches.
        batchnorm: "exact" (default): statistics of the whole batch; "local": of this rank's slice.
        zero_stage: 0 to 3 (default 2), for deepspeed.
        shard_size: how many neighbouring ranks share the parts of a model, for fsdp: the GPUs of a machine, for
            instance; other such groups hold the same. All ranks (default) if not given.
        reshard: "auto" (default): parameters that fsdp gathered for a forward are dropped after it if the model is
            large for the free memory; "always", "never".
        offload: "none" (default); "cpu": a rank's parts of parameters, gradients and optimizer state lie in host
            memory, where the optimizer steps, for fsdp.
        checkpoint_activations: whether the repeated blocks of a model keep their inputs only, and compute the rest of
            what a backward needs anew in it (default False).
        meta_init: whether large parameters lie in files in TMPDIR until `prepare` cuts them, so that no rank ever holds
            a whole model in host or device memory, for fsdp (default False).

    Raises:
        Misconfigured: an unknown key or value, options that don't go together, a package that is missing, incomplete
            launcher's variables, or more processes than GPUs. The reason stands on standard error, in one line; the
            program ends with status 2 unless this is caught.
        DistifyError: `init` ran before, and an option is given that it does not have; without one, nothing happens.
    """
    given = {
        "backend": backend,
        "precision": precision,
        "accumulate": accumulate,
        "batch": batch,
        "batchnorm": batchnorm,
        "zero_stage": zero_stage,
        "shard_size": shard_size,
        "reshard": reshard,
        "offload": offload,
        "checkpoint_activations": checkpoint_activations,
        "meta_init": meta_init,
    }
    with exits.one_line(sys._getframe(1)):
        config = resolve(given)
        if state.config is None:
            _start(config)
        else:
            _check_again(state.config, {name: value for name, value in given.items() if value is not None})


def _check_again(config: Config, given: Mapping[str, Any]) -> None:
    """A second call may repeat options, in a script whose files each begin with `init`; it can't change any."""
    other = [name for name, value in given.items() if parse(name, value, name) != getattr(config, name)]
    if other:
        now = ", ".join(f"{name}={getattr(config, name)!r}" for name in other)
        asked = ", ".join(f"{name}={given[name]!r}" for name in other)
        raise DistifyError(
            f"runtime.init() ran before, with {now}, and is called again with {asked}. A process has one set of "
            "options: keep one call, or make them equal."
        )


def _start(config: Config) -> None:
    timeout()
    launcher = _launcher()
    place = choose_device(launcher)
    try:
        join(launcher, place)
        _build(config, launcher, place)
    except BaseException:
        _leave(wait=False)
        raise


def _launcher() -> Launcher:
    """This process among all: from an existing process group, the launcher's variables, or alone."""
    if dist.is_available() and dist.is_initialized() and not launched():
        local = int(os.environ.get("LOCAL_RANK") or dist.get_rank())
        return Launcher(dist.get_rank(), dist.get_world_size(), local)
    return read_launcher() or Launcher()


def _build(config: Config, launcher: Launcher, place: torch.device) -> None:
    """Fill in the state; the parts read rank, device and config from it."""
    state.extra["thread"] = threading.get_ident()
    state.rank, state.local_rank, state.world_size = launcher.rank, launcher.local_rank, launcher.world_size
    state.device, state.config = place, config
    state.extra["process"] = os.getpid()
    if state.world_size > 1:
        output.silence()
        faults.install()
        open_channel(timeout())
        share_streams()
        entropy.install()
        bypass.install()
        copies.install()
        whole_batchnorm()
    elif unwritable():
        raise ConfigError(unwritable())
    if state.world_size > 1 or config.precision == "fp16" or config.accumulate > 1:
        raw.install()
    state.streams = Streams(state.rank, state.world_size, place)
    state.batches = Batches(state.rank, state.world_size, collectives.agreed)
    state.precision = Precision(config, place)
    state.windows = Windows(config)
    state.backend = backends.load("single" if state.world_size == 1 else config.backend)
    spilled.start()
    idle = [name for name in ("offload", "meta_init") if getattr(config, name) not in (False, "none")]
    if idle and state.world_size == 1:
        sys.stderr.write(f"distify: {' and '.join(idle)} {'do' if idle[1:] else 'does'} nothing on one process.\n")
    atexit.unregister(_at_exit)
    atexit.register(_at_exit)


def share_streams() -> None:
    """Set torch's, Python's and NumPy's streams to those of rank 0: a script that never seeds draws alike too.

    Raises:
        ConfigError: rank 0 can't write the trace that was asked for, which all ranks must know.
    """
    if state.device is not None and state.device.type == "cuda":
        torch.cuda.init()  # type: ignore[no-untyped-call]
    theirs, refusal = collectives.from_main((streams.capture(), unwritable()))
    if refusal is not None:
        raise ConfigError(refusal)
    if state.rank != 0:
        streams.restore(theirs)


@uncompiled
def shutdown() -> None:
    """Leave the run: destroys the process group if `init` created it. Happens by itself at exit.

    Raises:
        Disagreement: debugging, and other ranks are about to do something else.
        CheckpointError: the last checkpoint, which was still being written, could not be.
    """
    if state.config is None:
        return
    wait = False
    try:
        if not faults.failed():
            saving.settle(state)
            with suppress(Lost):
                meet(END)
        wait = True
    finally:
        _leave(wait)


def _at_exit() -> None:
    """Leave at the end of the script; a rank that comes there alone ends with an error, as at any other line."""
    try:
        shutdown()
    except (CheckpointError, Disagreement) as error:
        sys.stderr.write(f"distify: rank {os.environ.get('RANK', '?')} failed: {error}\n")
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(1)


def _leave(wait: bool) -> None:
    entropy.uninstall()
    bypass.uninstall()
    raw.uninstall()
    copies.uninstall()
    spilled.stop()
    faults.uninstall()
    stopping.uninstall()
    if dist.is_available() and dist.is_initialized() and not faults.failed():
        if wait and state.owns_group:
            faults.wait_for_all()
        if state.owns_group:
            dist.destroy_process_group()
        elif state.reduce_group is not None:
            for group in (state.reduce_group, state.extra.get("control"), state.extra.get("saving group")):
                if group is not None:
                    dist.destroy_process_group(group)
    state.reset()


def device() -> torch.device:
    """The device of this process: its GPU, or the CPU."""
    found = require("device").device
    assert found is not None
    return found


def rank() -> int:
    """This process's position among all, from 0."""
    return require("rank").rank


def world_size() -> int:
    """Number of processes."""
    return require("world_size").world_size


def is_main() -> bool:
    """Whether this is rank 0, which prints and writes files."""
    return require("is_main").rank == 0
