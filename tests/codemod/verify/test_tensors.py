"""Files of tensors, side by side."""

from __future__ import annotations

import math
import sys

import pytest
import torch
from torch import nn

from distify.codemod.verify.child.tensors import Differ
from distify.codemod.verify.found import Check
from distify.codemod.verify.numbers import Tolerance
from distify.codemod.verify.saved import compare_tensors, has_tensors, pairs


def harm():
    raise AssertionError("something of the file was executed")


class Harmful:
    """Does something when it is unpickled."""

    def __reduce__(self):
        return harm, ()


def saved(tmp_path, name, value, **options):
    path = str(tmp_path / f"{name}.pt")
    torch.save(value, path, **options)
    assert has_tensors(path)
    return path


def compared(tmp_path, a, b, norm=False):
    differ = Differ(torch, 2e-4, 1e-6, norm)
    paths = [saved(tmp_path, "a", a), saved(tmp_path, "b", b)]
    return {what: excess for what, _, _, _, excess in differ.compare("f:", *map(differ.load, paths))}


BASE = {"w": torch.tensor([1.0, -2.0]), "n": torch.tensor([1, 2]), "epoch": 3, "loss": 0.5, "list": [1.0, "a"]}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({}, None),
        ({"w": torch.tensor([1.0001, -2.0])}, None),
        ({"w": torch.tensor([1.001, -2.0])}, "f: w"),
        ({"w": torch.tensor([1.0, math.nan])}, "f: w"),
        ({"w": torch.tensor([1.0, -2.0], dtype=torch.float64)}, "f: w"),
        ({"w": torch.tensor([[1.0, -2.0]])}, "f: w"),
        ({"n": torch.tensor([1, 3])}, "f: n"),
        ({"epoch": 4}, "f: epoch"),
        ({"loss": 0.51}, "f: loss"),
        ({"list": [1.0, "b"]}, "f: list[1]"),
        ({"list": [1.0]}, "f: list: length"),
        ({"more": 1}, "f: more"),
    ],
)
def test_what_differs(tmp_path, change, where):
    found = compared(tmp_path, BASE, {**BASE, **change})
    assert [what for what, excess in found.items() if excess > 1] == ([] if where is None else [where])


def test_by_norm_one_element_may_be_off(tmp_path):
    a, b = torch.ones(10_000), torch.ones(10_000)
    b[7] += 0.01
    assert max(compared(tmp_path, a, b).values()) > 1
    assert max(compared(tmp_path, a, b, norm=True).values()) <= 1


def test_whole_models_are_compared_and_nothing_of_a_file_is_executed(tmp_path):
    one, other = nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 2))
    same = compared(tmp_path, {"net": one, "x": Harmful()}, {"net": one, "x": Harmful()})
    assert same
    assert max(same.values()) == 0
    assert max(compared(tmp_path, one, other).values()) > 1


def test_files_are_matched_by_name_but_for_times():
    left = ["model.pt", "runs/a_12345/log.txt", "only.txt"]
    right = ["model.pt", "runs/a_67/log.txt"]
    assert list(pairs(left, right)) == [
        ("model.pt", "model.pt"),
        ("only.txt", None),
        ("runs/a_12345/log.txt", "runs/a_67/log.txt"),
    ]


@pytest.mark.parametrize("version", sorted({sys.version_info[:2], (3, 10)}))
def test_a_file_of_the_working_directory_replaces_no_library(tmp_path, monkeypatch, version):
    monkeypatch.setattr("distify.codemod.spawned.sys.version_info", version)
    (tmp_path / "pickle.py").write_text("raise SystemExit('not the library')\n")
    monkeypatch.chdir(tmp_path)
    files = [("x.pt", saved(tmp_path, "a", BASE), saved(tmp_path, "b", {**BASE, "w": torch.tensor([1.00001, -2.0])}))]
    check = Check("files", "value")
    compare_tensors(check, files, Tolerance())
    assert check.compared > len(BASE)
    assert check.notes == []
    assert check.equal
