"""Checkpoints that can't be loaded or written: one error on all ranks, which names the folder, the reason and the fix."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from distify import runtime
from distify.runtime import saved_files
from distify.runtime.saved_files import CheckpointError
from distify.runtime.saved_tree import Unstorable
from distify.runtime.state import DistifyError
from tests.pool import Pool


def net(width: int = 4, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 2))


def build(width: int = 4, kind: Any = torch.optim.SGD, groups: bool = False, **options: Any) -> tuple[Any, Any]:
    runtime.init(**options)
    model = net(width)
    parameters: Any = list(model.parameters())
    optimizer = kind([{"params": parameters[:1]}, {"params": parameters[1:]}] if groups else parameters, 0.1)
    runtime.prepare(model, optimizer)
    return model, optimizer


def attempt(function: Any) -> str:
    try:
        function()
    except DistifyError as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def attempts(folder: str) -> list[str]:
    """Each way in which a checkpoint does not fit the run that loads it; the messages."""
    model, optimizer = build()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    runtime.save_state(folder, scheduler=scheduler, epoch=1)
    found = [
        attempt(lambda: runtime.load_state(folder)),
        attempt(lambda: runtime.load_state(folder, scheduler=scheduler, other=scheduler)),
        attempt(lambda: runtime.load_state(folder, scheduler=scheduler, epoch=5)),
        attempt(lambda: runtime.load_state(folder + "/none", scheduler=scheduler)),
    ]
    runtime.shutdown()
    for options in ({"width": 5}, {"kind": torch.optim.Adam}, {"groups": True}):
        _, optimizer = build(**options)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        found.append(attempt(partial(runtime.load_state, folder, scheduler=scheduler)))
        runtime.shutdown()
    runtime.init()
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    runtime.prepare(model)
    found.append(attempt(lambda: runtime.load_state(folder)))
    runtime.prepare(torch.optim.SGD(model.parameters(), 0.1))
    found.append(attempt(lambda: runtime.load_state(folder)))
    return found


def test_what_does_not_fit_is_one_error_on_all_ranks(tmp_path: Path, pool2: Pool) -> None:
    folder = str(tmp_path / "states")
    first, second = pool2.run(attempts, folder)
    assert first == second
    wanted = [
        "it holds its state, load_state was not given it",
        "object 'other': it does not hold its state",
        "object 'epoch': it does not hold its state",
        "there is no folder",
        "0.weight of Sequential has shape (4, 3) in the checkpoint and (5, 3) here",
        "the state of SGD, the run has Adam",
        "groups of [4] parameters in the checkpoint and of [1, 3] here",
        "1 optimizers (SGD), the run has 0 (none)",
        "another model than Sequential: 2.weight, 2.bias only in the checkpoint, 1.weight, 1.bias only here",
    ]
    for message, part in zip(first, wanted, strict=True):
        assert message.startswith("CheckpointError: runtime.load_state(")
        assert folder in message
        assert part in message


class Planted:
    """Makes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def damage(folder: Path, how: str) -> None:
    data = next(folder.glob("*.distcp"))
    record = json.loads((folder / "state.json").read_text())
    if how == "cut":
        data.write_bytes(data.read_bytes()[:-100])
    elif how == "gone":
        data.unlink()
    elif how == "noise":
        data.write_bytes(os.urandom(data.stat().st_size))
    elif how == "code":
        (folder / ".metadata").write_bytes(pickle.dumps(Planted(str(folder / "planted"))))
    elif how == "elsewhere":
        text = (folder / ".metadata").read_bytes()
        assert data.name.encode() in text
        (folder / ".metadata").write_bytes(text.replace(data.name.encode(), b"../" + data.name[3:].encode()))
    elif how == "no index":
        (folder / ".metadata").unlink()
    elif how == "half a record":
        (folder / "state.json").write_text((folder / "state.json").read_text()[:50])
    elif how == "later":
        (folder / "state.json").write_text(json.dumps({**record, "version": 99}))
    elif how == "foreign":
        (folder / "state.json").write_text('{"step": 3}')


DAMAGES = {
    "cut": "bytes of",
    "gone": "is missing",
    "noise": "",
    "code": "it could run code",
    "elsewhere": "does not lie beside it",
    "no index": ".metadata",
    "half a record": "state.json can't be read",
    "later": "version 99 of the format",
    "foreign": "was not written by runtime.save_state()",
}


@pytest.mark.usefixtures("alone")
def test_damaged_checkpoints_are_refused_and_run_no_code(tmp_path: Path) -> None:
    build()
    whole = Path(runtime.save_state(tmp_path / "whole"))
    for how, part in DAMAGES.items():
        copy = tmp_path / how
        shutil.copytree(whole, copy)
        damage(copy, how)
        with pytest.raises(CheckpointError) as error:
            runtime.load_state(copy)
        assert str(copy) in str(error.value), how
        assert part in str(error.value), (how, str(error.value))
        assert not (copy / "planted").exists()
    for name, content in (
        ("file", None),
        ("empty", ()),
        ("other", ("weights.pt",)),
        ("torn", ("state-00000001.part",)),
    ):
        path = tmp_path / name
        path.write_text("") if content is None else path.mkdir()
        for inner in content or ():
            (path / inner).mkdir()
        with pytest.raises(CheckpointError, match=r"no folder|holds no checkpoint"):
            runtime.load_state(path)


@pytest.mark.usefixtures("alone")
def test_older_ones_are_kept_as_asked_and_leftovers_removed(tmp_path: Path) -> None:
    model, _ = build()
    assert runtime.latest(tmp_path) is None
    assert runtime.latest(tmp_path / "none") is None
    for k in range(4):
        with torch.no_grad():
            model[0].bias.fill_(k)
        made = runtime.save_state(tmp_path, keep=2, k=k)
        assert runtime.latest(tmp_path) == made
        (tmp_path / f"state-{k + 90:08d}.part").mkdir()
        (tmp_path / "mine").mkdir(exist_ok=True)
    found = sorted(path.name for path in tmp_path.iterdir())  # the last leftover came after the last save
    assert found == ["mine", "state-00000002", "state-00000003", "state-00000004", "state-00000093.part"]
    assert runtime.load_state(tmp_path / "state-00000002") == {"k": 1}
    assert model[0].bias.tolist() == [1.0] * 4
    assert runtime.load_state(tmp_path) == {"k": 3}
    runtime.save_state(tmp_path, keep=0)
    assert [path.name for path in tmp_path.iterdir() if path.name != "mine"] == ["state-00000005"]


@pytest.mark.usefixtures("alone")
def test_values_come_back_as_they_were_and_others_are_refused(tmp_path: Path) -> None:
    model = build()[0][0]
    generator, numbers = torch.Generator().manual_seed(3), np.random.default_rng(4)
    values: dict[str, Any] = {
        "history": [1, 2.5, float("inf"), None, True, "text", (1, (2,)), {"a": {3: [4]}}],
        "names": {"set": {1, 2}, "bytes": b"\x00\xff", "complex": 1j, "size": torch.Size([2, 3])},
        "tensor": torch.arange(6).reshape(2, 3),
        "array": np.arange(4, dtype=np.int16).reshape(2, 2),
        "number": np.float32(0.1),
        "rng": torch.get_rng_state(),
        "dtype": torch.bfloat16,
        "counted": defaultdict(list, {"loss": [0.5]}),
        "buffer": bytearray(b"ab"),
    }
    runtime.save_state(tmp_path, generator=generator, numbers=numbers, **values)
    drawn = torch.rand(2, generator=generator).tolist(), numbers.random(2).tolist()
    found = runtime.load_state(tmp_path, generator=generator, numbers=numbers)
    assert (torch.rand(2, generator=generator).tolist(), numbers.random(2).tolist()) == drawn
    for name, value in values.items():
        assert type(found[name]) is type(value)
        same = torch.equal if isinstance(value, torch.Tensor) else np.array_equal
        assert same(found[name], value) if name in ("tensor", "array", "rng") else found[name] == value
    assert found["counted"]["new"] == []
    weights = model.weight.tolist()
    alike = {
        "model": [{"weight": torch.zeros(1)}],
        "a": {1: torch.ones(1), "1": torch.zeros(1), "b.c": 2 * torch.ones(1)},
    }
    runtime.save_state(tmp_path, **alike, **{"a.b": {"c": 3 * torch.ones(1)}})
    found = runtime.load_state(tmp_path)
    assert model.weight.tolist() == weights
    assert [*found["a"].values(), found["a.b"]["c"]] == [1, 0, 2, 3]
    for value in (
        defaultdict(lambda: 0),
        object(),
        build,
        torch.nn.Linear,
        {"a": [Path("x")]},
        torch.eye(2).to_sparse(),
    ):
        with pytest.raises(Unstorable, match="options"):
            runtime.save_state(tmp_path, options=value)
    endless: list[object] = [1]
    endless.append(endless)
    with pytest.raises(Unstorable, match="options holds itself"):
        runtime.save_state(tmp_path, options=endless)


def unalike(folder: str) -> list[str]:
    build()
    rank = runtime.rank()
    return [
        *(attempt(partial(runtime.save_state, folder, keep=keep)) for keep in (-1, "2", None)),
        attempt(lambda: runtime.save_state(folder, rows=torch.ones(3 - rank))),
        attempt(lambda: runtime.save_state(folder, **{f"of{rank}": torch.ones(1)})),
        *os.listdir(folder),
    ]


def test_ranks_that_hand_over_other_tensors(tmp_path: Path, pool2: Pool) -> None:
    main, other = pool2.run(unalike, str(tmp_path))
    assert main == other
    *kept, rows, names = main
    assert all("give a whole number" in text for text in kept)
    assert "'rows' is of shape (3,) on rank 0 and of shape (2,) on rank 1" in rows
    assert "'of0' is of shape (1,) on rank 0 and none on rank 1" in names


def several(folder: str) -> tuple[list[str], str | None, list[str]]:
    """Saves that are written while the run goes on; then one that can't be."""
    model, _ = build()
    x = torch.ones(4, 3)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    runtime.save_state(folder, asynchronous=True, k=0)
    for p in model.parameters():
        p.data.add_(1.0)
    runtime.save_state(folder, asynchronous=True, k=1, x=x)
    x.zero_()
    found = [str(runtime.load_state(folder)["x"].sum().item()), os.path.basename(runtime.latest(folder) or "")]
    runtime.load_state(os.path.join(folder, "state-00000001"))
    found.append(str(all(torch.equal(before[k], v) for k, v in model.state_dict().items())))
    write = saved_files.finish

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    saved_files.finish = full
    try:
        runtime.save_state(folder, asynchronous=True)
        failed = attempt(lambda: runtime.save_state(folder))
        again = attempt(lambda: runtime.save_state(folder))
    finally:
        saved_files.finish = write
    runtime.save_state(folder, asynchronous=True)
    runtime.shutdown()  # waits
    return found, failed, [again, *sorted(os.listdir(folder))]


def test_asynchronous_saves_hold_what_was_and_report_failures(tmp_path: Path, pool2: Pool) -> None:
    first, second = pool2.run(several, str(tmp_path))
    assert first == second
    found, failed, names = first
    assert found == ["12.0", "state-00000002", "True"]
    assert "rank 0: [Errno 28] No space left on device" in failed
    assert "The one before it" in failed
    assert "No space left" in names[0]
    assert names[1:] == ["state-00000002", "state-00000003"]


def in_a_window(folder: str) -> list[str]:
    runtime.init(accumulate=2)
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    runtime.prepare(model, optimizer)
    loader = runtime.shard(DataLoader(TensorDataset(torch.randn(8, 3)), 2))
    found = []
    for (x,) in loader:
        with runtime.accumulate() as window:
            runtime.backward(runtime.mean(model(x).mean()))
            if window.ends:
                runtime.step(optimizer)
                optimizer.zero_grad()
                found.append(attempt(lambda: runtime.save_state(folder)))
        found.append(attempt(lambda: runtime.save_state(folder)))
    rounds = runtime.cycle(loader)
    next(rounds)
    found.append(attempt(lambda: runtime.save_state(folder)))
    return found


@pytest.mark.usefixtures("alone")
def test_where_something_would_be_lost_nothing_is_saved(tmp_path: Path) -> None:
    inside, step, between, *rest = in_a_window(str(tmp_path))
    assert "inside an accumulation window" in inside
    assert step == between == "no error"
    assert "inside an accumulation window" in rest[0]
    assert "runtime.cycle()" in rest[-1]
