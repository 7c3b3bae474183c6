"""Hybrid sharding on four ranks: parts over pairs of them, gradients averaged over all; equal to the original."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from distify.runtime.backends import meshes
from distify.runtime.backends.pieces import Piece
from distify.runtime.config import ConfigError
from distify.runtime.saved_tensors import share
from distify.runtime.state import state
from tests.pool import Pool
from tests.runtime import test_saved_state
from tests.runtime.forked import Forks
from tests.runtime.programs import gap

TOLERANCE = 1e-5  # fp32
ROUNDED = 1e-4  # bf16, against whole weights under autocast


@pytest.fixture(scope="module")
def four(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Any], str]:
    """What `hybrid.main` finds on each of four ranks, and where it saved its state."""
    folder = tmp_path_factory.mktemp("four")
    script, out, state = folder / "run.py", folder / "found.pt", str(folder / "state")
    script.write_text(f"from tests.runtime import hybrid\nhybrid.main({str(out)!r}, {state!r})\n")
    for ended in forks.run(script, ranks=4):
        assert ended.code == 0, ended.stderr
    found: list[Any] = torch.load(out, weights_only=False)
    return found, state


def test_runs_equal_the_original(four: tuple[list[Any], str]) -> None:
    for found, _ in four[0]:
        assert len(found) == 6
        for name, places in found.items():
            assert list(places) == [""], (name, places)
            assert places[""] <= (ROUNDED if name == "bf16" else TOLERANCE), name


def test_a_state_travels_to_other_numbers_of_processes_and_back(
    four: tuple[list[Any], str], tmp_path: Path, pool2: Pool
) -> None:
    ranks, (_, folder) = [legs for _, legs in four[0]], four
    plain, pools = str(tmp_path / "plain"), {2: pool2}
    for k in range(2):
        assert all(found[k][:3] == ranks[0][k][:3] for found in ranks)
    run = [*ranks[0], *(test_saved_state.on(pools, size, "fsdp", folder, k) for k, size in ((2, 2), (3, 1)))]
    for k, (epoch, _, shown, before, after) in enumerate(run):
        expected = test_saved_state.on(pools, 1, "single", plain, k, k > 0)
        assert epoch == k
        assert shown == pytest.approx(expected[2], abs=1e-4)
        for mine, theirs in ((before, expected[3]), (after, expected[4]))[k == 0 :]:  # began with other weights
            places = gap(mine, theirs)
            assert list(places) == [""], places
            assert places[""] <= 2e-5


def test_groups_that_do_not_come_out_even(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(state, "world_size", 12)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    with pytest.raises(ConfigError, match=r"shard_size=5: 12 processes can't .* divides 12 \(2, 3, 4, 6, 12\)"):
        meshes.check(5)
    for size in (2, 4, 12):
        meshes.check(size)
    assert capsys.readouterr().err == ""
    meshes.check(6)
    assert "shard_size=6, but each machine runs 4 processes: some groups lie on parts of two" in capsys.readouterr().err


def test_of_what_several_ranks_hold_alike_each_writes_a_share() -> None:
    values = torch.arange(6.0)
    written = []
    for rank in range(4):
        part, copy = rank % 2, rank // 2
        boxes = [((3 * part,), values[3 * part : 3 * part + 3])]
        pieces = {name: Piece(values.shape, values.dtype, boxes, None, (copy, 2)) for name in "abc"}
        written += [(name, part) for name in share(pieces, rank, 4)]
        assert len(share(pieces, rank, 4)) == (2, 1)[copy]
    assert sorted(written) == [(name, part) for name in "abc" for part in (0, 1)]
