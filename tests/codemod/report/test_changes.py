"""Each edit tells the lines that it made, whatever it is and whatever edits are around it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from distify.codemod import rules
from distify.codemod.apply import traced
from distify.codemod.changes import changes, lines_of, ranges
from distify.codemod.edits import (
    AddImport,
    Argument,
    Callee,
    Dedent,
    Delete,
    Enclose,
    InsertAfter,
    InsertBefore,
    Ref,
    Replace,
    Wrap,
)
from distify.codemod.reasons import OF_RULE, REASONS, reason
from distify.codemod.report.views import View

from ..helpers import Script
from .samples import SOURCE, converted

ROOT = Path(__file__).parents[3]
TEXT = """\
import torch

a = f(
    1,
    g(2),
)
if a:
    b = a.c(3)
between = 0
with old:
    d = 4
    e = 5
print(f"{a + 1}")
"""


def told(text, *edits):
    """For each edit, in the order given: the texts of the lines that it made, as they are after all edits."""
    new, made = traced(text, edits)
    found = changes(text, new, edits, made())
    lines = lines_of(new)
    by_kind = {item.kind: [lines[line - 1].strip() for line in item.lines] for item in found}
    assert len(by_kind) == len(edits)
    return [by_kind[edit.kind] for edit in edits]


def test_each_form_of_edit():
    script = Script(TEXT)
    edits = [
        AddImport("from distify import runtime", kind="import"),
        Wrap(script.expr("g(2)"), "w({{ node }})", kind="wrap"),
        InsertBefore(script.stmt("if a"), "# why\nstart()", kind="before"),
        InsertAfter(script.stmt("b ="), "end()", kind="after"),
        Callee(script.expr("a.c(3)"), "r.c", {}, (Ref(script.expr("a", 2)),), kind="callee"),
        Dedent(script.stmt("with old"), kind="dedent"),
        Enclose(script.stmt("d ="), script.stmt("e ="), "with new:", kind="enclose"),
        Replace(script.expr("5"), "6", kind="replace"),
        Wrap(script.expr("a + 1"), "s({{ node }}, 'x')", kind="string"),
    ]
    assert told(TEXT, *edits) == [
        ["from distify import runtime"],
        ["w(g(2)),"],
        ["start()"],
        ["end()"],
        ["b = r.c(a, 3)"],
        ["with new:"],  # what came in its place
        ["with new:", "e = 6"],  # `d = 4` is as it was
        ["e = 6"],
        ["""print(f"{s(a + 1, 'x')}")"""],
    ]


def test_edits_inside_of_others_and_referred_to():
    text = "x = (a + b(c)).d(\n    e,\n    h,\n)\n"
    script = Script(text)
    edits = [
        Callee(script.expr(text[4:-1]), "r.d", {}, (Ref(script.expr("a + b(c)")),), kind="outer"),
        Wrap(script.expr("b(c)"), "w({{ node }})", kind="inner"),
        Wrap(script.expr("c"), "v({{ node }})", kind="innermost"),
        Argument(script.expr(text[4:-1]), "k", "1", kind="argument"),
    ]
    assert told(text, *edits) == [["x = r.d("], *[["a + w(b(v(c))), e,"]] * 2, ["k=1,"]]


def test_what_only_goes_away_has_no_lines():
    script = Script("a = 1\nb = 2\nc = 3\n")
    edit = Delete(script.stmt("b"), kind="delete", rule="some")
    new, made = traced(script.source, [edit])
    (change,) = changes(script.source, new, [edit], made())
    assert (change.before, change.after, change.rule) == (edit.span, (), "some")


def test_form_feeds_and_line_ends_are_counted_as_python_counts_them():
    text = "a = 1\r\n\f\r\nb = 2\r\n\fc = g(3)\r\n"
    assert told(text, Wrap(Script(text).expr("3"), "w({{ node }})", kind="w")) == [["c = g(w(3))"]]


def test_an_insertion_that_looks_like_the_line_above_is_found():
    text = "a()\na()\nb()\n"
    assert told(text, InsertAfter(Script(text).stmt("a", 1), "a()", kind="a")) == [["a()"]]


def test_ranges():
    assert ranges({3, 1, 2, 7}) == ((1, 3), (7, 7))


def test_a_conversion_tells_all_about_each_change():
    result = converted()
    names = {item.name for item in rules.rules()}
    assert len(result.changes) >= sum(result.counts.values()) + 1  # and the import
    for item in result.changes:
        assert item.rule in names
        assert item.reason
        assert item.kind in REASONS
    (loader,) = (item for item in result.changes if item.kind == "loader")
    line = SOURCE.split("\n").index("loader = DataLoader(data, batch_size=8, shuffle=True)") + 1
    assert (loader.before.line, loader.before.column) == (line, 9)
    assert [lines_of(result.data.decode())[number - 1] for number in loader.lines] == [
        "loader = runtime.shard(DataLoader(data, batch_size=8, shuffle=True))\n"
    ]
    assert all(shown.changes for shown in View(result).hunks)


def kinds_in(file: Path) -> set[str]:
    """The kinds that a rule gives to its edits, as far as they are written out."""
    calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    return {
        item.value.value
        for call in calls
        for item in call.keywords
        if item.arg == "kind" and isinstance(item.value, ast.Constant)
    }


@pytest.mark.parametrize("file", sorted((ROOT / "codemod" / "rules").glob("*.py")), ids=lambda file: file.stem)
def test_each_kind_has_a_reason(file):
    assert kinds_in(file) <= set(REASONS)


def test_reasons_of_rules_are_of_rules():
    assert {name for name, _ in OF_RULE} <= {item.name for item in rules.rules()}
    assert {kind for _, kind in OF_RULE} <= set(REASONS)
    assert reason("readback", "output") != reason("output", "output") == REASONS["output"]


def test_each_kind_is_documented_with_its_reason():
    text = (ROOT / "docs" / "changes.md").read_text()
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    sections = {name: " ".join(words.split()).lower() for name, words in zip(parts[::2], parts[1::2])}
    assert list(sections) == sorted(kind.replace(" ", "-") for kind in REASONS)
    for kind, why in REASONS.items():
        assert why.lower() in sections[kind.replace(" ", "-")], kind
