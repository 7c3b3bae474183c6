"""Nothing in the runtime sends numbers to a GPU in a way that waits for it."""

from __future__ import annotations

import ast
from pathlib import Path

import torch

from distify.runtime.sent import sent

RUNTIME = Path(__file__).parents[2] / "runtime"
FITTING = {
    "averages.py": "gradients of gradients, which wait for an answer anyway",
    "inner.py": "the same",
    "zero_used.py": "flags that gloo reduces on the CPU",
}


def test_numbers_arrive() -> None:
    found = sent([3, 0, 2], torch.device("cpu"))
    assert (found.tolist(), found.dtype) == ([3, 0, 2], torch.int64)


def test_no_tensor_is_made_on_a_device_from_numbers() -> None:
    waiting = {
        file.name
        for file in RUNTIME.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("torch.tensor", "torch.as_tensor")
        and any(keyword.arg == "device" for keyword in node.keywords)
    }
    assert waiting == set(FITTING)
