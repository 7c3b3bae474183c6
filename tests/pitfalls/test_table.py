"""The table in docs/pitfalls.md is complete and true: numbers, tests and codes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from distify.codemod.codes import CODES

HERE = Path(__file__).parent
TABLE = HERE.parent.parent / "docs" / "pitfalls.md"
COUNT = 83

ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TABLE.read_text(encoding="utf-8").splitlines()
    if re.match(r"\| \d+ \|", line)
]
LINK = re.compile(r"\[(\w+)\]\((\.\./[\w/]+\.py)\)")


def named_in(path: Path) -> set[str]:
    """The tests in a file."""
    return {n.name for n in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(n, ast.FunctionDef)}


def test_each_pitfall_has_one_row() -> None:
    assert [int(row[0]) for row in ROWS] == list(range(1, COUNT + 1))
    assert {len(row) for row in ROWS} == {5}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_named_test_exists(row: list[str]) -> None:
    links = LINK.findall(row[4])
    assert links
    assert len(links) == row[4].count("](")
    for name, place in links:
        path = (TABLE.parent / place).resolve()
        assert name in named_in(path) or name == path.stem, name
    own = f"p{int(row[0]):02}"
    assert any(own in name.split("_") for name, _ in links), f"no test is named after {own}"


def test_each_test_of_a_pitfall_is_in_the_table() -> None:
    found = {n for p in HERE.glob("test_*.py") for n in named_in(p) if re.match(r"test_p\d\d_", n)}
    assert found == {name for row in ROWS for name, _ in LINK.findall(row[4]) if re.match(r"test_p\d\d_", name)}


def test_each_code_exists() -> None:
    named = set(re.findall(r"DST\d{3}", TABLE.read_text(encoding="utf-8")))
    assert named
    assert not named - set(CODES)


def test_threads_are_addresses() -> None:
    for row in ROWS:
        for repository, number, address in re.findall(r"\[([\w.-]+/[\w.-]+)#(\d+)\]\((\S+?)\)", row[2]):
            assert address == f"https://github.com/{repository}/issues/{number}"
