"""Words for results: a table of medians, the check of equal work, the targets.

python bench/throughput/summary.py results.jsonl [more.jsonl …]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from results import GIB, Check, Row, Side, Verdict, checks, medians, read, verdicts


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    sys.stdout.write(summary(read(parser.parse_args().files)))


def summary(rows: Sequence[Row]) -> str:
    """All three, and what failed."""
    parts = [table(rows), "Equal work: losses of the whole batch", *map(check_line, checks(rows))]
    found = verdicts(medians(rows))
    parts += ["", "Targets", *map(verdict_line, found)]
    if not found:
        parts.append("  none: no two contenders that one compares were measured")
    failed = [row for row in rows if row.error]
    if failed:
        parts += ["", "Failed", *(f"  {name_of(row)}: {last_line(row.error)}" for row in failed)]
    return "\n".join(parts) + "\n"


def name_of(row: Row) -> str:
    """A case in words."""
    return f"{row.model} {row.contender} on {row.world}, {row.precision}, repeat {row.repeat}"


def last_line(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


HEAD = (
    f"{'model':10} {'GPUs':>4} {'contender':24} {'prec':5} {'acc':>3} {'log':>4} {'rate/s':>11} "
    f"{'lowest-highest':>21} {'p50 ms':>8} {'p90 ms':>8} {'p99 ms':>8} {'GiB':>6} {'host':>6} {'n':>2}"
)


def table(rows: Sequence[Row]) -> str:
    """Medians, one line per case."""
    lines = [HEAD]
    for (model, world, contender, precision, accumulate, log_every, _), m in medians(rows).items():
        span = f"{m.lowest:,.0f}-{m.highest:,.0f}"
        lines.append(
            f"{model:10} {world:4} {contender:24} {precision:5} {accumulate:3} {log_every or 'no':>4} {m.rate:11,.0f} "
            f"{span:>21} {m.p50 * 1e3:8.2f} {m.p90 * 1e3:8.2f} {m.p99 * 1e3:8.2f} {m.gpu_peak / GIB:6.2f} "
            f"{m.host_peak / GIB:6.2f} {m.repeats:2}"
        )
    return "\n".join(lines) + "\n"


def check_line(check: Check) -> str:
    """One comparison of losses."""
    model, batch, accumulate, precision = check.work
    word = "equal" if check.equal else "DIFFERS"
    low, high = (f(check.losses, key=check.losses.__getitem__) for f in (min, max))
    text = (
        f"{check.losses[low]:.6f}"
        if low == high
        else f"{check.losses[low]:.6f} ({low}) to {check.losses[high]:.6f} ({high})"
    )
    window = "" if accumulate == 1 else f", accumulation of {accumulate}"
    return (
        f"  {word:7} {model} {precision}, {batch} samples{window}, step {check.step}: {len(check.losses)} contenders, "
        f"spread {check.spread:.1e}: {text}"
    )


def verdict_line(verdict: Verdict) -> str:
    """One target."""
    target = verdict.target
    rate = target.measure == "rate"
    times = "" if target.times == 1 else f"{target.times:g} x "
    word, bound = "met" if verdict.met else "MISSED", f"{'at least' if rate else 'at most'} {target.bound:g}"
    what = verdict.model if rate else f"{verdict.model} memory"
    return f"  {word:6} {verdict.ratio:6.3f} ({bound}) {what}: {side(target.left)} / {times}{side(target.right)}"


def side(of: Side) -> str:
    """One side of a ratio in words."""
    alone = "null" in of.contender.split("+")
    notes = [f"on {'one of ' if alone else ''}{of.world}", of.precision]
    if of.accumulate > 1:
        notes.append(f"accumulation of {of.accumulate}")
    if of.log_every != 10:
        notes.append(f"printed {'every step' if of.log_every == 1 else 'never' if not of.log_every else of.log_every}")
    return f"{of.contender} ({', '.join(notes)})"


if __name__ == "__main__":
    main()
