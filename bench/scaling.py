"""What a training run would take on 8 to 1,024 GPUs: a model of its steps, fitted to what one and two GPUs took.

    python bench/scaling.py                                        # the points that lie beside this file
    python bench/scaling.py results.jsonl --model gpt2-774m        # those that bench/throughput measured
    python bench/scaling.py --model llama-7b                       # not measured: the speed of the fastest that was
    python bench/scaling.py --nic 25e9 --gpus 4 --svg scaling.svg  # other machines; a plot

The formula and its sources: `scaling_model.py`. Weak scaling: each GPU keeps its batch. Strong scaling: the step keeps
its samples (`--samples`), so that each GPU has fewer; as long as it has more than its batch, it accumulates.
Efficiency: the rate over that of one GPU times the number of GPUs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from scaling_fit import TASKS, Fit, Sought, fit, read
from scaling_model import BACKENDS, Machine, Task, predict
from scaling_plot import Line, plot

HERE = Path(__file__).resolve().parent
GPUS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
UNKNOWN = """\
What it can't know
  Links between nodes: none was measured here. --nic and --hop-between are what is assumed of them.
  More than two GPUs of a node: NVSwitch is taken to give each the bandwidth that two had.
  Networks that other jobs share, or whose upper levels are narrower than their lower ones; rails that fail.
  Ranks that wait for the slowest: at 1,024 GPUs a step takes as long as the worst one, not the average.
  Data loading, checkpoints, evaluation, failures and restarts.
  Whether fewer samples per GPU compute as fast: the speed is that of the measured batch, bounded by the host alone.
  Whether it fits: sharding is compared by time, while memory may decide."""


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").split("\n")[0],
        epilog="Formula and sources: bench/scaling_model.py.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    default = Machine()
    parser.add_argument("files", nargs="*", type=Path, default=[HERE / "scaling_points.jsonl"], help="measured steps")
    parser.add_argument("--model", choices=TASKS, default="gpt2-124m")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--samples", type=int, default=1024, help="of a step, for strong scaling")
    parser.add_argument("--gpus", type=int, default=default.gpus, help="of a node")
    parser.add_argument("--inside", type=float, default=default.inside, help="bytes/s that are expected in a node")
    parser.add_argument("--nic", type=float, default=default.nic, help="bytes/s of a GPU to other nodes")
    parser.add_argument("--hop-inside", type=float, default=default.hop_inside, help="seconds")
    parser.add_argument("--hop-between", type=float, default=default.hop_between, help="seconds")
    parser.add_argument("--memory", type=float, default=default.memory, help="bytes/s that an optimizer moves")
    parser.add_argument("--svg", type=Path, help="draw a plot into this file")
    parser.add_argument("--json", action="store_true", help="JSON lines in place of tables")
    parser.add_argument("--capacity", type=float, default=default.capacity, help="bytes of a GPU")
    args = parser.parse_args()
    names = ("gpus", "inside", "nic", "hop_inside", "hop_between", "memory", "capacity")
    machine = Machine(**{name: getattr(args, name) for name in names})
    points = read(args.files, TASKS, args.precision)
    task = replace(TASKS[args.model], wide=4 if args.precision == "fp32" else 2)
    if not points:
        parser.error(f"no step in {args.precision} was measured in {', '.join(map(str, args.files))}")
    found = fit(points, machine)
    if args.model not in found.fitted.speed:
        fastest = max(found.fitted.speed.values())
        found.fitted.speed[args.model] = fastest
        found.sought.append(Sought(f"speed {args.model}", fastest, fastest, False, "FLOP/s"))
    rows = list(scaling(task, found, args.samples))
    if args.json:
        sys.stdout.writelines(json.dumps(row) + "\n" for row in rows)
    else:
        sys.stdout.write("\n".join([*told(found), "", *tables(task, rows, args.samples), "", UNKNOWN, ""]))
    if args.svg is not None:
        args.svg.write_text(drawn(task, rows, args.samples), encoding="utf-8")


def scaling(task: Task, found: Fit, samples: int) -> Iterator[dict[str, Any]]:
    """A row for each kind of scaling, backend and number of GPUs.

    Args:
        task: what is trained.
        found: the fitted model.
        samples: of a step, in strong scaling.
    """
    for kind in ("weak", "strong"):
        for backend in BACKENDS:
            for gpus in GPUS:
                mine = float(task.batch) if kind == "weak" else samples / gpus
                if mine < 1 or (backend == "fsdp-hybrid" and gpus <= found.machine.gpus):
                    continue  # no work for some; or the same as fsdp
                one = predict(task, backend, 1, found.machine, found.fitted, mine if kind == "weak" else samples)
                times = predict(task, backend, gpus, found.machine, found.fitted, mine)
                each = one.step / times.step
                yield {
                    "scaling": kind,
                    "model": task.name,
                    "backend": backend,
                    "gpus": gpus,
                    "seconds": times.step,
                    "rate": gpus * mine * task.tokens / times.step,
                    "efficiency": each if kind == "weak" else each / gpus,
                    **asdict(times),
                }


def told(found: Fit) -> Iterator[str]:
    """What was measured, found and assumed."""
    yield f"{'measured':34} {'GPUs':>4} {'ms':>8} {'predicted':>9}"
    for point, error in found.errors:
        name = f"{point.task.name} {point.backend}, {point.task.batch} samples"
        yield f"{name:34} {point.gpus:>4} {point.seconds * 1e3:>8.1f} {error:>+9.1%}"
    yield ""
    yield f"{'fitted':24} {'value':>10} {'expected':>10}"
    for one in found.sought:
        expected = "" if one.expected is None else f"{one.expected:.3g}"
        note = "" if one.learnt else "assumed: not told by these points"
        yield f"{one.name:24} {one.value:>10.3g} {expected:>10} {one.unit:12}{note}".rstrip()
    machine = found.machine
    yield (
        f"assumed: {machine.gpus} GPUs a node; {machine.nic:.3g} B/s of each to other nodes; a hop takes "
        f"{machine.hop_inside * 1e6:g} µs inside, {machine.hop_between * 1e6:g} µs between; an optimizer moves "
        f"{machine.memory:.3g} B/s"
    )


def tables(task: Task, rows: Sequence[dict[str, Any]], samples: int) -> Iterator[str]:
    """Milliseconds of a step and efficiency, by backend and number of GPUs."""
    for kind in ("weak", "strong"):
        what = f"{task.batch} samples per GPU" if kind == "weak" else f"{samples} samples per step"
        yield f"{task.name}, {kind} scaling, {what}: ms of a step, efficiency"
        yield f"{'GPUs':>6} " + " ".join(f"{backend:>16}" for backend in BACKENDS)
        cells = {(row["backend"], row["gpus"]): row for row in rows if row["scaling"] == kind}
        for gpus in dict.fromkeys(gpus for _, gpus in cells):
            found = [cells.get((backend, gpus)) for backend in BACKENDS]
            shown = [f"{r['seconds'] * 1e3:>10.1f} {r['efficiency']:>5.0%}" if r else f"{'':16}" for r in found]
            yield f"{gpus:>6} " + " ".join(shown).rstrip()
        yield ""


def drawn(task: Task, rows: Sequence[dict[str, Any]], samples: int) -> str:
    """Both kinds of scaling as a picture: efficiency over the number of GPUs."""
    panels = []
    for kind, what in (("weak", f"{task.batch} samples per GPU"), ("strong", f"{samples} samples per step")):
        lines = [
            Line(
                backend, [(r["gpus"], r["efficiency"]) for r in rows if (r["scaling"], r["backend"]) == (kind, backend)]
            )
            for backend in BACKENDS
        ]
        panels.append((f"{task.name}, {kind} scaling, {what}", lines))
    return plot(panels)


if __name__ == "__main__":
    main()
