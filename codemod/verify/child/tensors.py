"""Compares files of tensors, in a process of its own: `python -m distify.codemod.verify.child.tensors` < JSON > JSON.

Files are read with `weights_only=True`. Where one holds more than that allows, such as a whole model, it is read with
stand-ins for every class that is not known: nothing of the file is executed.
"""

from __future__ import annotations

import importlib
import json
import math
import pickle
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from ..found import row_of
from ..noise import without_noise
from ..numbers import excess, shown
from ..saved import is_pickle

KNOWN = (
    "torch._utils",
    "torch.storage",
    "torch",
    "collections",
    "torch.serialization",
    "numpy",
    "numpy.core.multiarray",
)
PLAIN = ("numpy._core.multiarray", "numpy.dtypes")
SAFE = frozenset({"OrderedDict", "defaultdict", "Size", "device", "dtype", "ndarray", "scalar", "_reconstruct"})

Found = tuple[str, str, str, float, float, float, float]
"""What differs or not: what, original, rewritten, relative difference, excess, difference, size of the original."""

SAME = (0.0, 0.0, 0.0, 0.0)
APART = (math.inf, math.inf, math.inf, 0.0)


class Stand:
    """In place of an object of a class that is not known: keeps what it was made of."""

    made_of: tuple[Any, ...] = ()
    state: Any = None

    def __new__(cls, *args: Any, **options: Any) -> Stand:
        made = super().__new__(cls)
        made.made_of = (*args, options) if options else args
        return made

    def __init__(self, *args: Any, **options: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def append(self, item: Any) -> None:
        """As pickles of lists do."""
        self.made_of += (item,)

    def extend(self, items: Any) -> None:
        """As pickles of lists do."""
        self.made_of += tuple(items)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.made_of += ((key, value),)


class Careful(pickle.Unpickler):
    """Loads tensors and plain objects; everything else becomes a stand-in."""

    def find_class(self, module: str, name: str) -> Any:
        """A class that is known to be harmless, or a stand-in."""
        storage = module == "torch" and name.endswith("Storage")
        rebuild = module == "torch._utils" and name.startswith("_rebuild_") and "wrapper" not in name
        plain = module in (*KNOWN, *PLAIN) and name in SAFE
        if storage or rebuild or plain:
            return super().find_class(module, name)
        return type(name, (Stand,), {})


class Differ:
    """Compares what two files hold.

    Args:
        torch: the module.
        many, absolute, norm: of the tolerance.
    """

    def __init__(self, torch: Any, many: float, absolute: float, norm: bool) -> None:
        self.torch, self.many, self.absolute, self.norm = torch, many, absolute, norm

    def load(self, path: str) -> Any:
        """What a file holds."""
        if path.endswith(".safetensors"):
            return importlib.import_module("safetensors.torch").load_file(path)
        if path.endswith((".npy", ".npz")):
            found = importlib.import_module("numpy").load(path, allow_pickle=False)
            return dict(found) if hasattr(found, "files") else found
        if is_pickle(path):
            return everything(path)
        try:
            return self.torch.load(path, map_location="cpu", weights_only=True)
        except Exception:
            return self.torch.load(path, map_location="cpu", weights_only=False, pickle_module=careful())

    def compare(self, where: str, a: Any, b: Any) -> Iterator[Found]:
        """All values of two objects, side by side."""
        if type(a) is not type(b) and type(a).__name__ != type(b).__name__:
            yield where, type(a).__name__, type(b).__name__, *APART
        elif isinstance(a, self.torch.Tensor):
            yield self.tensors(where, a, b)
        elif hasattr(a, "__array__") and hasattr(a, "dtype"):
            yield from self.arrays(where, a, b)
        elif isinstance(a, Mapping):
            yield from self.mappings(where, a, b)
        elif isinstance(a, (list, tuple)):
            if len(a) != len(b):
                yield f"{where}: length", str(len(a)), str(len(b)), *APART
            for index, (x, y) in enumerate(zip(a, b)):
                yield from self.compare(f"{where}[{index}]", x, y)
        elif isinstance(a, Stand):
            yield from self.compare(where, a.made_of, b.made_of)
            yield from self.compare(where, a.state, b.state)
        elif isinstance(a, float):
            row = row_of(where, (a, b), (shown(a), shown(b)), excess(a, b, self.many, self.absolute), 0)
            yield where, row.original, row.rewritten, row.difference, row.excess, row.apart, row.scale
        else:
            same = without_noise(a) == without_noise(b) if isinstance(a, str) else a == b
            yield where, short(a), short(b), *(SAME if same else APART)

    def mappings(self, where: str, a: Mapping[Any, Any], b: Mapping[Any, Any]) -> Iterator[Found]:
        """Two dicts: the same keys, and equal values."""
        for key in a:
            if key not in b:
                yield f"{where}{named(key)}", "there", "missing", *APART
            else:
                yield from self.compare(f"{where}{named(key)}", a[key], b[key])
        for key in b:
            if key not in a:
                yield f"{where}{named(key)}", "missing", "there", *APART

    def arrays(self, where: str, a: Any, b: Any) -> Iterator[Found]:
        """Two arrays or numbers of NumPy."""
        if a.dtype.kind in "biuf" and b.dtype.kind in "biuf" and a.dtype == b.dtype:
            numpy = importlib.import_module("numpy")
            yield self.tensors(where, *(self.torch.from_numpy(numpy.array(x)) for x in (a, b)))
        elif a.dtype == b.dtype and a.dtype.kind == "O":
            yield from self.compare(where, a.tolist(), b.tolist())
        else:
            same = a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
            yield where, short(a), short(b), *(SAME if same else APART)

    def tensors(self, where: str, a: Any, b: Any) -> Found:
        """Two tensors. One is as exact as its largest elements: rounding of a sum is relative to its terms."""
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return where, f"{tuple(a.shape)} {a.dtype}", f"{tuple(b.shape)} {b.dtype}", *APART
        a, b = a.detach(), b.detach()
        if a.layout != self.torch.strided or b.layout != self.torch.strided:
            a, b = a.to_dense(), b.to_dense()
        if a.is_quantized:
            a, b = a.dequantize(), b.dequantize()
        if not a.numel() or self.torch.equal(a, b):
            return where, *self.sizes(a, a), *SAME
        if not (a.is_floating_point() or a.is_complex()):
            count = int((a != b).sum())
            return (
                where,
                short(a.flatten()[a.flatten() != b.flatten()][0].item()),
                f"{count} differ",
                *APART,
            )
        wide = self.torch.complex128 if a.is_complex() else self.torch.float64
        x, y = a.to(wide), b.to(wide)
        odd = ~(self.torch.isfinite(x) & self.torch.isfinite(y))
        same = (x == y) | (self.torch.isnan(x) & self.torch.isnan(y))
        if bool((odd & ~same).any()):
            return where, *self.sizes(a, b), *APART
        x, y = (value.masked_fill(odd, 0) for value in (x, y))
        far, scale = self.size(x - y), self.size(x)
        allowed = self.absolute * (1 + 1e-6) + self.many * scale
        # where a tensor is zero in one run, its difference is as large as itself
        relative = far / (scale or self.size(y) or 1.0)
        return where, *self.sizes(x, y), relative, far / allowed if allowed else math.inf, far, scale

    def size(self, x: Any) -> float:
        """The length of a tensor, or its largest element."""
        return float(x.norm() if self.norm else x.abs().max()) if x.numel() else 0.0

    def sizes(self, a: Any, b: Any) -> tuple[str, str]:
        """What stands for two tensors in a table: their lengths."""
        try:
            return f"|{shown(float(a.double().norm()))}|", f"|{shown(float(b.double().norm()))}|"
        except (RuntimeError, TypeError):
            return "tensor", "tensor"


def everything(path: str) -> Any:
    """What a file holds that `pickle.dump` wrote, once or several times."""
    found = []
    with open(path, "rb") as file:
        while file.peek(1):
            found.append(Careful(file).load())
    return found[0] if len(found) == 1 else found


def careful() -> ModuleType:
    """A module that `torch.load` takes in place of `pickle`."""
    module = ModuleType("careful_pickle")
    vars(module).update({name: value for name, value in vars(pickle).items() if not name.startswith("__")})
    module.Unpickler = Careful  # type: ignore[attr-defined]
    module.load = lambda file, **options: Careful(file, **options).load()  # type: ignore[attr-defined]
    return module


def named(key: Any) -> str:
    """A key behind the name of what holds it."""
    return f" {key}" if isinstance(key, str) else f"[{key!r}]"


def short(value: Any) -> str:
    """A value in a few characters."""
    text = repr(value) if not isinstance(value, str) else value
    return text if len(text) <= 40 else f"{text[:37]}..."


def main() -> None:
    """Read the names of files, compare them, and tell what was found of each."""
    job = json.load(sys.stdin)
    differ = Differ(importlib.import_module("torch"), job["many"], job["absolute"], job["norm"])
    answer: list[dict[str, Any]] = []
    for name, left, right in job["files"]:
        try:
            found = list(differ.compare(f"{name}:", differ.load(left), differ.load(right)))
            answer.append({"name": name, "rows": found})
        except Exception as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"
            answer.append({"name": name, "reason": reason})
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
