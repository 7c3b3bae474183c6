"""`distify explain` and `distify rules`: what they print, and what they say to a typo."""

from __future__ import annotations

import io
import json
import sys

import pytest
from typer.testing import CliRunner

from distify.codemod.cli import app
from distify.codemod.codes import CODES, family
from distify.codemod.explained import explained, url
from distify.codemod.report.stream import put_lines


def run(*words: str):
    return CliRunner().invoke(app, list(words))


def test_explain() -> None:
    result = run("explain", "DST110")
    assert result.exit_code == 0
    for part in (
        "DST110 (data, error)\nDependence on",
        "\nWhat it finds\n    ",
        "\nWhy it matters\n    ",
        "\nWhat to do\n",
    ):
        assert part in result.stdout
    assert url(explained("DST110").threads[0]) in result.stdout
    assert "    train.py:12:5 DST110 error: " in result.stdout
    assert "# distify: ignore[DST110]" in result.stdout
    assert "\x1b" not in result.stdout


def test_explain_several_by_any_spelling() -> None:
    result = run("explain", "dst203", " 801")
    assert [line for line in result.stdout.splitlines() if line.startswith("DST")] == [
        "DST203 (optimizer, error)",
        "DST801 (output, note)",
    ]


@pytest.mark.parametrize(
    ("word", "nearest"), [("DST1O1", "DST101"), ("DST20", "DST2"), ("dst11l", "DST111"), ("DSTT203", "DST203")]
)
def test_a_typo(word: str, nearest: str) -> None:
    result = run("explain", "DST101", word)
    assert result.exit_code == 2
    assert f"unknown code '{word}', did you mean '{nearest}" in result.stderr
    assert result.stdout == ""


def test_a_word_that_is_like_no_code() -> None:
    assert "unknown code 'loader': codes are like DST101" in run("explain", "loader").stderr


def test_rules() -> None:
    result = run("rules")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line[2:8] for line in lines if line.startswith("  DST")] == sorted(CODES)
    assert [line for line in lines if line and line[0] != " "] == list(dict.fromkeys(map(family, sorted(CODES))))
    assert max(map(len, lines)) <= 80


def test_rules_of_a_family_and_a_level_as_json() -> None:
    result = run("rules", "--family", "data", "--family", "output", "--level", "error", "--format", "json")
    items = json.loads(result.stdout)
    assert {item["family"] for item in items} == {"data"}
    assert [item["code"] for item in items] == sorted(
        code for code, entry in CODES.items() if entry.level == "error" and code.startswith("DST1")
    )
    first = next(item for item in items if item["code"] == "DST110")
    assert first["title"] == CODES["DST110"].title
    assert first["threads"] == [url(thread) for thread in explained("DST110").threads]
    assert set(first) == {"code", "family", "level", "title", "why", "remedy", "finds", "matters", "threads"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--family", "date"], "unknown family 'date', did you mean 'data'?"),
        (["--level", "err"], "unknown level 'err', did you mean 'error'?"),
        (["--format", "jsn"], "unknown format 'jsn', did you mean 'json'?"),
    ],
)
def test_rules_of_an_unknown_kind(words: list[str], message: str) -> None:
    result = run("rules", *words)
    assert result.exit_code == 2
    assert message in result.stderr


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stdout", Terminal())
    put_lines([[("DST101", "bold"), (" plain", "")]])
    assert "\x1b[1mDST101\x1b[0m plain" in sys.stdout.getvalue()


def test_an_encoding_that_lacks_a_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    put_lines([[("runtime.mean(…)", "")]])
    assert narrow.buffer.getvalue() == b"runtime.mean(\\u2026)\n"
