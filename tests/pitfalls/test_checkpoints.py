"""Section 5: files under other names, of other sizes, or that only some ranks write or read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from distify import runtime
from tests.pitfalls.trial import Trial, differs
from tests.pool import Pool

SAVED = """
    model = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = optim.AdamW(model.parameters(), lr=0.05)
    for x, y in DataLoader(data, batch_size=6):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item())
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 1}, "last.pt")
"""
WRAPPED = "nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2))"


@pytest.mark.parametrize("backend", ["ddp", "fsdp", "deepspeed"])
def test_p42_keys_with_a_prefix(trial: Trial, backend: str) -> None:
    original = trial.original(SAVED)
    if backend == "ddp":
        naive = trial.naive(SAVED, (WRAPPED, f"naive.ddp({WRAPPED})"), ('"last.pt"', 'f"last{naive.rank()}.pt"'))
        saved = torch.load(naive.folder / "last0.pt")
        assert all(key.startswith("module.") for key in saved["model"])
        with pytest.raises(RuntimeError, match="Missing key"):
            torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).load_state_dict(
                saved["model"]
            )
    trial.same(SAVED, expected=original, backend=backend)  # compares files: keys, shapes, values


def test_p43_keys_of_a_compiled_model(trial: Trial) -> None:
    late = SAVED.replace("    for x, y", '    compiled = torch.compile(model, backend="eager")\n    for x, y')
    late = late.replace("F.cross_entropy(model(x)", "F.cross_entropy(compiled(x)")
    naive = trial.naive(
        SAVED,
        (WRAPPED, f"naive.ddp(torch.compile({WRAPPED}, backend='eager'))"),
        ('"last.pt"', 'f"last{naive.rank()}.pt"'),
    )
    assert all(key.startswith("module._orig_mod.") for key in torch.load(naive.folder / "last0.pt")["model"])
    trial.same(late)
    trial.same(late, backend="fsdp")


def test_p44_state_of_a_sharded_model_on_one_rank(trial: Trial) -> None:
    save = 'torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 1}, "last.pt")'
    assert trial.hangs(
        SAVED,
        ("optimizer = ", "naive.fully_shard(model)\noptimizer = "),
        (
            save,
            "naive.rank() or [naive.all_reduce(p.to_local()) for p in model.state_dict().values()]; naive.barrier()",
        ),
    )
    lines = trial.same(SAVED, backend="fsdp").data.decode().splitlines()
    saving = next(line for line in lines if "runtime.save(" in line)
    assert not saving.startswith(" "), "no guard stands around what all ranks gather"


def sharded_save(folder: str) -> int:
    runtime.init(backend="fsdp")
    model = torch.nn.Linear(256, 512, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    runtime.prepare(model, optimizer)
    runtime.save_state(folder)
    return model.weight.numel() * 4


def test_p45_whole_state_gathered_on_one_rank(tmp_path: Path, pool2: Pool) -> None:
    whole = pool2.run(sharded_save, str(tmp_path / "state"))[0]
    sizes = [path.stat().st_size for path in (tmp_path / "state").rglob("*") if path.is_file()]
    parts = [size for size in sizes if size > whole // 4]
    assert len(parts) == 2, "each process writes its own part"
    assert max(sizes) < whole * 3 // 4, "and nobody holds the whole"


SIZES = """
    model = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = optim.SGD(model.parameters(), lr=0.05)
    for x, y in DataLoader(data, batch_size=6):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item(), sum(p.norm().item() for p in model.parameters()))
    print(sum(p.numel() for p in model.parameters()), [tuple(v.shape) for v in model.state_dict().values()])
"""


def zero3() -> list[int]:
    import deepspeed

    model = torch.nn.Linear(5, 4)
    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}}
    engine = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)[0]
    found = [p.numel() for p in engine.module.parameters()]
    engine.destroy()
    return found


def test_p46_sizes_under_zero_3(trial: Trial, pool2: Pool) -> None:
    assert pool2.run(zero3) == [[0, 0]] * 2, "parameters are empty between forwards"
    trial.same(SIZES, backend="deepspeed", zero_stage=3)
    trial.same(SIZES, backend="fsdp")


def test_p47_and_p48_where_a_checkpoint_is_loaded_to(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    loading = (
        SAVED + '    model.load_state_dict(torch.load("last.pt")["model"])\n    print(model[0].weight.sum().item())\n'
    )
    assert 'runtime.load("last.pt")' in trial.same(loading).data.decode()
    asked: list[Any] = []
    monkeypatch.setattr(torch, "load", lambda f, map_location=None, **options: asked.append(map_location))
    try:
        runtime.init()
        runtime.load("anything.pt")
        place = asked[0]
        storage = torch.zeros(1).untyped_storage()
        assert place(storage, "cpu") in (None, storage)
        assert "cuda:0" not in repr(place), "what came from a GPU goes to this process's own device"
    finally:
        runtime.shutdown()


RESUMED = """
    import sys

    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = optim.Adam(model.parameters(), lr=0.05)
    loader = DataLoader(data, batch_size=4, shuffle=True)
    start = 0
    if os.path.exists("last.pt"):
        saved = torch.load("last.pt")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        torch.set_rng_state(saved["rng"])
        start = saved["epoch"]
    for epoch in range(start, int(sys.argv[1])):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        print(epoch, x.sum().item(), loss.item())
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save({**state, "epoch": epoch + 1, "rng": torch.get_rng_state()}, "last.pt")
"""


def test_p49_resumed_run_repeats_samples(trial: Trial) -> None:
    whole = trial.original(RESUMED, runs=[["4"]])
    naive = trial.naive(
        RESUMED.replace("int(sys.argv[1])", "4"),
        ("torch.set_rng_state(saved", "(saved"),
        ("start = 0", "torch.manual_seed(99); start = 0"),
    )
    assert differs(whole, naive), "another order than the uninterrupted run"
    trial.same(RESUMED, expected=whole, runs=[["2"], ["4"]])
    trial.same(RESUMED, expected=whole, runs=[["2"], ["4"]], backend="fsdp")


SKIPPED = RESUMED.replace("loss.backward()", "loss.backward()").replace(
    "        for x, y in loader:\n",
    "        for i, (x, y) in enumerate(loader):\n"
    "            if epoch == start and i < int(sys.argv[2]):\n"
    "                continue\n",
)


def test_p49_resumed_in_the_middle_of_an_epoch(trial: Trial) -> None:
    trial.same(SKIPPED, runs=[["2", "0"], ["4", "2"]])
