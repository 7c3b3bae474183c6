"""The comparison itself must be able to fail."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.parity.compare import assert_equal, assert_files_equal, assert_output_equal, parse


def test_numbers_are_found_between_text() -> None:
    text, numbers = parse("epoch 3 [16/150 (11%)]\tLoss: -1.5e-03 Acc@1 nan x2 v1.0.1")
    assert numbers[:5] == [3.0, 16.0, 150.0, 11.0, -0.0015]
    assert text.startswith("epoch # [#/# (#%)]\tLoss: # Acc@")


@pytest.mark.parametrize(
    ("changed", "equal"),
    [
        ("loss 0.500001 lr 3", True),
        ("loss 0.500100 lr 3", False),
        ("loss 0.500000 lr 4", False),
        ("loss 0.500000 rate 3", False),
        ("loss 0.500000 lr 3\nmore", False),
        ("loss nan lr 3", False),
    ],
)
def test_output(changed: str, equal: bool) -> None:
    if equal:
        assert_output_equal("loss 0.500000 lr 3", changed)
        return
    with pytest.raises(AssertionError):
        assert_output_equal("loss 0.500000 lr 3", changed)


def test_tolerance_grows_by_line() -> None:
    first = "loss 100.000000\n" * 15
    assert_output_equal(first, first[: -len("100.000000\n")] + "100.010000\n")
    with pytest.raises(AssertionError, match="line 1,"):
        assert_output_equal(first, "loss 100.010000\n" + first[len("loss 100.000000\n") :])


def test_objects() -> None:
    model = torch.nn.Linear(2, 2)
    a: dict[str, Any] = {"model": model.state_dict(), "epoch": 3, "loss": 0.5, "betas": (0.9, 0.99)}
    assert_equal(a, copy.deepcopy(a), "a")
    changes = {
        "epoch": 4,
        "loss": 0.51,
        "betas": [0.9, 0.99],
        "model": {key: value.double() for key, value in a["model"].items()},
    }
    for key, value in changes.items():
        with pytest.raises(AssertionError, match=f"{key}"):
            assert_equal(a, {**a, key: value}, "a")
    with pytest.raises(AssertionError, match="keys"):
        assert_equal(a, dict(reversed(a.items())), "a")


def test_files(tmp_path: Path) -> None:
    left, right = tmp_path / "a", tmp_path / "b"
    for folder in (left, right):
        folder.mkdir()
        torch.save(torch.ones(3), folder / "x.pt")
        (folder / "log.csv").write_text("epoch,loss\n1,0.25\n")
    assert_files_equal(left, right)
    (right / "log.csv").write_text("epoch,loss\n1,0.26\n")
    with pytest.raises(AssertionError, match=r"log\.csv"):
        assert_files_equal(left, right)
    (right / "log.csv").unlink()
    with pytest.raises(AssertionError, match="files"):
        assert_files_equal(left, right)
