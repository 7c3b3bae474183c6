"""What is said about runs: how they were made, how they failed, what they told of themselves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..findings import Finding
from ..phrases import plural
from ..spawned import Ended, tail
from .mirror import Mirror
from .numbers import REDUCED
from .outcome import Done
from .request import Request
from .running import Job
from .sources import Program


def told(
    request: Request, values: Mapping[str, Any], expected: Done, done: Done, copies: Iterable[Mirror]
) -> Iterator[str]:
    """What the user should know of how the programs were run."""
    if not expected.facts.get("seeds"):
        yield "the script sets no seed: the random streams of both runs start from a fixed one"
    if request.steps is not None:
        ended = expected.facts.get("stopped")
        yield f"both {'were' if ended else 'would have been'} ended after {request.steps} optimizer steps"
    if not request.dropout:
        yield "dropout is switched off in both"
    if values["reset"]:
        yield "accumulate is configured; it makes a larger batch, and is left at 1 here"
    if values["precision"] in REDUCED:
        yield f"{values['precision']}: compared with the tolerance of its rounding"
    outside = sorted({*expected.facts.get("outside", []), *done.facts.get("outside", [])})
    if outside:
        yield f"written outside of the copies by the script itself, and not compared: {', '.join(outside[:3])}"
    harmed = sorted({path for copy in copies for path in copy.harmed()})
    if harmed:
        yield f"CAUTION, changed in the project itself while the scripts ran: {', '.join(harmed[:3])}"


def findings(program: Program) -> Iterator[tuple[str, Finding]]:
    """All findings of a conversion, each with its place."""
    for result in program.results:
        for item in result.findings:
            yield f"{result.path}:{item.span.line}", item


def refusal(program: Program) -> list[str]:
    """Why a conversion was refused."""
    lines = ["distify rewrite refuses the script, so there is nothing to run"]
    for place, item in findings(program):
        if item.level == "error":
            lines.append(f"{place} {item.code}: {item.message}")
    return lines


def failure(what: str, job: Job, ended: Ended, limit: float) -> list[str]:
    """How a run failed: a reason, then the end of its standard error."""
    if ended.late:
        return [f"{what} took longer than {limit:g} s: --steps N ends both early, --timeout SECONDS allows more"]
    rank = ended.first or 0
    code = ended.codes[rank]
    how = f"exit status {code}" if code > 0 else f"signal {-code}"
    where = f" in process {rank}" if job.processes else ""
    lines = tail(job.file(rank, "err")) or ["(it wrote nothing to standard error)"]
    return [f"{what} failed{where} ({how})", *(line.replace(job.root, job.source) for line in lines)]


def reached(expected: Done, done: Done) -> Iterator[str]:
    """How far a run came that did not end well."""
    if expected.trace.losses:
        yield f"it had made {len(done.trace.losses)} of {plural(len(expected.trace.losses), 'backward call')}"


def facts(job: Job) -> dict[str, Any]:
    """What the processes of a job told of themselves."""
    found: dict[str, Any] = {}
    for rank in reversed(range(max(1, job.processes))):
        try:
            told = json.loads(job.file(rank, "trace.facts").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        outside = sorted({*found.get("outside", []), *told.get("outside", [])})
        found |= told
        if outside:
            found["outside"] = outside
    return found
