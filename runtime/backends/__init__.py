"""Registry of the backends: a name, and where its class is found when a run asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from .base import Backend

BACKENDS: Mapping[str, str] = MappingProxyType(
    {
        "single": "single:Single",
        "ddp": "ddp:DDP",
        "fsdp": "fsdp:FSDP",
        "deepspeed": "deepspeed:make",
    }
)


def load(name: str) -> Backend:
    """Import a backend and build it; called by `init` when rank, device and config stand in `state`.

    Raises:
        KeyError: no backend has this name.
    """
    module, attribute = BACKENDS[name].split(":")
    backend: Backend = getattr(import_module(f".{module}", __name__), attribute)()
    return backend
