"""Runs for real: a conversion that is the same run, and one by hand that is not. Six processes start torch in all."""

from __future__ import annotations

import json
import subprocess

import pytest

from distify.codemod.verify.main import verify
from distify.codemod.verify.request import Request
from distify.codemod.verify.sources import Unable, original_of

# Draws without a seed, from all three generators; has every kind of dropout; reads, appends to and overwrites files.
SCRIPT = """
import argparse
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from parts.net import Net

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
inputs = torch.tensor(np.loadtxt("data/inputs.txt"), dtype=torch.float32) + random.random()
labels = (inputs[:, 0] > inputs[:, 1]).long()
loader = DataLoader(TensorDataset(inputs + np.random.rand() + torch.rand(1), labels), batch_size=5, shuffle=True)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
for epoch in range(2):
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.6f}")
    with open("log.csv", "a") as log:
        log.write(f"{epoch},{loss.item():.6f}\\n")
torch.save({"model": model.state_dict(), "args": args, "net": nn.Linear(1, 1)}, "model.pt")
"""
NET = """
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.5))
        self.recurrent = nn.LSTM(8, 8, num_layers=2, dropout=0.5, batch_first=True)
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True)
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        x, _ = self.recurrent(self.first(x).unsqueeze(1))
        x, _ = self.attention(x, x, x, need_weights=False)
        return self.last(F.dropout(x.squeeze(1), 0.5, self.training))
"""


def project(tmp_path, monkeypatch):
    """The script with what it needs, in a git repository."""
    for folder in ("parts", "data"):
        (tmp_path / folder).mkdir()
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "parts" / "net.py").write_text(NET)
    (tmp_path / "data" / "inputs.txt").write_text("\n".join(f"{k % 3} {k % 5} {k} 1" for k in range(23)))
    (tmp_path / "log.csv").write_text("epoch,loss\n")
    (tmp_path / "model.pt").write_bytes(bytes(5 << 20))  # too large to be copied
    monkeypatch.chdir(tmp_path)


def test_a_conversion_is_the_same_run(tmp_path, monkeypatch, capfd):
    project(tmp_path, monkeypatch)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    page = tmp_path / "page.html"
    asked = Request(
        "train.py", ["--lr", "0.05"], device="cpu", dropout=False, html=str(page), format="json", quiet=True
    )
    code = verify(asked)
    told = capfd.readouterr()
    assert code == 0, told
    (run,) = json.loads(told.out)["runs"]
    checks = run["checks"]
    assert {name: check["compared"] for name, check in checks.items() if name != "files"} == {
        "losses": 10,
        "gradients": 10,
        "output": 2,
    }
    assert 0 < checks["losses"]["largest"] < 1e-5
    assert checks["files"]["compared"] >= 30
    assert "2 files written by both runs: log.csv, model.pt" in checks["files"]["notes"]
    assert any("sets no seed" in note for note in run["notes"])
    assert page.read_text().count("<svg") == 2
    page.unlink()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_conversion_by_hand_that_loses_momentum(tmp_path, monkeypatch, capfd):
    project(tmp_path, monkeypatch)
    (tmp_path / "by_hand.py").write_text(SCRIPT.replace(", momentum=0.9", ""))
    asked = Request("by_hand.py", original="train.py", processes=1, steps=4, device="cpu", dropout=False, quiet=True)
    code = verify(asked)
    told = capfd.readouterr().out
    assert code == 1, told
    assert "DIFFERS, first at loss of backward 3" in told
    assert "1. all is equal up to the step before: the state of the optimizer" in told
    assert "losses: 4 backward calls compared, 2 of them differ" in told
    assert "both were ended after 4 optimizer steps" in told


def test_the_original_of_a_converted_script_is_found_in_git(tmp_path, monkeypatch):
    project(tmp_path, monkeypatch)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for text in (SCRIPT, "from distify import runtime\n" + SCRIPT):
        (tmp_path / "train.py").write_text(text)
        for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
            subprocess.run([*git, *command], check=True)
    found = original_of("train.py", ["train.py", "parts/net.py"])
    assert found.texts == {str(tmp_path / "train.py"): SCRIPT.encode()}
    assert "its version in git, commit" in found.told
    (tmp_path / "new.py").write_text("from distify import runtime\n")
    with pytest.raises(Unable, match=r"--original FILE.*no version of it"):
        original_of("new.py", ["new.py"])
