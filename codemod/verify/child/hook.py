"""The start of a traced process: imported by a `sitecustomize` that the command puts on its path."""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import sys
from contextlib import suppress
from typing import Any

from .after import after
from .dropout import note_dropout, without_dropout
from .linked import Links
from .nudge import Nudge
from .seeds import fix_numpy, fix_python, fix_torch
from .settings import Facts, Settings, taken
from .tracing import Tracer

DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def start(folder: str) -> None:
    """Set everything up, and leave the interpreter as it would have been.

    Args:
        folder: holds the `sitecustomize` that calls this.
    """
    settings = taken()
    sys.path[:] = [path for path in sys.path if os.path.realpath(path) != os.path.realpath(folder)]
    if settings is not None:
        if settings.path is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = settings.path
        end_with_parent()
        move_paths(settings)
        trace(settings)
    chain()


def end_with_parent() -> None:
    """No process outlives a command that was killed."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)


def move_paths(settings: Settings) -> None:
    """Where the project itself is on the import path, as after `pip install -e .`, put the copy there."""

    def moved(path: str) -> str:
        inside = path == settings.source or path.startswith(settings.source + os.sep)
        there = settings.root + path[len(settings.source) :]
        return there if inside and os.path.lexists(there) else path

    sys.path[:] = [moved(path) for path in sys.path]
    for name, module in list(sys.modules.items()):
        mapping = getattr(module, "MAPPING", None) if name.startswith("__editable__") else None
        if isinstance(mapping, dict):
            mapping.update({key: moved(path) for key, path in mapping.items() if not key.startswith("distify")})


def trace(settings: Settings) -> None:
    """Watch what the script imports."""
    facts = Facts(f"{settings.notes}.facts")
    links = Links(settings, facts)
    tracers: list[Tracer] = []

    def on_torch(torch: Any) -> None:
        tracers.append(Tracer(torch, settings, facts))
        tracers[0].install()
        if settings.dropout:
            note_dropout(torch, facts)
        else:
            without_dropout(torch)
        if settings.nudge:
            Nudge(torch).install()
        fix_torch(torch, settings, facts)
        torch.save = links.before(torch.save, 1)  # written by C++, which raises no audit event

    def on_safetensors(module: Any) -> None:
        module.serialize_file = links.before(module.serialize_file, 1)

    def on_runtime(runtime: Any) -> None:
        tracers[0].install_on_runtime(runtime)
        runtime.save = links.before(runtime.save, 1)  # follows links before it writes

    fix_python(settings, facts)
    links.watch()
    after(
        {
            "torch": on_torch,
            "numpy": lambda numpy: fix_numpy(numpy, settings, facts),
            "safetensors.torch": on_safetensors,
            "distify.runtime": on_runtime,
        }
    )


def chain() -> None:
    """Import the `sitecustomize` that the interpreter would have imported."""
    ours = sys.modules.pop("sitecustomize", None)
    with suppress(ImportError):
        importlib.import_module("sitecustomize")
    if ours is not None:  # it is being imported, and has to be there when that is over
        sys.modules.setdefault("sitecustomize", ours)
