"""Positions inside f-strings, on every Python."""

from __future__ import annotations

import ast

import pytest

from distify.codemod.editing.locate import locate
from distify.codemod.edits import Span, fstring_spans

SOURCES = [
    "f\"{a} {b.c(0)!r:>{w}} {d=} {{no}} {e == f} é {g['q']:.3f}\"",
    '("a" f\'é{h}\' # c\n   "z" rf"\\{i}" f"""\n{j(\n  k)} {l:{m}.{n}}""")',
    "print(f\"{f'{o}'} {(lambda: p)()} \\N{EM DASH} {q!s}{r}\", t)",
    "f\"{ {'z': s} }\"",
    'f"{u =!r:^20}"; f"{ v :>{ww}}"',
    'f"{x}{x}" "{x}" f"{x}"',
    "f'{a != b} {c <= d} {e[1:2]} {g if h else i}'",
    'f"""{a}\n  {b(\n c)} é {d}"""',
    "f'{a,} {(b, c)} {d:%H:%M}'",
    "f'{a}' f'{b}' 'c'",
    "(f'{a}'\n  # note {z}\n  f'{b}')",
    "f'{\"a\" + b}' + Rf'{c}\\d{e:\\d}'",
    "f'{a:{b}{c}}'",
    "if x:\n\tprint(f'é\t{x}')",
]

KINDS = (ast.Name, ast.Call, ast.Compare, ast.Subscript, ast.Dict, ast.Lambda, ast.IfExp, ast.BinOp)


@pytest.mark.parametrize("source", SOURCES)
def test_names_and_calls_are_where_the_source_has_them(source):
    tree = ast.parse(source)
    fstring_spans(source, tree)
    located = locate(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            assert ast.get_source_segment(source, node) == node.id
        if isinstance(
            node, (ast.Name, ast.Call, ast.Compare, ast.Subscript, ast.Dict, ast.Lambda, ast.IfExp, ast.BinOp)
        ):
            segment = ast.get_source_segment(source, node)
            again = ast.parse(f"({segment})", mode="eval").body
            assert ast.dump(again) == ast.dump(node)
            located.expression(Span.of(node))


def test_a_tree_without_fstrings_is_left_alone():
    tree = ast.parse("x = 'a' + b")
    before = ast.dump(tree, include_attributes=True)
    fstring_spans("x = 'a' + b", tree)
    assert ast.dump(tree, include_attributes=True) == before
