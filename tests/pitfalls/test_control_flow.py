"""Section 4: decisions that ranks take differently, and ranks that wait for one that failed."""

from __future__ import annotations

import pytest

from distify import runtime
from tests.pitfalls.trial import Trial, codes
from tests.pool import Pool, RankError

DDP = ("nn.Linear(5, 2)", "naive.ddp(nn.Linear(5, 2))")
SLICES = (
    "DataLoader(data, batch_size=6)",
    "[(x.chunk(2)[naive.rank()], y.chunk(2)[naive.rank()]) for x, y in DataLoader(data, batch_size=6)]",
)

STOPPING = """
    model = nn.Linear(5, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.5)
    best, bad = math.inf, 0
    for epoch in range(6):
        for x, y in DataLoader(data, batch_size=6):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())
        if loss.item() < LIMIT:
            break
"""


def stopping(trial: Trial) -> str:
    """The program with a limit that the rows of one rank reach before those of the other do."""
    naive = trial.naive(STOPPING.replace("LIMIT", "0.0"), DDP, SLICES)
    losses = [float(line.split()[1]) for out in naive.out for line in out.splitlines()[:1]]
    return STOPPING.replace("LIMIT", repr(min(losses) + abs(losses[0] - losses[1]) / 4))


def test_p36_one_rank_stops_early(trial: Trial) -> None:
    source = stopping(trial)
    assert trial.hangs(source, DDP, SLICES)
    trial.same(source)
    trial.same(source, backend="fsdp")


def test_p37_a_barrier_is_no_agreement(trial: Trial) -> None:
    source = stopping(trial)
    assert trial.hangs(source, DDP, SLICES, ("    if loss.item() <", "    naive.barrier()\n    if loss.item() <"))
    assert "barrier" not in trial.same(source).data.decode()


BEST = """
    model = nn.Linear(5, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.5)
    best = math.inf
    for epoch in range(4):
        total = 0.0
        for x, y in DataLoader(data, batch_size=6):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item() * math.cos(3 * epoch)
        if total < best:
            best = total
            torch.save(model.state_dict(), "best.pt")
            print(epoch, "saved", best)
"""


def test_p38_best_differs_by_rank(trial: Trial) -> None:
    reduced = (
        "value = torch.tensor(total); torch.distributed.reduce(value, 0, group=naive.groups[0]); total = value.item()"
    )
    naive = trial.naive(BEST, SLICES, ("    if total < best", f"    {reduced}\n    if total < best"))
    assert naive.out[0] != naive.out[1], "reduce() gives the sum to one rank only"
    trial.same(BEST)
    trial.same(BEST, backend="fsdp")


SKIPPING = """
    features[2, 0] = math.nan
    model = nn.Linear(5, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for i, (x, y) in enumerate(DataLoader(data, batch_size=6)):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        if not torch.isfinite(loss):
            print("skipped", i)
            continue
        loss.backward()
        optimizer.step()
        print(i, loss.item())
"""


def test_p39_one_rank_skips_a_step(trial: Trial) -> None:
    assert trial.hangs(SKIPPING, DDP, SLICES)
    trial.same(SKIPPING)
    trial.same(SKIPPING, backend="fsdp")


TIMED = """
    import time

    from tests.pitfalls.ranks import is_second

    model = nn.Linear(5, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    start = time.time()
    steps = 0
    if is_second():
        start -= 1000  # its clock is ahead
    while True:
        for x, y in DataLoader(data, batch_size=6):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            steps += 1
        if time.time() - start > 600 or steps > 8:
            break
    print("all have left", steps)
"""


def test_p40_the_clock_stops_one_rank(trial: Trial) -> None:
    assert trial.hangs(TIMED, DDP)
    result = trial.convert(TIMED)
    assert "DST601" in codes(result) or "runtime.any(" in result.data.decode()
    assert trial.ours(TIMED).lines() == ["all have left 3"]


def naive_guard() -> None:
    from tests.pitfalls import naive

    naive.begin(1.0)
    if naive.rank() == 0:
        raise FileNotFoundError("no such data")
    naive.barrier()


def guarded() -> None:
    runtime.init()
    runtime.on_main(open, "/no/such/data")


def guarded_block() -> None:
    runtime.init()
    with runtime.main_first():
        if runtime.is_main():
            raise FileNotFoundError("no such data")


@pytest.mark.parametrize("function", [guarded, guarded_block])
def test_p41_the_main_rank_fails_in_a_guarded_block(function: object, pool2: Pool) -> None:
    if function is guarded:
        with pytest.raises(RankError) as error:
            pool2.run(naive_guard)
        assert "RankFailed" not in error.value.types
        assert any(word in error.value.messages[1].lower() for word in ("timed out", "timeout")), "rank 1 waits in vain"
    with pytest.raises(RankError) as error:
        pool2.run(function)  # type: ignore[arg-type]
    assert error.value.types == ["FileNotFoundError", "RankFailed"], "rank 1 is told, and not killed as it waits"
    assert "no such" in error.value.messages[1].lower()
