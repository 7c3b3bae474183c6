"""`distify consolidate`: one plain file of a checkpoint in parts, for the original, with no process group."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from distify.codemod import consolidate as command
from distify.codemod.__main__ import run
from distify.runtime import consolidate as program
from distify.runtime.consolidate import main
from tests.pool import Pool
from tests.runtime.programs import Original, gap, model, train
from tests.runtime.test_checkpoint import BACKENDS


def build(seed: int) -> tuple[Any, Any, Any]:
    m = model(seed)
    trained = [p for n, p in m.named_parameters() if "unused" not in n]
    optimizer = torch.optim.AdamW([{"params": trained[:3], "lr": 0.01}, {"params": trained[3:]}], 0.02)
    return m, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)


def saved(backend: str, folder: str) -> None:
    from distify import runtime

    runtime.init(**BACKENDS[backend])
    m, optimizer, scheduler = build(0)
    runtime.prepare(m, optimizer)
    train(runtime, m, optimizer, 2)
    runtime.step(scheduler)
    runtime.save_state(folder, scheduler=scheduler, epoch=3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_original_loads_the_file_and_goes_on(backend: str, tmp_path: Path, pool2: Pool) -> None:
    pool2.run(saved, backend, str(tmp_path / "state"))
    out, both = tmp_path / "model.pt", tmp_path / "both.pt"
    assert main([str(tmp_path / "state"), str(out)]) == 0
    assert main(["--optimizer", str(tmp_path / "state"), str(both)]) == 0
    expected, theirs, _ = build(0)
    before = train(Original, expected, theirs, 2)
    m, optimizer, scheduler = build(5)
    state = torch.load(out)
    assert list(state) == list(m.state_dict())
    assert state._metadata == m.state_dict()._metadata
    assert state["tied.weight"].data_ptr() == state["first.weight"].data_ptr()
    m.load_state_dict(state)
    assert gap(dict(m.state_dict()), dict(expected.state_dict()))[""] <= 2e-5
    found = torch.load(both)
    optimizer.load_state_dict(found["optimizer"])
    scheduler.load_state_dict(found["scheduler"])
    assert (found["epoch"], optimizer.param_groups[0]["lr"], scheduler.last_epoch) == (3, 0.005, 1)
    for group in optimizer.param_groups:
        group["lr"] *= 2
    assert before
    assert train(Original, m, optimizer, 1) == pytest.approx(train(Original, expected, theirs, 1), abs=1e-4)
    assert sorted(os.listdir(tmp_path)) == ["both.pt", "model.pt", "state"]


def two(folder: str) -> None:
    from distify import runtime

    runtime.init(backend="deepspeed", zero_stage=2, precision="bf16")
    torch.manual_seed(0)
    nets = [nn.Linear(3, 4), nn.Linear(3, 2), nn.Conv2d(1, 2, 2)]
    for net in nets:
        runtime.prepare(net, torch.optim.SGD(net.parameters(), 0.1))
    runtime.save_state(folder, critic=nets[1])


def test_several_models_and_mistakes_are_told_in_one_line(
    tmp_path: Path, pool2: Pool, capfd: pytest.CaptureFixture[str]
) -> None:
    folder, out = str(tmp_path / "state"), tmp_path / "out.pt"
    pool2.run(two, folder)
    (tmp_path / "folder.pt").mkdir()
    os.mkfifo(tmp_path / "pipe.pt")
    (tmp_path / "link.pt").symlink_to(out)
    (tmp_path / "torn" / "state-00000001.part").mkdir(parents=True)
    for arguments, told in (
        ([folder, str(out)], "Choose one: --model Linear | critic | Conv2d"),
        ([folder, str(out), "--model", "Net"], "holds no model 'Net', but Linear, critic, Conv2d"),
        ([folder, str(tmp_path / "folder.pt"), "--model", "critic"], "is no file"),
        ([folder, str(tmp_path / "pipe.pt"), "--model", "critic"], "is no file"),
        ([folder, str(tmp_path / "none" / "x.pt"), "--model", "critic"], "Make it first"),
        ([folder, str(tmp_path / "x.txt"), "--model", "critic"], "should end in .pt"),
        ([folder, str(tmp_path / "x.safetensors"), "--optimizer"], "holds nothing but tensors"),
        ([str(tmp_path / "torn"), str(out)], "never completed"),
        ([str(tmp_path / "nothing"), str(out)], "there is no folder"),
    ):
        assert main(arguments) == 2
        error = capfd.readouterr().err
        assert error.startswith("distify: ")
        assert error.count("\n") == 1
        assert told in error
    assert not out.exists()
    for name, kind in (
        ("Linear", nn.Linear(3, 4)),
        ("critic", nn.Linear(3, 2)),
        ("Conv2d", nn.Conv2d(1, 2, 2)),
    ):
        assert main([folder, str(tmp_path / "link.pt"), "--model", name]) == 0
        state = torch.load(out)
        assert {k: (v.dtype, v.shape) for k, v in state.items()} == {
            k: (v.dtype, v.shape) for k, v in kind.state_dict().items()
        }
    assert (tmp_path / "link.pt").is_symlink()


def test_the_command_runs_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    given: list[Any] = []

    def fake(arguments: list[str], env: dict[str, str], check: bool) -> Any:
        given.append((arguments, "RANK" in env))
        return subprocess.CompletedProcess(arguments, 2)

    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(subprocess, "run", fake)
    assert run(["consolidate", "a", "b.pt", "--model", "Net", "--optimizer"]) == 2
    expected = [sys.executable, "-m", program.__name__, "--model", "Net", "--optimizer", "--", "a", "b.pt"]
    assert given == [(expected, False)]
    assert run(["consolidate", "a"]) == 2
    assert capfd.readouterr().err == "distify: missing argument 'OUT' (see: distify consolidate --help)\n"
    monkeypatch.setattr(command.importlib.util, "find_spec", lambda name: None)
    assert run(["consolidate", "a", "b.pt"]) == 2
    assert "pip install torch" in capfd.readouterr().err
    assert len(given) == 1
    monkeypatch.setitem(sys.modules, "safetensors", None)
    assert main([str(tmp_path), str(tmp_path / "x.safetensors")]) == 2
    assert "pip install safetensors" in capfd.readouterr().err


def test_safetensors_get_a_copy_of_each_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a stand-in that takes what the package takes: contiguous tensors that share no memory."""
    from distify import runtime

    written: dict[str, torch.Tensor] = {}

    class Format:
        @staticmethod
        def save_file(tensors: dict[str, torch.Tensor], path: str, metadata: dict[str, str]) -> None:
            assert len({t.data_ptr() for t in tensors.values()}) == len(tensors)
            assert all(t.is_contiguous() for t in tensors.values())
            written.update(tensors)
            Path(path).write_bytes(b"x")

    monkeypatch.setattr(program, "_safetensors", lambda: Format)
    try:
        runtime.init()
        m, optimizer, _ = build(0)
        runtime.prepare(m, optimizer)
        runtime.save_state(tmp_path / "state")
    finally:
        runtime.shutdown()
    assert main([str(tmp_path / "state"), str(tmp_path / "x.safetensors")]) == 0
    assert gap(written, dict(m.state_dict())) == {"": 0.0}
    assert (tmp_path / "x.safetensors").read_bytes() == b"x"
