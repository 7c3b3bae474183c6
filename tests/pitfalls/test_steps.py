"""Section 2: gradients, optimizers and schedules that are no longer those of the whole batch."""

from __future__ import annotations

import pytest

from tests.pitfalls.trial import Trial, codes, differs

PLAIN = """
    model = nn.Linear(5, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(data, batch_size=4)
"""

DDP = ("nn.Linear(5, 2)", "naive.ddp(nn.Linear(5, 2))")
HALF = ("DataLoader(data, batch_size=4)", "DataLoader(data, batch_size=2, sampler=naive.sampler(data, shuffle=False))")
SHOWN = ("loss.item()", "naive.average(loss)")

SCHEDULED = (
    PLAIN
    + """
    total = 2 * len(loader)
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=total)
    decay = optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / total)
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            print(loss.item(), scheduler.get_last_lr()[0])
"""
)


def test_p15_scheduler_that_runs_too_fast(trial: Trial) -> None:
    original = trial.original(SCHEDULED)
    wrapped = (
        "scheduler.step()",
        "[scheduler.step() for _ in range(naive.world()) if scheduler.last_epoch < total - 1]",
    )
    assert differs(original, trial.naive(SCHEDULED, DDP, wrapped, SHOWN)), "stepped once per process, as wrappers do"
    trial.same(SCHEDULED, expected=original)


# Token-wise losses over windows in which micro-batches hold different numbers of tokens.
TOKENS = """
    tokens = torch.randint(0, 7, (16, 6))
    targets = tokens.roll(-1, 1)
    for row in range(16):
        targets[row, 1 + row % 5 :] = -100
    model = nn.Sequential(nn.Embedding(7, 8), nn.Linear(8, 7))
    optimizer = optim.SGD(model.parameters(), lr=0.5)
    for epoch in range(2):
        for x, y in DataLoader(TensorDataset(tokens, targets), batch_size=BATCH):
            optimizer.zero_grad()
            logits = model(x)
            loss = F.cross_entropy(logits.view(-1, 7), y.view(-1), ignore_index=-100)
            loss.backward()
            optimizer.step()
    print(*[p.sum().item() for p in model.parameters()], model[1].weight.norm().item())
"""


def test_p16_mean_of_means_over_a_window(trial: Trial) -> None:
    large, small = TOKENS.replace("BATCH", "8"), TOKENS.replace("BATCH", "4")
    original = trial.original(large)
    naive = trial.naive(
        small,
        ("for x, y in", "for step, (x, y) in enumerate("),
        ("batch_size=4):", "batch_size=4)):"),
        ("optimizer.zero_grad()", "step % 2 or optimizer.zero_grad()"),
        ("loss.backward()", "(loss / 2).backward()"),
        ("optimizer.step()", "step % 2 == 0 or optimizer.step()"),
    )
    assert differs(original, naive)
    trial.same(small, expected=original, accumulate=2)


def test_p17_means_of_unequal_ranks(trial: Trial) -> None:
    source = TOKENS.replace("BATCH", "4")
    original = trial.original(source)
    naive = trial.naive(
        source,
        ("model = nn.Sequential(nn.Embedding(7, 8), nn.Linear(8, 7))",
         "model = naive.ddp(nn.Sequential(nn.Embedding(7, 8), nn.Linear(8, 7)))"),
        ("DataLoader(TensorDataset(tokens, targets), batch_size=4)",
         "[(x.chunk(2)[naive.rank()], y.chunk(2)[naive.rank()]) for x, y in zip(tokens.split(4), targets.split(4))]"),
        ("model[1]", "model.module[1]"),
    )  # fmt: skip
    assert differs(original, naive)
    trial.same(source, expected=original)
    trial.same(source, expected=original, size=3)


BY_HAND = """
    model = nn.Linear(5, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(data, batch_size=4)
    k = 2
    optimizer.zero_grad()
    for epoch in range(2):
        for i, (x, y) in enumerate(loader):
            loss = F.cross_entropy(model(x), y) / k
            loss.backward()
            if (i + 1) % k == 0 or i + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()
                print(i, loss.item(), model.weight.sum().item())
"""


def test_p18_loss_divided_twice(trial: Trial) -> None:
    original = trial.original(BY_HAND)
    naive = trial.naive(BY_HAND, ("loss.backward()", "(loss / k).backward()"))
    assert differs(original, naive), "a runtime that divides as well"
    result = trial.same(BY_HAND, expected=original)
    assert result.data.decode().count("/ k") == 1, "the script's own division stays, and no second one comes"
    trial.refused(BY_HAND, "DST204", accumulate=2)


COUNTED = """
    import torch.distributed as dist

    sent, real = [0], dist.all_reduce

    def counting(tensor, *args, **kwargs):
        sent[0] += tensor.numel() > 5000
        return real(tensor, *args, **kwargs)

    dist.all_reduce = counting
    model = nn.Sequential(nn.Linear(5, 1000), nn.Linear(1000, 2))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    try:
        for i, (x, y) in enumerate(DataLoader(data, batch_size=3)):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    finally:
        dist.all_reduce = real
    print("gradients were sent", sent[0], "times")
"""


def test_p19_gradients_sent_at_every_micro_batch(trial: Trial) -> None:
    hook = """model = naive.ddp(nn.Sequential(nn.Linear(5, 1000), nn.Linear(1000, 2)))
def sending(state, bucket):
    sent[0] += 1
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future
model.register_comm_hook(None, sending)
"""
    naive = trial.naive(
        COUNTED,
        ("model = nn.Sequential(nn.Linear(5, 1000), nn.Linear(1000, 2))\n", hook),
        ("        loss.backward()\n", "        with model.no_sync() if i % 3 < 2 else torch.enable_grad():\n"
         "            loss.backward()\n"),
    )  # fmt: skip
    assert naive.lines() == ["gradients were sent 6 times"], "no_sync() around backward only does nothing"
    ours = trial.ours(COUNTED, accumulate=3)
    assert ours.lines() == ["gradients were sent 2 times"], "six batches, two windows"


LEFTOVER = BY_HAND.replace(" or i + 1 == len(loader)", "")


@pytest.mark.parametrize("source", [BY_HAND, LEFTOVER], ids=["stepped", "carried over"])
def test_p20_micro_batches_left_at_the_end(trial: Trial, source: str) -> None:
    original = trial.original(source)
    naive = trial.naive(
        source, DDP, HALF, ("model.weight", "model.module.weight"), ("data, batch_size=2", "data, batch_size=4")
    )
    assert differs(original, naive), "each process counts its own, fewer batches"
    trial.same(source, expected=original)
    trial.same(source, expected=original, size=3)


# Powers of two and small whole numbers: exact in fp16 too, so that only a wrong scale can show.
SCALED = """
    grid = torch.tensor([[1.0, 2.0], [2.0, 0.0], [0.0, 1.0], [4.0, 2.0]]) / torch.tensor(8.0)
    model = nn.Linear(2, 1, bias=False)
    nn.init.constant_(model.weight, 0.5)
    optimizer = optim.SGD(model.parameters(), lr=0.25)
    for (x,) in DataLoader(TensorDataset(grid), batch_size=4):
        optimizer.zero_grad()
        loss = model(x).float().mean()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.125)
        optimizer.step()
        print(loss.item(), norm.item(), model.weight.tolist())
"""


def test_p21_clipping_scaled_gradients(trial: Trial) -> None:
    original = trial.original(SCALED)
    scaler = ("optimizer = ", "scaler = torch.amp.GradScaler('cpu')\noptimizer = ")
    naive = trial.naive(
        SCALED,
        scaler,
        ("loss.backward()", "scaler.scale(loss).backward()"),
        ("optimizer.step()", "scaler.step(optimizer); scaler.update()"),
    )
    assert differs(original, naive), "the norm is 65536 times too large"
    result = trial.same(SCALED, expected=original, precision="fp16")
    assert "runtime.clip_grad_norm_(model.parameters(), 0.125)" in result.data.decode()


def test_p22_unscaled_twice(trial: Trial) -> None:
    amp = SCALED.replace("    optimizer = ", "    scaler = torch.amp.GradScaler('cpu')\n    optimizer = ")
    amp = amp.replace("loss.backward()", "scaler.scale(loss).backward()\n        scaler.unscale_(optimizer)")
    amp = amp.replace("optimizer.step()", "scaler.step(optimizer)\n        scaler.update()")
    naive = trial.naive(amp, ("norm = ", "scaler.unscale_(optimizer)\n    norm = "))
    assert "unscale_() has already been called" in naive.error
    trial.same(amp)


SHARDED = """
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = optim.Adam(model.parameters(), lr=0.05)
    for epoch in range(2):
        for x, y in DataLoader(data, batch_size=6):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            print(loss.item(), float(norm))
"""


def test_p23_norm_of_a_shard(trial: Trial) -> None:
    original = trial.original(SHARDED)
    local = "sum(p.grad.to_local().square().sum() for p in model.parameters()).sqrt()"
    naive = trial.naive(
        SHARDED,
        ("optimizer = ", "naive.fully_shard(model)\noptimizer = "),
        ("nn.utils.clip_grad_norm_(model.parameters(), 0.1)", local),
    )
    assert naive.lines(0)[0].split()[1] != naive.lines(1)[0].split()[1], "each rank has the norm of its parts"
    trial.same(SHARDED, expected=original, backend="fsdp")
    trial.same(SHARDED, expected=original, backend="deepspeed", zero_stage=2)


STALE = """
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))
    print(sum(p.numel() for p in model.parameters()), model(features[:2]).sum().item())
    optimizer = optim.AdamW(model.parameters(), lr=0.05)
    model(features[:2])
    for x, y in DataLoader(data, batch_size=6):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item())
"""


def test_p24_optimizer_built_before_the_wrap(trial: Trial) -> None:
    original = trial.original(STALE)
    naive = trial.naive(
        STALE,
        ("\nmodel(features[:2])", "\nnaive.fully_shard(model)"),
    )
    assert differs(original, naive), "the optimizer updates tensors that the model no longer has"
    trial.same(STALE, expected=original, backend="fsdp")
    trial.same(STALE, expected=original, backend="deepspeed", zero_stage=3)


def test_p25_forward_between_wrap_and_optimizer(trial: Trial) -> None:
    late = STALE.replace("    optimizer = optim.AdamW(model.parameters(), lr=0.05)\n    model(features[:2])\n", "")
    late = late.replace(
        "    for x, y",
        "    model(features[:2])\n    optimizer = optim.AdamW(model.parameters(), lr=0.05)\n    for x, y",
    )
    result = trial.same(late, backend="fsdp")
    lines = result.data.decode().splitlines()
    built = next(i for i, line in enumerate(lines) if "optim.AdamW" in line)
    prepared = next(i for i, line in enumerate(lines) if "runtime.prepare(" in line)
    assert built + 1 == prepared, "forwards before the optimizer see the model as it was built"


GROUPED = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.frozen = nn.Linear(5, 6)
            self.body = nn.Linear(6, 4)
            self.head = nn.Linear(4, 2)

        def forward(self, x):
            return self.head(torch.tanh(self.body(torch.tanh(self.frozen(x)))))


    model = Net()
    for p in model.frozen.parameters():
        p.requires_grad_(False)
    groups = [
        {"params": model.body.parameters(), "lr": 0.01},
        {"params": [model.head.weight], "lr": 0.3, "weight_decay": 0.5},
    ]
    optimizer = optim.AdamW(groups)
    for x, y in DataLoader(data, batch_size=6):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item(), [g["lr"] for g in optimizer.param_groups])
    torch.save(model.state_dict(), "net.pt")
"""


@pytest.mark.parametrize("backend", ["ddp", "fsdp", "deepspeed"])
def test_p26_groups_and_frozen_parts(trial: Trial, backend: str) -> None:
    original = trial.original(GROUPED)
    if backend == "ddp":
        everything = "optim.AdamW(model.parameters(), lr=0.01)"
        assert differs(original, trial.naive(GROUPED, ("optim.AdamW(groups)", everything)))
    trial.same(GROUPED, expected=original, backend=backend)


LBFGS = """
    model = nn.Linear(5, 2)
    optimizer = optim.LBFGS(model.parameters(), max_iter=6, line_search_fn="strong_wolfe")
    evaluations = 0
    for x, y in DataLoader(data, batch_size=9):

        def closure():
            global evaluations
            evaluations += 1
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        print(loss.item(), evaluations)
"""


def test_p27_closures_that_ranks_evaluate_unequally(trial: Trial) -> None:
    rows = (
        "DataLoader(data, batch_size=9)",
        "zip(features[:18].chunk(2)[naive.rank()].split(4), labels.chunk(2)[naive.rank()].split(4))",
    )
    original = trial.original(LBFGS)
    naive = trial.naive(LBFGS, rows, ("loss.backward()", "loss.backward(); [naive.average(p.grad.sum()) for p in []]"))
    assert naive.out[0] != naive.out[1], "the line search sees other losses, and makes another number of evaluations"
    trial.same(LBFGS, expected=original)
    trial.refused(LBFGS, "DST203", backend="fsdp")
    assert "DST203" in codes(trial.refused(LBFGS, "DST203", precision="fp16"))


GAN = """
    generator = nn.Linear(3, 5)
    critic = nn.Linear(5, 1)
    g_optimizer = optim.Adam(generator.parameters(), lr=0.05)
    d_optimizer = optim.Adam(critic.parameters(), lr=0.05)
    bce = nn.BCEWithLogitsLoss()
    for epoch in range(2):
        for real, _ in DataLoader(data, batch_size=6):
            n = real.size(0)
            fake = generator(torch.randn(n, 3))
            d_optimizer.zero_grad()
            d_loss = bce(critic(real), torch.ones(n, 1)) + bce(critic(fake.detach()), torch.zeros(n, 1))
            d_loss.backward()
            d_optimizer.step()
            g_optimizer.zero_grad()
            g_loss = bce(critic(fake), torch.ones(n, 1))
            g_loss.backward()
            g_optimizer.step()
            print(d_loss.item(), g_loss.item())
"""


def test_p28_two_optimizers_one_synchronised(trial: Trial) -> None:
    original = trial.original(GAN)
    naive = trial.naive(
        GAN,
        ("critic = nn.Linear(5, 1)", "critic = naive.ddp(nn.Linear(5, 1))"),
        ("batch_size=6)", "3, sampler=naive.sampler(data, shuffle=False))"),
    )
    assert naive.out[0] != naive.out[1]
    assert differs(original, naive)
    trial.same(GAN, expected=original)
    trial.refused(GAN, "DST211", accumulate=2)


def test_p29_one_engine_for_several_models(trial: Trial) -> None:
    trial.same(GAN, backend="deepspeed", zero_stage=0)
    shared = GAN.replace("optim.Adam(critic.parameters()", "optim.Adam([*critic.parameters(), *generator.parameters()]")
    trial.refused(shared, "DST203", backend="deepspeed", zero_stage=2)
