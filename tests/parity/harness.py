"""Runs a fixture as it is on one process and converted on several, and compares what they print and save."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from distify.codemod.options import Options
from tests.conversions import rewrite
from tests.parity.cases import FIXTURES, Case
from tests.parity.compare import assert_files_equal, assert_output_equal, files
from tests.pool import Pool, Run

WATCHED = Path(__file__).with_name("watched.py")


@dataclass(frozen=True)
class Target:
    """What a fixture is converted for; `name` is how tests call it."""

    backend: str
    zero_stage: int | None = None
    precision: str | None = None
    accumulate: int | None = None

    @property
    def name(self) -> str:
        stage = "" if self.zero_stage is None else str(self.zero_stage)
        return f"{self.backend}{stage}"


DDP, FSDP = Target("ddp"), Target("fsdp")
ZERO = tuple(Target("deepspeed", stage) for stage in (1, 2, 3))
TARGETS = (DDP, FSDP, *ZERO)


class Refused(Exception):
    """The conversion or the run was refused, with a reason."""


@dataclass
class Outcome:
    """Output of one run of a script and the folder in which it ran."""

    stdout: str
    folder: Path


@dataclass
class Originals:
    """Originals, each run once on one process and kept for the session."""

    pool: Pool
    folder: Path
    done: dict[str, Outcome] = field(default_factory=dict)

    def run(self, case: Case, runs: Sequence[Sequence[str]], env: Mapping[str, str]) -> Outcome:
        """Run the fixture's own script, unless it has been run with these arguments."""
        key = repr((case.name, runs, sorted(env.items())))
        if key not in self.done:
            folder = fresh(self.folder / f"{case.name}{len(self.done)}")
            script = FIXTURES / case.name / "train.py"
            out = "".join(self.pool.script(script, argv, folder, env).check().stdout for argv in runs)
            assert len(out.splitlines()) >= 3, f"{case.name} prints too little to compare"
            self.done[key] = Outcome(out, folder)
        return self.done[key]


def fresh(folder: Path) -> Path:
    """An empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


@cache
def converted(name: str, target: Target) -> bytes:
    """The fixture's source converted for a target.

    Raises:
        Refused: the conversion was refused.
    """
    options = Options(
        backend=target.backend,
        precision=target.precision,
        accumulate=target.accumulate,
        zero_stage=target.zero_stage,
    )
    result = rewrite((FIXTURES / name / "train.py").read_bytes(), f"{name}/train.py", options, again=False)
    if result.refused:
        raise Refused("; ".join(f"{item.code} {item.message}" for item in result.findings if item.level == "error"))
    return result.data


def run_converted(
    case: Case, target: Target, pool: Pool, folder: Path, runs: Sequence[Sequence[str]], env: Mapping[str, str]
) -> Outcome:
    """Convert a fixture and run it on all ranks of a pool; other ranks must print nothing and write no file.

    Raises:
        Refused: the conversion was refused, or the runtime refused the program with an error of its own.
    """
    return run_source(converted(case.name, target), pool, folder, runs, env)


def run_source(
    source: bytes, pool: Pool, folder: Path, runs: Sequence[Sequence[str]] = ((),), env: Mapping[str, str] | None = None
) -> Outcome:
    """Run a script on all ranks of a pool; other ranks must print nothing and write no file."""
    script = fresh(folder / "script") / "train.py"
    script.write_bytes(source)
    out = fresh(folder / "out")
    stdout = ""
    for argv in runs:
        run = pool.script(WATCHED, [str(script), *argv], out, env)
        raise_refusal(run)
        run.check()
        assert not any(run.others), f"other ranks printed: {run.others}"
        stdout += run.stdout
    return Outcome(stdout, out)


def raise_refusal(run: Run) -> None:
    """Turn the runtime's own refusals into `Refused`: an error of one of its classes, on every rank."""
    found = re.findall(r"^distify\.runtime\.[\w.]+: (.*)$", run.error, re.MULTILINE)
    if run.code and found and len(found) == 1 + len(run.others):
        raise Refused(found[0])


def assert_parity(case: Case, target: Target, originals: Originals, pool: Pool, folder: Path) -> None:
    """The converted fixture prints and saves what the original does."""
    expected = originals.run(case, case.runs, case.env)
    try:
        actual = run_converted(case, target, pool, folder, case.runs, case.env)
    except Refused as refused:
        check_refusal(case, target, str(refused))
        return
    assert_output_equal(expected.stdout, actual.stdout)
    assert_files_equal(expected.folder, actual.folder)


def check_refusal(case: Case, target: Target, reason: str) -> None:
    """A refusal is allowed only where the case says so, and tells why and what to do."""
    assert target.name in case.may_refuse, f"refused: {reason}"
    assert len(reason) > 60, f"a refusal says why and what to do: {reason}"


def assert_same_alone(case: Case, target: Target, originals: Originals, folder: Path) -> None:
    """On one process the converted fixture prints what the original does to the last digit, and saves the same."""
    expected = originals.run(case, case.runs, case.env)
    actual = run_converted(case, target, originals.pool, folder, case.runs, case.env)
    assert actual.stdout == expected.stdout
    assert_files_equal(expected.folder, actual.folder, many=0.0, absolute=0.0)


def assert_larger_batch(case: Case, target: Target, originals: Originals, pool: Pool, folder: Path) -> None:
    """`--accumulate 4` gives the weights and evaluation lines of the original with a four times larger batch."""
    larger = case.accumulate
    assert larger is not None
    expected = originals.run(case, [larger.original], {**case.env, **larger.original_env})
    actual = run_converted(case, target, pool, folder, [larger.converted], {**case.env, **larger.converted_env})
    left, right = (matching(outcome.stdout, larger.lines) for outcome in (expected, actual))
    assert left, f"no line of the original matches {larger.lines!r}"
    assert_output_equal(left, right)
    assert files(expected.folder), f"{case.name} saves nothing"
    assert_files_equal(expected.folder, actual.folder)


def matching(text: str, pattern: str) -> str:
    """The lines that a regular expression is found in."""
    return "\n".join(line for line in text.splitlines() if re.search(pattern, line))
