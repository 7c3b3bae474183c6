"""Reading files: what only the main rank can see, what no rank can see, what is not safe to read."""

from __future__ import annotations

import io
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from distify import runtime
from distify.runtime.checkpoint import UnsafeFile
from tests.pool import Pool, RankError


def own_folder(folder: str) -> Any:
    runtime.init()
    path = os.path.join(folder, f"rank{runtime.rank()}", "weights.pt")
    os.makedirs(os.path.dirname(path))
    runtime.save({"w": torch.arange(3.0)}, path)
    return os.path.exists(path), runtime.load(path)["w"].tolist()


def test_a_file_that_only_the_main_rank_has_is_sent(tmp_path: Path, pool2: Pool) -> None:
    main, other = pool2.run(own_folder, str(tmp_path))
    assert main == (True, [0.0, 1.0, 2.0])
    assert other == (False, [0.0, 1.0, 2.0])


def missing(path: str) -> None:
    runtime.init()
    runtime.load(path)


def test_a_missing_file_is_missing_on_all_ranks(tmp_path: Path, pool2: Pool) -> None:
    with pytest.raises(RankError, match="FileNotFoundError"):
        pool2.run(missing, str(tmp_path / "none.pt"))


@pytest.mark.usefixtures("alone")
def test_pickled_objects_need_trust(tmp_path: Path) -> None:
    runtime.init()
    torch.save(torch.nn.Linear(2, 2), tmp_path / "whole.pt")
    with pytest.raises(UnsafeFile, match="weights_only=False"):
        runtime.load(tmp_path / "whole.pt")
    assert runtime.load(tmp_path / "whole.pt", weights_only=False).in_features == 2


@pytest.mark.usefixtures("alone")
def test_arguments_by_position_as_torch_takes_them(tmp_path: Path) -> None:
    runtime.init()
    runtime.save({"w": torch.ones(2)}, tmp_path / "old.pt", pickle, 2, False)
    assert runtime.load(tmp_path / "old.pt", "cpu", pickle, weights_only=False)["w"].tolist() == [1, 1]
    runtime.save({"w": torch.ones(2)}, file := io.BytesIO(), pickle, 2, False)
    assert file.getvalue()[:2] != b"PK"
