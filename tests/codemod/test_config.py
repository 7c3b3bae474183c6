"""`distify config`: what it asks and writes, and that all else in the file stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from distify.codemod import __main__ as entry
from distify.codemod.cli import app
from distify.codemod.commands import config as command
from distify.codemod.configuring import QUESTIONS
from distify.codemod.options import read_pyproject, toml
from distify.codemod.tomledit import Unwritable, statements, with_values

PROJECT = """\
# the project
[project]
name = "x"   # its name
text = '''
[tool.distify]
backend = "wrong"
'''
list = [
    "a",  # [tool.distify]
    "b",
]

[tool.distify] # ours
backend = "ddp"     # for now
zero-stage = 2

# of the checks
[tool.distify.check]
ignore = ["DST752"]

[tool.ruff]
line-length = 120
"""


@pytest.fixture(autouse=True)
def plain(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("DISTIFY_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def config(*arguments, stdin=None):
    return CliRunner().invoke(app, ["config", *arguments], input=stdin)


@pytest.mark.parametrize("data", [b"[tool", b"\xff", b'[project]\nname = "a'])
def test_a_file_that_is_no_toml_stays_as_it_is(data, capsys):
    Path("pyproject.toml").write_bytes(data)
    assert entry.run(["config", "--backend", "fsdp"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("distify: pyproject.toml: ")
    assert told.endswith("; correct the file first\n")
    assert Path("pyproject.toml").read_bytes() == data


def test_a_new_file():
    result = config("--backend", "fsdp", "--accumulate", "4")
    assert result.exit_code == 0
    assert Path("pyproject.toml").read_text() == '[tool.distify]\nbackend = "fsdp"\naccumulate = 4\n'
    assert "+backend = " in result.stdout
    assert result.stderr == "pyproject.toml: written\n"
    assert config("--backend", "fsdp").stderr == "pyproject.toml: nothing to change\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_other_byte_stays(end):
    text = PROJECT.replace("\n", end)
    Path("pyproject.toml").write_bytes(text.encode())
    assert config("--backend", "deepspeed", "--zero-stage", "3", "--precision", "bf16").exit_code == 0
    wanted = PROJECT.replace('backend = "ddp"', 'backend = "deepspeed"').replace(
        "zero-stage = 2\n", 'zero-stage = 3\nprecision = "bf16"\n'
    )
    assert Path("pyproject.toml").read_bytes() == wanted.replace("\n", end).encode()


def test_only_shown():
    Path("pyproject.toml").write_text(PROJECT)
    result = config("--backend", "fsdp", "--dry-run")
    assert result.stdout.startswith("--- a/pyproject.toml\n+++ b/pyproject.toml\n")
    assert "-zero-stage = 2\n" in result.stdout  # a run would refuse it beside another backend
    assert Path("pyproject.toml").read_text() == PROJECT


def test_the_file_is_the_one_that_a_run_reads(tmp_path):
    Path("pyproject.toml").write_text("[project]\n")
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert config("a/b", "--backend", "fsdp").exit_code == 0
    assert read_pyproject(tmp_path / "a" / "b") == {"backend": "fsdp"}
    assert not (tmp_path / "a" / "b" / "pyproject.toml").exists()


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(command, "on_terminal", lambda: True)


def test_questions(terminal):
    result = config(stdin="deepsped\ndeepspeed\n3\n\n0\n2\ny\n")
    assert result.exit_code == 0, result.stderr
    assert "did you mean 'deepspeed'?" in result.stderr
    assert "is not a whole number from 1" in result.stderr
    assert (
        Path("pyproject.toml").read_text() == '[tool.distify]\nbackend = "deepspeed"\nzero_stage = 3\naccumulate = 2\n'
    )
    again = config(stdin="ddp\nbf16\n\nn\n")
    assert "ZeRO stage" not in again.stderr  # it means nothing beside ddp
    assert again.stderr.endswith("nothing was written\n")
    assert config(stdin="ddp\nbf16\n\n\n").exit_code == 0
    assert read_pyproject(Path(".")) == {"backend": "ddp", "precision": "bf16", "accumulate": 2}
    assert config(stdin="\n\n\n").stderr.endswith("nothing to change\n")


def test_questions_fit_the_screen():
    assert all(len(line) <= 80 for _, text in QUESTIONS.values() for line in text.split("\n"))


def test_no_answer_writes_nothing(terminal, capsys, monkeypatch):
    assert config(stdin="fsdp\n").exit_code == 1  # the input ended
    assert not Path("pyproject.toml").exists()


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (None, [], "nothing to write: questions are asked on a terminal only"),
        (None, ["--backend", "fdsp"], "--backend: unknown value 'fdsp', did you mean 'fsdp'?"),
        (None, ["--zero-stage", "2"], "--zero-stage goes with --backend deepspeed; the backend is ddp"),
        (None, ["--shard-size", "2"], "--shard-size goes with --backend fsdp; the backend is ddp"),
        (None, ["nowhere", "--backend", "ddp"], "nowhere: no such folder"),
        ("[tool.distify\n", ["--backend", "ddp"], "pyproject.toml"),
        ('[tool.distify]\nbackned = "x"\n', ["--backend", "ddp"], "unknown key 'backned'"),
        ('[tool]\ndistify = {backend = "ddp"}\n', ["--backend", "fsdp"], 'a table of its own, with backend = "fsdp"'),
        ('tool.distify.backend = "ddp"\n', ["--backend", "fsdp"], "a table of its own"),
        ("[tool.distify]\nbackend = '''\nddp'''\n", ["--backend", "fsdp"], "pyproject.toml"),
    ],
)
def test_what_is_wrong_is_one_line(capsys, text, arguments, message):
    if text is not None:
        Path("pyproject.toml").write_text(text)
    code = entry.run(["config", *arguments])
    said = capsys.readouterr().err
    assert (code, said.count("\n")) == (2, 1), said
    assert message in said
    assert text is None or Path("pyproject.toml").read_text() == text


def test_a_file_that_cannot_be_written(capsys, monkeypatch):
    Path("pyproject.toml").write_text("[project]\n")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert entry.run(["config", "--backend", "fsdp"]) == 2
    assert capsys.readouterr().err == "distify: pyproject.toml: read-only\n"


CASES = [
    ("", '[tool.distify]\nbackend = "fsdp"\n'),
    ("[a]", '[a]\n\n[tool.distify]\nbackend = "fsdp"\n'),
    ("[tool.distify]", '[tool.distify]\nbackend = "fsdp"\n'),
    ("[tool.distify]\n\n# end\n", '[tool.distify]\nbackend = "fsdp"\n\n# end\n'),
    ("[ 'tool' . \"distify\" ]\n'backend'='ddp'#x", "[ 'tool' . \"distify\" ]\n'backend'=\"fsdp\"#x"),
    ('[tool.distify]\n\tbackend\t= "ddp"\r\n', '[tool.distify]\n\tbackend\t= "fsdp"\r\n'),
    ("[tool.distify.check]\nignore = []\n", '[tool.distify.check]\nignore = []\n\n[tool.distify]\nbackend = "fsdp"\n'),
    ('a = """x\\""""\n[tool.distify]\n', 'a = """x\\""""\n[tool.distify]\nbackend = "fsdp"\n'),
    ("a = ''''x'''''\n[tool.distify]\n", "a = ''''x'''''\n[tool.distify]\nbackend = \"fsdp\"\n"),
]


@pytest.mark.parametrize(("before", "after"), CASES)
def test_forms(before, after):
    assert with_values(before, {"backend": "fsdp"}) == after


WORDS = st.sampled_from(
    [
        '"',
        "'",
        '"""',
        "'''",
        "\\",
        "#",
        "[",
        "]",
        "{",
        "}",
        "=",
        "\n",
        "\r\n",
        " ",
        "a",
        "[tool.distify]",
        "backend",
        '"ddp"',
        "é",
    ]
)


@given(st.lists(WORDS, max_size=12).map("".join))
def test_any_text_is_kept_or_refused(text):
    assert "".join(text[begin:end] for begin, end in statements(text)) == text
    try:
        before = toml(text)
    except ValueError:
        return
    try:
        after = toml(with_values(text, {"accumulate": 3}))
    except (Unwritable, AttributeError):
        return
    assert after["tool"]["distify"].pop("accumulate") == 3
    before.setdefault("tool", {}).setdefault("distify", {})
    assert after == before
