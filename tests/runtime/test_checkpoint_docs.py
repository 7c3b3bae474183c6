"""docs/checkpoints.md: its script and its commands do what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import torch
from torch import nn

from distify.codemod.__main__ import run as distify
from distify.runtime.consolidate import main as consolidate
from tests.pool import ROOT, Pool

PAGE = (ROOT / "docs" / "checkpoints.md").read_text()
SCRIPT = re.findall(r"```python\n(.*?)```", PAGE, re.S)[0]
COMMANDS = [line for block in re.findall(r"```console\n(.*?)```", PAGE, re.S) for line in block.splitlines()]


def lines(text: str) -> list[list[float]]:
    return [[float(number) for number in re.findall(r"\d+\.?\d*", line)] for line in text.splitlines()]


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pool2: Pool, pool3: Pool) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "train.py"
    file.write_text(SCRIPT)
    assert distify(["rewrite", str(file), "--check"]) == 0  # the lines are left alone
    (tmp_path / "whole").mkdir()
    whole = pool2.script(file, ["--epochs", "5"], cwd=tmp_path / "whole").check().stdout
    shown = ""
    for command in COMMANDS:
        words = shlex.split(command)
        if words[0] == "torchrun":
            pool = {2: pool2, 3: pool3}[int(words[2])]
            shown += pool.script(file, words[4:], cwd=tmp_path).check().stdout
        elif words[0] == "python":
            shown += pool2.script(file, words[2:], cwd=tmp_path).check().stdout
        else:
            assert words[:2] == ["distify", "consolidate"]
            assert consolidate(words[2:]) == 0
    assert len(lines(whole)) == 5
    for found, expected in zip(lines(shown), lines(whole), strict=True):
        assert found == pytest.approx(expected, abs=2e-5)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
    model.load_state_dict(torch.load("weights.pt"))
    everything = torch.load("everything.pt")
    assert {"model", "optimizer", "scheduler", "epoch"} <= everything.keys()
    assert sorted(path.name for path in (tmp_path / "states").iterdir()) == ["state-00000012", "state-00000013"]
