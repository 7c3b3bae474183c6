"""Files and state dicts: written on any backend, read in the original, and the other way round."""

from __future__ import annotations

import io
import os
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.pool import Pool, RankError
from tests.runtime.programs import Block, Original, gap, model, train

BACKENDS: dict[str, dict[str, Any]] = {
    "ddp": {"backend": "ddp"},
    "fsdp": {"backend": "fsdp"},
    "zero1": {"backend": "deepspeed", "zero_stage": 1},
    "zero2": {"backend": "deepspeed", "zero_stage": 2},
    "zero3": {"backend": "deepspeed", "zero_stage": 3},
}
TOLERANCE = 2e-5


def build(seed: int) -> tuple[Any, Any, Any]:
    m = model(seed)
    optimizer = torch.optim.AdamW([p for n, p in m.named_parameters() if "unused" not in n], 0.02, weight_decay=0.1)
    return m, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)


def resumed(r: Any, source: str | None, target: str, seed: int) -> None:
    """Load a checkpoint straight after `prepare`, train, save another."""
    m, optimizer, scheduler = build(seed)
    r.prepare(m, optimizer)
    if source is not None:
        saved = r.load(source)
        r.load_state_dict(m, saved["model"])
        r.load_state_dict(optimizer, saved["nested"]["optimizer"])
        r.load_state_dict(scheduler, saved["scheduler"])
        assert saved["epoch"] == 3
    train(r, m, optimizer, 2)
    r.step(scheduler)
    checkpoint = {
        "epoch": 3,
        "model": r.state_dict(m),
        "nested": {"optimizer": r.state_dict(optimizer), "list": [r.state_dict(m.blocks[0]), 1.5]},
        "scheduler": r.state_dict(scheduler),
    }
    r.save(checkpoint, target)


class Plain(Original):
    save = staticmethod(torch.save)
    load = staticmethod(torch.load)


def resumed_on(backend: str, source: str, target: str) -> list[str]:
    from distify import runtime

    runtime.init(**BACKENDS[backend])
    resumed(runtime, source, target, seed=5)
    return sorted(os.listdir(Path(target).parent))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_checkpoint_travels_from_the_original_through_two_and_three_ranks_and_back(
    backend: str, tmp_path: Path, pool2: Pool, pool3: Pool
) -> None:
    file = {k: str(tmp_path / f"{k}.pt") for k in range(4)}
    resumed(Plain, None, file[0], 0)
    assert pool2.run(resumed_on, backend, file[0], file[1]) == [["0.pt", "1.pt"]] * 2  # nothing is left over
    following = list(BACKENDS)[(list(BACKENDS).index(backend) + 1) % len(BACKENDS)]
    pool3.run(resumed_on, following, file[1], file[2])
    resumed(Plain, file[2], file[3], 7)
    expected = {0: file[0]}
    for k in (1, 2, 3):
        expected[k] = str(tmp_path / f"expected{k}.pt")
        resumed(Plain, expected[k - 1], expected[k], 7)
        places = gap(torch.load(file[k]), torch.load(expected[k]))
        assert len(places) == 1, places
        assert places[""] <= TOLERANCE


def whole_objects(backend: str, folder: str) -> None:
    from distify import runtime

    runtime.init(**BACKENDS[backend])
    m, optimizer, _ = build(0)
    runtime.prepare(m, optimizer)
    train(runtime, m, optimizer, 1)
    runtime.save(m, f"{folder}/model.pt")
    runtime.save({"model": m, "optimizer": optimizer, "part": (m.blocks[1], "x")}, f"{folder}/both.pt")
    runtime.save(runtime.state_dict(m), f"{folder}/state.pt")


@pytest.mark.parametrize("backend", BACKENDS)
def test_whole_modules_and_optimizers_are_written_as_the_original_s(backend: str, tmp_path: Path, pool2: Pool) -> None:
    pool2.run(whole_objects, backend, str(tmp_path))
    m, optimizer, _ = build(0)
    train(Original, m, optimizer, 1)
    found = torch.load(tmp_path / "model.pt", weights_only=False)
    assert type(found) is type(m)
    assert gap(dict(found.state_dict()), dict(m.state_dict()))[""] <= TOLERANCE
    assert found.tied.weight is found.first.weight
    assert torch.allclose(found(torch.ones(2, 6)), m(torch.ones(2, 6)), atol=1e-5)
    for name in ("model.pt", "both.pt"):
        data = (tmp_path / name).read_bytes()
        assert not any(word in data for word in (b"distify.runtime", b"deepspeed", b"fully_shard"))
    both = torch.load(tmp_path / "both.pt", weights_only=False)
    loaded, theirs = both["model"], both["optimizer"]
    assert type(both["part"][0]) is Block
    assert both["part"][0] is loaded.blocks[1]
    assert {id(p) for g in theirs.param_groups for p in g["params"]} <= {id(p) for p in loaded.parameters()}
    train(Original, loaded, theirs, 1)  # the loaded optimizer goes on with its state
    train(Original, m, optimizer, 1)
    assert gap(dict(loaded.state_dict()), dict(m.state_dict()))[""] <= TOLERANCE
    state = torch.load(tmp_path / "state.pt")
    assert type(state) is OrderedDict
    assert state._metadata.keys() == m.state_dict()._metadata.keys()


def to_a_buffer(backend: str) -> tuple[Any, ...]:
    from distify import runtime

    runtime.init(**BACKENDS[backend])
    m, optimizer, _ = build(0)
    runtime.prepare(m, optimizer)
    buffer = io.BytesIO()
    runtime.save({"weights": list(m.parameters()), "sum": 1.0}, buffer)
    buffer.seek(0)
    found = runtime.load(buffer)
    return buffer.getbuffer().nbytes > 1000, gap(found["weights"], list(model(0).parameters()))[""]


@pytest.mark.parametrize("backend", ["fsdp", "zero3"])
def test_file_objects_and_bare_parameters(backend: str, pool2: Pool) -> None:
    assert pool2.run(to_a_buffer, backend) == [(True, 0.0)] * 2


def fails(path: str, what: str) -> None:
    from distify import runtime

    runtime.init()
    value = {"folder": 1, "pickle": lambda: 0}[what]
    runtime.save(value, path)


@pytest.mark.parametrize("what", ["folder", "pickle"])
def test_a_failed_write_fails_on_all_ranks_and_leaves_the_old_file(what: str, tmp_path: Path, pool2: Pool) -> None:
    old = tmp_path / "old.pt"
    torch.save("old", old)
    with pytest.raises(RankError) as error:
        pool2.run(fails, str(tmp_path / "missing" / "f.pt" if what == "folder" else old), what)
    assert error.value.types[1] == "RankFailed"
    assert error.value.types[0] not in (None, "RankFailed")
    assert torch.load(old) == "old"
    assert os.listdir(tmp_path) == ["old.pt"]


def test_one_process(tmp_path: Path, alone: None) -> None:
    from distify import runtime

    runtime.init()
    m, optimizer, scheduler = build(0)
    runtime.prepare(m, optimizer)
    file = tmp_path / "link.pt"
    (tmp_path / "real.pt").touch()
    file.symlink_to(tmp_path / "real.pt")
    runtime.save({"m": runtime.state_dict(m), "o": runtime.state_dict(optimizer), "s": scheduler.state_dict()}, file)
    assert file.is_symlink()
    assert gap(runtime.load(file)["m"], dict(m.state_dict()))[""] == 0.0
    assert runtime.state_dict(m)["head.bias"].data_ptr() == m.head.bias.data_ptr()  # alive, as in the original
    runtime.save(m, file)
    with pytest.raises(runtime.checkpoint.UnsafeFile, match="weights_only=False"):
        runtime.load(file)
    with pytest.raises(Exception, match=r"(?i)weights") as error:
        runtime.load(file, weights_only=True)
    assert not isinstance(error.value, runtime.checkpoint.UnsafeFile)
    assert isinstance(runtime.load(file, weights_only=False), nn.Module)


def on_main(backend: str) -> str:
    from distify import runtime

    runtime.init(**BACKENDS[backend])
    m, optimizer, _ = build(0)
    runtime.prepare(m, optimizer)
    try:
        runtime.on_main(lambda: runtime.save(m, os.devnull))
    except runtime.state.DistifyError as error:
        return str(error)
    return "no error"


@pytest.mark.parametrize("backend", ["fsdp", "zero3"])
def test_gathering_on_one_rank_is_an_error_and_no_hang(backend: str, pool2: Pool) -> None:
    assert all("runtime.save()" in found for found in pool2.run(on_main, backend))


def strictness(backend: str) -> list[str]:
    from distify import runtime

    runtime.init(**BACKENDS[backend])
    m, optimizer, _ = build(0)
    runtime.prepare(m, optimizer)
    found = []
    for change in ({"head.bias": None}, {"head.bias": torch.zeros(9)}, {"other": torch.zeros(1)}):
        saved = {k: v for k, v in {**model(1).state_dict(), **change}.items() if v is not None}
        try:
            runtime.load_state_dict(m, saved)
            found.append("no error")
        except RuntimeError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize("backend", ["fsdp", "zero1", "zero3"])
def test_wrong_state_dicts_are_refused_as_by_torch(backend: str, pool2: Pool) -> None:
    for missing, size, unexpected in pool2.run(strictness, backend):
        assert 'Missing key(s) in state_dict: "head.bias"' in missing
        assert "size mismatch for head.bias: copying a param with shape torch.Size([9])" in size
        assert 'Unexpected key(s) in state_dict: "other"' in unexpected


def wrapped_states(backend: str) -> dict[str, Any]:
    from distify import runtime

    original = torch.nn.DataParallel(model(1))
    expected = original.state_dict()
    runtime.init(**BACKENDS[backend])
    m, optimizer, _ = build(1)
    runtime.prepare(m, optimizer)
    found = runtime.state_dict(m, prefix="module.")
    equal = all(torch.equal(found[key], expected[key]) for key in expected)  # now: on ddp it is alive
    doubled = {key: value * 2 for key, value in expected.items()}
    runtime.load_state_dict(m, doubled, prefix="module.")
    plain = runtime.load_state_dict(m, {key.removeprefix("module."): v for key, v in doubled.items()}, prefix="module.")
    again = runtime.state_dict(m)
    runtime.shutdown()
    return {
        "keys": list(found) == list(expected),
        "metadata": found._metadata == expected._metadata,
        "values": equal,
        "doubled": all(torch.equal(again[key.removeprefix("module.")], value) for key, value in doubled.items()),
        "missing": [*plain.missing_keys, *plain.unexpected_keys],
    }


@pytest.mark.parametrize("backend", BACKENDS)
def test_keys_of_a_wrapped_model(backend: str, pool2: Pool) -> None:
    whole = {"keys": True, "metadata": True, "values": True, "doubled": True, "missing": []}
    assert pool2.run(wrapped_states, backend) == [whole, whole]


def on_the_device(backend: str) -> bool:
    from distify import runtime

    runtime.init(backend=backend.rstrip("123"), zero_stage=int(backend[-1]) if backend[-1].isdigit() else None)
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.BatchNorm1d(3))
    runtime.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    host, here = runtime.state_dict(model), runtime.state_dict(model, host=False)
    assert list(host) == list(here)
    assert all(here[key].device == runtime.device() for key in here)
    return all(torch.equal(host[key], here[key]) for key in host)


@pytest.mark.parametrize("backend", ["ddp", "fsdp", "deepspeed1", "deepspeed2", "deepspeed3"])
def test_a_state_on_the_device_has_the_same_values(backend: str, pool2: Pool) -> None:
    assert pool2.run(on_the_device, backend) == [True, True]


def of_a_part(backend: str) -> list[float]:
    """Tied weights after `own = state_dict(); own.update(part)` was loaded: those of the part, under either name."""
    from distify import runtime

    runtime.init(backend=backend.rstrip("123"), zero_stage=int(backend[-1]) if backend[-1].isdigit() else None)
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4))
    model[2].weight = model[0].weight
    runtime.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    found = []
    for name in ("0.weight", "2.weight"):
        own = runtime.state_dict(model)
        own.update({name: own[name] + 1})
        runtime.load_state_dict(model, own)
        found.append(float(runtime.state_dict(model)["0.weight"].sum() - own[name].sum()))
    return found


@pytest.mark.parametrize("backend", ["ddp", "fsdp", "deepspeed2", "deepspeed3"])
def test_a_part_of_a_state_with_tied_weights(backend: str, pool2: Pool) -> None:
    for found in pool2.run(of_a_part, backend):
        assert found == pytest.approx([0, 0], abs=1e-5)
