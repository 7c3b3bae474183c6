"""Models larger than memory: while they are built, their parameters lie in a file, and in parts from `prepare` on.

Initial values are those of the original whatever code sets them: modules, `self.apply(…)`, loops over parameters, drawn
in order from the generators of the script. Only where the values lie is another place: each large parameter gets, as
soon as a module has it, an unlinked file in `TMPDIR` for its memory, which the kernel writes out and reads in as it is
used. What this process has of it in memory is let go again and again. `model.to(device)` leaves such parameters where
they are; `prepare` brings this rank's parts of them to the device, one after the other. So neither host nor device ever
holds a whole model; the disk holds one for each process of the machine until then.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .config import ConfigError
from .state import DistifyError, state

LEAST = 1 << 20  # bytes from which a parameter is put into a file
OFTEN = 0.02  # seconds between two looks at how much of the files is in memory
ROOM = 64 << 20  # bytes of them that may be
MEMORY = ("tmpfs", "ramfs")  # file systems that are memory themselves


class Spill:
    """The files of this process.

    Attributes:
        files: by address of what is mapped.
        wanted: parameters that were to be moved, and have not been yet, by address: the device.
    """

    def __init__(self) -> None:
        self.files: dict[int, mmap.mmap] = {}
        self.wanted: dict[int, torch.device] = {}
        self.over = threading.Event()
        self.register, self.apply = nn.Module.register_parameter, nn.Module._apply
        self.hook: Any = None

    def start(self) -> None:
        """From here on what modules register goes into files."""
        spill, register, apply = self, self.register, self.apply

        def register_parameter(module: nn.Module, name: str, param: nn.Parameter | None) -> None:
            register(module, name, param)
            if param is not None:
                spill.put(param)

        def _apply(module: nn.Module, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
            applied: nn.Module = apply(module, spill.staying(fn), recurse)  # type: ignore[no-untyped-call]
            return applied

        nn.Module.register_parameter = register_parameter  # type: ignore[method-assign, assignment]
        nn.Module._apply = _apply  # type: ignore[method-assign]
        self.hook = nn.modules.module.register_module_forward_pre_hook(self._arrive)
        threading.Thread(target=self._watch, name="distify spilled", daemon=True).start()

    def stop(self) -> None:
        """Let modules be what they were; files go when their parameters do."""
        nn.Module.register_parameter, nn.Module._apply = self.register, self.apply  # type: ignore[method-assign]
        self.hook.remove()
        self.over.set()
        self.files.clear()

    def __contains__(self, p: object) -> bool:
        return isinstance(p, Tensor) and type(p) in (nn.Parameter, Tensor) and _address(p) in self.files

    def put(self, p: Tensor) -> None:
        """Give a parameter a file for its memory; small ones, and those of other devices, stay."""
        plain = type(p) is nn.Parameter and p.device.type == "cpu" and p.layout == torch.strided and p.is_contiguous()
        if plain and p.nbytes >= LEAST and p not in self:
            with torch.no_grad():
                p.data = self._written(p.data)
            weakref.finalize(p, self._gone, _address(p), weakref.ref(self.files[_address(p)]))

    def _gone(self, address: int, mapped: weakref.ref[mmap.mmap]) -> None:
        """A parameter was dropped, one that another is tied to in its place, say."""
        if mapped() is not None and self.files.get(address) is mapped():
            self.release_at(address)

    def _written(self, value: Tensor) -> Tensor:
        """The same values in a file."""
        with tempfile.TemporaryFile(prefix="distify-") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, value.nbytes)  # a full disk is an error here, and a crash later
            except OSError as error:
                raise DistifyError(
                    f"meta_init: {error.strerror} in {tempfile.gettempdir()}, where parameters lie until "
                    "runtime.prepare(). Set TMPDIR to a folder with room for the model, once per process."
                ) from None
            mapped = mmap.mmap(file.fileno(), value.nbytes)
        found = torch.frombuffer(mapped, dtype=torch.uint8).view(value.dtype).view(value.shape)
        self.files[found.data_ptr()] = mapped
        return found.copy_(value)

    def staying(self, fn: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """What `model.to(…)` does, with parameters in files: a change of device waits, one of type goes to a file."""

        def applied(tensor: Tensor) -> Tensor:
            if tensor not in self:
                return fn(tensor)
            probe = fn(torch.empty((), dtype=tensor.dtype, device=tensor.device))
            if probe.device != tensor.device:
                self.wanted[_address(tensor)] = probe.device
            if probe.dtype == tensor.dtype:
                return tensor
            changed = self._written(tensor.detach().to(probe.dtype))
            if _address(tensor) in self.wanted:
                self.wanted[_address(changed)] = self.wanted.pop(_address(tensor))
            self.files.pop(_address(tensor))
            return changed

        return applied

    def _arrive(self, module: nn.Module, args: Any) -> None:
        """Forward pre-hook of all modules: what is used without having been prepared lies where it was to lie."""
        for p in module._parameters.values() if self.wanted else ():
            if p is not None and _address(p) in self.wanted:
                self.bring(p)

    def bring(self, p: Tensor) -> None:
        """Move a whole parameter to where the script wanted it, or into memory."""
        if p in self:
            device = self.wanted.pop(_address(p), p.device)
            self.files.pop(_address(p))
            p.data = p.data.to(device, copy=True)

    def release(self, p: Tensor) -> None:
        """Forget a parameter whose parts are where they belong."""
        self.release_at(_address(p))

    def release_at(self, address: int) -> None:
        """The same, by where it is mapped."""
        self.wanted.pop(address, None)
        self.files.pop(address, None)

    def _watch(self) -> None:
        """Let go of what is in memory, whenever much has come into it."""
        before = resident()
        while not self.over.wait(OFTEN if self.files else 5 * OFTEN):
            now = resident()
            if now - before > ROOM:
                self.let_go()
                before = resident()
            before = min(before, now)

    def let_go(self) -> None:
        """The kernel keeps what was written in the files, and reads it in when it is used."""
        for mapped in list(self.files.values()):
            mapped.madvise(mmap.MADV_DONTNEED)


def start() -> None:
    """Begin, if this run wants it.

    Raises:
        ConfigError: the folder for the files is memory itself.
    """
    assert state.config is not None
    if not state.config.meta_init or state.world_size == 1:
        return
    folder = tempfile.gettempdir()
    if file_system(folder) in MEMORY:
        raise ConfigError(
            f"meta_init: parameters lie in files until runtime.prepare(), but {folder} is memory itself. "
            "Set TMPDIR to a folder on a disk."
        )
    state.extra["spill"] = spill = Spill()
    spill.start()


def stop() -> None:
    """End it."""
    spill = current()
    if spill is not None:
        spill.stop()


def arrive(modules: Sequence[nn.Module]) -> None:
    """What no backend cut lies where the script wanted it."""
    spill = current()
    for p in {p for module in modules for p in module.parameters()} if spill is not None else ():
        spill.bring(p)  # type: ignore[union-attr]


def current() -> Spill | None:
    """The files of this process, if there are any."""
    found: Spill | None = state.extra.get("spill")
    return found


def resident() -> int:
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * mmap.PAGESIZE


def file_system(folder: str) -> str:
    """What a folder lies on; empty if that can't be told."""
    try:
        with open("/proc/self/mounts") as file:
            mounts = [line.split()[1:3] for line in file]
    except OSError:
        return ""
    path = os.path.realpath(folder)
    fitting = [(at, kind) for at, kind in mounts if f"{path}/".startswith(at.rstrip("/") + "/")]
    return max(fitting, key=lambda item: len(item[0]), default=("", ""))[1]


def _address(p: Tensor) -> int:
    return p.data_ptr()
