"""Help texts and shell completion: in the order of use, nothing cut off, 80 columns, plain text in a pipe."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from distify.codemod import __main__ as entry
from distify.codemod.cli import VERBS, app
from distify.codemod.options import CHOICES

ORDER = ["rewrite", *(verb.__name__.rpartition(".")[2] for verb in VERBS)]


def test_the_verbs_stand_in_the_order_of_use():
    assert ORDER == ["rewrite", "check", "verify", "launch", "config", "doctor", "explain", "rules", "consolidate"]
    lines = CliRunner().invoke(app, ["--help"]).output.split("Commands:\n")[1].splitlines()
    assert [line.split()[0] for line in lines] == ORDER
    assert all(line.endswith(".") and not line.endswith("..") for line in lines)


@pytest.mark.parametrize("verb", ["", *ORDER])
def test_each_help_fits_and_teaches(monkeypatch, verb):
    monkeypatch.setenv("COLUMNS", "200")  # 80 are kept all the same: longer lines are hard to read
    monkeypatch.setenv("FORCE_COLOR", "1")  # the output is no terminal all the same
    text = CliRunner().invoke(app, [*([verb] if verb else []), "--help"]).output
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert "\x1b" not in text
    assert text.isascii()
    assert not set("{}<>") & set(text.splitlines()[0])
    if verb:
        assert "\n  Examples:\n    distify " in text
        assert "Exit codes: 0 " in text


def test_what_is_wrong_names_the_help_of_its_verb(capsys):
    for words, told in (
        (["launch", "x.py", "--lr", "1"], "(see: distify launch --help; arguments of the script go after --)\n"),
        (["doctor", "--x"], "(see: distify doctor --help)\n"),
        (["doctr"], "(see: distify --help)\n"),
        (["--x"], "(see: distify --help)\n"),
    ):
        assert entry.run(words) == 2
        said = capsys.readouterr().err
        assert said.endswith(told)
        assert said.count("\n") == 1


# Completion


def asked(monkeypatch, capsys, shell, line):
    """What the shell is told when the tabulator is pressed at the end of a line."""
    monkeypatch.setenv("_DISTIFY_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
    with pytest.raises(SystemExit) as done:
        entry.run([])
    assert not done.value.code
    return capsys.readouterr().out


def test_bash_is_told_verbs_options_and_values(monkeypatch, capsys):
    def words(line):
        return asked(monkeypatch, capsys, "bash", line).split()

    assert words("distify ") == ORDER
    assert words("distify c") == ["check", "config", "consolidate"]
    assert {"--nproc", "--nnodes", "--node-rank"} <= set(words("distify launch --n"))
    for verb in ("rewrite", "verify", "launch", "config"):
        for name, values in CHOICES.items():
            assert words(f"distify {verb} --{name} ") == list(values)
    assert words("distify launch x.py --emit k") == ["kubernetes"]
    assert words("distify check --format s") == ["sarif"]
    assert "DST101" in words("distify explain DST1")
    assert words("distify rewrite tr") == []  # the shell offers files then


def test_zsh_is_told_with_explanations(monkeypatch, capsys):
    told = asked(monkeypatch, capsys, "zsh", "distify la")
    assert told.startswith('_arguments \'*: :(("launch":"Start a converted script on several')
    assert '"fsdp"' in asked(monkeypatch, capsys, "zsh", "distify rewrite --backend f")
    assert asked(monkeypatch, capsys, "zsh", "distify rewrite tr") == "_files\n"


@pytest.fixture
def script(monkeypatch, capsys):
    """The script that a shell reads once."""

    def of(shell):
        monkeypatch.setenv("_DISTIFY_COMPLETE", f"source_{shell}")
        with pytest.raises(SystemExit):
            entry.run([])
        return capsys.readouterr().out

    return of


def test_scripts(script, tmp_path):
    bash, zsh = script("bash"), script("zsh")
    assert "complete -o default -F _distify_completion distify" in bash
    # zsh need not be here; what is said to it is the grammar that both have
    assert zsh.lstrip().startswith("#compdef distify\n")
    assert "_DISTIFY_COMPLETE=complete_zsh distify" in zsh
    assert zsh.rstrip().endswith("\n}\n\ncompdef _distify_completion distify")
    for text in (bash, zsh):
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)


def test_a_real_bash_completes(script, tmp_path):
    command = tmp_path / "distify"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m distify.codemod "$@"\n')
    command.chmod(0o755)
    (tmp_path / "completion").write_text(script("bash"))
    press = "COMP_WORDS=({line}); COMP_CWORD={at}; _distify_completion distify; echo ${{COMPREPLY[@]}}\n"
    lines = press.format(line="distify rewrite --precision ''", at=3) + press.format(line="distify l", at=1)
    done = subprocess.run(
        ["bash", "--norc", "-c", f". ./completion\ncomplete -p distify\n{lines}"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "complete -o default -F _distify_completion distify",
        "fp32 bf16 fp16",
        "launch",
    ]
