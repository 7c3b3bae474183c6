"""Odd but realistic scripts, run for real: as they are on one process, converted on two, the same output and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from distify.codemod.options import Options
from tests.conversions import rewrite
from tests.parity.compare import assert_files_equal, assert_output_equal
from tests.pool import Pool, Run

SCRIPTS = sorted(Path(__file__).with_name("scripts").glob("*.py"))

# Scripts that can't be converted, with the codes that say why.
REFUSED = {
    "buffer_in_forward": ["DST119", "DST110"],
    "moco_queue": ["DST119"],
    "environment_rl": ["DST142"],
    "graph_whole": ["DST141"],
    "hogwild": ["DST145"],
    "inner_forward": ["DST124"],
    "maml": ["DST143"],
    "model_parallel": ["DST306"],
    "rl_reinforce": ["DST142"],
}


@pytest.fixture
def alone(pool1: Pool) -> Pool:
    return pool1


# Each script also runs on one of these, which backends and sizes take in turn.
OTHERS = [
    Options(backend="ddp"),
    Options(backend="fsdp"),
    Options(backend="deepspeed", zero_stage=2),
    Options(backend="deepspeed", zero_stage=3),
]
# What a sharded backend refuses by name or warns of, where ddp does not: `.grad` used directly, LBFGS, a halved model,
# functional_call, updates by hand.
UNSHARDED = {"DST203", "DST206", "DST216", "DST403", "DST903"}


def converts(path: Path, options: Options, expected: Run, target: Pool, folder: Path, original: Path) -> None:
    """What a script printed and saved on one process, its conversion prints and saves on several."""
    result = rewrite(path.read_bytes(), path.name, options)
    errors = [item for item in result.findings if item.level == "error"]
    if options.backend != "ddp" and UNSHARDED & {item.code for item in result.findings}:
        return
    assert not errors
    source, actual = folder / "source", folder / "actual"
    for place in (source, actual):
        place.mkdir(parents=True)
    converted = source / "train.py"
    converted.write_bytes(result.data)
    run = target.script(converted, (), actual).check()
    assert_output_equal(expected.stdout, run.stdout)
    assert_files_equal(original, actual)
    assert not any(run.others)


@pytest.mark.parametrize("path", [p for p in SCRIPTS if p.stem not in REFUSED], ids=lambda p: p.stem)
def test_same_on_several_processes(path: Path, alone: Pool, pool2: Pool, pool3: Pool, tmp_path: Path) -> None:
    """On two with ddp, and on another backend or size; the original runs once for both."""
    original = tmp_path / "original"
    original.mkdir()
    expected = alone.script(path, (), original).check()
    assert expected.stdout.strip(), "it prints nothing to compare"
    converts(path, Options(backend="ddp"), expected, pool2, tmp_path / "ddp", original)
    turn = sum(path.stem.encode())
    options = OTHERS[turn % len(OTHERS)]
    others = pool3 if options.backend == "ddp" or turn % 3 == 0 else pool2
    converts(path, options, expected, others, tmp_path / "other", original)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused(name: str) -> None:
    path = next(p for p in SCRIPTS if p.stem == name)
    result = rewrite(path.read_bytes(), path.name, Options(backend="ddp"))
    found = dict.fromkeys(item.code for item in result.findings if item.level == "error")
    assert list(found) == REFUSED[name]
    assert result.data == result.before
