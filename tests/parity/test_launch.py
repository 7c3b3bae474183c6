"""The commands that a user types: the converted script under `torchrun`, and with plain `python`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parity.cases import BY_NAME
from tests.parity.compare import assert_files_equal, assert_output_equal
from tests.parity.harness import DDP, Originals, Target, converted, fresh
from tests.pool import ROOT

LAUNCHER = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def launch(command: list[str], script: Path, folder: Path, **env: str) -> str:
    """Run a script by a command of its own; return its standard output."""
    kept = {key: value for key, value in os.environ.items() if key not in LAUNCHER}
    kept |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT), **env}
    run = subprocess.run(
        [sys.executable, *command, str(script)], cwd=folder, env=kept, capture_output=True, text=True, timeout=240
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def script_in(folder: Path, name: str, target: Target) -> Path:
    """The conversion in a folder."""
    script = fresh(folder / "script") / "train.py"
    script.write_bytes(converted(name, target))
    return script


@pytest.mark.slow
def test_torchrun(originals: Originals, tmp_path: Path) -> None:
    case = BY_NAME["trainer_class"]
    expected = originals.run(case, case.runs, case.env)
    script, out = script_in(tmp_path, case.name, Target("fsdp")), fresh(tmp_path / "out")
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    assert_output_equal(expected.stdout, launch(command, script, out))
    assert_files_equal(expected.folder, out)


@pytest.mark.slow
def test_python(originals: Originals, tmp_path: Path) -> None:
    case = BY_NAME["trainer_class"]
    expected = originals.run(case, case.runs, case.env)
    script, out = script_in(tmp_path, case.name, DDP), fresh(tmp_path / "out")
    assert launch([], script, out) == expected.stdout
    assert_files_equal(expected.folder, out, many=0.0, absolute=0.0)
