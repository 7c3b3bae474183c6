"""What is to be run: found out before anything is."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence

from ..dataclass import dataclass
from ..files import read, within
from .devices import device_for
from .request import Request
from .sources import Program, Unable, home_of, is_converted, modules, original_of


@dataclass(frozen=True)
class Setting:
    """What all runs of a request share.

    Attributes:
        script: real path of the script that is verified.
        home: the folder that is copied.
        folder: where the scripts are run, in it.
        files: real paths of the scripts and the modules that they import.
        original: the program that is run first.
        device: "cpu" or "cuda".
        notes: what the user should know.
    """

    script: str
    home: str
    folder: str
    files: Sequence[str]
    original: Program
    device: str
    notes: Sequence[str]


def prepare(request: Request) -> Setting:
    """Find out what is to be run.

    Raises:
        Unable: there is nothing to run.
    """
    data = read(request.script)
    if importlib.util.find_spec("torch") is None:
        raise Unable("torch is not installed here: pip install torch, in the environment that distify is in")
    found = [os.path.realpath(result.path) for result in modules(request.script)]
    script = os.path.realpath(request.script)
    if request.original is not None:
        read(request.original)
        original = Program(os.path.realpath(request.original), told=request.original)
        found.append(original.script)
    elif is_converted(data):
        original = original_of(request.script, found)
    else:
        original = Program(script)
    files = [script, *(path for path in found if path != script)]
    here = os.path.realpath(os.curdir)
    home = home_of(files, here)
    folder = here if within(here, home) else os.path.dirname(script)
    device, notes = device_for(request.device, request.processes)
    if device == "cuda":
        notes.append("TF32 is switched off in both")
    if original.told:
        notes.append(f"the original is {original.told}")
    if folder != here:
        notes.append(f"both are run in a copy of {folder}")
    return Setting(script, home, folder, files, original, device, notes)
