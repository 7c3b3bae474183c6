"""One file: what is read, what is refused, what is checked before it is written."""

from __future__ import annotations

import ast

import pytest

from distify.codemod import rewriter
from distify.codemod.edits import AddImport, InsertBefore, Replace, Span, Wrap
from distify.codemod.findings import finding
from distify.codemod.options import Options
from distify.codemod.plan import Plan
from distify.codemod.rewrite import InternalError, rewrite_source
from distify.codemod.source import SourceError, decode
from distify.codemod.suppress import filtered, ignored

IMPORT = AddImport("from distify import runtime", kind="import")


def plan_for(text):
    """A stand-in for facts and rules: wraps each `loss(…)` that isn't wrapped, and finds what the names say."""
    tree = ast.parse(text)
    wrapped = {
        id(node.args[0]) for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "m"
    }
    edits, findings = [], []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "loss" and id(node) not in wrapped:
            edits.append(Wrap(Span.of(node), "m({{ node }})", kind="reduction", code="DST202"))
        if isinstance(node, ast.Name) and node.id.startswith("DST"):
            findings.append(finding(node.id, node, "found"))
    codes, wrong = ignored(text)
    edits, findings = filtered(edits, [*findings, *wrong], codes)
    return Plan([IMPORT, *edits] if edits else [], findings, True, True)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    monkeypatch.setattr(
        rewriter, "make_plans", lambda program, options: [(m, plan_for(m.source)) for m in program.modules]
    )


def run(source, **options):
    data = source if isinstance(source, bytes) else source.encode()
    return rewrite_source(data, "train.py", Options(**options))


def test_counts_and_flags():
    result = run("import torch\nx = loss(a)\ny = loss(b)\n")
    assert result.data == b"import torch\nfrom distify import runtime\nx = m(loss(a))\ny = m(loss(b))\n"
    assert result.counts == {"reduction": 2}
    assert result.changed
    assert not result.refused
    assert result.entry


@pytest.mark.parametrize("source", [b"x = loss(a)\n", b"\xff\xfe no python at all", b"", b"print 'old'\n"])
def test_a_file_that_does_not_name_torch_is_not_even_parsed(source):
    assert run(source).data == source


def test_a_second_conversion_changes_nothing():
    first = run("import torch\nx = loss(a)\n")
    second = run(first.data)
    assert not second.changed
    assert second.counts == {}


@pytest.mark.parametrize(
    "frame",
    [
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: b"\xef\xbb\xbf" + ("# coding: utf-8\n" + text).encode(),
        lambda text: ("# -*- coding: latin-1 -*-\n# caf\xe9\n" + text).encode("latin-1"),
        lambda text: ("#!/usr/bin/python\n# coding: cp1252\n# \u20ac\n" + text).encode("cp1252"),
        lambda text: ("# \u4e2d\n" + text).replace("\n", "\r\n").encode(),
        lambda text: ("\f# \u4e2d\n" + text.rstrip("\n")).encode(),
        lambda text: ("# coding: utf-8\r" + text.replace("\n", "\r")).encode(),
    ],
)
def test_bytes_around_an_edit_are_kept(frame):
    source = "import torch\nx = loss(a, 'b')\n"
    converted = "import torch\nfrom distify import runtime\nx = m(loss(a, 'b'))\n"
    assert run(frame(source)).data == frame(converted)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"import torch\nx = (\n", "train.py:2:5: not valid Python: '(' was never closed"),
        (b"import torch\nprint 'x'\n", "train.py:2:1: not valid Python: Missing parentheses"),
        (b"import torch\n# \xe9\n", "train.py:2: byte 0xe9 is not utf-8; name the encoding"),
        (b"# coding: klingon\nimport torch\n", "train.py: not readable as text: unknown encoding"),
        (b"import torch\nx\0\n", "null byte"),
        (b"import torch\nx = " + b"(" * 300 + b")" * 300, "train.py"),
    ],
)
def test_what_is_no_python_is_refused_in_one_line(source, message):
    with pytest.raises(SourceError) as error:
        run(source)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_warnings_of_the_compiler_are_not_shown(recwarn):
    run("import torch\nx = loss('\\d') is 3\n")
    assert not recwarn.list


def test_an_error_leaves_the_file_alone_unless_partial():
    source = "import torch\nDST202\nx = loss(a)\n"
    result = run(source)
    assert result.refused
    assert not result.changed
    assert result.counts == {}
    partial = run(source, partial=True)
    assert partial.refused
    assert b"m(loss(a))" in partial.data


def test_warnings_and_notes_do_not_refuse():
    result = run("import torch\nDST108; DST101\nx = loss(a)\n")
    assert result.changed
    assert [(item.code, item.span.column) for item in result.findings] == [("DST108", 0), ("DST101", 8)]


def test_suppression():
    assert not run("import torch\nDST101  # distify: ignore[DST101]\n").findings
    assert run("import torch\nDST101  # distify: ignore[DST102]\n").findings
    assert not run("import torch\nx = (DST101,\n  DST108)  # distify: ignore[DST101, DST108]\n").findings
    assert not run("import torch\nx = (DST101,  # distify: ignore[DST101]\n  b)\n").findings
    assert run("import torch\nx = (DST101,\n b,  # distify: ignore[DST101]\n  c)\n").findings
    assert run("import torch\nx = '# distify: ignore[DST101]'; DST101\n").findings
    assert run("import torch\nif x:  # distify: ignore[DST101]\n    DST101\n").findings
    assert not run("import torch\rDST101  # distify: ignore[DST101]\r").findings


def test_a_suppressed_error_leaves_its_place_unconverted():
    result = run("import torch\nx = loss(DST202)  # distify: ignore[DST202]\ny = loss(a)\n")
    assert not result.refused
    assert result.data.endswith(b"x = loss(DST202)  # distify: ignore[DST202]\ny = m(loss(a))\n")


def test_a_comment_with_an_unknown_code_is_reported():
    (item,) = run("import torch\n'é'; x  # distify: ignore[DST1O1]\n").findings
    assert (item.code, item.level, item.span.line) == ("DST900", "warning", 2)
    assert "did you mean 'DST101'" in item.hint
    (item,) = run("import torch\nx  # distify: ignore\n").findings
    assert "names no code" in item.message


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ([Wrap(Span(9, 0, 9, 1), "m({{ node }})", kind="k")], "no expression at line 9"),
        ([InsertBefore(Span(2, 0, 2, 1), "m()", kind="k")], "second conversion would change the file again (k)"),
        ([Wrap(Span(2, 4, 2, 11), "m({{ nod }})", kind="k")], "undefined"),
        ([Replace(Span(2, 0, 2, 1), "f()", kind="k")], "the conversion doesn't parse: cannot assign to function call"),
    ],
)
def test_mistakes_of_a_rule_are_internal_errors(monkeypatch, edits, message):
    plan = Plan(edits, [], True, True)
    monkeypatch.setattr(rewriter, "make_plans", lambda program, options: [(m, plan) for m in program.modules])
    with pytest.raises(InternalError) as error:
        run("import torch\nx = loss(a)\n")
    assert message in str(error.value)


def test_what_is_understood_in_part_only_is_left_alone(monkeypatch):
    """What stands beside a refused place may look otherwise once the rest is converted."""
    refusal = finding("DST110", Span(2, 4, 2, 11))
    plan = Plan([InsertBefore(Span(2, 0, 2, 1), "m()", kind="k")], [refusal], True, True)
    monkeypatch.setattr(rewriter, "make_plans", lambda program, options: [(m, plan) for m in program.modules])
    result = run("import torch\nx = loss(a)\n", partial=True)
    assert result.data == result.before
    assert [item.code for item in result.findings] == ["DST902", "DST110"]


def test_long_sums_and_chains():
    chain = "".join(f"elif a == {number}:\n    pass\n" for number in range(150))
    source = "import torch\nx = " + " + ".join(["loss(a)"] * 400) + f"\nif a:\n    pass\n{chain}"
    assert run(source).counts == {"reduction": 400}


def test_an_exception_in_the_analysis_is_one_line_with_its_place(monkeypatch):
    monkeypatch.delenv("DISTIFY_DEBUG", raising=False)

    def broken(program, options):
        return decode(None, "x")

    monkeypatch.setattr(rewriter, "make_plans", broken)
    with pytest.raises(InternalError, match=r"^train.py: AttributeError: .* \(source.py:\d+\)$"):
        run("import torch\n")
    monkeypatch.setenv("DISTIFY_DEBUG", "1")
    with pytest.raises(AttributeError):
        run("import torch\n")


def test_a_source_that_cannot_be_edited_is_refused(monkeypatch):
    import re

    monkeypatch.setattr("distify.codemod.editing.locate.FORM_FEED", re.compile("never"))
    result = run("import torch\n\fx = loss(a)\n")
    assert result.refused
    assert not result.changed
    assert [item.code for item in result.findings] == ["DST902"]
