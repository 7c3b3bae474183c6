"""Several processes give what one gives, in its order."""

from __future__ import annotations

import json
import os

import pytest

from distify.codemod import parallel
from distify.codemod.__main__ import run
from tests.codemod.test_cli import TRAIN

MODEL = "from torch import nn\n\n\ndef make():\n    return nn.Linear(3, 1)\n"
SPLIT = TRAIN.replace("model = nn.Linear(3, 1)", "model = make()").replace(
    "import torch\n", "import torch\nfrom model import make\n"
)


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = {
        "one.py": TRAIN,
        "two.py": SPLIT,
        "three.py": SPLIT.replace("0.1", "0.2"),
        "model.py": MODEL,
        "wrapped.py": TRAIN.replace("nn.Linear(3, 1)", "nn.parallel.DistributedDataParallel(nn.Linear(3, 1))"),
        "broken.py": TRAIN + "(\n",
        "plain.py": "import os\n",
        "last.py": TRAIN.replace("Linear(3, 1)", "Linear(3, 1, bias=False)"),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return list(texts)


def answers(capfd, *words):
    code = run(list(words))
    said = capfd.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize("words", ["rewrite --check", "check", "rewrite --diff --format json --partial"])
def test_outputs_do_not_depend_on_the_number(scripts, capfd, words):
    verb, *more = words.split()
    alone = answers(capfd, verb, *more, *scripts, "-j", "1")
    assert "broken.py" in alone[2]
    assert answers(capfd, verb, *more, *scripts, "-j", "3") == alone


def test_conversions_do_not_depend_on_the_number(scripts, capfd, tmp_path):
    names = [name for name in scripts if name != "broken.py"]
    told = []
    for number in (1, 4):
        code, _, said = answers(capfd, "rewrite", "--partial", *names, "-o", f"out{number}/", "-j", str(number))
        assert code == 1
        told.append(
            (
                said.replace(f"out{number}", "out"),
                {path.name: path.read_text() for path in (tmp_path / f"out{number}").iterdir()},
            )
        )
    assert told[0] == told[1]
    assert "runtime.prepare" in told[0][1]["last.py"]


def test_where_the_number_comes_from(scripts, capfd, monkeypatch, tmp_path):
    numbers = []

    def done(work):
        numbers.append(len(work))
        return [item() for item in work]

    monkeypatch.setattr(parallel, "done", done)
    run(["rewrite", "--check", "one.py", "last.py", "-q"])  # too little for two
    monkeypatch.setenv("DISTIFY_JOBS", "2")
    run(["rewrite", "--check", "one.py", "last.py", "-q"])
    run(["rewrite", "--check", "one.py", "last.py", "-q", "-j1"])
    (tmp_path / "pyproject.toml").write_text("[tool.distify]\njobs = 'auto'\n")
    monkeypatch.delenv("DISTIFY_JOBS")
    monkeypatch.setattr(parallel, "WORTH", 0)
    monkeypatch.setattr(parallel, "cores", lambda: 2)
    run(["check", "one.py", "last.py", "two.py", "three.py", "-q"])
    assert numbers == [2, 2]
    capfd.readouterr()
    assert run(["check", "one.py", "-j", "none"]) == 2
    assert "--jobs: 'none' is not" in capfd.readouterr().err


def test_groups_and_shares():
    uses = {"a": [1, 2], "b": [3], "c": [4, 3], "d": [5], "e": [2, 5], "f": []}
    assert parallel.groups(uses) == [["a", "d", "e"], ["b", "c"], ["f"]]
    assert parallel.shares([5, 9, 1, 4], 2) == [[1, 2], [0, 3]]
    assert parallel.shares([5, 9], 8) == [[1], [0]]


def test_a_process_that_dies_is_made_up_for(tmp_path):
    here = os.getpid()

    def dying():
        if os.getpid() != here:
            os._exit(3)
        return "here"

    assert parallel.done([lambda: "first", dying, lambda: "x" * 300_000]) == ["first", "here", "x" * 300_000]
    with pytest.raises(ZeroDivisionError):
        parallel.done([lambda: 1 / 0, lambda: 2])


def test_results_are_told_in_json_too(scripts, capfd):
    code, out, _ = answers(capfd, "check", "--format", "json", "one.py", "last.py", "-j", "2")
    assert code == 0
    assert [item["path"] for item in json.loads(out)["files"]] == ["one.py", "last.py"]
