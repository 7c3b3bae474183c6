"""A checkpoint of `save_state` as one plain file that the original loads: `python -m distify.runtime.consolidate`.

It needs no GPU, no process group, and none of the script's classes.
"""

from __future__ import annotations

import argparse
import os
import pickle
import stat
import sys
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from . import saved_files, saved_tensors
from .saved_files import CheckpointError
from .saved_tree import decode

SUFFIXES = (".pt", ".pth", ".bin", ".safetensors")
FAILED = 2
DAMAGE = (  # what is raised where a file is not what was written
    OSError,
    EOFError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    RecursionError,
    pickle.UnpicklingError,
)


def consolidate(folder: str, out: str, model: str | None = None, optimizer: bool = False) -> str:
    """Write the state of one model of a checkpoint into one file.

    Args:
        folder: of `save_state`, of which the newest checkpoint is taken, or one of the checkpoints in it.
        out: the file: `.safetensors`, or one for `torch.load`, which holds what `model.state_dict()` of the original
            returns. It replaces a file that is there.
        model: its name, where the checkpoint holds several.
        optimizer: write a dict instead: "model", "optimizer" (a list of states if there are several), and what else
            `save_state` was given, by name. Not with `.safetensors`, which holds tensors only.

    Returns:
        What was written, in words.

    Raises:
        CheckpointError: the checkpoint can't be read, the file not be written, or what is asked for is not there.
    """
    kind = os.path.splitext(out)[1]
    if kind not in SUFFIXES:
        raise CheckpointError(f"{out!r} should end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}: the kind of file.")
    if kind == ".safetensors" and optimizer:
        raise CheckpointError(
            "a .safetensors file holds nothing but tensors. Write the optimizer's state into a .pt file."
        )
    if kind == ".safetensors":
        _safetensors()
    target = _target(out)
    path = saved_files.find(folder)
    record = saved_files.read_record(path)
    try:
        chosen = _choose(record["models"], model, path)
        reading = Reading(path)
        found = reading.model(chosen)
        whole = {"model": found, **reading.rest(record)} if optimizer else found
        reading.read()
    except DAMAGE as error:
        told = f"{type(error).__name__}: {error}"
        raise CheckpointError(f"{path!r} is damaged ({told}). Take another checkpoint of that folder.") from error
    _write(whole, target, kind)
    return (
        f"{out}: {len(found)} tensors of {chosen['name']}{' and the rest of the run' if optimizer else ''} from {path}"
    )


class Reading:
    """Whole tensors of a checkpoint, on the CPU.

    Args:
        path: of the checkpoint.
    """

    def __init__(self, path: str) -> None:
        self.path, self.index = path, saved_tensors.index(path)
        self.tensors: dict[str, Tensor] = {}

    def tensor(self, key: str) -> Tensor:
        """The tensor of a key; filled by `read`."""
        if key not in self.tensors:
            self.tensors[key] = torch.empty(self.index[key].size, dtype=self.index[key].properties.dtype)
        return self.tensors[key]

    def model(self, saved: dict[str, Any]) -> Any:
        """The state of a model, as its `state_dict` returns it."""
        found = decode(saved["state"], self.tensor)
        if "versions" in saved:
            found._metadata = OrderedDict(decode(saved["versions"], self.tensor))
        return found

    def rest(self, record: dict[str, Any]) -> dict[str, Any]:
        """States of the optimizers and of what the script passed, and its values."""
        optimizers = [decode(one["state"], self.tensor) for one in record["optimizers"]]
        found: dict[str, Any] = {"optimizer": optimizers[0] if len(optimizers) == 1 else optimizers}
        given = {**record["objects"], **record["values"]}
        found.update((name, decode(node, self.tensor)) for name, node in given.items() if name not in ("model", *found))
        return found

    def read(self) -> None:
        """Fill the tensors."""
        saved_tensors.read(self.path, {key: saved_tensors.piece(value) for key, value in self.tensors.items()})


def _choose(models: list[dict[str, Any]], name: str | None, path: str) -> dict[str, Any]:
    names = [model["name"] for model in models]
    if not models:
        raise CheckpointError(f"{path!r} holds no model.")
    if name is None and len(models) > 1:
        raise CheckpointError(f"{path!r} holds several models. Choose one: --model {' | '.join(names)}")
    found = [model for model in models if name in (None, model["name"])]
    if not found:
        raise CheckpointError(f"{path!r} holds no model {name!r}, but {', '.join(names)}.")
    return found[0]


def _target(out: str) -> str:
    """Where the file goes: not over a folder, a device or a pipe, and through links."""
    target = os.path.realpath(out)
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        if not os.path.isdir(os.path.dirname(target)):
            raise CheckpointError(f"there is no folder {os.path.dirname(out)!r} for {out!r}. Make it first.") from None
        return target
    if not stat.S_ISREG(mode):
        raise CheckpointError(f"{out!r} is there and is no file; it is left alone. Name another one.")
    return target


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError:
        raise CheckpointError(
            "a .safetensors file needs the package safetensors: pip install safetensors. Or write a .pt file."
        ) from None
    return safetensors.torch


def _write(whole: Any, target: str, kind: str) -> None:
    part = f"{target}.{os.getpid()}.part"
    try:
        if kind == ".safetensors":
            seen: set[int] = set()
            plain = {name: _own(value, seen) for name, value in whole.items() if isinstance(value, Tensor)}
            _safetensors().save_file(plain, part, metadata={"format": "pt"})
        else:
            with open(part, "wb") as file:
                torch.save(whole, file)
                file.flush()
                os.fsync(file.fileno())
        os.replace(part, target)
    finally:
        if os.path.exists(part):
            os.unlink(part)


def _own(value: Tensor, seen: set[int]) -> Tensor:
    """A tensor that shares no memory with those before: the format has no names for one tensor."""
    if value.data_ptr() in seen:
        return value.clone()
    seen.add(value.data_ptr())
    return value.contiguous()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="distify consolidate", description="One plain file from a checkpoint.")
    parser.add_argument("folder")
    parser.add_argument("out")
    parser.add_argument("--model")
    parser.add_argument("--optimizer", action="store_true")
    given = parser.parse_args(arguments)
    try:
        said = consolidate(given.folder, given.out, given.model, given.optimizer)
    except (CheckpointError, OSError) as error:
        sys.stderr.write(f"distify: {' '.join(str(error).split())}\n")
        return FAILED
    sys.stderr.write(f"distify: wrote {said}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
