"""Checkpoints and configuration are data: whatever stands in them, none of it is run."""

from __future__ import annotations

import os
import pickle
import pickletools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from distify import runtime
from distify.runtime.config import ConfigError, read_environment, read_pyproject
from distify.runtime.state import DistifyError
from tests.pool import Pool


class Attack:
    """Unpickled, it makes a file; the function is one that needs no import that a reader could miss."""

    def __init__(self, mark: Path, function: Any = os.mkdir) -> None:
        self.mark, self.function = mark, function

    def __reduce__(self) -> Any:
        return self.function, (str(self.mark),)


def evaluate(mark: str) -> Any:
    return eval(f"__import__('os').mkdir({mark!r})")


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A folder that appears if code of a file has run."""
    return tmp_path / "executed"


def plain(path: Path, attack: Attack) -> None:
    torch.save({"model": {"w": torch.ones(2)}, "epoch": attack}, path)


def legacy(path: Path, attack: Attack) -> None:
    torch.save({"epoch": attack}, path, _use_new_zipfile_serialization=False)


def bare(path: Path, attack: Attack) -> None:
    path.write_bytes(pickle.dumps(attack))


def evaluated(path: Path, attack: Attack) -> None:
    torch.save([Attack(attack.mark, evaluate)], path)


def inside_a_tensor(path: Path, attack: Attack) -> None:
    """In the state of an object that the reader of weights allows."""
    w = nn.Parameter(torch.ones(2))
    w.note = attack  # type: ignore[attr-defined]
    torch.save({"w": w}, path)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("form", [plain, legacy, bare, evaluated, inside_a_tensor])
def test_a_file_of_weights_that_holds_code(form: Any, tmp_path: Path, mark: Path) -> None:
    runtime.init()
    form(tmp_path / "weights.pt", Attack(mark))
    with pytest.raises((DistifyError, pickle.UnpicklingError)) as error:
        runtime.load(tmp_path / "weights.pt")
    assert "weights_only=False" in str(error.value)
    assert not mark.exists()
    if form is plain:  # it is an attack
        runtime.load(tmp_path / "weights.pt", weights_only=False)
        assert mark.exists()


def saved(folder: Path) -> tuple[Any, Any, Path]:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    runtime.prepare(model, optimizer)
    runtime.backward(model(torch.ones(1, 3)).sum())
    runtime.step(optimizer)
    made = Path(runtime.save_state(str(folder), model=model, optimizer=optimizer, epoch=3))
    return model, optimizer, made


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_checkpoint_whose_index_holds_code(protocol: int, tmp_path: Path, mark: Path) -> None:
    runtime.init()
    model, optimizer, made = saved(tmp_path / "run")
    (made / ".metadata").write_bytes(pickle.dumps(Attack(mark), protocol))
    with pytest.raises(DistifyError, match=r"\.metadata names \w+\.mkdir, which has no place there; it could run code"):
        runtime.load_state(str(tmp_path / "run"), model=model, optimizer=optimizer)
    assert not mark.exists()


@pytest.mark.usefixtures("alone")
def test_a_checkpoint_whose_parts_hold_code(tmp_path: Path, mark: Path) -> None:
    """The pickle inside of each tensor's archive is replaced in place, so that the index still fits."""
    runtime.init()
    model, optimizer, made = saved(tmp_path / "run")
    attack = pickle.dumps(Attack(mark), 2)
    found = 0
    for file in made.rglob("*.distcp"):
        data = bytearray(file.read_bytes())
        at = data.find(b"ctorch._utils\n_rebuild_tensor")
        while at >= 0:
            start = data.rfind(b"\x80\x02", 0, at)
            data[start : start + len(attack)] = attack
            found += 1
            at = data.find(b"ctorch._utils\n_rebuild_tensor", at + 1)
        file.write_bytes(bytes(data))
    assert found
    with pytest.raises(DistifyError, match=r"load_state\(.*mkdir|load_state\(.*damaged") as error:
        runtime.load_state(str(tmp_path / "run"), model=model, optimizer=optimizer)
    assert not mark.exists(), error.value


@pytest.mark.usefixtures("alone")
def test_a_checkpoint_whose_record_is_hostile(tmp_path: Path, mark: Path) -> None:
    runtime.init()
    model, optimizer, made = saved(tmp_path / "run")
    records = [f for f in made.rglob("*") if f.is_file() and f.suffix != ".distcp" and f.name != ".metadata"]
    assert records
    for record in records:
        before = record.read_bytes()
        assert not pickled(before)
        for hostile in (pickle.dumps(Attack(mark)), b"__import__('os').mkdir('executed')", b"[" * 100_000, b"\xff\0"):
            record.write_bytes(hostile)
            with pytest.raises(DistifyError):
                runtime.load_state(str(tmp_path / "run"), model=model, optimizer=optimizer)
        record.write_bytes(before)
    assert not mark.exists()
    assert runtime.load_state(str(tmp_path / "run"), model=model, optimizer=optimizer)["epoch"] == 3


def pickled(data: bytes) -> bool:
    try:
        return len(list(pickletools.genops(data))) > 1
    except Exception:
        return False


def loaded(path: str) -> str:
    runtime.init()
    try:
        runtime.load(path)
    except DistifyError as error:
        return f"{type(error).__name__}: {error}"
    return "loaded"


def test_all_ranks_refuse(tmp_path: Path, mark: Path, pool2: Pool) -> None:
    plain(tmp_path / "weights.pt", Attack(mark))
    for found in pool2.run(loaded, str(tmp_path / "weights.pt")):
        assert found.startswith("UnsafeFile: ")
        assert "weights_only=False" in found
    assert not mark.exists()


@pytest.mark.parametrize(
    "table",
    [
        "backend = \"__import__('os').mkdir('executed')\"",
        "accumulate = \"__import__('os').getpid()\"",
        '"__class__" = 1',
        'backend = "distify.runtime.backends.ddp:DDP"',
        'backend = "../evil"',
        "backend = " + "[" * 5000,
        "accumulate = " + "9" * 5000,
        "backend = ['ddp']",
    ],
)
def test_a_hostile_configuration(table: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.distify]\n{table}\n")
    with pytest.raises(ConfigError, match=r"pyproject\.toml") as error:
        read_pyproject(tmp_path)
    assert "\n" not in str(error.value).strip()
    name, _, value = table.partition(" = ")
    if name in ("backend", "accumulate") and len(value) < 100:
        with pytest.raises(ConfigError, match=f"DISTIFY_{name.upper()}"):
            read_environment({f"DISTIFY_{name.upper()}": value})
    assert sorted(os.listdir(tmp_path)) == ["pyproject.toml"]


def test_a_configuration_that_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe is not waited for, and a folder above that can't be searched has no configuration."""
    os.mkfifo(tmp_path / "pyproject.toml")
    assert read_pyproject(tmp_path) == {}
    real = os.stat

    def closed(path: Any, *rest: Any, **more: Any) -> Any:
        if isinstance(path, (str, os.PathLike)) and os.path.basename(os.fspath(path)) == "pyproject.toml":
            raise PermissionError(13, "Permission denied")
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "stat", closed)
    assert read_pyproject(tmp_path) == {}
