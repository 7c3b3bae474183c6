"""Equality of two training runs: their standard output number by number, and the files that they left."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?(?![\w])|[-+]?\b(?:nan|inf)\b")
STEP = 1e-5  # relative; rounding of one step
MANY = 2e-4  # relative; rounding after many steps
ABS = 1e-6


def close(a: float, b: float, rel: float, absolute: float = ABS) -> bool:
    """Whether two numbers are equal up to rounding; NaN equals NaN, an infinity only itself."""
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or math.isinf(b):
        return a == b or (math.isnan(a) and math.isnan(b))
    return abs(a - b) <= absolute * (1 + 1e-6) + rel * max(abs(a), abs(b))


def parse(text: str) -> tuple[str, list[float]]:
    """A line's text with `#` for each number, and the numbers."""
    return NUMBER.sub("#", text), [float(found.group()) for found in NUMBER.finditer(text)]


def assert_output_equal(expected: str, actual: str, step: float = STEP, many: float = MANY) -> None:
    """Compare two outputs line by line; the relative tolerance grows from `step` by `step` a line, up to `many`."""
    left, right = expected.splitlines(), actual.splitlines()
    assert len(left) == len(right), f"{len(left)} lines became {len(right)}\n{_both(expected, actual)}"
    for number, (a, b) in enumerate(zip(left, right)):
        (text_a, values_a), (text_b, values_b) = parse(a), parse(b)
        rel = min(many, step * (number + 1))
        equal = text_a == text_b and all(close(x, y, rel) for x, y in zip(values_a, values_b))
        assert equal, f"line {number + 1}, relative tolerance {rel:g}:\n- {a}\n+ {b}\n{_both(expected, actual)}"


def assert_files_equal(
    expected: Path, actual: Path, many: float = MANY, absolute: float = ABS, norm: bool = False
) -> None:
    """Compare two folders: the same files, and equal contents of each."""
    left, right = files(expected), files(actual)
    assert left == right, f"files {left} became {right}"
    for name in left:
        a, b = read(expected / name), read(actual / name)
        assert_equal(a, b, name, many, absolute, norm)


def files(folder: Path) -> list[str]:
    """Relative names of all files below a folder."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts)


def read(path: Path) -> Any:
    """What a file holds: objects, JSON, or text as a list of lines."""
    if path.suffix in (".pt", ".pth", ".tar", ".pkl", ".ckpt", ".bin"):
        return torch.load(path, map_location="cpu", weights_only=False)
    if path.suffix == ".npy":
        return torch.from_numpy(np.load(path))
    if path.suffix == ".json":
        return json.loads(path.read_text())
    return [parse(line) for line in path.read_text().splitlines()]


def assert_equal(a: Any, b: Any, where: str, many: float = MANY, absolute: float = ABS, norm: bool = False) -> None:
    """Compare objects recursively: keys and their order, shapes, dtypes, values up to rounding.

    Tensors are compared by their largest difference, or by the Euclidean norm of all (`norm`).
    """
    if isinstance(a, torch.Tensor):
        assert isinstance(b, torch.Tensor), f"{where}: tensor became {type(b).__name__}"
        assert type(a) is type(b), f"{where}: {type(a).__name__} became {type(b).__name__}"
        assert (a.shape, a.dtype, a.requires_grad) == (b.shape, b.dtype, b.requires_grad), (
            f"{where}: {tuple(a.shape)} {a.dtype} {a.requires_grad} became {tuple(b.shape)} {b.dtype} {b.requires_grad}"
        )
        if not a.is_floating_point():
            assert torch.equal(a, b), f"{where}: {a} became {b}"
            return
        # a tensor is as exact as its largest elements: rounding of a sum is relative to its terms
        scale, worst = (_size(x, norm) for x in (a, a - b))
        assert close(worst, 0.0, 0.0, absolute + many * scale), f"{where}: off by {worst:g}, largest value {scale:g}"
    elif isinstance(a, Mapping):
        assert isinstance(b, Mapping), f"{where}: mapping became {type(b).__name__}"
        assert list(a) == list(b), f"{where}: keys {list(a)} became {list(b)}"
        for key in a:
            assert_equal(a[key], b[key], f"{where}[{key!r}]", many, absolute, norm)
        if hasattr(a, "_metadata"):
            assert_equal(a._metadata, getattr(b, "_metadata", None), f"{where}._metadata")
    elif isinstance(a, Sequence) and not isinstance(a, (str, bytes)):
        assert (type(a), len(a)) == (type(b), len(b)), f"{where}: {a!r} became {b!r}"
        for index, (x, y) in enumerate(zip(a, b)):
            assert_equal(x, y, f"{where}[{index}]", many, absolute, norm)
    elif isinstance(a, torch.nn.Module):
        assert type(a).__name__ == type(b).__name__, f"{where}: {type(a)} became {type(b)}"
        assert_equal(a.state_dict(), b.state_dict(), f"{where}.state_dict()", many, absolute, norm)
    elif isinstance(a, float):
        assert isinstance(b, float), f"{where}: {a!r} became {b!r}"
        assert close(a, b, many, absolute), f"{where}: {a!r} became {b!r}"
    else:
        assert (type(a), a) == (type(b), b), f"{where}: {a!r} became {b!r}"


def _size(x: torch.Tensor, norm: bool) -> float:
    if not x.numel():
        return 0.0
    return float(x.norm() if norm else x.abs().max())


def _both(expected: str, actual: str) -> str:
    return f"--- original ---\n{expected}\n--- converted ---\n{actual}"
