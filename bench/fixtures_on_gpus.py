"""Run the fixtures on real GPUs, original on one against converted on several, and print a table.

    python bench/fixtures_on_gpus.py convert FOLDER          # where the codemod is installed
    python bench/fixtures_on_gpus.py run FOLDER [--nproc 2] [--jobs 8]   # where the GPUs are
    python bench/fixtures_on_gpus.py run FOLDER --share                  # where there is one GPU

Each line: fixture, backend, precision, outcome, numbers compared, largest relative difference. In fp32 the converted
script on several GPUs is compared with the original on one. In bf16 and fp16 it is compared with itself on one GPU in
the same precision, since rounding of that size separates both from the original. TF32 is switched off. With `--share`
all processes use one GPU: each is launched as a node of its own, and NCCL is told that they are different machines,
since it refuses two of its ranks on one GPU of one machine.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

BACKENDS = (("ddp", None), ("fsdp", None), ("deepspeed", 1), ("deepspeed", 2), ("deepspeed", 3))
PRECISIONS = ("fp32", "bf16", "fp16")
TOLERANCE = {"fp32": 1e-3, "bf16": 5e-2, "fp16": 2e-2}
LIMIT = 150


@dataclass
class Row:
    """One comparison."""

    fixture: str
    backend: str
    precision: str
    outcome: str
    numbers: int = 0
    worst: float = 0.0
    seconds: float = 0.0
    detail: str = ""


@dataclass(frozen=True)
class Launch:
    """How many processes a script is started on, and whether they share one GPU."""

    nproc: int = 1
    share: bool = False

    def commands(self) -> list[tuple[list[str], dict[str, str]]]:
        """The commands that start a script, and what each adds to the environment."""
        if self.nproc == 1:
            return [([sys.executable], {})]
        if not self.share:
            torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(self.nproc)]
            return [([*torchrun, "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"], {})]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        group = {"WORLD_SIZE": self.nproc, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "NCCL_SOCKET_IFNAME": "lo"}
        one = {**group, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1}  # one process of a machine of its own
        nodes = [{**one, "RANK": rank, "NCCL_HOSTID": f"node{rank}"} for rank in range(self.nproc)]
        return [([sys.executable], {name: str(value) for name, value in node.items()}) for node in nodes]


def convert(folder: Path) -> None:
    """Write the original and its conversion for each backend to a folder; the environment gives other options later."""
    from distify.codemod.options import Options
    from distify.codemod.rewrite import rewrite_source
    from tests.parity.cases import CASES

    for case in CASES:
        target = folder / case.name
        target.mkdir(parents=True, exist_ok=True)
        source = (ROOT / "fixtures" / case.name / "train.py").read_bytes()
        (target / "original.py").write_bytes(source)
        for backend in ("ddp", "fsdp", "deepspeed"):
            result = rewrite_source(source, f"{case.name}/train.py", Options(backend=backend))
            errors = [item.message for item in result.findings if item.level == "error"]
            if errors:
                (target / f"refused_{backend}.txt").write_text(errors[0])
            else:
                (target / f"converted_{backend}.py").write_bytes(result.data)


def environment(backend: str, stage: int | None, precision: str) -> dict[str, str]:
    """The options of one run."""
    found = {"DISTIFY_BACKEND": backend, "DISTIFY_PRECISION": precision}
    return found if stage is None else {**found, "DISTIFY_ZERO_STAGE": str(stage)}


def run_script(script: Path, runs: list[list[str]], env: dict[str, str], launch: Launch, out: Path) -> tuple[str, str]:
    """Output of a script on some GPUs, and the end of its error output if it failed."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    base = {**os.environ, **env, "NVIDIA_TF32_OVERRIDE": "0", "OMP_NUM_THREADS": "2", "PYTHONHASHSEED": "0"}
    text = ""
    for argv in runs:
        begun = [start([*command, str(script), *argv], {**base, **more}, out) for command, more in launch.commands()]
        with ThreadPoolExecutor(len(begun)) as pool:  # each is read while the others run
            ended = list(pool.map(finish, begun))
        text += "".join(stdout for stdout, _ in ended)
        errors = [stderr for _, stderr in ended if stderr]
        if errors:
            return text, "\n".join(errors)
    return text, ""


def start(command: list[str], env: dict[str, str], folder: Path) -> subprocess.Popen[str]:
    """Start a process in a session of its own, so that what it starts can be ended with it."""
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=env, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Output of a process, and its error output if it failed."""
    try:
        stdout, stderr = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        return stdout, "timeout: " + stderr[-1500:]
    return stdout, (stderr or f"exit code {process.returncode}") if process.returncode else ""


def compare(expected: str, actual: str) -> tuple[int, float, str]:
    """Numbers compared, largest relative difference, and the first line whose text differs."""
    from tests.parity.compare import parse

    left, right = expected.splitlines(), actual.splitlines()
    numbers, worst = 0, 0.0
    if len(left) != len(right):
        return 0, float("inf"), f"{len(left)} lines became {len(right)}"
    for a, b in zip(left, right):
        (text_a, values_a), (text_b, values_b) = parse(a), parse(b)
        if text_a != text_b:
            return numbers, float("inf"), f"- {a} + {b}"
        for x, y in zip(values_a, values_b):
            numbers += 1
            if x != y and not (x != x and y != y):
                worst = max(worst, abs(x - y) / max(abs(x), abs(y), 1e-3))
    return numbers, worst, ""


def check(folder: Path, case: object, backend: str, stage: int | None, precision: str, launch: Launch) -> Row:
    """Run one conversion and compare it."""
    name, runs, env = case.name, [list(r) for r in case.runs], dict(case.env)  # type: ignore[attr-defined]
    row = Row(name, f"{backend}{'' if stage is None else stage}", precision, "")
    script, refused = folder / name / f"converted_{backend}.py", folder / name / f"refused_{backend}.txt"
    if refused.exists():
        row.outcome, row.detail = "refused", refused.read_text()
        return row
    env |= environment(backend, stage, precision)
    began = time.time()
    scratch = folder / name / "runs"
    if precision == "fp32":
        reference = scratch / "original.txt"
    else:
        reference = scratch / f"single-{precision}.txt"
    text, error = run_script(script, runs, env, launch, scratch / f"{row.backend}-{precision}")
    row.seconds = round(time.time() - began, 1)
    if error and not reference.with_suffix(".failed").exists():
        refusal = re.findall(r"^(?:.*distify\.runtime\.[\w.]+|distify): (?!rank \d+ of)(.*)", error, re.MULTILINE)
        row.outcome = "refused" if refusal else "timeout" if error.startswith("timeout") else "crashed"
        first = [line for line in error.splitlines() if "Error" in line]
        row.detail = refusal[0] if refusal else "; ".join(first[:2])
        return row
    row.numbers, row.worst, row.detail = compare(reference.read_text(), text)
    row.outcome = "equal" if row.worst <= TOLERANCE[precision] else "differs"
    return row


def references(folder: Path, case: object) -> str:
    """Run the original and the one-process conversions in reduced precision; their output is kept in files."""
    name, runs, env = case.name, [list(r) for r in case.runs], dict(case.env)  # type: ignore[attr-defined]
    scratch = folder / name / "runs"
    scratch.mkdir(exist_ok=True)
    problems = ""
    for label in ("original", "single-bf16", "single-fp16"):
        if (scratch / f"{label}.txt").exists():
            continue
        file = "original.py" if label == "original" else "converted_ddp.py"
        options = {} if label == "original" else environment("ddp", None, label.split("-")[1])
        text, error = run_script(folder / name / file, runs, {**env, **options}, Launch(), scratch / label)
        (scratch / f"{label}.txt").write_text(text)
        if error:
            (scratch / f"{label}.failed").write_text(error)
            problems += f"{name} {label}: {error[-1500:]}\n"
    return problems


def run(folder: Path, launch: Launch, args: argparse.Namespace) -> None:
    """Run everything and print the table; rows are added to `rows.jsonl` in the folder, and are not run again."""
    from tests.parity.cases import CASES

    rows, ends = folder / "rows.jsonl", time.time() + args.seconds
    lines = rows.read_text().splitlines() if rows.exists() else []
    done = {(row["fixture"], row["backend"], row["precision"]) for row in map(json.loads, lines)}
    cases = [case for case in CASES if re.search(args.only, case.name)]

    def timely(case: object, backend: str, stage: int | None, precision: str) -> Row | None:
        return check(folder, case, backend, stage, precision, launch) if time.time() < ends else None

    with ThreadPoolExecutor(args.jobs) as pool:
        for problem in pool.map(lambda case: references(folder, case), cases):
            if problem:
                print(problem, flush=True)
        jobs = [
            pool.submit(timely, case, backend, stage, precision)
            for case in cases
            for backend, stage in BACKENDS
            if re.search(args.backends, f"{backend}{stage}")
            for precision in PRECISIONS
            if (case.name, f"{backend}{'' if stage is None else stage}", precision) not in done
        ]
        with open(rows, "a") as log:
            for job in jobs:
                row = job.result()
                if row is None:
                    continue
                log.write(json.dumps(asdict(row)) + "\n")
                log.flush()
                shown = f"{row.fixture:18} {row.backend:11} {row.precision:5} {row.outcome:8}"
                print(
                    f"{shown} {row.numbers:5d} {row.worst:9.1e} {row.seconds:6.1f}s {row.detail[-160:]!r}", flush=True
                )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("verb", choices=("convert", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nproc", type=int, default=2)
    parser.add_argument("--share", action="store_true", help="all processes use one GPU")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="nothing is begun after that time")
    parser.add_argument("--only", default="", help="regular expression of fixture names")
    parser.add_argument("--backends", default="", help="regular expression of backends: ddp, fsdp, deepspeed1 to 3")
    args = parser.parse_args()
    if args.verb == "convert":
        convert(args.folder.resolve())
    else:
        run(args.folder.resolve(), Launch(args.nproc, args.share), args)


if __name__ == "__main__":
    main()
