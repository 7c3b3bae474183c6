"""Odd but realistic scripts, run for real: as they are on one process, converted on two, the same output and files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from distify.codemod.options import Options
from distify.codemod.rewrite import rewrite_source
from tests.parity.compare import assert_files_equal, assert_output_equal
from tests.pool import Pool

SCRIPTS = sorted(Path(__file__).with_name("scripts").glob("*.py"))

# Scripts that can't be converted, with the codes that say why.
REFUSED = {
    "closures": ["DST209"],  # an optimizer that only a closure holds
    "buffer_in_forward": ["DST119", "DST110"],
    "moco_queue": ["DST119"],
}


@pytest.fixture(scope="module")
def alone() -> Iterator[Pool]:
    pool = Pool(1)
    yield pool
    pool.close()


@pytest.mark.parametrize("path", [p for p in SCRIPTS if p.stem not in REFUSED], ids=lambda p: p.stem)
def test_same_on_two_processes(path: Path, alone: Pool, pool2: Pool, tmp_path: Path) -> None:
    result = rewrite_source(path.read_bytes(), path.name, Options(backend="ddp"))
    assert not result.refused, [item for item in result.findings if item.level == "error"]
    folders = {name: tmp_path / name for name in ("source", "expected", "actual")}
    for folder in folders.values():
        folder.mkdir()
    converted = folders["source"] / "train.py"
    converted.write_bytes(result.data)
    expected = alone.script(path, (), folders["expected"]).check()
    assert expected.stdout.strip(), "it prints nothing to compare"
    actual = pool2.script(converted, (), folders["actual"]).check()
    assert_output_equal(expected.stdout, actual.stdout)
    assert_files_equal(folders["expected"], folders["actual"])
    assert not any(actual.others)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused(name: str) -> None:
    path = next(p for p in SCRIPTS if p.stem == name)
    result = rewrite_source(path.read_bytes(), path.name, Options(backend="ddp"))
    found = dict.fromkeys(item.code for item in result.findings if item.level == "error")
    assert list(found) == REFUSED[name]
    assert result.data == result.before
