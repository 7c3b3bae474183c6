"""Runs a small program as it is on one process, converted naively, and converted by distify; and compares."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from distify.codemod.options import Options
from distify.codemod.rewrite import Result
from tests.conversions import rewrite
from tests.parity.compare import assert_files_equal, assert_output_equal
from tests.pool import Pool, Run

APART = Path(__file__).with_name("apart.py")
WAITED_IN_VAIN = re.compile(r"Timed out|timed out|Connection (closed|reset)|Application timeout")

HEAD = """\
import math
import os
import random
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.manual_seed(0)
features = torch.randn(18, 5)
labels = (features[:, 0] + features[:, 1] > 0).long()
data = TensorDataset(features, labels)

"""

Change = tuple[str, str]


@dataclass
class Outcome:
    """What a program did on one process or on all ranks.

    Attributes:
        out: standard output by rank.
        error: tracebacks of the ranks that raised, empty if none did.
        folder: where it ran, with the files that it left.
        err: standard error by rank.
    """

    out: list[str]
    error: str
    folder: Path
    err: list[str]

    def lines(self, rank: int = 0) -> list[str]:
        return self.out[rank].splitlines()


@dataclass
class Trial:
    """Pools of one, two and three processes, and a folder for what programs write."""

    pools: Mapping[int, Pool]
    folder: Path
    numbers: Any = field(default_factory=itertools.count)

    def original(self, source: str, runs: Sequence[Sequence[str]] = ((),)) -> Outcome:
        """The program as it is, on one process."""
        outcome = self._run(text(source), 1, runs)
        assert not outcome.error, outcome.error
        assert outcome.out[0].strip(), "it prints nothing to compare"
        return outcome

    def hangs(self, source: str, *changes: Change, size: int = 2) -> bool:
        """Whether the naive conversion waits for ever: a rank for another one that does not come."""
        outcome = self.naive(source, *changes, size=size, patience=1.0)
        assert not outcome.error or WAITED_IN_VAIN.search(outcome.error), outcome.error
        return bool(outcome.error)

    def naive(self, source: str, *changes: Change, size: int = 2, patience: float = 60.0) -> Outcome:
        """The program with each text replaced by another, as someone in a hurry would convert it, on all ranks."""
        changed = text(source)
        for old, new in changes:
            assert old in changed, f"{old!r} is not in the program"
            changed = changed.replace(old, new)
        begin = f"from tests.pitfalls import naive\nnaive.begin({patience})\n"
        return self._run(begin + changed, size, ((),), {"DISTIFY_ALL_RANKS": "1"})

    def convert(self, source: str, **options: Any) -> Result:
        """What distify makes of the program."""
        return converted(text(source), tuple(sorted(options.items())))

    def same(
        self,
        source: str,
        size: int = 2,
        runs: Sequence[Sequence[str]] = ((),),
        like: str | None = None,
        expected: Outcome | None = None,
        **options: Any,
    ) -> Result:
        """Converted by distify the program prints and saves on all ranks what it does as it is on one.

        Arguments:
            size: number of processes.
            runs: arguments of runs one after the other, in one folder.
            like: another program to compare with, such as one with larger batches.
            expected: what the original did, where it is known already.
            **options: of the conversion.
        """
        result = self.convert(source, **options)
        expected = expected or self.original(like or source, runs)
        actual = self.ours(source, size, runs, **options)
        assert_output_equal(expected.out[0], actual.out[0])
        assert_files_equal(expected.folder, actual.folder)
        assert not any(actual.out[1:]), f"other ranks printed {actual.out[1:]}"
        return result

    def ours(self, source: str, size: int = 2, runs: Sequence[Sequence[str]] = ((),), **options: Any) -> Outcome:
        """The program converted by distify, on all ranks."""
        result = self.convert(source, **options)
        errors = [f"{item.span.line}: {item.code} {item.message}" for item in result.findings if item.level == "error"]
        assert not errors, errors
        outcome = self._run(result.data.decode(), size, runs)
        assert not outcome.error, f"{outcome.error}\n{result.data.decode()}"
        return outcome

    def refused(self, source: str, *codes: str, **options: Any) -> Result:
        """The program is refused with exactly these codes, and left as it is."""
        result = self.convert(source, **options)
        found = dict.fromkeys(item.code for item in result.findings if item.level == "error")
        assert list(found) == list(codes)
        assert result.data == result.before
        return result

    def _run(
        self, source: str, size: int, runs: Sequence[Sequence[str]], env: Mapping[str, str] | None = None
    ) -> Outcome:
        place = self.folder / f"run{next(self.numbers)}"
        place.mkdir()
        script = self.folder / f"train{place.name}.py"
        script.write_text(source)
        out, err, error = [""] * size, [""] * size, ""
        for argv in runs:
            run: Run = self.pools[size].script(APART, [str(script), *argv], place, env)
            out = [before + now for before, now in zip(out, [run.stdout, *run.others])]
            err = [before + now for before, now in zip(err, run.stderr)]
            error += run.error
        return Outcome(out, error, place, err)


@cache
def converted(source: str, options: tuple[tuple[str, Any], ...]) -> Result:
    """A program converted, once for all the tests that run it."""
    return rewrite(source.encode(), "train.py", Options(**dict(options)))


def text(source: str) -> str:
    """The program's text: the common head and its own lines."""
    return HEAD + textwrap.dedent(source).lstrip("\n")


def codes(result: Result) -> list[str]:
    """The codes of all findings, by place."""
    return [item.code for item in result.findings]


def differs(expected: Outcome, actual: Outcome) -> bool:
    """Whether a run that ended well printed other numbers than the original: silently wrong."""
    assert not actual.error, f"not silent: {actual.error}"
    try:
        assert_output_equal(expected.out[0], actual.out[0])
    except AssertionError:
        return True
    return False
