"""What one rank does for all: results, failures on every rank, agreement."""

from __future__ import annotations

import json
import os
import pickle
import random
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from distify import runtime
from distify.runtime.same_streams import check_streams
from distify.runtime.state import NotInitialized, state
from tests.pool import Pool, RankError


def download(folder: str) -> str:
    path = Path(folder) / f"by-{os.environ['RANK']}"
    path.touch()
    torch.rand(3)
    random.random()
    return path.name


def on_main(folder: str) -> Any:
    runtime.init()
    torch.manual_seed(1)
    random.seed(1)
    return runtime.on_main(download, folder), torch.rand(1).item(), random.random()


def test_on_main_runs_once_and_moves_all_streams(tmp_path: Path, pool3: Pool) -> None:
    torch.manual_seed(1)
    random.seed(1)
    (tmp_path / "own").mkdir()
    os.environ.setdefault("RANK", "original")
    try:
        download(str(tmp_path / "own"))
    finally:
        if os.environ["RANK"] == "original":
            del os.environ["RANK"]
    after = torch.rand(1).item(), random.random()
    results = pool3.run(on_main, str(tmp_path))
    assert [r[0] for r in results] == ["by-0", None, None]
    assert [r[1:] for r in results] == [after] * 3
    assert [p.name for p in tmp_path.glob("by-*")] == ["by-0"]


def fail() -> None:
    raise FileNotFoundError("no such data")


def failing() -> None:
    runtime.init()
    runtime.on_main(fail)


def test_a_failure_of_the_main_rank_is_raised_on_all(pool3: Pool) -> None:
    with pytest.raises(RankError) as error:
        pool3.run(failing)
    assert error.value.types == ["FileNotFoundError", "RankFailed", "RankFailed"]  # none was waiting and killed
    assert "rank 0 raised inside a guarded block" in error.value.messages[1]
    assert "no such data" in error.value.messages[2]
    assert "in fail" in error.value.messages[2]


def caught(folder: str) -> list[str]:
    """What stands in `except` catches it on all ranks; what a rank looks at before rank 0 changes it is the old."""
    runtime.init()
    found = []
    for kinds, function in (
        (FileNotFoundError, lambda: os.remove(f"{folder}/none")),
        ((KeyError, ValueError), lambda: {}["a"]),
        (json.JSONDecodeError, lambda: json.loads("{")),
        (pickle.UnpicklingError, lambda: pickle.loads(b"x")),
    ):
        try:
            runtime.on_main(function)
        except kinds as error:
            found.append(f"{type(error).__name__} {getattr(error, 'errno', None)}")
    (Path(folder) / "file").touch()
    runtime.barrier()
    for _ in range(2):
        if not runtime.is_main():
            time.sleep(0.2)  # a slow disk
        found.append(str(os.path.exists(f"{folder}/file")))
        if found[-1] == "True":
            runtime.on_main(os.remove, f"{folder}/file")
    return found


def test_except_catches_it_on_all_ranks_and_nobody_sees_a_change_too_early(tmp_path: Path, pool2: Pool) -> None:
    main, other = pool2.run(caught, str(tmp_path))
    assert main == [
        "FileNotFoundError 2",
        "KeyError None",
        "JSONDecodeError None",
        "UnpicklingError None",
        "True",
        "False",
    ]
    assert other == ["RankFailed 2", *["RankFailed None"] * 3, "True", "False"]


def exiting() -> int:
    runtime.init()
    try:
        runtime.on_main(exit, 3)
    except SystemExit as stop:
        return stop.code
    return -1


def test_an_exit_of_the_main_rank_is_an_exit_on_all(pool2: Pool) -> None:
    assert pool2.run(exiting) == [3, 3]


def nested() -> Any:
    runtime.init()
    return runtime.on_main(lambda: runtime.on_main(lambda: 5))


def waiting(name: str) -> None:
    runtime.init()
    runtime.on_main({"any": lambda: runtime.any(True), "barrier": runtime.barrier}[name])


def test_nesting_and_collectives_inside(pool2: Pool) -> None:
    assert pool2.run(nested) == [5, None]
    for name in ("any", "barrier"):
        with pytest.raises(RankError, match=rf"runtime\.{name}\(\) needs all ranks") as error:
            pool2.run(waiting, name)
        assert error.value.types == ["DistifyError", "RankFailed"]


def first(folder: str, failing: int) -> list[str]:
    runtime.init()
    with runtime.main_first():
        if runtime.rank() == failing:
            raise ValueError(f"rank {failing}")
        seen = sorted(os.listdir(folder))
        time.sleep(0.05)
        (Path(folder) / str(runtime.rank())).touch()
    return seen


def test_main_first(tmp_path: Path, pool3: Pool) -> None:
    seen = pool3.run(first, str(tmp_path), -1)
    assert seen[0] == []
    assert "0" in seen[1]
    assert "0" in seen[2]


@pytest.mark.parametrize("rank", [0, 2])
def test_a_failure_in_main_first_is_raised_on_all(rank: int, tmp_path: Path, pool3: Pool) -> None:
    with pytest.raises(RankError) as error:
        pool3.run(first, str(tmp_path), rank)
    assert error.value.types == ["ValueError" if r == rank else "RankFailed" for r in range(3)]
    assert (tmp_path / "1").exists() == (rank == 2)


def agree() -> list[bool]:
    runtime.init()
    mine = runtime.rank() == 1
    flags = [mine, int(mine), torch.tensor(mine), torch.tensor([float(mine)]), False, torch.tensor(0.0), 0, 2.5]
    runtime.barrier()
    return [runtime.any(flag) for flag in flags]


def test_any_is_true_where_one_rank_says_so(pool3: Pool) -> None:
    assert pool3.run(agree) == [[True] * 4 + [False] * 3 + [True]] * 3


def test_one_process() -> None:
    with pytest.raises(NotInitialized, match=r"runtime\.any\(\) was called before runtime\.init\(\)"):
        runtime.any(True)
    try:
        runtime.init()
        assert runtime.any(torch.tensor(1)) is True
        assert runtime.any(0) is False
        assert runtime.on_main(lambda a, b=0: a + b, 1, b=2) == 3
        with runtime.main_first():
            runtime.barrier()
        with pytest.raises(ZeroDivisionError):
            runtime.on_main(lambda: 1 / 0)
    finally:
        runtime.shutdown()


def python_drift() -> Any:
    runtime.init()
    random.seed(4)
    if runtime.is_main():
        random.random()
    check_streams("tested")
    return random.random(), "streams" in state.extra


def test_a_drift_of_pythons_stream_is_put_right(pool2: Pool) -> None:
    random.seed(4)
    random.random()
    expected = random.random()
    assert pool2.run(python_drift) == [(expected, True), (expected, False)]


def turn_in_turn(folder: str) -> list[str]:
    runtime.init()
    with runtime.main_first():
        (Path(folder) / "outer").touch()
        with runtime.main_first():
            seen = sorted(p.name for p in Path(folder).iterdir())
            (Path(folder) / f"inner{runtime.rank()}").touch()
    return seen


def test_a_turn_inside_a_turn_is_the_same_turn(tmp_path: Path, pool2: Pool) -> None:
    first, second = pool2.run(turn_in_turn, str(tmp_path))
    assert first == ["outer"]
    assert second == ["inner0", "outer"]


def made_in_turn(folder: str) -> tuple[bool, float, float]:
    runtime.init()
    torch.manual_seed(3)
    path = Path(folder) / "table.pt"
    with runtime.main_first():
        made = not path.exists()
        if made:
            runtime.save(torch.rand(4), path)
            random.random()
            runtime.on_main((Path(folder) / "made").touch)
        table = runtime.load(path)
    return made, table.sum().item(), torch.rand(1).item() + random.random()


def test_a_file_made_in_turn(tmp_path: Path, pool2: Pool) -> None:
    first, second = pool2.run(made_in_turn, str(tmp_path))
    assert (first[0], second[0]) == (True, False)
    assert first[1:] == second[1:], "ranks that found the file go on with the streams of the one that drew it"
    assert (tmp_path / "made").exists()


def in_turn(name: str) -> None:
    runtime.init()
    with runtime.main_first():
        runtime.any(True) if name == "any" else runtime.barrier()


@pytest.mark.parametrize("name", ["any", "barrier"])
def test_what_needs_all_ranks_in_a_turn(name: str, pool2: Pool) -> None:
    with pytest.raises(RankError, match=rf"runtime\.{name}\(\) needs all ranks") as error:
        pool2.run(in_turn, name)
    assert error.value.types == ["DistifyError", "RankFailed"]


class Cached(torch.utils.data.Dataset[Any]):
    """Fetches by the runtime's functions, an unequal number of times on each rank."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def __len__(self) -> int:
        return 5

    def __getitem__(self, i: int) -> Any:
        with runtime.main_first():
            runtime.on_main((self.folder / f"{i}").touch)
        runtime.save(torch.tensor(float(i)), self.folder / f"{i}.pt")
        assert runtime.any(i == 0) == (i == 0)
        return runtime.load(self.folder / f"{i}.pt")


def fetch_all(folder: str, workers: int) -> list[float]:
    runtime.init()
    loader = runtime.shard(torch.utils.data.DataLoader(Cached(folder), batch_size=3, num_workers=workers))
    return [x for batch in loader for x in runtime.gather(batch).tolist()]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_fetch_waits_for_nobody(workers: int, tmp_path: Path, pool2: Pool) -> None:
    assert pool2.run(fetch_all, str(tmp_path), workers) == [[0.0, 1.0, 2.0, 3.0, 4.0]] * 2
    assert len(list(tmp_path.iterdir())) == 10
