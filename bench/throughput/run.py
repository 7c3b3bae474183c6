"""Measure training loops side by side: what distify makes of plain scripts, hand-written loops, other libraries.

    python bench/throughput/run.py --model gpt2-124m --world 1,2 --contenders ours-ddp,hand-ddp,accelerate-ddp \\
        --repeats 5 --steps 60 --out results.jsonl

All combinations of the options are measured, one after the other, then all again for the next repeat, so that a machine
that drifts drifts for all. Each measurement has processes of its own (`--fresh`: which import everything anew, too).
Rows are added to the file as JSON lines; the summary at the end has medians, a check that all contenders printed the
same losses, and the ratios that are aimed at. `contenders.py` lists the contenders. A plan is a file with the options
of several such commands, one a line; its measurements are interleaved, too. `plan.sh` runs those that
docs/performance.md shows.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import mean

from contenders import BATCHES, HERE, Case, Conversions, start, tokens
from launch import Failed, Launcher, Outcome
from results import Row, percentile
from summary import last_line, summary

PACKAGES = ("torch", "deepspeed", "accelerate", "lightning", "lightning-fabric", "torch-distify")


def main() -> None:
    """Command line."""
    args = parse()
    plan = planned(args)
    if args.dry_run:
        for case, repeats in plan:
            print(repeats, case)
        return
    with tempfile.TemporaryDirectory(prefix="throughput") as folder:
        launcher = Launcher(Path(folder), args.share, args.fresh)
        try:
            rows = measure(plan, args, launcher)
        finally:
            launcher.close()
    print(summary(rows), flush=True)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The options."""

    def names(text: str) -> list[str]:
        return text.split(",")

    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=names, default=["gpt2-124m"], help=", ".join(BATCHES))
    parser.add_argument("--world", type=numbers, default=[1], help="numbers of processes")
    parser.add_argument("--contenders", type=names, default=["ours", "hand"])
    parser.add_argument("--precision", type=names, default=["bf16"])
    parser.add_argument("--accumulate", type=numbers, default=[1], help="batches per optimizer step")
    parser.add_argument("--log-every", type=numbers, default=[10], help="batches per printed line; 0: none between")
    parser.add_argument("--batch", type=int, default=0, help="samples per process; 0: as fits the model")
    parser.add_argument("--steps", type=int, default=60, help="batches, warm-up included")
    parser.add_argument("--warmup", type=int, default=10, help="first batches, not timed")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--option", action="append", default=[], help="a further option of distify rewrite; repeatable")
    parser.add_argument("--plan", type=Path, help="options of several runs, one a line")
    parser.add_argument("--tiny", action="store_true", help="the small sizes of the models, for a trial on CPUs")
    parser.add_argument("--share", action="store_true", help="all processes on one GPU; no figures come of that")
    parser.add_argument("--fresh", action="store_true", help="no process shares imports with another")
    parser.add_argument("--each", type=float, default=240.0, help="seconds after which a measurement is given up")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="nothing is begun after that time")
    parser.add_argument("--out", type=Path, default=Path("results.jsonl"))
    parser.add_argument("--dry-run", action="store_true", help="list what would be measured")
    return parser.parse_args(argv)


def planned(args: argparse.Namespace) -> list[tuple[Case, int]]:
    """What is to be measured, and how often."""
    if args.plan is None:
        return [(case, args.repeats) for case in combinations(args)]
    found = []
    for line in args.plan.read_text(encoding="utf-8").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            given = parse(words)
            given.tiny = args.tiny
            found += [(case, given.repeats) for case in combinations(given)]
    return found


def combinations(args: argparse.Namespace) -> list[Case]:
    """All cases that can be measured; the others are named on standard error."""
    found = []
    axes = (args.model, args.world, args.precision, args.accumulate, args.log_every, args.contenders)
    for model, world, precision, accumulate, log_every, contender in itertools.product(*axes):
        if args.tiny and not model.endswith("-tiny"):
            model = f"{model.split('-')[0]}-tiny"
        batch = args.batch or BATCHES.get(model, 1)
        case = Case(
            model,
            world,
            contender,
            precision,
            accumulate,
            log_every,
            batch,
            args.steps,
            args.warmup,
            tuple(args.option),
        )
        if case.problem():
            print(f"left out: {model} {contender} on {world}: {case.problem()}", file=sys.stderr)
        else:
            found.append(case)
    return found


def measure(plan: Sequence[tuple[Case, int]], args: argparse.Namespace, launcher: Launcher) -> list[Row]:
    """Measure all cases, repeat by repeat; rows go to the file as they come."""
    about = {"card": card(), "versions": versions(), "commit": commit(), "command": command()}
    conversions = Conversions(launcher.work / "converted")
    ends = time.monotonic() + args.seconds
    rows: list[Row] = []
    for repeat in range(max((repeats for _, repeats in plan), default=0)):
        for case in (case for case, repeats in plan if repeat < repeats):
            if time.monotonic() > ends:
                print(f"time is over at repeat {repeat}", flush=True)
                return rows
            row = one(case, repeat, args.each, launcher, conversions)
            for name, value in about.items():
                setattr(row, name, value)
            with args.out.open("a", encoding="utf-8") as out:
                out.write(row.line() + "\n")
            rows.append(row)
            print(told(row), flush=True)
    return rows


def one(case: Case, repeat: int, limit: float, launcher: Launcher, conversions: Conversions) -> Row:
    """Measure one case once."""
    row = Row(
        case.model,
        case.world,
        case.contender,
        case.precision,
        case.accumulate,
        case.log_every,
        case.batch,
        case.steps,
        repeat,
        list(case.options),
        date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    )
    try:
        begun = start(case, conversions)
        outcome = launcher.run(begun.script, begun.argv, case.world, begun.modules, begun.environment, limit)
    except (Failed, subprocess.CalledProcessError) as error:
        row.error = str(error)
        return row
    fill(row, outcome)
    return row


def fill(row: Row, outcome: Outcome) -> None:
    """What the processes measured: the slowest counts, and the largest GPU."""
    samples = row.batch * row.world * outcome.meters[0]["steps"] * tokens(row.model)
    row.rate = samples / max(meter["elapsed"] for meter in outcome.meters)
    times = [mean(step) for step in zip(*(meter["step_times"] for meter in outcome.meters))]
    row.p50, row.p90, row.p99 = (percentile(times, part) for part in (0.5, 0.9, 0.99))
    row.gpu_peak = max(meter["gpu_peak"] for meter in outcome.meters)
    row.gpu_reserved = max(meter["gpu_reserved"] for meter in outcome.meters)
    row.host_peak = sum(meter["host_peak"] for meter in outcome.meters)
    row.losses, row.seconds = outcome.losses, outcome.seconds


def told(row: Row) -> str:
    """A line while it runs."""
    head = f"{row.repeat} {row.model} {row.contender} on {row.world} {row.precision} x{row.accumulate}/{row.log_every}"
    if row.error:
        return f"{head}: FAILED {last_line(row.error)}"
    first, *_, last = row.losses.values() if len(row.losses) > 1 else [0.0, 0.0]
    return (
        f"{head}: {row.rate:,.0f}/s p50 {row.p50 * 1e3:.2f} ms, {row.gpu_peak / 2**30:.2f} GiB, "
        f"loss {first:.4f} to {last:.4f}, {row.seconds:.1f} s"
    )


def command() -> str:
    """What was typed, seen from this repository."""
    words = [word.removeprefix(f"{HERE.parents[1]}/") for word in sys.argv]
    return shlex.join(["python", *words])


def card() -> str:
    """The GPUs' name, or the processor's."""
    try:
        query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        names = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split("\n")
        return names[0].strip()
    except (OSError, subprocess.CalledProcessError):
        return "CPU"


def versions() -> dict[str, str]:
    """Of the packages that take part."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {"python": sys.version.split()[0], **found}


def commit() -> str:
    """Of this repository."""
    command = ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip()


if __name__ == "__main__":
    main()
