"""Section 6: what a wrapper around a model changes, forgets or refuses."""

from __future__ import annotations

import pytest

from tests.pitfalls.trial import Trial, codes, differs

STEPS = """
    optimizer = optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for i, (x, y) in enumerate(DataLoader(data, batch_size=6)):
        optimizer.zero_grad()
        loss = LOSS
        loss.backward()
        optimizer.step()
        print(loss.item())
    print(sum(p.abs().sum().item() for p in model.parameters()))
"""


def program(model: str, loss: str = "F.cross_entropy(model(x), y)") -> str:
    return model + STEPS.replace("LOSS", loss)


BRANCHES = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(5, 4)
            self.extra = nn.Linear(4, 4)
            self.last = nn.Linear(4, 2)

        def forward(self, x, extra=False):
            x = torch.tanh(self.first(x))
            if extra:
                x = self.extra(x)
            return self.last(x)

        def score(self, x, y):
            return F.cross_entropy(self(x), y)


    model = Net()
"""
DDP = ("model = Net()", "model = naive.ddp(Net())")


@pytest.mark.parametrize("backend", ["ddp", "fsdp"])
def test_p50_unused_parameters(trial: Trial, backend: str) -> None:
    source = program(BRANCHES, "F.cross_entropy(model(x, i % 2 == 1), y)")
    if backend == "ddp":
        assert "find_unused_parameters" in trial.naive(source, DDP).error
    trial.same(source, backend=backend)


CHECKPOINTED = """
    from torch.utils.checkpoint import checkpoint


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(5, 4)
            self.block = nn.Linear(4, 4)
            self.last = nn.Linear(4, 2)

        def forward(self, x):
            x = self.first(x)
            for _ in range(2):
                x = torch.tanh(checkpoint(self.block, x, use_reentrant=REENTRANT))
            return self.last(x)


    model = Net()
"""


@pytest.mark.parametrize("reentrant", ["True", "False"])
def test_p51_marked_ready_twice(trial: Trial, reentrant: str) -> None:
    source = program(CHECKPOINTED.replace("REENTRANT", reentrant))
    if reentrant == "True":
        assert "ready only once" in trial.naive(source, DDP).error
    trial.same(source)
    trial.same(source, backend="fsdp")


NORMALISED = """
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
"""
TWICE = "F.cross_entropy(model(x), y) + F.cross_entropy(model(-x), 1 - y)"


def test_p52_two_forwards_before_one_backward(trial: Trial) -> None:
    source = program(NORMALISED, TWICE)
    original = trial.original(source)
    naive = trial.naive(
        source,
        ("nn.Sequential(", "naive.ddp(nn.Sequential("),
        ("nn.Linear(4, 2))\n", "nn.Linear(4, 2)))\n"),
        ("DataLoader(data, batch_size=6)", "DataLoader(data, 3, sampler=naive.sampler(data, shuffle=False))"),
    )
    # depending on what a layer keeps for backward: an error, or statistics of slices, overwritten by rank 0's
    assert "modified by an inplace operation" in naive.error or differs(original, naive)
    trial.same(source, expected=original)


def test_p53_static_graph_with_an_extra_forward(trial: Trial) -> None:
    source = program(BRANCHES, "F.cross_entropy(model(x, i % 2 == 1) + (model(x) if i == 2 else 0), y)")
    naive = trial.naive(source, ("model = Net()", "model = naive.ddp(Net(), static_graph=True)"))
    assert naive.error or differs(trial.original(source), naive)
    assert "static_graph" not in trial.same(source).data.decode()


def test_p54_method_that_bypasses_the_wrapper(trial: Trial) -> None:
    source = program(BRANCHES.replace("self(x), y)", "self(x, True), y)"), "model.score(x, y)")
    naive = trial.naive(
        source,
        DDP,
        ("model.score", "model.module.score"),
        ("DataLoader(data, batch_size=6)", "DataLoader(data, 3, sampler=naive.sampler(data, shuffle=False))"),
    )
    assert naive.out[0].splitlines()[-1] != naive.out[1].splitlines()[-1], "each rank trains by itself"
    trial.same(source)
    trial.same(source, backend="fsdp")


def test_p55_model_moved_after_the_wrap(trial: Trial) -> None:
    moved = program(BRANCHES, "F.cross_entropy(model(x, True), y)").replace(
        "        optimizer.zero_grad()", "        model.cpu()\n        model.to('cpu')\n        optimizer.zero_grad()"
    )
    trial.same(moved)
    trial.same(moved, backend="fsdp")
    # Here a change of dtype stands for one of device: either way a parameter gets a new accumulator, without the hook.
    turned = moved.replace("model.cpu()", "model.double()").replace("model.to('cpu')", "model.float()")
    sharded = (
        DDP,
        ("DataLoader(data, batch_size=6)", "DataLoader(data, 3, sampler=naive.sampler(data, shuffle=False))"),
    )
    stays, moves = (trial.naive(source, *sharded) for source in (moved, turned))
    assert stays.out[0].splitlines()[-1] == stays.out[1].splitlines()[-1], "the last line is that of all parameters"
    assert moves.out[0].splitlines()[-1] != moves.out[1].splitlines()[-1], "each rank trains by itself"
    trial.same(turned)


FROZEN = """
    model = nn.Linear(5, 2)
    teacher = nn.Linear(5, 2)
    for p in teacher.parameters():
        p.requires_grad_(False)
"""


def test_p56_model_without_trainable_parameters(trial: Trial) -> None:
    source = program(FROZEN, "F.mse_loss(model(x), teacher(x)) + F.cross_entropy(model(x), y)")
    naive = trial.naive(
        source,
        (
            "teacher = nn.Linear(5, 2)\n",
            "teacher = nn.Linear(5, 2).requires_grad_(False)\nteacher = naive.ddp(teacher)\n",
        ),
    )
    assert "any parameter that requires a gradient" in naive.error
    trial.same(source)
    trial.same(source, backend="fsdp")


def test_p57_devices_that_are_named(trial: Trial) -> None:
    source = program(
        '    device = "cuda:0" if torch.cuda.is_available() else "cpu"\n    model = nn.Linear(5, 2).to(device)\n'
    )
    source = source.replace(
        "        optimizer.zero_grad()", "        x, y = x.to(device), y.to(device)\n        optimizer.zero_grad()"
    )
    assert "device = runtime.device()" in trial.same(source).data.decode()
    plain = source.replace('device = "cuda:0" if torch.cuda.is_available() else "cpu"', "device = 0")
    plain = (
        plain.replace(".to(device)\n", ".cuda()\n")
        .replace("x.to(device)", "x.cuda(0)")
        .replace("y.to(device)", 'y.to("cuda:0")')
    )
    text = trial.convert(plain).data.decode()
    assert "cuda:0" not in text
    assert ".cuda(" not in text


def test_p58_compiled_models(trial: Trial) -> None:
    compiled = '    model = torch.compile(model, backend="eager")\n'
    source = program(BRANCHES + compiled, "F.cross_entropy(model(x, True), y)")
    naive = trial.naive(
        source,
        ('torch.compile(model, backend="eager")', 'torch.compile(naive.ddp(model), backend="eager")'),
        ("\nprint(sum", '\nprint(*model.state_dict(), sep="\\n")\nprint(sum'),
    )
    assert "\n_orig_mod.module.first.weight\n" in naive.out[0], naive
    for backend in ("ddp", "fsdp"):
        assert 'torch.compile(model, backend="eager")' in trial.same(source, backend=backend).data.decode()


TIED = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(7, 6)
            self.body = nn.Linear(6, 6)
            self.head = nn.Linear(6, 7, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, x):
            return self.head(torch.tanh(self.body(self.embed(x))))


    tokens = torch.randint(0, 7, (18,))
    data = TensorDataset(tokens, tokens.roll(1))
    model = Net()
"""


def test_p59_tied_weights(trial: Trial) -> None:
    source = program(TIED)
    original = trial.original(source)
    naive = trial.naive(source, ("model = Net()", "model = Net(); naive.fully_shard(model)"))
    assert naive.error or differs(original, naive), "untied silently, or rejected"
    trial.same(source, expected=original, backend="fsdp")
    trial.same(source, expected=original, backend="deepspeed", zero_stage=3)


def test_p60_frozen_and_trainable_parts_in_one_unit(trial: Trial) -> None:
    mixed = program(BRANCHES + "    model.first.weight.requires_grad_(False)\n    model.extra.requires_grad_(False)\n")
    trial.same(mixed, backend="fsdp")
    trial.same(mixed, backend="deepspeed", zero_stage=3)


AVERAGED = """
    import copy

    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    average = copy.deepcopy(model)


    def update():
        with torch.no_grad():
            for a, p in zip(average.parameters(), model.parameters()):
                a.mul_(0.5).add_(p, alpha=0.5)
            for a, b in zip(average.buffers(), model.buffers()):
                a.copy_(b)


"""


@pytest.mark.parametrize("backend", ["ddp", "fsdp", "deepspeed"])
def test_p61_moving_averages(trial: Trial, backend: str) -> None:
    source = program(AVERAGED).replace("        print(loss.item())", "        update()\n        print(loss.item())")
    source += "    average.eval()\n    print(average(features).sum().item())\n"
    source += '    torch.save(average.state_dict(), "average.pt")\n'
    original = trial.original(source)
    if backend == "fsdp":
        naive = trial.naive(
            source,
            ("\naverage = copy", "\nnaive.fully_shard(model)\naverage = copy"),
            ("torch.save(", "(lambda *a: 0)("),
        )
        assert naive.error or differs(original, naive)
    trial.same(source, expected=original, backend=backend)


HALVED = program("    model = nn.Linear(5, 2)\n    model.half()\n").replace("x, y)", "x, y)")


def test_p62_half_precision_by_hand(trial: Trial) -> None:
    source = HALVED.replace("model(x)", "model(x.half()).float()")
    scaled = source.replace("    optimizer = ", "    scaler = torch.amp.GradScaler('cpu')\n    optimizer = ")
    scaled = scaled.replace("loss.backward()", "scaler.scale(loss).backward()")
    naive = trial.naive(scaled, ("optimizer.step()", "scaler.step(optimizer); scaler.update()"))
    assert "Attempting to unscale FP16 gradients" in naive.error
    assert "DST403" in codes(trial.convert(source, precision="fp16"))


OVERFLOWING = """
    grid = torch.ones(4, 2)
    grid[3] = 3e4  # beyond the range of fp16 once its gradient is scaled: a row of the last rank
    model = nn.Linear(2, 1, bias=False)
    nn.init.constant_(model.weight, 2.0**-14)
    optimizer = optim.SGD(model.parameters(), lr=0.125)
    for epoch in range(3):
        for (x,) in DataLoader(TensorDataset(grid if epoch == 1 else torch.ones(4, 2)), batch_size=4):
            optimizer.zero_grad()
            loss = model(x).float().mean()
            loss.backward()
            optimizer.step()
            print(epoch, model.weight.sum().item())
"""


def test_p63_one_rank_overflows(trial: Trial) -> None:
    scaler = ("optimizer = ", "scaler = torch.amp.GradScaler('cpu')\noptimizer = ")
    naive = trial.naive(
        OVERFLOWING,
        scaler,
        (
            "loss = model(x)",
            "x = x[2 * naive.rank() :][:2]\n        with torch.autocast('cpu', torch.float16):\n            out = model(x)\n        loss = out",
        ),
        ("loss.backward()", "scaler.scale(loss).backward()"),
        ("optimizer.step()", "scaler.step(optimizer); scaler.update()"),
    )
    assert naive.out[0] != naive.out[1], "one rank skips the step, the other one makes it"
    for backend in ("ddp", "fsdp"):
        lines = trial.ours(OVERFLOWING, backend=backend, precision="fp16").lines()
        weights = [line.split()[1] for line in lines]
        assert weights[0] == weights[1] != weights[2], "skipped on all ranks, and only then"
