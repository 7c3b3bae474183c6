"""Odd text around real scripts: what a file looks like goes through the conversion, and what it converts to stays."""

from __future__ import annotations

import ast
import codecs
import contextlib
import itertools
import re
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distify.codemod.options import Options
from distify.codemod.source import SourceError
from tests.conversions import rewrite

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted([*(ROOT / "tests/codemod/facts/scripts").glob("*.py"), *ROOT.glob("fixtures/*/train.py")])
REFUSED_TEXTS = ("print 'x'", "exec 'x' in y", "except E, e:", "x = 0777", "if a <> b: pass", "f(async=True)")


def tabbed(text: str) -> str:
    return re.sub(r"(?m)^(?: {4})+", lambda found: "\t" * (len(found[0]) // 4), text)


CHANGES = {
    "carriage returns": lambda text: text.replace("\n", "\r\n").encode(),
    "byte-order mark": lambda text: codecs.BOM_UTF8 + text.encode(),
    "tabs": lambda text: tabbed(text).encode(),
    "no final newline": lambda text: text.rstrip("\n").encode(),
    "latin-1": lambda text: f"# -*- coding: latin-1 -*-\n# é\n{text}".encode("latin-1", "replace"),
    "blank lines at the end": lambda text: (text + "\n\n   \n").encode(),
    "mark, returns, tabs": lambda text: codecs.BOM_UTF8 + tabbed(text).replace("\n", "\r\n").encode(),
}


@lru_cache(maxsize=None)
def converted(path: Path) -> str | None:
    """The conversion of a script, its line ends plain; `None` if it is refused."""
    result = rewrite(path.read_text().encode(), "train.py", Options(backend="ddp"), again=False)
    return None if result.refused else result.data.decode()


@settings(max_examples=14, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SCRIPTS), st.sampled_from(sorted(CHANGES)))
def test_the_look_of_a_file_is_kept(path: Path, name: str) -> None:
    """Converting what was changed is changing what was converted."""
    change, text = CHANGES[name], path.read_text()
    odd = change(text)
    result = rewrite(odd, "train.py", Options(backend="ddp"))
    expected = converted(path)
    assert result.data == (odd if expected is None else change(expected))
    again = rewrite(result.data, "train.py", Options(backend="ddp"))
    assert again.data == result.data


def semicolons(text: str, seed: int) -> str:
    """Two simple statements of a block on one line."""
    tree = ast.parse(text)
    lines = text.split("\n")
    pairs = [
        (first.lineno, second.lineno)
        for node in ast.walk(tree)
        for block in [getattr(node, "body", [])]
        if isinstance(block, list)
        for first, second in itertools.pairwise(block)
        if all(isinstance(s, (ast.Assign, ast.Expr)) and s.lineno == s.end_lineno for s in (first, second))
        and second.lineno == first.lineno + 1
        and "#" not in lines[first.lineno - 1]
    ]
    if not pairs:
        return text
    first, second = pairs[seed % len(pairs)]
    lines[first - 1 : second] = [f"{lines[first - 1]}; {lines[second - 1].strip()}"]
    return "\n".join(lines)


@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SCRIPTS), st.integers(0, 2**16), st.booleans())
def test_lines_that_hold_two_statements(path: Path, seed: int, feed: bool) -> None:
    text = semicolons(path.read_text(), seed)
    if feed:
        text = text.replace("\n\n\n", "\n\n\f\n", 1)
    result = rewrite(text.encode(), "train.py", Options(backend="ddp"))
    assert result.refused == (converted(path) is None)
    ast.parse(result.data)
    kept = set(text.split("\n")) & set(path.read_text().split("\n")) & set((converted(path) or text).split("\n"))
    assert kept <= set(result.data.decode().split("\n"))
    assert rewrite(result.data, "train.py", Options(backend="ddp")).data == result.data


@settings(max_examples=30)
@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=200))
def test_any_text_is_left_alone_or_no_python(text: str) -> None:
    """Text with `torch` in it, that it be parsed."""
    data = f"import torch\n{text}".encode()
    with contextlib.suppress(SourceError):
        assert rewrite(data, "train.py", Options()).data == data  # nothing trains in it


@pytest.mark.parametrize("line", REFUSED_TEXTS)
def test_what_python_2_understood(line: str) -> None:
    with pytest.raises(SourceError, match=r"^train\.py:2:\d+: not valid Python: "):
        rewrite(f"import torch\n{line}\n    pass\n".encode(), "train.py", Options())


def test_a_file_of_ten_thousand_lines() -> None:
    path = ROOT / "fixtures/functions/train.py"
    filler = "".join(f"def unused_{n}(a, b):\n    return a * {n} + b\n\n\n" for n in range(2500))
    head, rest = path.read_text().split("\n\n\n", 1)
    result = rewrite(f"{head}\n\n\n{filler}{rest}".encode(), "train.py", Options(backend="ddp"), again=False)
    assert result.data.decode().replace(filler, "") == converted(path)


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"# torch", b"\xef\xbb\xbf", b"import torch", b"import torch\n\x0c\n", b"torch\r"]
)
def test_files_with_next_to_nothing(data: bytes) -> None:
    assert rewrite(data, "train.py", Options()).data == data
