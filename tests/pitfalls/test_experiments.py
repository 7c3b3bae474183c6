"""Section 10: found by experiment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from distify import runtime
from tests.pitfalls import naive as by_hand
from tests.pitfalls.trial import Trial, codes, differs
from tests.pool import Pool, RankError

PLAIN = """
    model = nn.Linear(5, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(data, batch_size=6):
        optimizer.zero_grad()
        loss = LOSS
        loss.backward()
        optimizer.step()
        print(loss.item())
    print(model.weight.abs().sum().item())
"""
DDP = ("nn.Linear(5, 2)", "naive.ddp(nn.Linear(5, 2))")
SLICES = (
    "DataLoader(data, batch_size=6)",
    "[(x.chunk(2)[naive.rank()], y.chunk(2)[naive.rank()]) for x, y in DataLoader(data, batch_size=6)]",
)
SHOWN = [("print(loss.item())", "print(naive.average(loss))"), ("model.weight", "model.module.weight")]


def test_p71_sets_of_strings(tmp_path: Path) -> None:
    """Hash seeds differ by process; the restart that gives them one is in `distify.runtime.launcher`."""
    launcher = Path(str(runtime.__file__)).with_name("launcher.py")
    words = "print(list({'the', 'quick', 'brown', 'fox', 'jumps', 'over', 'lazy', 'dogs'}))"
    light = f"""
import sys, types
package = types.ModuleType("distify.runtime")
package.__path__ = [{str(launcher.parent)!r}]
sys.modules["distify.runtime"] = package
from distify.runtime import launcher
launcher.agree_on_hashes()
{words}
"""
    naive_file, file = tmp_path / "naive.py", tmp_path / "ours.py"
    naive_file.write_text(words)
    file.write_text(light)

    def orders(script: Path, count: int) -> set[str]:
        env = {k: v for k, v in os.environ.items() if k != "PYTHONHASHSEED"}
        found = set()
        for rank in range(count):
            own = {**env, "RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": str(rank)}
            command = [sys.executable, str(script)]
            found.add(subprocess.run(command, env=own, capture_output=True, text=True, check=True).stdout)
        return found

    assert len(orders(naive_file, 4)) > 1
    assert len(orders(file, 3)) == 1


def unclipped() -> list[float]:
    import deepspeed

    model = nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    given = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 1}}
    given["zero_allow_untested_optimizer"] = True
    engine = deepspeed.initialize(model=model, optimizer=optimizer, config=given)[0]
    before = model.weight.detach().clone()
    engine.backward(engine(torch.tensor([[30.0, 40.0]])).sum())
    engine.step()
    step: list[float] = (before - model.weight.detach()).flatten().tolist()
    engine.destroy()
    return step


LARGE = PLAIN.replace("LOSS", "100 * F.cross_entropy(model(x), y)")


def test_p72_clipping_that_nobody_asked_for(trial: Trial, pool2: Pool) -> None:
    step = pool2.run(unclipped)[0]
    assert step == pytest.approx([0.6, 0.8], rel=1e-3), "a gradient of norm 50 becomes one of norm 1"
    trial.same(LARGE, backend="deepspeed", zero_stage=1)


CLASSES = PLAIN.replace("LOSS", "F.cross_entropy(model(x), y, weight=torch.tensor([0.1, 5.0]), label_smoothing=0.1)")


def test_p73_weighted_classes(trial: Trial) -> None:
    original = trial.original(CLASSES)
    assert differs(original, trial.naive(CLASSES, DDP, SLICES, *SHOWN))
    trial.same(CLASSES, expected=original)
    trial.same(CLASSES, expected=original, backend="fsdp", size=3)


TWICE = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(5, 4)
            self.b = nn.Linear(4, 2)

        def forward(self, x):
            return self.b(torch.tanh(self.a(x)))


    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(data, batch_size=6):
        optimizer.zero_grad()
        first = F.cross_entropy(model(x), y)
        second = F.cross_entropy(model(-x), 1 - y)
        first.backward(retain_graph=True)
        second.backward()
        first.backward()
        optimizer.step()
        print(first.item(), second.item())
"""


def test_p74_two_forwards_then_two_backwards(trial: Trial) -> None:
    original = trial.original(TWICE)
    naive = trial.naive(
        TWICE, ("model = Net()", "model = naive.ddp(Net())"), SLICES,
        ("print(first.item(), second.item())", "print(naive.average(first), naive.average(second))"),
    )  # fmt: skip
    assert naive.error or differs(original, naive)
    trial.same(TWICE, expected=original)
    trial.same(TWICE, expected=original, backend="fsdp")


STATEFUL = """
    model = nn.Linear(5, 2)
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    if os.path.exists("warm.pt"):
        saved = torch.load("warm.pt")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    for x, y in DataLoader(data, batch_size=6):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item())
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "warm.pt")
"""


@pytest.mark.parametrize("backend", ["ddp", "fsdp", "deepspeed"])
def test_p75_optimizer_state_from_before(trial: Trial, backend: str) -> None:
    if backend == "ddp":
        twice = trial.original(STATEFUL, runs=[[], []])
        forgotten = trial.original(
            STATEFUL.replace("optimizer.load_state_dict(saved", "print(end='') or (saved"), runs=[[], []]
        )
        assert differs(twice, forgotten), "a lost state changes what is printed"
    trial.same(STATEFUL, runs=[[], []], backend=backend)


def captured(ours: bool) -> float:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    held = list(model.parameters())
    if not ours:
        by_hand.begin(30.0)
        by_hand.fully_shard(model)
        model(torch.ones(2, 4)).sum().backward()
        return sum(float(p.grad.norm()) for p in held if p.grad is not None)
    runtime.init(backend="fsdp")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    runtime.prepare(model, optimizer)
    x = runtime.split(torch.ones(2, 4))
    runtime.backward(runtime.mean(model(x).mean()))
    return float(runtime.clip_grad_norm_(held, 1.0))


def test_p76_parameters_captured_before_the_wrap(pool2: Pool) -> None:
    assert pool2.run(captured, False) == [0.0, 0.0], "dead tensors never get a gradient"
    with pytest.raises(RankError, match=r"prepare") as error:
        pool2.run(captured, True)
    assert len(set(error.value.types)) == 1


PADDED = """
    rows = [torch.randn(n, 5) for n in (2, 7, 3, 3, 1, 6, 2, 2, 9, 1, 4, 4)]


    def collate(samples):
        return nn.utils.rnn.pad_sequence([rows[i] for i in samples], batch_first=True), torch.tensor(samples) % 2


    model = nn.Linear(5, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(range(12), batch_size=4, collate_fn=collate):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x.mean(1)), y)  # the mean runs over the padding, too
        loss.backward()
        optimizer.step()
        print(x.shape[1], loss.item())
"""


def test_p77_collate_that_pads_a_slice(trial: Trial) -> None:
    original = trial.original(PADDED)
    naive = trial.naive(
        PADDED, DDP, ("batch_size=4", "batch_size=2, sampler=naive.sampler(range(12), shuffle=False)"),
        ("loss.item())", "naive.average(loss))"),
    )  # fmt: skip
    assert differs(original, naive)
    trial.same(PADDED, expected=original)
    trial.same(PADDED, expected=original, size=3)


SQUEEZED = PLAIN.replace("LOSS", "F.mse_loss(model(x)[:, :1].squeeze(), y.float())")


def test_p78_squeeze_on_a_slice_of_one_row(trial: Trial) -> None:
    assert "DST108" in codes(trial.convert(SQUEEZED))
    named = SQUEEZED.replace("squeeze()", "squeeze(1)").replace("batch_size=6", "batch_size=3")
    assert "DST108" not in codes(trial.same(named, size=3))


DICE = PLAIN.replace("LOSS", "1 - 2 * (model(x).softmax(1)[:, 1] * y).sum() / (model(x).softmax(1)[:, 1] + y).sum()")


@pytest.mark.parametrize(
    "source", [PLAIN.replace("LOSS", "F.mse_loss(model(x)[:, 0], y.float()).sqrt()"), DICE], ids=["rmse", "dice"]
)
def test_p79_losses_that_are_no_plain_mean(trial: Trial, source: str) -> None:
    original = trial.original(source)
    assert differs(original, trial.naive(source, DDP, SLICES, *SHOWN))
    trial.same(source, expected=original)
    trial.same(source, expected=original, backend="fsdp", size=3)


DRIFTING = """
    class Augmented(Dataset):
        def __len__(self):
            return 9

        def __getitem__(self, i):
            return features[i] * (1 + 0 * random.random() + 0 * torch.rand(1)), labels[i]


    model = nn.Linear(5, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(Augmented(), batch_size=3):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    numbers = [random.random(), torch.rand(1).item()]
    print(loss.item())
"""


def test_p80_streams_that_drift_apart(trial: Trial) -> None:
    told = DRIFTING + "    print(numbers, file=sys.stderr)\n"
    naive = trial.naive(
        told.replace("    model = nn", "    random.seed(1)\n    model = nn"),
        ("DataLoader(Augmented(), batch_size=3)", "DataLoader(Augmented(), 3, sampler=range(naive.rank(), 9, 2))"),
    )
    assert naive.err[0] != naive.err[1], "ranks that drew for 5 and for 4 rows decide differently from then on"
    ours = trial.ours(told)
    assert ours.err[0].splitlines()[-1] == ours.err[1].splitlines()[-1]
    trial.same(DRIFTING)


PENALTY = """
    critic = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = optim.Adam(critic.parameters(), lr=0.05)
    for x, y in DataLoader(data, batch_size=7):
        optimizer.zero_grad()
        mixed = (x * 0.5).requires_grad_(True)
        slope = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)[0]
        loss = critic(x).mean() + 10 * ((slope.norm(2, dim=1) - 1) ** 2).mean()
        loss.backward()
        optimizer.step()
        print(loss.item())
"""


@pytest.mark.parametrize("backend", ["ddp", "fsdp"])
def test_p81_gradient_penalty(trial: Trial, backend: str) -> None:
    original = trial.original(PENALTY)
    naive = ("optimizer = ", "critic = naive.ddp(critic)\noptimizer = ") if backend == "ddp" else (
        "optimizer = ", "naive.fully_shard(critic)\noptimizer = ")  # fmt: skip
    outcome = trial.naive(PENALTY, naive, SLICES_OF_SEVEN, ("loss.item()", "naive.average(loss)"))
    assert outcome.error or differs(original, outcome)
    trial.same(PENALTY, expected=original, backend=backend)


SLICES_OF_SEVEN = (SLICES[0].replace("6", "7"), SLICES[1].replace("batch_size=6", "batch_size=7"))

NOW_AND_THEN = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.used = nn.Linear(5, 2)
            self.unused = nn.Linear(5, 2)

        def forward(self, x):
            return self.used(x)


    model = Net()
    optimizer = optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.5)
    for x, y in DataLoader(data, batch_size=6):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item())
    print(model.unused.weight.abs().sum().item())
"""


def decayed() -> bool:
    import deepspeed

    torch.manual_seed(0)
    model = nn.ModuleDict({"used": nn.Linear(2, 1), "unused": nn.Linear(2, 1)})
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
    given = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}
    engine = deepspeed.initialize(model=model, optimizer=optimizer, config=given)[0]
    before = model["unused"].weight.detach().clone()
    engine.backward(model["used"](torch.ones(1, 2)).sum())
    engine.step()
    changed = not torch.equal(before, model["unused"].weight.detach())
    engine.destroy()
    return changed


@pytest.mark.parametrize("stage", [0, 2, 3])
def test_p82_unused_parameters_decay(trial: Trial, stage: int, pool2: Pool) -> None:
    if stage == 2:
        assert pool2.run(decayed) == [True, True], "the original leaves parameters without gradient alone"
    trial.same(NOW_AND_THEN, backend="deepspeed", zero_stage=stage)


ALIASED = """
    model = nn.Linear(5, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.5)
    best, state = math.inf, None
    for epoch in range(3):
        for x, y in DataLoader(data, batch_size=6):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        if state is None:
            state = model.state_dict()
    print(state["weight"].sum().item(), model.weight.sum().item())
"""


def test_p83_state_dict_that_is_the_live_weights(trial: Trial) -> None:
    left, right = trial.original(ALIASED).lines()[0].split()
    assert left == right, "in the original the state goes on changing"
    for backend in ("ddp", "fsdp"):
        assert "DST703" in codes(trial.convert(ALIASED, backend=backend))
    trial.same(ALIASED)
    copied = ALIASED.replace("model.state_dict()", "{k: v.clone() for k, v in model.state_dict().items()}")
    trial.same(copied, backend="fsdp")
