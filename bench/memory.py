"""Memory of training: peaks per GPU beside loops written by hand, and the largest model that trains.

    python bench/memory.py peaks --world 2 --out peaks.jsonl
    python bench/memory.py largest --world 2 --cap 24 --width 2048 --out largest.jsonl

`peaks` trains a few steps with each contender of `throughput/contenders.py` and compares ours with its rival. `largest`
gives each process no more than `--cap` GiB of its GPU (of the host's memory, without GPUs), doubles the number of a
GPT's layers until it no longer trains, and halves the distance between what did and what didn't. `--share` puts all
processes on one GPU: speed says nothing then, memory per process does.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "throughput"))

from contenders import BATCHES, Case, Conversions  # noqa: E402
from launch import Launcher  # noqa: E402
from memory_page import parameters  # noqa: E402
from results import GIB, Row  # noqa: E402
from run import card, command, commit, one, versions  # noqa: E402
from summary import last_line  # noqa: E402

PAIRS = (
    ("ours-ddp", "hand-ddp"),
    ("ours-fsdp", "hand-fsdp2-tuned"),
    ("ours-fsdp+reshard", "hand-fsdp2"),
    ("ours-fsdp+recompute", "hand-fsdp2+recompute"),
    ("ours-fsdp+recompute+offload", "hand-fsdp2+recompute+offload"),
    ("ours-fsdp+meta", "hand-fsdp2+meta"),
    ("ours-zero2", "hand-zero2"),
    ("ours-zero3", "hand-zero3"),
)
LARGEST = (
    "hand-ddp",
    "ours-ddp",
    "hand-fsdp2",
    "ours-fsdp",
    "hand-fsdp2+recompute",
    "ours-fsdp+recompute",
    "hand-fsdp2+meta+recompute+offload",
    "ours-fsdp+meta+recompute+offload",
)
FULL = ("out of memory", "can't allocate memory", "MemoryError", "bad_alloc", "status -9")
STEPS, WARMUP = 4, 2


class Found(NamedTuple):
    """The end of a search: the largest number that fits, 0 for none, and whether the next ones were seen to fail."""

    largest: int
    bounded: bool


def main() -> None:
    """Command line."""
    args = parse()
    with tempfile.TemporaryDirectory(prefix="memory") as folder:
        launcher = Launcher(Path(folder), args.share)
        if args.cap:
            launcher.environment = {"BENCH_CAP": str(int(args.cap * GIB))}
        try:
            (peaks if args.verb == "peaks" else largest_models)(args, Trials(args, launcher))
        finally:
            launcher.close()


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("peaks", "largest"))
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--model", default="gpt2-124m", help="for peaks")
    parser.add_argument("--contenders", help="names with changes; for peaks, in pairs")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--batch", type=int, default=0, help="samples per process; 0: the model's, and 1 for largest")
    parser.add_argument("--cap", type=float, default=0.0, help="GiB that each process may have")
    parser.add_argument("--width", type=int, default=2048, help="of the models whose depth is sought")
    parser.add_argument("--first", type=int, default=4, help="layers to begin with")
    parser.add_argument("--most", type=int, default=512, help="layers at which the search ends")
    parser.add_argument("--share", action="store_true", help="all processes on one GPU")
    parser.add_argument("--each", type=float, default=180.0, help="seconds after which a trial is given up")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no trial is begun after that time")
    parser.add_argument("--out", type=Path, default=Path("memory.jsonl"))
    return parser.parse_args(argv)


class Trials:
    """Runs cases, and writes a row for each."""

    def __init__(self, args: argparse.Namespace, launcher: Launcher) -> None:
        self.args, self.launcher = args, launcher
        self.conversions = Conversions(launcher.work / "converted")
        self.ends = time.monotonic() + args.seconds
        self.about = (card(), versions(), commit(), command())

    def run(self, model: str, contender: str) -> Row:
        """One trial.

        Raises:
            TimeoutError: the time for all of them is over.
        """
        if time.monotonic() > self.ends:
            raise TimeoutError
        args = self.args
        batch = args.batch or BATCHES.get(model, 1)
        case = Case(model, args.world, contender, args.precision, batch=batch, steps=STEPS, warmup=WARMUP)
        row = one(case, 0, args.each, self.launcher, self.conversions)
        row.card, row.versions, row.commit, row.command = self.about
        with args.out.open("a", encoding="utf-8") as out:
            out.write(row.line() + "\n")
        return row


def peaks(args: argparse.Namespace, trials: Trials) -> None:
    """Ours beside its rival, pair by pair."""
    names = args.contenders.split(",") if args.contenders else [name for pair in PAIRS for name in pair]
    print(f"{args.model} on {args.world}, {args.precision}: GiB of the fullest GPU, GiB of the host per process")
    for ours, rival in zip(names[::2], names[1::2]):
        try:
            pair = [trials.run(args.model, name) for name in (ours, rival)]
        except TimeoutError:
            print("  the time is over")
            return
        for row in pair:
            if row.error:
                print(f"  {row.contender:36} failed: {last_line(row.error)}", flush=True)
            else:
                print(
                    f"  {row.contender:36} {row.gpu_peak / GIB:8.3f} {row.host_peak / row.world / GIB:8.3f}", flush=True
                )
        if all(row.gpu_peak for row in pair):
            print(f"  {'':36} x {pair[0].gpu_peak / pair[1].gpu_peak:.3f}", flush=True)


def largest_models(args: argparse.Namespace, trials: Trials) -> None:
    """The deepest model of each contender."""
    names = args.contenders.split(",") if args.contenders else LARGEST
    print(f"GPT {args.width} wide on {args.world}, {args.precision}, {args.cap or 'all'} GiB per process", flush=True)
    for name in names:
        rows: dict[int, Row] = {}

        def fits(layers: int, name: str = name, rows: dict[int, Row] = rows) -> bool:
            rows[layers] = trials.run(f"gpt2-{args.width}x{layers}", name)
            return fitted(rows[layers])

        try:
            found = search(fits, args.first, args.most)
        except TimeoutError:
            done = max((layers for layers, row in rows.items() if not row.error), default=0)
            found = Found(done, False)
        except RuntimeError as error:
            print(f"  {name:36} failed: {last_line(str(error))}", flush=True)
            continue
        print(told(name, found, rows), flush=True)


def fitted(row: Row) -> bool:
    """Whether a trial trained; false if memory was over.

    Raises:
        RuntimeError: it failed for another reason.
    """
    if row.error and not any(sign in row.error for sign in FULL):
        raise RuntimeError(row.error)
    return not row.error


def search(fits: Callable[[int], bool], first: int, most: int) -> Found:
    """The largest number that fits, to an eighth: doubled while it does, then by halves.

    Args:
        fits: asked once for each number.
        first: asked first; smaller ones are tried if it doesn't fit.
        most: nothing larger is asked.
    """
    low, high = 0, 0
    size = first
    while not high and low < most:
        if fits(size):
            low, size = size, min(2 * size, most)
        else:
            high = size
    while high and high - low > max(1, low // 8):
        size = (low + high) // 2
        if fits(size):
            low = size
        else:
            high = size
    return Found(low, bool(high))


def told(name: str, found: Found, rows: dict[int, Row]) -> str:
    """One line."""
    if not found.largest:
        return (
            f"  {name:36} {'none trains' if rows and all(row.error for row in rows.values()) else 'the time was over'}"
        )
    row = rows[found.largest]
    size = parameters(row.model) / 1e9
    return (
        f"  {name:36} {size:7.2f} billion parameters ({'' if found.bounded else 'at least '}{found.largest} layers), "
        f"{row.gpu_peak / GIB:.2f} GiB of the fullest GPU, {row.host_peak / row.world / GIB:.2f} GiB of the host per "
        f"process, {row.rate:,.0f} tokens/s"
    )


if __name__ == "__main__":
    main()
