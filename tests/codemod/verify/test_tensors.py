"""Files of tensors, side by side."""

from __future__ import annotations

import gzip
import math
import pickle
import sys

import numpy as np
import pytest
import torch
from torch import nn

from distify.codemod.verify.child.tensors import Differ
from distify.codemod.verify.found import Check
from distify.codemod.verify.mirror import Mirror
from distify.codemod.verify.numbers import Tolerance, tolerance_of
from distify.codemod.verify.saved import compare_files, compare_tensors, has_tensors, pairs


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
    return {what: excess for what, _, _, _, excess, *_ in differ.compare("f:", *map(differ.load, paths))}


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


@pytest.mark.parametrize(
    ("steps", "given", "apart", "equal"),
    [
        (3, None, 1e-4, False),  # a step of Adam at a small rate
        (3, None, 1e-5, True),
        (100, None, 1e-4, True),
        (0, None, 1e-4, True),
        (3, 1e-3, 5e-4, True),  # asked for
    ],
)
def test_what_is_saved_after_few_steps_is_nearer(steps, given, apart, equal):
    tolerance = tolerance_of("fp32", given).after(steps)
    differ = Differ(torch, tolerance.many, tolerance.absolute, tolerance.norm)
    rows = differ.compare("f:", torch.ones(3), torch.ones(3) + torch.tensor([0, 0, apart]))
    assert (max(row[4] for row in rows) <= 1) is equal


def test_small_values_are_no_zeros():
    tolerance = Tolerance().after(10)
    differ = Differ(torch, tolerance.many, tolerance.absolute, tolerance.norm)
    (row,) = differ.compare(
        "f:", {"exp_avg_sq": torch.tensor([1e-9, 4e-9])}, {"exp_avg_sq": torch.tensor([1e-9, 1e-9])}
    )
    assert row[4] > 1
    assert row[5:] == pytest.approx((3e-9, 4e-9))
    (row,) = differ.compare("f:", {"lr": 5e-7}, {"lr": 1e-6})
    assert row[4] > 1


def write(folder, name, value):
    """Files of each kind in a folder, which hold a value."""
    with (folder / f"{name}.pkl").open("wb") as file:
        pickle.dump({"made": Harmful()}, file)
        pickle.dump({"loss": value, "n": np.array([1, value], dtype=object), "s": {"b"}}, file)
    np.savez(folder / f"{name}.npz", loss=np.array([value, 1.0]), text=np.array(["a"]))
    with gzip.open(folder / f"{name}.gz", "wt") as packed:
        packed.write(f"loss {value:.7f}")
    (folder / f"{name}.json").write_text(f'{{"loss": {value!r}, "at": "2024-05-0{1 + (value > 1)}T10:10:10"}}')


def test_files_of_any_kind_are_compared_by_their_numbers(tmp_path):
    for side, near, far in (("a", 1.0, 1.0), ("b", 1.0 + 1e-6, 1.003)):
        (tmp_path / side).mkdir()
        write(tmp_path / side, "near", near)
        write(tmp_path / side, "far", far)
    check = compare_files(*(Mirror("", str(tmp_path / side)) for side in "ab"), Tolerance(), 5)
    assert {row.what.partition(" ")[0].partition(":")[0] for row in check.rows} == {
        f"far.{kind}" for kind in ("pkl", "npz", "gz", "json")
    }
    assert all(0.001 < row.difference < 0.01 for row in check.rows)


def test_names_that_differ_in_numbers_differ(tmp_path):
    for side, name in (("a", "best_0.83.txt"), ("b", "best_0.81.txt")):
        (tmp_path / side).mkdir()
        for each in (name, f"log_{1714732951 + len(name + side)}.txt", f"2024050{len(side)}_101010.txt"):
            (tmp_path / side / each).write_text("same")
    check = compare_files(*(Mirror("", str(tmp_path / side)) for side in "ab"), Tolerance())
    assert [(row.original, row.rewritten) for row in check.rows] == [("best_0.83.txt", "best_0.81.txt")]


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
