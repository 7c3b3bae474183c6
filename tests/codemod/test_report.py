"""What is printed: the report, diffs, and colour."""

from __future__ import annotations

import io
import subprocess

import pytest

from distify.codemod.edits import Span
from distify.codemod.findings import CODES, finding
from distify.codemod.report import stream
from distify.codemod.report.diff import unified
from distify.codemod.report.text import Wording, report
from distify.codemod.rewrite import Result


def text(results, scripts=(), written=True, **wording):
    lines = report(results, Wording(**wording), written, scripts)
    return ["".join(piece for piece, _ in line) for line in lines]


FINDINGS = (
    finding("DST203", Span(2, 3, 2, 5), "why it matters", "what to type"),
    finding("DST101", Span(3, 0, 3, 5), "left alone"),
)
RESULT = Result(
    "a b.py", b"1", b"2", "x\n'\u00e9'yy\nz\n", (FINDINGS[1],), {"device": 1, "loader": 2}, training=True, entry=True
)


def test_report():
    assert text([RESULT], ["a b.py"]) == [
        "a b.py: converted: device 1, loader 2",
        "a b.py:3:1 DST101 note: left alone",
        "launch: torchrun --nproc-per-node 2 'a b.py'",
    ]
    assert text([RESULT], ["a b.py"], quiet=True) == []
    assert text([RESULT], done="would be converted")[0] == "a b.py: would be converted: device 1, loader 2"


def test_columns_are_characters_from_one():
    result = Result("t.py", b"1", b"1", RESULT.text, (FINDINGS[0],), training=True, rest=True)
    assert text([result], written=False) == [
        "t.py: not converted, 1 place refused; --partial converts the rest",
        "t.py:2:3 DST203 error: why it matters",
        "    what to type",
    ]


def test_where_nothing_else_is_to_be_converted_no_partial_conversion_is_offered():
    result = Result("t.py", b"1", b"1", RESULT.text, (FINDINGS[0],), training=True)
    assert text([result], written=False)[0] == "t.py: not converted, 1 place refused"


def test_partial_names_what_is_left():
    result = Result("t.py", b"1", b"2", RESULT.text, FINDINGS, {"device": 1}, training=True)
    assert text([result])[0] == "t.py: converted: device 1; 1 place refused and left as it was"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\nb\nc\n", b"a\nB\nc\n"),
        (b"a\nb", b"a\nb\nc"),
        (b"a\nb", b"a\nb\n"),
        (b"a\r\nb\r\nc\r\n", b"a\r\nB\r\nc\r\n"),
        (b"\xe9\na\n", b"\xe9\nb\n"),
        (b"a\x0cb\x1cc\nd\n", b"a\x0cb\x1cc\ne\n"),
        (b"", b"a\n"),
        (b"".join(b"%d\n" % i for i in range(40)), b"".join(b"%d\n" % (i if i % 17 else -i) for i in range(40))),
    ],
)
def test_diffs_can_be_applied(tmp_path, before, after):
    file = tmp_path / "a.py"
    file.write_bytes(before)
    diff = b"".join(unified("a.py", before, after))
    subprocess.run(["git", "apply", "--unidiff-zero", "-"], input=diff, cwd=tmp_path, check=True)
    assert file.read_bytes() == after


def test_no_difference_no_diff():
    assert list(unified("a.py", b"a\n", b"a\n")) == []


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def test_colour_only_where_wanted(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stderr", fancy := Terminal())
    stream.say([[("a.py:1:1 DST203 ", ""), ("error", "bold red"), (": [why] it matters " + "x" * 200, "")]])
    assert "\x1b[" in fancy.getvalue()
    assert "[why]" in fancy.getvalue()
    assert fancy.getvalue().count("\n") == 1
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stderr", plain := Terminal())
    stream.complain("two\nlines")
    assert plain.getvalue() == "distify: two lines\n"


def test_what_the_terminal_cannot_show_is_escaped(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stderr", io.TextIOWrapper(raw, encoding="ascii", write_through=True))
    stream.complain("caf\u00e9 \udcff.py")
    assert raw.getvalue() == b"distify: caf\\xe9 \\udcff.py\n"


def test_a_diff_in_colour(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout", fancy := Terminal())
    stream.put_diff([b"+a[0]\r\n", b" b\n"])
    assert "\x1b[32m+a[0]" in fancy.getvalue()


def test_progress_needs_a_terminal(monkeypatch):
    monkeypatch.setattr(stream, "PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stderr", fancy := Terminal())
    with stream.Progress(True) as shown:
        shown.at("train.py (1 of 2)")
        shown.timer.join(5)
    assert "train.py (1 of 2)" in fancy.getvalue()
    monkeypatch.setattr("sys.stderr", plain := io.StringIO())
    with stream.Progress(True) as shown:
        shown.at("train.py")
    assert plain.getvalue() == ""


def test_the_catalogue_is_whole():
    for code, entry in CODES.items():
        assert code == entry.code
        assert len(code) == 6
        assert entry.why
        assert not entry.title.endswith(".")
        assert entry.level in ("error", "warning", "note")
        assert entry.remedy or entry.level != "error"
    assert len(CODES) > 30
    assert finding("DST101").message
    with pytest.raises(KeyError):
        finding("DST000")
