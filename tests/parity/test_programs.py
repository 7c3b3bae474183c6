"""Programs of several files: the original on one process, the converted files on two and three, the same numbers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from distify.codemod.convert import Request, convert
from distify.codemod.options import Options
from tests.parity.compare import assert_files_equal, assert_output_equal
from tests.parity.harness import Originals
from tests.pool import Pool

HOME = Path(__file__).with_name("programs")
PROGRAMS = {"modules": "train.py", "project": "tools/train.py", "holders": "train.py"}
TARGETS = {
    "ddp": Options(backend="ddp"),
    "fsdp": Options(backend="fsdp"),
    "zero2": Options(backend="deepspeed", zero_stage=2),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, target: str, originals: Originals, pool2: Pool, pool3: Pool, tmp_path: Path) -> None:
    script = PROGRAMS[name]
    folders = {label: tmp_path / label / name for label in ("original", "converted")}
    for folder in folders.values():
        shutil.copytree(HOME / name, folder)
    expected = originals.pool.script(folders["original"] / script, (), folders["original"]).check()
    assert expected.stdout.strip()
    assert convert(Request([str(folders["converted"] / script)], TARGETS[target], quiet=True)) == 0
    changed = [
        path for path in sources(folders["converted"]) if path.read_text() != original(path, folders).read_text()
    ]
    assert len(changed) >= 4
    for pool in (pool2, pool3):
        actual = pool.script(folders["converted"] / script, (), folders["converted"]).check()
        assert_output_equal(expected.stdout, actual.stdout)
        assert not any(actual.others)
    for path in sources(folders["converted"]):
        shutil.copy(original(path, folders), path)  # what they saved is compared, not what they are
    assert_files_equal(folders["original"], folders["converted"])


def sources(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def original(path: Path, folders: dict[str, Path]) -> Path:
    return folders["original"] / path.relative_to(folders["converted"])
