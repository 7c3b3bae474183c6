"""What a hook costs on files that train nothing: reading them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from distify.codemod import convert
from distify.codemod.__main__ import run
from distify.codemod.nearby import Nearby

COUNT = 1000


@pytest.fixture
def counted(monkeypatch):
    """How often something is parsed and a file is read."""
    counts = {"parses": 0, "reads": 0}
    parse, read = ast.parse, convert.read

    def parsing(*arguments, **more):
        counts["parses"] += 1
        return parse(*arguments, **more)

    def reading(path):
        counts["reads"] += 1
        return read(path)

    monkeypatch.setattr(ast, "parse", parsing)
    monkeypatch.setattr(convert, "read", reading)
    return counts


def project(folder: Path, first: str, count: int = COUNT) -> list[str]:
    """Files each of which imports five others, some of them in a circle, so that everything imports everything."""
    (folder / ".git").mkdir()
    (folder / "pkg" / "sub").mkdir(parents=True)

    def name(number: int) -> str:
        return f"pkg.m{number}" if number % 2 else f"pkg.sub.m{number}"

    paths = []
    for number in range(count):
        imports = [f"from {name((number * 7 + k) % count)} import f\n" for k in range(1, 6)]
        path = folder / f"{name(number).replace('.', '/')}.py"
        path.write_text("".join([first if number == 1 else "import json\n", *imports, "def f():\n    return json\n"]))
        paths.append(str(path))
    return paths


def test_a_thousand_files_are_read_and_never_parsed(tmp_path, counted, capsys):
    paths = project(tmp_path, "import torch\n")  # in one of them, which all others reach
    assert run(["rewrite", *paths]) == 0
    assert counted["parses"] == 0
    assert counted["reads"] <= 2 * COUNT + 10  # as what is given, and as what another imports
    assert capsys.readouterr() == ("", "")
    assert run(["check", "--quiet", *paths]) == 0  # the other hook
    assert counted["parses"] == 0


def test_one_that_trains_among_them_is_found(tmp_path):
    texts = {
        "a": "import b",
        "b": "import c",
        "c": "import a, d",
        "d": "loss.backward()",
        "e": "import torch",
        "train": "import a, e",
        "model": "import e",
        "steps": "import d",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    near = Nearby(lambda path: Path(path).read_bytes())
    found = [name for name in texts if near.trains(str(tmp_path / f"{name}.py"), texts[name].encode())]
    assert found == ["train"]  # both are needed: torch, and what steps
    assert near.trains(str(tmp_path / "new.py"), b"from model import x\nfrom steps import y\n")


def test_a_circle_is_gone_through_once(tmp_path, counted):
    paths = project(tmp_path, "import torch\nloss.backward()\n", 100)
    looked = []
    near = Nearby(lambda path: looked.append(path) or Path(path).read_bytes())
    assert all(near.trains(path, Path(path).read_bytes()) for path in paths[:50])
    assert len(looked) == len(set(looked)) <= 110


def test_the_words_cover_what_the_analysis_asks_for():
    from distify.codemod.glance import steps
    from distify.codemod.rules._libraries import LIBRARIES, TPUS
    from distify.codemod.rules.distributed import CALLS, PROCESSES

    words = [*(t for item in LIBRARIES for t in (*item.trainers, *item.methods)), *TPUS, *CALLS, *PROCESSES]
    assert [word for word in words if not steps(word.encode())] == []
