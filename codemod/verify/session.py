"""Verifies one request: lays out scratch copies, runs both programs, compares what they left."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..dataclass import replace
from ..files import read
from ..launching.script import look_at
from ..options import CHOICES, DEFAULTS, Options, configuration
from ..report.stream import complain
from ..spawned import Ended
from .causes import causes
from .devices import variables, where
from .drift import drift_of, forgive, may_be_rounding, unsteady
from .evidence import Evidence
from .losses import joined, read_trace
from .mirror import SCRATCH, Mirror, mirror
from .numbers import tolerance_of
from .outcome import Done, Outcome, compared
from .repeats import doubt_noise, doubt_rounding, excuse, may_be_noise, saves_numbers
from .request import Request
from .running import Job, python, run
from .setting import prepare
from .sources import Program, Unable, check_inside, how_to_run, is_converted, rewritten
from .telling import facts, failure, findings, reached, refusal, told
from .watch import Follower, Watch


class Session:
    """One request.

    Args:
        request: what is asked for.
        scratch: an empty folder.
        watch: shows how far it is.
    """

    def __init__(self, request: Request, scratch: Path, watch: Watch) -> None:
        self.request = request
        self.scratch = scratch
        self.watch = watch
        self.copies: dict[str, Mirror] = {}
        self.drift: Outcome | None = None
        self.second: Outcome | None = None
        self.setting = prepare(request)

    def outcomes(self) -> list[Outcome]:
        """Verify the conversion, or that for each backend."""
        programs = [(name, self.convert(name, options)) for name, options in self.conversions()]
        if all(isinstance(program, Outcome) for _, program in programs):
            return [program for _, program in programs if isinstance(program, Outcome)]
        expected = self.run_original("original")
        if self.request.twice:
            self.drifted(expected)
        found = []
        for name, program in programs:
            if isinstance(program, Outcome):
                found.append(program)
                continue
            found.append(self.verify(name, program, expected))
        return found

    def drifted(self, expected: Done) -> Outcome:
        """How the original differs from itself when its weights are moved by their last digit; run once."""
        if self.drift is None:
            nudged = self.run_original("nudged", "once more, with weights moved by their last digit", expected)
            self.drift = drift_of(expected, nudged, self.request.ignore)
        return self.drift

    def repeated(self, expected: Done) -> Outcome:
        """What the original does not repeat when it is run once more as it is; run once."""
        if self.second is None:
            self.second = drift_of(expected, self.run_original("again", "once more", expected), self.request.ignore)
        return self.second

    def conversions(self) -> list[tuple[str, Options]]:
        """Names and options of what is verified."""
        given = self.request.options
        if not self.request.matrix:
            return [("", given)]
        return [(name, replace(given, backend=name)) for name in CHOICES["backend"]]

    def convert(self, name: str, options: Options) -> Program | Outcome:
        """The rewritten program, or why there is none."""
        if name == "deepspeed" and importlib.util.find_spec("deepspeed") is None:
            return Outcome(name, unable=["deepspeed is not installed here"], skipped=True)
        as_it_is = self.request.original is not None or is_converted(read(self.request.script))
        if as_it_is and not options.given():
            return Program(self.setting.script)
        program = rewritten(self.request.script, options)
        if program.told == "refused":
            return Outcome(name or str(options.effective("backend")), unable=refusal(program))
        check_inside(self.setting.home, program)
        return program

    def run_original(self, name: str, how: str = "", like: Done | None = None) -> Done:
        """Run the original on one process.

        Args:
            name: of the run.
            how: it is run, for the user.
            like: a run of it before.

        Raises:
            Unable: it fails.
        """
        job = self.job(name, self.setting.original, 0)
        shown = f"original on 1 process {how}".rstrip()
        done, ended = self.run(job, shown, [] if like is None else like.trace.losses)
        if not ended.well:
            raise Unable(*failure("the original", job, ended, self.request.limit))
        if not (done.trace.losses or done.output.strip() or done.mirror.written()):
            raise Unable("the original made no backward, printed nothing and saved nothing: nothing can be compared")
        return done

    def verify(self, name: str, program: Program, expected: Done) -> Outcome:
        """Run a rewritten program and compare it with the original."""
        values = self.effective(program)
        backend = name or str(values["backend"])
        job = self.job(f"rewritten-{backend}", program, self.request.processes, values)
        done, ended = self.run(job, f"rewritten script ({backend}) on {processes(self.request)}", expected.trace.losses)
        how = f" on {processes(self.request)}, {where(self.setting.device)}"
        by_hand = not any(map(is_converted, [read(path) for path in self.setting.files])) and not program.texts
        if not ended.well:
            lines = failure("the rewritten script", job, ended, self.request.limit)
            lines[0] += f" (the original ran well, in {expected.seconds:.0f} s)"
            lines[1:1] = reached(expected, done)
            return Outcome(backend, how, unable=lines, notes=list(self.setting.notes), by_hand=by_hand)
        precision = str(values["precision"])
        outcome = compared(
            backend, expected, done, tolerance_of(precision, self.request.tolerance), self.request.ignore
        )
        outcome.how = how
        outcome.by_hand = by_hand
        outcome.notes = [*self.setting.notes, *told(self.request, values, expected, done, self.copies.values())]
        doubt_rounding(outcome)
        if self.drift is not None or may_be_rounding(outcome) or (may_be_noise(outcome) and saves_numbers(outcome)):
            forgive(outcome, self.drifted(expected))
            doubt_noise(outcome, self.drifted(expected))
        if may_be_noise(outcome):
            doubt_noise(outcome, self.repeated(expected))
            excuse(outcome, self.repeated(expected))
        if not outcome.equal:
            outcome.causes = causes(self.evidence(outcome, program, values, expected))
        return outcome

    def job(self, name: str, program: Program, size: int, values: Mapping[str, Any] | None = None) -> Job:
        """What is run of a program."""
        setting, request = self.setting, self.request
        root = self.scratch / name / os.path.basename(setting.home)
        root.parent.mkdir()
        copy = mirror(setting.home, str(root), setting.files)
        copy.replace(program.texts)
        self.copies[name] = copy
        folder = copy.at(setting.folder)
        environment = variables(setting.device, size)
        if values is not None and values["reset"]:
            environment["DISTIFY_ACCUMULATE"] = "1"
        return Job(
            name=name,
            command=[python(), *how_to_run(copy.at(program.script), folder), *request.arguments],
            folder=folder,
            scratch=self.scratch,
            root=str(root),
            source=setting.home,
            processes=size,
            steps=request.steps,
            dropout=request.dropout,
            nudge=name == "nudged",
            environment=environment,
        )

    def run(self, job: Job, shown: str, expected: list[float]) -> tuple[Done, Ended]:
        """Run a job, and read what it left."""
        follower = Follower(job.runtime_trace, job.file(0, "trace"))
        with self.watch.phase(shown, follower, list(expected)):
            ended = run(job, self.request.limit, self.watch.look)
        ranks = range(max(1, job.processes))
        texts = {rank: job.file(rank, "out").read_text(encoding="utf-8", errors="replace") for rank in ranks}
        trace = joined(read_trace(job.runtime_trace), [read_trace(job.file(rank, "trace")) for rank in ranks])
        others = {rank: text for rank, text in texts.items() if rank and text.strip()}
        return Done(texts[0], others, trace, facts(job), self.copies[job.name], ended.seconds), ended

    def effective(self, program: Program) -> dict[str, Any]:
        """The options that hold in the rewritten run: in the code, configured, or by default."""
        written = look_at(program.script, program.texts).written
        configured = {**DEFAULTS, **configuration(Path(self.setting.script).parent)}
        values: dict[str, Any] = {name: configured[name] for name in DEFAULTS}
        # What the script computes is not known here, but it is not what is configured.
        values |= {name: DEFAULTS[name] if item.value is None else item.value for name, item in written.items()}
        # A larger batch by accumulation is another run: what is only configured is left out here.
        values["reset"] = "accumulate" not in written and int(configured["accumulate"]) != 1
        if values["reset"]:
            values["accumulate"] = 1
        return values

    def evidence(self, outcome: Outcome, program: Program, values: Mapping[str, Any], expected: Done) -> Evidence:
        """What is known of a difference."""
        texts = [program.texts.get(path) or read(path) for path in self.setting.files]
        return Evidence(
            first=outcome.first,
            checks={check.name: check for check in outcome.checks},
            processes=self.request.processes,
            losses=outcome.losses,
            facts=expected.facts,
            source="\n".join(data.decode("utf-8", "replace") for data in texts),
            precision=str(values["precision"]),
            batch=str(values["batch"]),
            batchnorm=str(values["batchnorm"]),
            accumulate=int(values["accumulate"]),
            itself=None if (again := self.drift or self.second) is None else unsteady(again),
            dropout=self.request.dropout,
            assumptions=[f"{place} {item.code}" for place, item in findings(program) if item.level == "warning"],
            device=self.setting.device,
        )


@contextmanager
def scratch(keep: bool) -> Iterator[Path]:
    """A folder for the scratch copies; it goes away unless it is to be kept."""
    if keep:
        folder = tempfile.mkdtemp(prefix=SCRATCH)
        complain(f"scratch copies, outputs and traces stay in {folder}")
        yield Path(os.path.realpath(folder))
        return
    with tempfile.TemporaryDirectory(prefix=SCRATCH, ignore_cleanup_errors=True) as folder:
        yield Path(os.path.realpath(folder))


def processes(request: Request) -> str:
    """`2 processes`."""
    return f"{request.processes} process{'' if request.processes == 1 else 'es'}"
