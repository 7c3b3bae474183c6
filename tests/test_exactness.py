"""docs/exactness.md: its script and its commands do what it says, and its table is that of the codemod."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import torch

from distify.codemod.__main__ import run as distify
from distify.codemod.facts.losstable import CLASSES, DIVISORS
from tests.pool import ROOT, Pool

PAGE = (ROOT / "docs" / "exactness.md").read_text(encoding="utf-8")
SCRIPT = re.findall(r"```python\n(.*?)```", PAGE, re.S)[0]
COMMANDS = [line for block in re.findall(r"```console\n(.*?)```", PAGE, re.S) for line in block.splitlines()]
EXACT = ("order", "drawn", "right")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exactness")


@pytest.fixture(scope="module")
def outputs(folder: Path, pool1: Pool, pool2: Pool, pool3: Pool) -> dict[str, str]:
    """What each command of the page writes, by the name of the file."""
    (folder / "train.py").write_text(SCRIPT)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in COMMANDS:
            ran(command, folder, {1: pool1, 2: pool2, 3: pool3})
    return {path.name: path.read_text() for path in folder.glob("*.txt")}


def ran(command: str, folder: Path, pools: dict[int, Pool]) -> None:
    """Do what a line of the page says; tests that it names must be there, and run by themselves."""
    words = shlex.split(command)
    variables = dict(words.pop(0).split("=") for _ in range(1) if "=" in words[0])
    target = words[words.index(">") + 1] if ">" in words else None
    words = words[: words.index(">")] if target else words
    if words[0] == "pytest":
        assert all((ROOT / word).exists() for word in words[1:])
    elif words[0] == "distify":
        assert distify([*words[1:], "-q"]) == 0
    elif words[0] == "sed":
        before, after = words[1].split("/")[1:3]
        text = (folder / words[2]).read_text()
        assert text.count(before) == 1
        assert target is not None
        (folder / target).write_text(text.replace(before, after))
    else:
        count, script, *rest = (1, *words[1:]) if words[0] == "python" else (int(words[2]), *words[3:])
        env = {name: str(folder / value) for name, value in variables.items()}
        assert target is not None
        (folder / target).write_text(pools[count].script(folder / script, rest, folder, env).check().stdout)


def lines(text: str, *labels: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(labels)]


def difference(left: str, right: str, label: str) -> float:
    """The largest difference between the numbers of lines, relative to the largest number."""
    a, b = (
        torch.tensor([float(word) for line in lines(text, label) for word in line.split()[1:]], dtype=torch.float64)
        for text in (left, right)
    )
    assert len(a) == len(b) > 0
    return float((a - b).abs().max() / a.abs().max())


def test_bit_for_bit(outputs: dict[str, str]) -> None:
    assert outputs["alone.txt"] == outputs["original.txt"]
    assert outputs["again.txt"] == outputs["three.txt"]
    expected = lines(outputs["original.txt"], *EXACT)
    assert len(expected) == 4 * 8 + 4 + 4
    for name in ("two.txt", "three.txt", "sharded.txt"):
        assert lines(outputs[name], *EXACT) == expected


@pytest.mark.parametrize("name", ["two.txt", "three.txt", "sharded.txt"])
def test_up_to_rounding(name: str, outputs: dict[str, str]) -> None:
    original = outputs["original.txt"]
    assert outputs[name] != original, "rounding is seen in the last digits"
    assert difference(original, outputs[name], "loss") < 1e-6
    assert difference(original, outputs[name], "weights") < 1e-5


def test_windows(outputs: dict[str, str]) -> None:
    assert difference(outputs["large.txt"], outputs["windows.txt"], "weights") < 1e-5


def test_traces(outputs: dict[str, str], folder: Path) -> None:
    two, three = ((folder / name).read_text().splitlines() for name in ("two.jsonl", "three.jsonl"))
    assert len(two) == len(three) == 2 * 4 * 8
    for a, b in zip(two, three):
        left, right = (re.findall(r"[-\d.e]+(?=[,}])", line)[-1] for line in (a, b))
        assert float(left) == pytest.approx(float(right), rel=1e-5)


def test_the_checkpoint(outputs: dict[str, str], folder: Path) -> None:
    state = torch.load(folder / "model.pt", weights_only=True)
    assert set(state) >= {"0.weight", "3.bias"}


def test_the_table_of_divisors() -> None:
    section = PAGE.split("## By what each loss divides")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("| `")]
    assert {row[0].strip("`"): row[2] for row in rows} == DIVISORS
    found = {name.strip("` "): row[0].strip("`") for row in rows for name in row[1].split(",") if name.strip()}
    assert found == {name: function for name, (function, _) in CLASSES.items()}


def test_files_of_the_tables_are_there() -> None:
    named = re.findall(r"`pytest ([^`]*)`", PAGE)
    assert len(named) == 6
    assert all((ROOT / word).exists() for words in named for word in words.split())
