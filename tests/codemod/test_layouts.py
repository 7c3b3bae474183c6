"""Files of odd layouts: line ends, tabs, form feeds, marks, encodings; and edits at random places."""

from __future__ import annotations

import ast
import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distify.codemod.apply import UnsafeSource, apply
from distify.codemod.editing.locate import locate
from distify.codemod.edits import AddImport, Enclose, InsertAfter, Span, Wrap, fstring_spans

from .helpers import Script

ROOT = Path(__file__).parents[2]
CORPUS = [
    *sorted(ROOT.glob("fixtures/*/train.py"))[:8],
    *(ROOT / "codemod" / "editing" / f"{name}.py" for name in ("blocks", "render", "locate")),
    Path(__file__),
]

BASE = '''import torch


def train(loader):
    # start
    for x, y in loader:  # batches
        if x: a; b(y)
        text = """one
  two"""
        loss = f(
            x,  # é
            y)
        print(f"{x} {loss:>{y}}")

        # end
    return(loss)
'''


def edits(script):
    return [
        AddImport("from distify import runtime", kind="import"),
        Enclose(script.stmt("loss"), script.stmt("print"), "with w:", kind="k"),
        InsertAfter(script.stmt("b(y)"), "if c:\n    d()", kind="k"),
        Wrap(script.expr("loss", 1), "m({{ node }})", kind="k"),
        Wrap(script.expr("loss", 2), "m({{ node }})", kind="k"),
    ]


EXPECTED = '''import torch
from distify import runtime


def train(loader):
    # start
    for x, y in loader:  # batches
        if x:
            a
            b(y)
            if c:
                d()
        text = """one
  two"""
        with w:
            loss = f(
                x,  # é
                y)
            print(f"{x} {m(loss):>{y}}")

        # end
    return(m(loss))
'''


def tabs(text):
    return text.replace("    ", "\t")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        tabs,
        lambda text: tabs(text).replace("\n", "\r\n"),
        lambda text: text.rstrip("\n"),
        lambda text: text.rstrip("\n").replace("\n", "\r"),
        lambda text: text + "\n\n",
        lambda text: text + "\n\r",
        lambda text: text + "# no end",
        lambda text: "\f" + text,
        lambda text: text.replace("\ndef train", "\n\fdef train"),
        lambda text: text.replace("        # end", "\f        # end"),
        lambda text: text.replace("    return", "\f    return"),
    ],
)
def test_layout_is_kept(change):
    source = change(BASE)
    assert apply(source, edits(Script(source))) == change(EXPECTED)


def test_mixed_line_ends_stay_mixed():
    source = "a = 1\r\nb = 2\nc = x\r\n"
    assert apply(source, [Wrap(Script(source).expr("x"), "f({{ node }})", kind="k")]) == "a = 1\r\nb = 2\nc = f(x)\r\n"


def test_odd_indentation_of_one_block():
    source = "def f():\n  a\n  b\ndef g():\n        c\n        e\n"
    script = Script(source)
    result = apply(source, [Enclose(script.stmt("c"), script.stmt("e"), "with w:", kind="k")])
    assert ast.dump(ast.parse(result)) == ast.dump(ast.parse("def f():\n  a\n  b\ndef g():\n  with w:\n    c\n    e\n"))
    assert "        with w:\n" in result


def test_a_source_that_libcst_changes_is_refused(monkeypatch):
    monkeypatch.setattr("distify.codemod.editing.locate.FORM_FEED", re.compile("never"))
    with pytest.raises(UnsafeSource):
        locate("a\n\fb\n")


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_every_expression_and_statement_is_found(file):
    source = file.read_text()
    tree = ast.parse(source)
    fstring_spans(source, tree)
    located = locate(source)
    skipped = {id(node.slice) for node in ast.walk(tree) if isinstance(node, ast.Subscript)}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            located.statement(Span.of(node))
        elif isinstance(node, ast.JoinedStr):  # the format specification of an f-string is no expression of its own
            skipped |= {id(value.format_spec) for value in node.values if isinstance(value, ast.FormattedValue)}
            skipped |= {id(value) for value in node.values}
            for value in ast.walk(node):
                if isinstance(value, ast.JoinedStr):
                    skipped |= {id(item) for item in value.values}
        elif isinstance(node, (ast.Starred, ast.Slice)):
            skipped.add(id(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and id(node) not in skipped and not isinstance(node, ast.JoinedStr):
            located.expression(Span.of(node))


class Wrapped(ast.NodeTransformer):
    """The same wraps on the tree."""

    def __init__(self, chosen):
        self.chosen = chosen

    def visit(self, node):
        inside = super().visit(node)
        return ast.Call(ast.Name("w", ast.Load()), [inside], []) if node in self.chosen else inside


def wrappable(tree):
    """Expressions that may stand in a call: no targets, no parts of f-strings, no annotations' strings."""
    out = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.JoinedStr, ast.TypeIgnore)):
            out |= {id(item) for item in ast.walk(node) if item is not node}
        elif isinstance(node, ast.Subscript):
            out |= {id(node.slice)} | (
                {id(item) for item in node.slice.elts} if isinstance(node.slice, ast.Tuple) else set()
            )
        elif isinstance(node, ast.pattern):
            out |= {id(item) for item in ast.walk(node)}
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.expr)
        and id(node) not in out
        and not isinstance(node, (ast.Starred, ast.Slice))
        and not isinstance(getattr(node, "ctx", ast.Load()), (ast.Store, ast.Del))
    ]


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(CORPUS), st.integers(0, 2**32))
def test_random_wraps_equal_wraps_of_the_tree(file, seed):
    chance = random.Random(seed)
    source = file.read_text()
    tree = ast.parse(source)
    nodes = wrappable(tree)
    chosen = chance.sample(nodes, min(len(nodes), chance.choice([1, 5, 60])))
    text = apply(source, [Wrap(Span.of(node), "w({{ node }})", kind="k") for node in chosen])
    assert same(text, Wrapped(set(chosen)).visit(tree)), text
    untouched(source, text, [(node.lineno - 1, node.end_lineno + 1) for node in chosen])  # with parentheses


def same(text, tree):
    return ast.dump(ast.parse(text)) == ast.dump(tree)


def untouched(source, text, ranges):
    """All lines outside of the ranges come back, in order and byte for byte."""
    touched = {line for first, last in ranges for line in range(first, last + 1)}
    rest = iter(text.splitlines(keepends=True))
    for number, line in enumerate(source.splitlines(keepends=True), 1):
        if number not in touched:
            assert line in rest, f"line {number} is gone: {line!r}"


def blocks(tree):
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield node, name, block


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(CORPUS), st.integers(0, 2**32))
def test_random_enclosures_equal_those_of_the_tree(file, seed):
    chance = random.Random(seed)
    source = file.read_text()
    tree = ast.parse(source)
    wanted = []
    for _, _, block in chance.sample(found := list(blocks(tree)), min(len(found), 8)):
        low = chance.randrange(len(block))
        high = chance.randrange(low, len(block))
        wanted.append((block, low, high))
    edits = [Enclose(Span.of(block[low]), Span.of(block[high]), "with w:", kind="k") for block, low, high in wanted]
    text = apply(source, edits)
    for block, low, high in wanted:
        inside = block[low : high + 1]
        block[low : high + 1] = [ast.With([ast.withitem(ast.Name("w", ast.Load()))], inside)]
    assert same(text, tree), text
