"""Files and state dicts that are the original's on every backend: `save`, `load`, `state_dict`, `load_state_dict`."""

from __future__ import annotations

import io
import os
import pickle
import shutil
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .backends.base import CUTTING, Backend
from .collectives import from_main, together
from .guard import any as any_rank
from .guard import by_itself, on_main
from .meeting import meet
from .state import DistifyError, require, state
from .uncompiled import uncompiled
from .wholes import Wholes
from .writing import explained


class UnsafeFile(DistifyError, pickle.UnpicklingError):
    """A file holds more than tensors and plain containers, and `load` was not told that its source is trusted."""


@uncompiled
def save(obj: Any, f: Any, *more: Any, **options: Any) -> None:
    """Write what the original would write, once, in place of `torch.save`; a collective.

    Sharded tensors anywhere in `obj` are made whole, prepared modules are written as unmanaged ones, so that the file
    loads in the original. A file is written beside its final place and renamed: an interrupted run leaves the old one.

    Args:
        obj: anything that `torch.save` takes: state dicts, nested or not, modules, optimizers, numbers.
        f: a path, which rank 0 writes; or a file object, which each rank writes its own of.
        more, options: of `torch.save`.

    Raises:
        NotInitialized: `init` has not run.
        WriteError: it can't be written; an `OSError` too.
        RankFailed: on the other ranks then.
    """
    run = require("save")
    forms = Wholes(run.backend)
    whole = forms.of(obj)
    with forms.bare():
        if isinstance(f, (str, os.PathLike)):
            on_main(_write, whole, os.fspath(f), more, options)
        else:
            torch.save(whole, f, *more, **options)
            _settle(f)


def _settle(f: Any) -> None:
    """Let no rank go on before what rank 0 wrote into an open file can be read from its path."""
    if hasattr(f, "flush"):
        f.flush()
    if hasattr(f, "name") and not by_itself():
        any_rank(False)


def _write(obj: Any, path: str, more: tuple[Any, ...], options: dict[str, Any]) -> None:
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):  # a device, or a folder: its own error
        torch.save(obj, target, *more, **options)
        return
    folder = f"{target}.{os.getpid()}.part"  # a folder, since torch writes the file's name into the file
    part = os.path.join(folder, os.path.basename(path))
    try:
        with explained(f"runtime.save({path!r}): ", folder):
            os.mkdir(folder)
            torch.save(obj, part, *more, **options)
            os.replace(part, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@uncompiled
def load(f: Any, map_location: Any = None, *more: Any, **options: Any) -> Any:
    """Read a file of `save` or `torch.save` on every rank, in place of `torch.load`; a collective.

    Args:
        f: a path or a file object. A path that only rank 0 can see is read there and sent to the others.
        map_location: as in `torch.load`; by default tensors of any GPU come to this process's own device.
        more, options: of `torch.load`; `weights_only` is true unless given.

    Returns:
        What was saved.

    Raises:
        NotInitialized: `init` has not run.
        FileNotFoundError: no rank can see the file (`RankFailed`, which is one too, on the others).
        UnsafeFile: the file holds pickled objects and `weights_only` was not given.
    """
    require("load")
    if map_location is None:
        map_location = _here
    given = options.pop("weights_only", None)
    source = _within_reach(f)
    try:
        return torch.load(source, map_location, *more, weights_only=given is None or given, **options)
    except pickle.UnpicklingError as error:
        if given is not None or "weights" not in str(error).lower():
            raise
        lines = (line.strip() for line in str(error).splitlines())
        detail = next((line for line in lines if "nsupported" in line or "GLOBAL" in line), "not readable as such")
        raise UnsafeFile(
            f"runtime.load({f!r}): the file holds pickled Python objects, not only tensors and plain containers, and "
            f"reading it could run code. If you trust where it comes from, write runtime.load({f!r}, "
            f"weights_only=False). ({detail})"
        ) from None


def _within_reach(f: Any) -> Any:
    """The file, or its bytes from rank 0 where some rank can't see it (a folder of rank 0's own, another host)."""
    if not isinstance(f, (str, os.PathLike)) or by_itself() or not any_rank(not os.path.exists(f)):
        return f
    return io.BytesIO(from_main(on_main(_bytes_of, os.fspath(f))))


def _bytes_of(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _here(storage: Any, place: str) -> Any:
    """Leave CPU storages where they are, bring those of any GPU to this process's device."""
    if place == "cpu" or state.device is None:
        return storage
    return storage if state.device.type == "cpu" else storage.cuda(state.device.index)


@uncompiled
def state_dict(obj: Any, prefix: str = "", host: bool = True) -> dict[str, Any]:
    """`obj.state_dict()` with the original's keys, shapes and dtypes, whole, on all ranks; a collective.

    Where the backend cuts parameters into parts this is a snapshot; elsewhere its tensors are alive, as the original's.

    Args:
        obj: a module or part of one, an optimizer, a scheduler, or anything else that has `state_dict`.
        prefix: what the keys of a module begin with, as "module." of one that was in `nn.DataParallel`.
        host: parameters of a module that the backend has to gather come to the CPU, since a GPU need not have room for
            all of them; if false they stay on the device, for arithmetic with what is there.

    Returns:
        The state dict; optimizers' has the original's integer keys.

    Raises:
        NotInitialized: `init` has not run.
    """
    run = require("state_dict")
    assert run.backend is not None
    if run.backend.name in CUTTING and is_cut(obj, run.backend):
        together("state_dict")
        meet("runtime.state_dict()")
    if isinstance(obj, (nn.Module, Optimizer)):
        whole: dict[str, Any] = prefixed(run.backend.state_dict(obj, host), prefix)
        return whole
    found: dict[str, Any] = Wholes(run.backend).of(obj.state_dict())
    return found


@uncompiled
def load_state_dict(obj: Any, state_dict: dict[str, Any], prefix: str = "", **options: Any) -> Any:
    """`obj.load_state_dict(state_dict, **options)` from the original's form; a collective.

    Args:
        obj: a module or part of one, an optimizer, a scheduler, or anything else that has `load_state_dict`.
        state_dict: what `state_dict` returned here, or the original's own.
        prefix: what its keys begin with; keys without it are taken as they are.
        options: such as `strict=False` for modules.

    Returns:
        What the object's own method returns.

    Raises:
        NotInitialized: `init` has not run.
    """
    run = require("load_state_dict")
    assert run.backend is not None
    if run.backend.name in CUTTING and is_cut(obj, run.backend):
        together("load_state_dict")
        meet("runtime.load_state_dict()")
    if isinstance(obj, (nn.Module, Optimizer)):
        given = unprefixed(state_dict, prefix)
        if isinstance(obj, nn.Module) and run.backend.name in CUTTING:
            given = settled(obj, given, run.backend)
        return run.backend.load_state_dict(obj, given, **options)
    return obj.load_state_dict(state_dict, **options)


def is_cut(obj: Any, backend: Backend) -> bool:
    """Whether the ranks hold parts of an object: a module or an optimizer that was prepared."""
    return any(map(backend.cuts, obj.parameters())) if isinstance(obj, nn.Module) else backend.cuts(obj)


def settled(module: nn.Module, found: dict[str, Any], backend: Backend) -> dict[str, Any]:
    """A state in which all names of a tied parameter hold the value that the original would end with.

    After `own = model.state_dict(); own.update(part)` the names that `part` lacks hold the parameter itself there, so
    loading them changes nothing; here they hold a copy of the value from before, and would undo what `part` has set.
    """
    names: dict[Tensor, list[str]] = {}
    for name, p in module.named_parameters(remove_duplicate=False):
        if isinstance(found.get(name), Tensor):
            names.setdefault(p, []).append(name)
    for weight, tied in names.items():
        values = [found[name] for name in tied]
        if any(value.shape != values[0].shape for value in values) or all(map(values[0].equal, values[1:])):
            continue
        before = backend.whole(weight).to(values[0])
        changed = [value for value in values if value.shape != before.shape or not before.equal(value)]
        if changed:
            new = type(found)(found) if type(found) is not dict else dict(found)
            new.update(dict.fromkeys(tied, changed[-1]))
            if hasattr(found, "_metadata"):
                new._metadata = found._metadata  # type: ignore[attr-defined]
            found = new
    return found


def prefixed(found: dict[str, Any], prefix: str) -> Any:
    """A module's state under the keys that it has inside a wrapper, with the wrapper's entry in the metadata."""
    if not prefix:
        return found
    new: Any = OrderedDict((prefix + key, value) for key, value in found.items())
    versions = getattr(found, "_metadata", None)
    if versions is not None:
        held = {f"{prefix}{key}".rstrip("."): value for key, value in versions.items()}
        new._metadata = OrderedDict({"": {"version": 1}, **held})
    return new


def unprefixed(found: dict[str, Any], prefix: str) -> Any:
    """A module's state without what `prefixed` put in front of its keys."""
    if not prefix or not any(key.startswith(prefix) for key in found):
        return found
    new: Any = OrderedDict((key.removeprefix(prefix), value) for key, value in found.items())
    versions = getattr(found, "_metadata", None)
    if versions is not None:
        held = {key.removeprefix(prefix.rstrip(".")).removeprefix("."): value for key, value in versions.items() if key}
        new._metadata = OrderedDict(held)
    return new
