"""The work on a program grows with its length and no faster: calls are counted, which no busy machine changes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from distify.codemod.options import Options
from distify.codemod.rewriter import Rewriter

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def inputs(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import codemod_inputs

    yield codemod_inputs
    del sys.modules["codemod_inputs"]


def calls(text: str) -> int:
    """How many functions are called for a conversion: Python's own, those of the package, and those of libraries."""
    rewriter = Rewriter(None, explained=False, proved=False)
    rewriter.register("train.py", text.encode())
    counted = 0

    def count(frame, event, argument):
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        for name in rewriter.scripts():
            rewriter.plan(name, Options(budget=3600))
        (result,) = rewriter.results()
    finally:
        sys.setprofile(None)
    assert result.changed
    return counted


def test_twice_the_length_is_twice_the_work(inputs):
    units = [inputs.HEAD.count("\n") + inputs.UNIT.count("\n") * number + number + 40 for number in (1, 2, 4)]
    texts = [inputs.script(lines) for lines in units]
    assert [text.count("class Network") for text in texts] == [1, 2, 4]
    calls(texts[0])  # what is made once and kept, templates and the like
    one, two, four = map(calls, texts)
    assert four - two < 1.1 * 2 * (two - one)
