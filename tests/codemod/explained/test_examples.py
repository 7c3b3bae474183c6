"""Every code has a file; its example gives the code and what the file says comes of it; its pages follow from it."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from distify.codemod.codes import CODES, FAMILIES, OF_CHECK
from distify.codemod.explained import Explained, explained, parsed, url
from distify.codemod.explained.examples import Outcome, looked_at, options, outcome
from distify.codemod.explained.pages import numbers, pages, suppressed
from distify.codemod.explained.show import WIDTH, shown
from distify.codemod.plan import make_plans
from distify.codemod.program import Program

ROOT = Path(__file__).parents[3]
UNWRITTEN: frozenset[str] = frozenset()  # codes that have no file yet
WITHOUT_EXAMPLE = {"DST902", "DST905"}  # what no text triggers: an odd parser, a lack of time
IN_TEXT = {"DST900"}  # of the comments themselves: no comment takes it back
EXAMPLES = sorted(set(CODES) - UNWRITTEN - WITHOUT_EXAMPLE)


@functools.cache
def of(code: str) -> tuple[Explained, Outcome]:
    item = explained(code)
    return item, outcome(item)


def test_every_code_has_a_file() -> None:
    assert {code for code in CODES if not explained(code).written} == UNWRITTEN
    assert {code for code in CODES if not explained(code).example} == UNWRITTEN | WITHOUT_EXAMPLE
    files = {file.stem for file in (ROOT / "codemod" / "explained").glob("*.md")}
    assert files == set(CODES) - UNWRITTEN
    assert {code[3] for code in CODES} <= set(FAMILIES)


@pytest.mark.parametrize("code", EXAMPLES)
def test_example(code: str) -> None:
    """The report and the change are those of the tool; the level is that of the catalogue, or the finding says it."""
    item, result = of(code)
    assert item.section("Report").block == result.report
    assert item.section("After").block == result.diff
    if code not in OF_CHECK:
        assert bool(result.diff) != any(found.level == "error" for found in result.found)
    assert 5 <= len(item.example.splitlines()) <= 28
    if CODES[code].level == "error":
        assert {found.level for found in result.found if found.code == code} == {"error"}


@pytest.mark.parametrize("code", [code for code in EXAMPLES if explained(code).section("Report").block])
def test_the_comment_takes_it_back(code: str) -> None:
    item = explained(code)
    text = suppressed(item, numbers(item))
    if code in OF_CHECK:
        found = [one.code for one in looked_at(item, text).findings]
    else:
        ((_, plan),) = make_plans(Program.single(item.name, text), options(item.options))
        found = [one.code for one in plan.findings]
    assert code in found if code in IN_TEXT else code not in found
    assert "DST900" not in found or code in IN_TEXT


@pytest.mark.parametrize("code", [code for code in EXAMPLES if explained(code).section("Instead").block])
def test_what_to_do_does(code: str) -> None:
    """The script that follows the advice is converted, without a finding that asks for more."""
    item = explained(code)
    result = looked_at(item, item.section("Instead").block)
    assert result.changed != (code in OF_CHECK)
    assert [found.code for found in result.findings if found.level != "note"] == []
    assert code not in [found.code for found in result.findings]


def test_threads_are_those_of_the_pitfalls() -> None:
    known = set(re.findall(r"\]\((https://github\.com/[^)]+)\)", (ROOT / "docs" / "pitfalls.md").read_text()))
    for code in CODES:
        assert {url(thread) for thread in explained(code).threads} <= known, code


def test_pages_are_the_generated_ones() -> None:
    """Else: `python -m distify.codemod.explained docs/rules`."""
    folder = ROOT / "docs" / "rules"
    assert {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.md")} == pages()


@pytest.mark.parametrize("code", sorted(CODES))
def test_it_reads_well_in_80_columns(code: str) -> None:
    lines = ["".join(piece for piece, _ in line) for line in shown(explained(code))]
    assert max(map(len, lines)) <= WIDTH
    assert not any(line != line.rstrip() for line in lines)


def test_a_file_with_a_mistake() -> None:
    entry = CODES["DST101"]
    with pytest.raises(ValueError, match="unknown key 'thread'"):
        parsed(entry, "thread: a/b#1\n\n# Finds\n\nx\n")
    with pytest.raises(ValueError, match="unknown section 'Wy'"):
        parsed(entry, "# Finds\n\nx\n\n# Wy\n\ny\n")
    with pytest.raises(ValueError, match="no thread"):
        url("https://example.com")
    comment = parsed(entry, "# Finds\n\nx\ny\n\n# Before\n\n```python\na\n# Why\n```\n\n# Why\n\nz\n")
    assert comment.example == "a\n# Why\n"
    assert comment.section("Finds").words == "x y"
    assert comment.section("Why").words == "z"


def test_an_example_that_does_not_give_its_code() -> None:
    with pytest.raises(ValueError, match="DST108: the example gives \\[\\]"):
        outcome(parsed(CODES["DST108"], "# Before\n\n```python\nprint(1)\n```\n"))
