"""How the processes of a run find each other."""

from __future__ import annotations

import os
import time
import uuid
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from . import gpus, interface
from .config import ConfigError
from .launcher import Launcher, LaunchError
from .state import state

MINUTES = 30.0  # default limit of a collective: other ranks wait that long while the main rank saves or downloads


def join(launcher: Launcher, place: torch.device) -> None:
    """Join or create the default process group, and create the one of the reductions."""
    if launcher.world_size == 1:
        return
    limit = timeout()
    kind = kinds(place)
    if not dist.is_initialized():
        interface.choose(launcher)
        options: dict[str, Any] = {} if place.type == "cpu" else {"device_id": place}
        try:
            if gpus.unsure(launcher, place) or of_agent():
                store = _meeting_place(launcher, limit)
                options |= {"store": store, "rank": launcher.rank, "world_size": launcher.world_size}
                if gpus.unsure(launcher, place):
                    gpus.check_shared(store, launcher, gpus.name_of(place))
            dist.init_process_group(kind, timeout=limit, **options)
        except LaunchError:
            raise
        except (OSError, RuntimeError, ValueError) as error:
            address = f"MASTER_ADDR={os.environ.get('MASTER_ADDR')}, MASTER_PORT={os.environ.get('MASTER_PORT')}"
            raise LaunchError(
                f"rank {launcher.rank} of {launcher.world_size} can't join the others at {address}: "
                f"{str(error).strip().splitlines()[0]} Check that rank 0 runs on that machine, that the port is free "
                "there, and that all processes were started; `torchrun` does so by itself.",
                everywhere=False,
            ) from error
        state.owns_group = True
    if (dist.get_rank(), dist.get_world_size()) != (launcher.rank, launcher.world_size):
        raise LaunchError(
            f"the process group that exists has rank {dist.get_rank()} of {dist.get_world_size()}, the launcher's "
            f"variables say {launcher.rank} of {launcher.world_size}. Remove the script's own init_process_group call."
        )
    state.reduce_group = dist.new_group(backend=kind, timeout=limit)


def kinds(place: torch.device) -> str:
    """What moves the tensors of each type of device: those on the CPU are reduced on a GPU machine too."""
    return "gloo" if place.type == "cpu" else "cpu:gloo,cuda:nccl"


def of_agent() -> bool:
    """Whether `torchrun` keeps the store through which the processes meet."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def _meeting_place(launcher: Launcher, limit: timedelta) -> Any:
    """The store that the launcher's variables name, in which nothing is left of earlier processes.

    That of `torchrun` outlives the processes that it starts again, and torch takes the addresses of dead ones from
    there (2.13: "timed out connecting: Connection refused" in the second attempt). So each attempt writes under a name
    of its own. `TORCHELASTIC_RESTART_COUNT` is none: nodes that did not fail count otherwise.
    """
    store = next(iter(rendezvous("env://", timeout=limit)))[0]
    if not of_agent():
        return store
    token = _welcome(store, launcher.world_size, limit) if launcher.rank == 0 else _greet(store, launcher.rank)
    return PrefixStore(f"distify/{token}", store)


def _greet(store: Any, rank: int) -> str:
    """Introduce this process to rank 0, under a name that no earlier process had; returns the name of the attempt."""
    name = uuid.uuid4().hex
    store.set(f"distify/hello/{rank}", name)
    token: str = store.get(f"distify/welcome/{name}").decode()  # waits for it
    store.set(f"distify/here/{token}/{rank}", "")
    return token


def _welcome(store: Any, size: int, limit: timedelta) -> str:
    """Name the attempt, and tell each process that introduces itself until all are here; dead ones are told in vain."""
    token, waiting, told = uuid.uuid4().hex, set(range(1, size)), set()
    end = time.monotonic() + limit.total_seconds()
    while waiting:
        for rank in list(waiting):
            if store.check([f"distify/hello/{rank}"]):
                name = store.get(f"distify/hello/{rank}").decode()
                if name not in told:
                    store.set(f"distify/welcome/{name}", token)
                    told.add(name)
            if store.check([f"distify/here/{token}/{rank}"]):
                waiting.discard(rank)
        if waiting and time.monotonic() > end:
            raise RuntimeError(f"ranks {', '.join(map(str, sorted(waiting)[:8]))} did not come.")
        time.sleep(0.005)
    return token


def timeout() -> timedelta:
    """Limit of a collective: `DISTIFY_TIMEOUT` in seconds, else 30 minutes.

    Raises:
        ConfigError: it is not a positive number.
    """
    text = os.environ.get("DISTIFY_TIMEOUT") or str(MINUTES * 60)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e8:
        raise ConfigError(f"DISTIFY_TIMEOUT={text!r} is not a positive number of seconds, such as 1800")
    return timedelta(seconds=seconds)
