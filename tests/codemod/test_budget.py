"""A program whose analysis takes too long is refused in one line, and nothing is written."""

from __future__ import annotations

import itertools

import pytest

from distify.codemod import budget, plan
from distify.codemod.budget import Budget, Exceeded
from distify.codemod.options import Options
from distify.codemod.rewrite import InternalError, rewrite_source

from .facts.snippets import script

TRAINING = script("loss = F.cross_entropy(model(x), y)\nloss.backward()\nopt.step()\n").encode()


def ticking(seconds: float):
    """A `Budget` whose clock goes on by a second whenever it is asked."""
    ticks = itertools.count()
    return lambda limit: Budget(limit, clock=lambda: float(next(ticks)) * seconds, every=1)


def test_a_budget_is_used_up_by_processor_time():
    now = [10.0]
    limited = Budget(2, clock=lambda: now[0], every=1)
    now[0] = 12.0
    limited.check()
    now[0] = 12.1
    with pytest.raises(Exceeded):
        limited.check()
    budget.UNLIMITED.check()


def test_a_slow_program_is_refused_in_one_line(monkeypatch):
    monkeypatch.setattr(plan, "Budget", ticking(1))
    result = rewrite_source(TRAINING, "train.py", Options(budget=40))
    assert [item.code for item in result.findings] == ["DST905"]
    assert result.findings[0].message == "The analysis of this script was given up after 40 seconds."
    assert "--budget" in result.findings[0].hint
    assert result.refused
    assert not result.changed


def test_partial_writes_nothing_of_it(monkeypatch):
    monkeypatch.setattr(plan, "Budget", ticking(1))
    result = rewrite_source(TRAINING, "train.py", Options(budget=40, partial=True))
    assert not result.changed
    assert not result.rest


def test_rules_are_stopped_too(monkeypatch):
    """A budget that is used up by the last statement of the last pass is exceeded before the next rule."""
    asked: list[int] = []  # how often each budget was

    class Counting(Budget):
        stop = 0

        def __init__(self, seconds: float) -> None:
            super().__init__(seconds)
            asked.append(0)

        def check(self) -> None:
            asked[-1] += 1
            if asked[-1] == self.stop:
                raise Exceeded

    monkeypatch.setattr(plan, "Budget", Counting)
    assert rewrite_source(TRAINING, "train.py", Options()).changed
    Counting.stop = asked[0] - 3
    assert [item.code for item in rewrite_source(TRAINING, "train.py", Options()).findings] == ["DST905"]


def test_the_second_conversion_may_take_longer_but_not_forever(monkeypatch):
    budgets = []

    class Second(Budget):
        def __init__(self, seconds: float) -> None:
            super().__init__(seconds)
            budgets.append(seconds)

        def check(self) -> None:
            if len(budgets) == 2:
                raise Exceeded

    monkeypatch.setattr(plan, "Budget", Second)
    with pytest.raises(InternalError, match=r"train\.py: the converted program takes too long to analyse"):
        rewrite_source(TRAINING, "train.py", Options(budget=5))
    assert budgets == [5, 20]


def test_a_fast_file_is_not_refused():
    assert not rewrite_source(TRAINING, "train.py", Options(budget=100)).refused
