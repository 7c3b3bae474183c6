"""The codemod over installed Python files: a sample in each run, all of them with `python bench/robustness.py`."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from bench import robustness
from bench.robustness import BAD, GRAFT, Row, Task, examine
from distify.codemod.options import Options
from distify.codemod.rewrite import InternalError, rewrite_source

TRAINING = b"""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(9, 4), torch.randint(0, 3, (9,)))
model = nn.Linear(4, 3)
optimizer = optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(data, batch_size=4):
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""


@cache
def installed() -> list[str]:
    """All files by the hashes of their names."""
    files = robustness.python_files(robustness.default_roots())
    return robustness.sampled(files, len(files))


def sample(names_torch: bool, count: int, size: int) -> list[str]:
    """Small installed files, the same in each run, that may train or that surely don't."""
    found: list[str] = []
    for path in installed():
        if os.path.getsize(path) < size and (b"torch" in Path(path).read_bytes()) is names_torch:
            found.append(path)
            if len(found) == count:
                break
    return found


@pytest.mark.parametrize(
    ("names_torch", "task", "count", "size"),
    [(True, Task(), 50, 15_000), (False, Task(), 90, 100_000), (False, Task(graft=True), 10, 5_000)],
    ids=["naming torch", "others", "grafted"],
)
def test_installed_files(names_torch: bool, task: Task, count: int, size: int) -> None:
    rows = [examine(path, task) for path in sample(names_torch, count, size)]
    assert len(rows) == count
    assert [row for row in rows if row.outcome in BAD] == []


# What made the analysis slow without bound, in small. Each took minutes; now it is done in a second.
UNBOUNDED = {
    # Objects whose methods make more of their kind: each had cells of its own.
    "objects of objects": """
class Point:
    def __init__(self, x, z):
        self.x, self.z = x, z

    def add(self, other, diff):
        return Point(self.x * other.z - diff.x, self.z + other.x)

    def double(self):
        return Point(self.x * self.x, self.z - self.x)

    def ladder(self, k):
        low, high = self, self.double()
        for bit in bin(k)[3:]:
            if bit == "1":
                low, high = high.add(low, self), high.double()
            else:
                low, high = low.double(), low.add(high, self)
        return low
""",
    # Lists in dicts in lists: what they hold was gone through once for each way that leads there.
    "containers of containers": """
def applied(rules, d, var={}):
    found = {}
    if isinstance(rules, list):
        for rule in rules:
            found = appended(found, applied(rule, d, var))
        return found
    for key in rules.keys():
        if isinstance(rules[key], dict):
            for other in list(rules[key].keys()):
                found[key] = rules[key][other]
        elif isinstance(rules[key], list):
            found[key] = [applied(item, d, var) for item in rules[key]]
        else:
            found[key] = [unknown(rules[key], d)]
    return found


def appended(found, more):
    if isinstance(more, list):
        for item in more:
            found = appended(found, item)
        return found
    for key in more.keys():
        if key in found:
            if isinstance(found[key], dict):
                found[key] = appended(found[key], more[key])
            else:
                found[key] = [found[key]] + more[key]
        else:
            found[key] = more[key]
    return found
""",
}


@pytest.mark.parametrize("name", UNBOUNDED)
def test_what_once_took_minutes(name: str) -> None:
    start = time.process_time()
    result = rewrite_source(b"import torch\n" + UNBOUNDED[name].encode() + GRAFT, "train.py", Options(budget=20))
    assert result.changed
    assert time.process_time() - start < 20


def test_code_that_steps_and_takes_no_gradients_is_not_interpreted() -> None:
    """A library of 400 kB that steps through ranges took minutes."""
    functions = "".join(
        f"def f{i}(r): return [f{j}(r.step) for j in r] if r else f{i + 1}(r)\n" for i in range(9) for j in (i,)
    )
    start = time.process_time()
    assert not rewrite_source(b"import torch\n" + functions.encode(), "ranges.py", Options(budget=5)).findings
    assert time.process_time() - start < 5


# ---- the bench itself ------------------------------------------------------------------------------------------------


@pytest.fixture
def training(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_bytes(TRAINING)
    return str(path)


def test_outcomes(tmp_path: Path, training: str) -> None:
    assert examine(training, Task()).outcome == "converted"
    for name, text, outcome in (
        ("plain.py", b"print(1)\n", "skipped"),
        ("named.py", b"import torch\nprint(torch.ones(1))\n", "untouched"),
        ("wrong.py", b"import torch\nprint(\n", "no python"),
        ("grafted.py", b"from math import pi\n", "converted"),
        ("refused.py", TRAINING.replace(b"nn.Linear(4, 3)", b"nn.DataParallel(nn.Linear(4, 3))"), "converted"),
    ):
        (tmp_path / name).write_bytes(text)
        assert examine(str(tmp_path / name), Task(graft=name == "grafted.py")).outcome == outcome, name


@pytest.mark.parametrize(
    ("outcome", "change"),
    [
        ("unparsable", lambda result: replace(result, data=b"print(")),
        ("unstable", lambda result: replace(result, data=result.data + b"#")),
        ("touched", lambda result: replace(result, data=result.data + b"#", training=False)),
    ],
)
def test_failures_are_seen(training: str, monkeypatch: pytest.MonkeyPatch, outcome: str, change) -> None:
    from distify.codemod.rewriter import Rewriter

    results = Rewriter.results
    monkeypatch.setattr(Rewriter, "results", lambda self: [change(result) for result in results(self)])
    assert examine(training, Task()).outcome == outcome


def test_a_crash_is_seen(training: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise InternalError("train.py: IndexError: 3")

    monkeypatch.setattr("distify.codemod.rewriter.make_plans", broken)
    row = examine(training, Task())
    assert (row.outcome, row.detail) == ("crash", "InternalError: train.py: IndexError: 3")


def test_a_run_goes_on_where_it_was_stopped(tmp_path: Path, training: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.jsonl"
    other = tmp_path / "other.py"
    other.write_text("print(1)\n")
    file.write_text(json.dumps({"path": training, "outcome": "crash", "detail": "of before"}) + '\n{"path": "cut o')
    arguments = [training, str(other), "--results", str(file), "--nice", "0"]
    assert robustness.main(arguments) == 1
    assert robustness.read_rows(file)[training] == Row(training, "crash", detail="of before")
    assert robustness.read_rows(file)[str(other)].outcome == "skipped"
    assert robustness.main([*arguments, "--again", "crash,slow"]) == 0
    assert robustness.read_rows(file)[training].outcome == "converted"
    assert "2 files, 0 failures" in capsys.readouterr().out


def test_a_worker_that_takes_too_long_is_replaced(training: str) -> None:
    worker = robustness.Worker(Task())
    first = worker.process.pid
    worker.give(training)
    row = worker.take(limit=0.0)
    assert row is not None
    assert (row.path, row.outcome) == (training, "slow")
    assert worker.process.pid != first
    worker.process.kill()
