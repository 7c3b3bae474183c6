"""What starts fast stays so: which modules are imported for what, and that what goes past typer says the same."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from distify.codemod import idle, overview, plainly
from distify.codemod.__main__ import run
from distify.codemod.cli import app
from distify.codemod.glance import called, imports, lines
from tests.codemod.test_cli import TRAIN

HEAVY = ("typer", "click", "pydantic", "rich", "libcst", "jinja2", "torch")


def imported(folder, *arguments) -> set[str]:
    """The modules of a process that ran the command."""
    code = f"import sys\nfrom distify.codemod.__main__ import run\nrun({list(arguments)!r})\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


def test_the_help_is_that_of_typer_and_imports_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert CliRunner().invoke(app, ["--help"], prog_name="distify").output == overview.TEXT
    assert run(["--help"]) == 0
    assert capsys.readouterr().out == overview.TEXT
    loaded = imported(tmp_path, "--help")
    assert loaded.isdisjoint({*HEAVY, "ast", "dataclasses"})
    assert len([name for name in loaded if name.startswith("distify.")]) <= 4
    monkeypatch.setenv("COLUMNS", "60")
    assert run(["-h"]) == 0
    assert capsys.readouterr().out not in ("", overview.TEXT)


def test_a_hook_on_files_that_train_nothing_imports_nothing(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text("import json\nfrom c import d\n")
    (tmp_path / "c.py").write_text("from . import a\n")
    for verb in ("rewrite", "check"):
        loaded = imported(tmp_path, verb, "a.py", "b.py")
        assert loaded.isdisjoint({*HEAVY, "ast", "dataclasses", "difflib", "distify.codemod.options"})


def test_a_training_script_needs_no_typer(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    loaded = imported(tmp_path, "rewrite", "--check", "train.py")
    assert "libcst" in loaded
    assert loaded.isdisjoint({"typer", "click", "pydantic", "rich", "torch", "distify.codemod.cli"})


def test_the_options_are_those_of_typer():
    for verb, options in plainly.OPTIONS.items():
        declared = {}
        for item in get_command(app).commands[verb].params:
            for name in [*item.opts, *item.secondary_opts] if item.param_type_name == "option" else []:
                constant = name not in item.secondary_opts
                takes = constant if item.is_flag else plainly.SEVERAL if item.multiple else plainly.ONE
                declared[name] = (item.name, takes)
        assert options == {name: takes for name, takes in declared.items() if name != "--version"}


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("a.py --check -q b.py", {"check": True, "quiet": True, "paths": ["a.py", "b.py"]}),
        ("--backend fsdp --output=x a.py", {"backend": "fsdp", "output": "x", "paths": ["a.py"]}),
        ("-o - a.py", {"output": "-", "paths": ["a.py"]}),
        ("--diff -- --check", {"diff": True, "paths": ["--check"]}),
        ("-", {"paths": ["-"]}),
        ("--check", None),
        ("a.py --backend", None),
        ("a.py --backend --check", None),
        ("a.py --check=yes", None),
        ("a.py -qv", None),
        ("a.py --help", None),
    ],
)
def test_reading_a_command_line(words, values):
    assert plainly.read("rewrite", words.split()) == values


TEXTS = {
    "plain.py": "import os\n",
    "other.py": "from plain import x\n",
    "torch_only.py": "import torch\n",
    "uses_both.py": "import torch_only\nfrom steps import go\n",
    "steps.py": "def go(x):\n    x.backward()\n",
    "train.py": TRAIN,
    "quiet.py": "from quiet_package import (  # all of them\n    one,\n    two,\n)\n",
    "quiet_package/__init__.py": "",
    "quiet_package/two.py": "import torch\nx.backward()\n",
    "calm/one.py": "import two\n",
    "late.py": "import importlib\nimportlib.import_module(\n    'quiet_package.' + name)\n",
}


@pytest.mark.parametrize(
    ("verb", "words", "at_once"),
    [
        ("rewrite", "plain.py other.py --check", True),
        ("check", "plain.py other.py steps.py torch_only.py", True),
        ("check", "plain.py other.py -q --exit-zero --no-follow", True),
        ("rewrite", "plain.py --backend fsdp calm", True),
        ("rewrite", "plain.py", False),
        ("rewrite", "plain.py plain.py", False),
        ("rewrite", "plain.py other.py -v", False),
        ("rewrite", "plain.py other.py --backend nothing", False),
        ("rewrite", "plain.py absent.py", False),
        ("rewrite", "plain.py uses_both.py --check", False),
        ("rewrite", "plain.py quiet.py --check", False),
        ("rewrite", "plain.py late.py --check", False),
        ("rewrite", "plain.py train.py --check", False),
        ("check", "plain.py train.py", False),
    ],
)
def test_what_is_known_at_once_is_what_the_work_says(tmp_path, monkeypatch, capfd, verb, words, at_once):
    monkeypatch.chdir(tmp_path)
    for name, text in TEXTS.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    answer = idle.run(verb, plainly.read(verb, words.split()))
    said = capfd.readouterr()
    assert (answer is not None) == at_once
    if at_once:
        monkeypatch.setattr(idle, "run", lambda *_: None)
        assert (run([verb, *words.split()]), capfd.readouterr()) == (answer, said)


def test_a_project_with_settings_is_looked_at_closely(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("")
    assert idle.run("check", {"paths": ["a.py", "b.py"], "quiet": True}) == 0
    (tmp_path / "pyproject.toml").write_text("[tool.distify.check]\nignor = []\n")
    assert idle.run("check", {"paths": ["a.py", "b.py"], "quiet": True}) is None
    assert run(["check", "a.py", "b.py"]) == 2


def test_imports_are_found_in_bytes():
    text = b"""\
import a, b.c as d  # e
  from .f import g as h, i; import j
from . import (k,
    l,  # m
    n)
important = import_module("o.p") + imports
from\tq import*
x = "import r"
from s import t \\
"""
    found = [item for line in lines(text) for item in imports(line)]
    assert [name for name, _ in found] == ["a", "b.c", ".f", ".", "q", "s"]
    assert {"g", "i"} <= set(found[2][1])
    assert found[3][1] == ("k", "l", "n")
    assert called(text) == ["o.p"]
