"""Run the codemod over every Python file of the installed packages and of the standard library, and say what came out.

    python bench/robustness.py                                    # all of them, results in robustness.jsonl
    python bench/robustness.py --jobs 4 --again crash,slow        # go on where it stopped; some outcomes anew
    python bench/robustness.py --sample 200 torch FOLDER FILE     # some of a package's, a folder's
    python bench/robustness.py --graft                            # with a training loop at the end of each file
    python bench/robustness.py --follow torch/utils               # as scripts, with the modules that they import

Nothing is written but the results, one JSON line per file. A file passes if the codemod doesn't crash, what it makes
parses, a second run changes nothing, and a file that trains nothing keeps its bytes. What is refused is converted once
more in part, so that its edits are tried too; what the codemod itself gives up (`--budget`) counts as "exceeded". Few
installed files train anything; with `--graft` the analysis and all rules go over every one of them. Each file is
converted in a worker process, which is ended and replaced if it dies or takes more than `--limit` seconds.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import multiprocessing
import os
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distify.codemod.rewrite import Result

GOOD = ("skipped", "untouched", "converted", "refused", "no python", "exceeded")
BAD = ("crash", "unparsable", "unstable", "touched", "slow", "died")
SLOWEST = 15

GRAFT = b"""

def _grafted():
    import torch as _torch

    _data = _torch.utils.data.TensorDataset(_torch.randn(9, 4), _torch.randint(0, 3, (9,)))
    _loader = _torch.utils.data.DataLoader(_data, batch_size=4)
    _model = _torch.nn.Linear(4, 3)
    _optimizer = _torch.optim.SGD(_model.parameters(), lr=0.1)
    for _inputs, _targets in _loader:
        _optimizer.zero_grad()
        _loss = _torch.nn.functional.cross_entropy(_model(_inputs), _targets)
        _loss.backward()
        _optimizer.step()
        print(_loss.item())


if __name__ == "__main__":
    _grafted()
"""


@dataclass(frozen=True)
class Row:
    """What came out for one file.

    Attributes:
        path: of the file.
        outcome: one of `GOOD` or `BAD`.
        seconds: processor time of the first conversion.
        size: bytes of the file.
        codes: how often each code was found.
        detail: of a failure, in one line.
    """

    path: str
    outcome: str
    seconds: float = 0.0
    size: int = 0
    codes: dict[str, int] = field(default_factory=dict)
    detail: str = ""


@dataclass(frozen=True)
class Task:
    """How each file is tried.

    Attributes:
        follow: whether the local modules that it imports are converted with it.
        graft: whether a training loop is put at its end first.
    """

    follow: bool = False
    graft: bool = False


# ---- one file --------------------------------------------------------------------------------------------------------


def examine(path: str, task: Task) -> Row:
    """Convert one file in memory, and check what comes out."""
    from distify.codemod.source import SourceError

    data = Path(path).read_bytes() + (GRAFT if task.graft else b"")
    start = time.process_time()
    try:
        results = conversion(path, data, task)
    except SourceError as error:
        return Row(path, "no python", time.process_time() - start, len(data), detail=str(error))
    except Exception as error:
        return Row(path, "crash", time.process_time() - start, len(data), detail=one_line(error))
    seconds = time.process_time() - start
    outcome, detail = judged(path, results, task)
    codes = Counter(item.code for result in results for item in result.findings)
    return Row(path, outcome, round(seconds, 3), len(data), dict(codes), detail)


def conversion(
    path: str, data: bytes, task: Task, *, partial: bool = False, texts: dict[str, bytes] | None = None
) -> list[Result]:
    """The results for one file and the modules that it imports; `texts` replaces what is in the files."""
    from distify.codemod.convert import module_bytes
    from distify.codemod.options import Options
    from distify.codemod.rewriter import Rewriter

    def read(name: str) -> bytes | None:
        return (texts or {}).get(os.path.realpath(name)) or module_bytes(name)

    rewriter = Rewriter(read if task.follow else None)
    rewriter.register(path, data)
    for script in rewriter.scripts():
        rewriter.plan(script, Options(partial=partial))
    return rewriter.results()


def judged(path: str, results: list[Result], task: Task) -> tuple[str, str]:
    """The outcome of a conversion, and what is wrong with it."""
    if any(item.code == "DST905" for result in results for item in result.findings):
        return "exceeded", ""
    own = next(result for result in results if os.path.realpath(result.path) == os.path.realpath(path))
    if not any(result.training for result in results):
        changed = [result.path for result in results if result.changed]
        if changed:
            return "touched", ", ".join(changed)
        return ("untouched" if own.text else "skipped"), ""
    outcome = "refused" if any(result.refused for result in results) else "converted"
    wrong = faulty(path, results, task)
    if wrong or outcome == "converted":
        return wrong or (outcome, "")
    try:
        return faulty(path, conversion(path, own.before, task, partial=True), task) or (outcome, "")
    except Exception as error:
        return "crash", f"in part: {one_line(error)}"


def faulty(path: str, results: list[Result], task: Task) -> tuple[str, str] | None:
    """What is wrong with the files of a conversion: one doesn't parse, or is changed again by a second run."""
    for result in results:
        try:
            ast.parse(result.data)
        except (SyntaxError, ValueError) as error:
            return "unparsable", f"{result.path}: {error}"
    if not any(result.changed for result in results):
        return None
    texts = {os.path.realpath(result.path): result.data for result in results}
    for again in conversion(path, texts[os.path.realpath(path)], task, partial=True, texts=texts):
        if again.changed:
            return "unstable", again.path
    return None


def one_line(error: BaseException) -> str:
    """An exception with its cause's place."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:400]


# ---- worker processes ------------------------------------------------------------------------------------------------


def work(channel: Connection, task: Task) -> None:
    """A worker's loop: a path in, a row out."""
    while (path := channel.recv()) is not None:
        channel.send(examine(path, task))


@dataclass(eq=False)
class Worker:
    """A process that tries files one by one, replaced when it takes too long or dies."""

    task: Task
    path: str | None = None
    since: float = 0.0

    def __post_init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.channel, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, self.task), daemon=True)
        self.process.start()
        theirs.close()

    def give(self, path: str) -> None:
        """Let it try a file."""
        self.path, self.since = path, time.monotonic()
        self.channel.send(path)

    def take(self, limit: float) -> Row | None:
        """What came out of the file it has, `None` while it is at it."""
        assert self.path is not None
        if self.channel.poll():
            try:
                return self.done(self.channel.recv())
            except EOFError:
                self.process.join()
                return self.renewed("died", f"exit status {self.process.exitcode}")
        if time.monotonic() - self.since > limit:
            self.process.kill()
            return self.renewed("slow", f"more than {limit:.0f} seconds")
        return None

    def done(self, row: Row) -> Row:
        """Free for another file."""
        self.path = None
        return row

    def renewed(self, outcome: str, detail: str) -> Row:
        """A new process in place of one that is gone."""
        row = Row(self.path or "", outcome, time.monotonic() - self.since, detail=detail)
        self.process.join()
        self.channel.close()
        self.path = None
        self.__post_init__()
        return row


def rows(paths: Sequence[str], task: Task, jobs: int, limit: float) -> Iterator[Row]:
    """What comes out for each file, in no certain order."""
    todo = iter(paths)
    workers = [Worker(task) for _ in range(min(jobs, len(paths)))]
    try:
        while True:
            for worker in workers:
                path = next(todo, None) if worker.path is None else None
                if path is not None:
                    worker.give(path)
            busy = [worker for worker in workers if worker.path is not None]
            if not busy:
                return
            wait([worker.channel for worker in busy], timeout=1.0)
            yield from filter(None, [worker.take(limit) for worker in busy])
    finally:
        for worker in workers:
            worker.process.kill()


# ---- files and results -----------------------------------------------------------------------------------------------


def default_roots() -> list[str]:
    """The folders of the installed packages and of the standard library."""
    places = sysconfig.get_paths()
    return list(dict.fromkeys(places[name] for name in ("purelib", "platlib", "stdlib")))


def python_files(roots: Iterable[str]) -> list[str]:
    """All Python files in folders, in installed packages by name, and files by themselves, each once."""
    found: dict[str, None] = {}
    for root in roots:
        place = root if os.path.exists(root) else os.path.join(sysconfig.get_paths()["purelib"], root)
        if not os.path.exists(place):
            raise SystemExit(f"robustness: {root}: neither a file nor a folder nor an installed package")
        files = [place] if os.path.isfile(place) else sorted(str(path) for path in Path(place).rglob("*.py"))
        found.update(dict.fromkeys(os.path.realpath(file) for file in files if os.path.isfile(file)))
    return list(found)


def sampled(paths: Sequence[str], count: int) -> list[str]:
    """Some of the files, the same each time: those whose names have the smallest hashes."""
    return sorted(paths, key=lambda path: hashlib.sha256(path.encode()).digest())[:count]


def read_rows(file: Path) -> dict[str, Row]:
    """The results of a run that was stopped; a last line that was cut off does not count."""
    found = {}
    for line in file.read_text().splitlines() if file.exists() else []:
        try:
            row = Row(**json.loads(line))
        except ValueError:
            continue
        found[row.path] = row
    return found


def run(paths: Sequence[str], task: Task, file: Path, jobs: int, limit: float, again: Sequence[str]) -> list[Row]:
    """Try the files that have no result yet; each result is written at once."""
    known = {path: row for path, row in read_rows(file).items() if row.outcome not in again}
    todo = [path for path in paths if path not in known]
    whole = not file.exists() or file.read_bytes()[-1:] in (b"", b"\n")
    with file.open("a") as out, progress(len(paths), len(paths) - len(todo)) as advance:
        out.write("" if whole else "\n")  # a line that was cut off
        for row in rows(todo, task, jobs, limit):
            known[row.path] = row
            out.write(json.dumps(asdict(row)) + "\n")
            out.flush()
            advance(row)
    return [known[path] for path in paths]


@contextmanager
def progress(total: int, done: int) -> Iterator[Callable[[Row], None]]:
    """A bar on a terminal; failures are told at once, on anything else too."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total, completed=done)

        def advance(row: Row) -> None:
            if row.outcome in BAD:
                console.print(f"{row.outcome}: {row.path}: {row.detail}", markup=False)
            bar.update(task, advance=1, description=os.path.basename(row.path))

        yield advance


def summary(found: Sequence[Row]) -> None:
    """Prints counts, the slowest files, and every failure."""
    from rich.console import Console
    from rich.table import Table

    console = Console(soft_wrap=True, highlight=False)
    outcomes = Counter(row.outcome for row in found)
    table = Table("outcome", "files", "seconds", "MB")
    for outcome in (*GOOD, *BAD):
        some = [row for row in found if row.outcome == outcome]
        if some or outcome in BAD:
            table.add_row(
                outcome, str(len(some)), f"{sum(r.seconds for r in some):.1f}", f"{sum(r.size for r in some) / 1e6:.1f}"
            )
    console.print(table)
    slowest = Table("seconds", "kB", "outcome", "slowest files")
    for row in sorted(found, key=lambda row: -row.seconds)[:SLOWEST]:
        slowest.add_row(f"{row.seconds:.2f}", f"{row.size / 1e3:.0f}", row.outcome, row.path)
    console.print(slowest)
    codes: Counter[str] = sum((Counter(row.codes) for row in found), Counter())
    console.print("findings:", ", ".join(f"{code} {count}" for code, count in codes.most_common()) or "none")
    for row in found:
        if row.outcome in BAD:
            console.print(f"{row.outcome}: {row.path}: {row.detail}", markup=False)
    console.print(f"{len(found)} files, {sum(outcomes[outcome] for outcome in BAD)} failures")


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("roots", nargs="*", help="files, folders, names of installed packages; all if none is given")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument("--sample", type=int, metavar="N", help="only N of the files, chosen by a hash of their names")
    parser.add_argument("--limit", type=float, default=1800.0, metavar="SECONDS", help="by the clock, for one file")
    parser.add_argument(
        "--results", type=Path, default=Path("robustness.jsonl"), help="one JSON line per file; gone on with"
    )
    parser.add_argument("--again", default="", metavar="OUTCOME,…", help="try files with these results once more")
    parser.add_argument("--graft", action="store_true", help="put a training loop at the end of each file first")
    parser.add_argument("--follow", action="store_true", help="convert the local modules that a file imports with it")
    parser.add_argument("--nice", type=int, default=10, help="how much other programs go first")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Runs what the command line says; 1 if a file fails."""
    options = arguments(given)
    os.nice(options.nice)
    paths = python_files(options.roots or default_roots())
    paths = paths if options.sample is None else sampled(paths, options.sample)
    again = [outcome for outcome in options.again.split(",") if outcome]
    found = run(paths, Task(options.follow, options.graft), options.results, options.jobs, options.limit, again)
    summary(found)
    return int(any(row.outcome in BAD for row in found))


if __name__ == "__main__":
    sys.exit(main())
