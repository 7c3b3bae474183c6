"""Times the codemod as its users meet it: whole processes, from the shell's call to their end.

    python bench/codemod.py                                  # everything; about half an hour
    python bench/codemod.py --only start,files --repeat 9    # some groups: start, files, length, modules, jobs
    python bench/codemod.py --output codemod.jsonl           # JSON lines there in place of standard output

Every command runs in a process of its own, in turn with the others of its group and with a plain `python -c pass`, so
that a busy machine is busy for all of them. Told are medians: seconds on the wall, and of processor time (user and
system, children included), which another process on the machine changes less. Ratios are those of processor time;
nothing is subtracted from them. Whoever measures installs a wheel into an environment of its own: an editable install
adds an import hook to every start of Python, the plain one too.

    start     --help, and `rewrite --check` on a script of 300 lines, against a plain start
    files     the hooks (`rewrite --check`, `check`) on 1,000 files without torch, against a process that only reads
              them with `open(path, "rb").read()`; and on 1,000 files with torch, 50 of which are training scripts
    length    `rewrite --check` on one file of 100 to 20,000 lines; the exponent is the slope of log seconds over log
              lines, after what a script of 100 lines costs at least (the start) was taken away
    modules   the same for a program of 1 to 200 files
    jobs      50 projects with -j 1, 2, … up to the cores; the outputs are compared

JSON lines: one per command (`name`, `command`, `wall`, `cpu`, `ratio`), one per exponent, and one with the versions.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import codemod_inputs as inputs

READ = "import sys\nfor path in sys.argv[1:]:\n    with open(path, 'rb') as file:\n        file.read()"
PLAIN = ("plain start", [sys.executable, "-c", "pass"])
LENGTHS = (100, 300, 1_000, 3_000, 10_000, 20_000)
MODULES = (1, 5, 20, 60, 200)
BUDGET = ["--budget", "3600"]
TARGETS = {"--help": 8.0, "300 lines": 45.0, "rewrite, no torch": 2.0, "check, no torch": 2.0}
EXPONENT = 1.1


@dataclass
class Timed:
    """A command and how long it took, each time.

    Attributes:
        name: what it is called.
        command: what is run.
        base: name of the command that its ratio is to.
        size: lines or modules, where the cost is looked at over them.
    """

    name: str
    command: list[str]
    base: str = PLAIN[0]
    size: int = 0
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    output: str = ""

    def run(self, folder: Path) -> None:
        """Once more."""
        began = time.perf_counter()
        process = subprocess.Popen(self.command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert process.stdout is not None
        text = process.stdout.read().decode()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.wall.append(time.perf_counter() - began)
        self.cpu.append(used.ru_utime + used.ru_stime)
        if process.returncode not in (0, 1):
            raise SystemExit(f"{' '.join(self.command)[:500]}: exit {process.returncode}\n{text[-2000:]}")
        self.output = text


def distify(*arguments: str) -> list[str]:
    """The command as it is installed beside this Python, else the module."""
    beside = shutil.which("distify", path=os.path.dirname(sys.executable))
    return [*([beside] if beside else [sys.executable, "-m", "distify.codemod"]), *arguments]


def start(folder: Path, _: argparse.Namespace) -> list[Timed]:
    """What every call costs."""
    (folder / "train.py").write_text(inputs.script(300))
    return [
        Timed("--help", distify("--help")),
        Timed("300 lines", distify("rewrite", "--check", "train.py")),
    ]


def files(folder: Path, asked: argparse.Namespace) -> list[Timed]:
    """The hooks on a thousand files."""
    plain = [str(path.relative_to(folder)) for path in inputs.without_torch(folder / "plain", asked.files)]
    torch = [str(path.relative_to(folder)) for path in inputs.with_torch(folder / "torch", asked.files)]
    reading = "reading, no torch"
    return [
        Timed(reading, [sys.executable, "-c", READ, *plain]),
        Timed("rewrite, no torch", distify("rewrite", "--check", *plain), reading),
        Timed("check, no torch", distify("check", *plain), reading),
        Timed("rewrite, torch", distify("rewrite", "--check", *torch)),
        Timed("check, torch", distify("check", *torch)),
    ]


def length(folder: Path, _: argparse.Namespace) -> list[Timed]:
    """One file, longer and longer."""
    found = []
    for lines in LENGTHS:
        text = inputs.script(lines)
        (folder / f"train{lines}.py").write_text(text)
        command = distify("rewrite", "--check", *BUDGET, f"train{lines}.py")
        found.append(Timed(f"{lines:,} lines", command, size=text.count("\n")))
    return found


def modules(folder: Path, _: argparse.Namespace) -> list[Timed]:
    """A script with more and more modules."""
    found = []
    for count in MODULES:
        path = inputs.program(folder / f"program{count}", count).relative_to(folder)
        found.append(Timed(f"{count} modules", distify("rewrite", "--check", *BUDGET, str(path)), size=count))
    return found


def jobs(folder: Path, asked: argparse.Namespace) -> list[Timed]:
    """Projects, on more and more cores."""
    paths = [str(path.relative_to(folder)) for path in inputs.with_torch(folder / "torch", asked.files)]
    cores = len(os.sched_getaffinity(0))
    counts = sorted({1, *(2**power for power in range(1, 8) if 2**power <= cores), cores})
    return [Timed(f"-j {n}", distify("rewrite", "--check", "-j", str(n), *paths), "-j 1") for n in counts]


GROUPS: dict[str, Callable[[Path, argparse.Namespace], list[Timed]]] = {
    "start": start,
    "files": files,
    "length": length,
    "modules": modules,
    "jobs": jobs,
}


def measured(group: str, asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The rows of a group: its commands in turn, so many times; those that take long less often."""
    with tempfile.TemporaryDirectory(prefix="distify-bench-") as name:
        folder = Path(name)
        timed = [Timed(*PLAIN), *GROUPS[group](folder, asked)]
        for number in range(asked.repeat + 1):  # the first one fills caches and isn't counted
            for item in timed:
                if item.wall and sum(item.wall) > asked.seconds:
                    continue
                item.run(folder)
                if number == 0 and item.wall[0] < asked.seconds:
                    item.wall.clear()
                    item.cpu.clear()
    medians = {item.name: statistics.median(item.cpu) for item in timed}
    walls = {item.name: statistics.median(item.wall) for item in timed}
    for item in timed:
        cpu, wall, target = medians[item.name], walls[item.name], TARGETS.get(item.name)
        ratio = walls[item.base] / wall if group == "jobs" else cpu / medians.get(item.base, cpu)
        yield {
            "group": group,
            "name": item.name,
            "command": shown(item.command),
            "repeats": len(item.wall),
            "wall": round(wall, 4),
            "cpu": round(cpu, 4),
            "to": item.base,
            "ratio": round(ratio, 2),
            **({} if target is None else {"target": target, "met": ratio <= target}),
        }
    sized = [(item.size, medians[item.name] - medians[PLAIN[0]]) for item in timed if item.size]
    if sized:
        slope = exponent(sized)
        yield {
            "group": group,
            "name": f"exponent of {group}",
            "exponent": slope,
            "target": EXPONENT,
            "met": slope <= EXPONENT,
        }
    if group == "jobs":
        alike = len({item.output for item in timed if item.name.startswith("-j")}) == 1
        yield {"group": group, "name": "outputs are equal", "met": alike}


def exponent(points: Sequence[tuple[int, float]]) -> float:
    """The slope of log seconds over log size, without what the smallest costs before its first line is read.

    That start is what a straight line through the two smallest sizes costs at size zero.
    """
    (x0, y0), (x1, y1) = points[:2]
    fixed = max(0.0, y0 - x0 * (y1 - y0) / (x1 - x0))
    logs = [(math.log(size), math.log(max(seconds - fixed, 1e-4))) for size, seconds in points]
    mean_x, mean_y = (statistics.fmean(axis) for axis in zip(*logs))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs)
    return round(slope, 3)


def shown(command: Sequence[str]) -> str:
    """A command as it is told: a thousand files are some and dots."""
    words = [os.path.basename(command[0]), *command[1:]]
    words = ["'…'" if "\n" in word else word for word in words]
    return " ".join(words if len(words) <= 12 else [*words[:8], f"… ({len(words) - 8} more)"])


def setting() -> dict[str, Any]:
    """When and with what."""
    names = ("torch-distify", "libcst", "typer", "jinja2", "rich")
    versions = {}
    for name in names:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return {
        "name": "setting",
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": " ".join(["python", *sys.argv]),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {len(os.sched_getaffinity(0))} cores",
        "versions": versions,
    }


def table(rows: Sequence[dict[str, Any]]) -> None:
    """The rows for people, on standard error."""
    from rich.console import Console
    from rich.table import Table

    shape = Table("group", "what", "wall s", "cpu s", "ratio", "to", "target", "")
    for row in rows:
        if "group" not in row:
            continue
        value = row.get("ratio", row.get("exponent", ""))
        mark = "" if "met" not in row else "met" if row["met"] else "missed"
        cells = (row["group"], row["name"], row.get("wall", ""), row.get("cpu", ""), value, row.get("to", ""))
        shape.add_row(*map(str, (*cells, row.get("target", ""), mark)))
    Console(stderr=True, width=120).print(shape)


def main() -> None:
    """Runs the groups that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(GROUPS), help="groups, with commas between them")
    parser.add_argument("--repeat", type=int, default=7, help="how often each command runs, after once for nothing")
    parser.add_argument("--seconds", type=float, default=30.0, help="no further repeat of what took so long in all")
    parser.add_argument("--files", type=int, default=1000, help="files that a hook is given")
    parser.add_argument("--output", type=Path, help="where the JSON lines go")
    asked = parser.parse_args()
    rows = [setting()]
    out = asked.output.open("w") if asked.output else sys.stdout
    print(json.dumps(rows[0]), file=out, flush=True)
    for group in asked.only.split(","):
        for row in measured(group, asked):
            rows.append(row)
            print(json.dumps(row), file=out, flush=True)
    table(rows)


if __name__ == "__main__":
    main()
