"""Section 3: metrics over other rows than the original's, and evaluations that some ranks skip."""

from __future__ import annotations

import pytest

from tests.pitfalls.trial import Trial, differs

TRAINED = """
    model = nn.Linear(5, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(data, batch_size=6):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    held = TensorDataset(features[:11] * 2, (torch.arange(11) < 3).long())
"""

ACCURACY = (
    TRAINED
    + """
    correct = total = 0
    for x, y in DataLoader(held, batch_size=4):
        with torch.no_grad():
            pred = model(x).argmax(1)
        correct += (pred == y).sum().item()
        total += len(y)
    print(f"{correct} of {total}: {correct / total:.8f}")
"""
)

SPLIT = ("DataLoader(held, batch_size=4)", "DataLoader(held, 2, sampler=naive.sampler(held, shuffle=False))")
ADDED = ("print(f", "correct, total = (int(naive.all_reduce(v)) for v in (correct, total)); print(f")


def test_p30_padding_counted_in_metrics(trial: Trial) -> None:
    original = trial.original(ACCURACY)
    naive = trial.naive(ACCURACY, SPLIT, ADDED)
    assert "of 12" in naive.lines()[0], "DistributedSampler repeats a row"
    assert differs(original, naive)
    trial.same(ACCURACY, expected=original)
    trial.same(ACCURACY, expected=original, size=3)


REDUCED_FIRST = (
    TRAINED
    + """
    scores = []
    with torch.no_grad():
        for x, y in DataLoader(held, batch_size=4):
            scores.append((model(x).argmax(1) == y).float().mean().item() * len(y))
    print(f"{sum(scores) / 11:.8f}")
    errors = torch.cat([model(x).argmax(1) != y for x, y in DataLoader(held, batch_size=4)])
    print(f"{errors.float().mean().item():.8f}")
"""
)


def test_p31_averages_of_averages(trial: Trial) -> None:
    original = trial.original(REDUCED_FIRST)
    rows = (
        "zip(features[:11].mul(2)[naive.rank() * 6 :][:6].split(4), held.tensors[1][naive.rank() * 6 :][:6].split(4))"
    )
    naive = trial.naive(
        REDUCED_FIRST,
        ("DataLoader(held, batch_size=4)", rows),
        ("* len(y)", ""),
        ("sum(scores) / 11", "naive.average(sum(scores) / len(scores))"),
        ("errors.float().mean().item()", "naive.average(errors.float().mean())"),
    )
    assert differs(original, naive)
    trial.same(REDUCED_FIRST, expected=original)


WHOLE_SIZE = ACCURACY.replace("correct / total", "correct / len(held)")


def test_p32_divided_by_the_size_of_the_whole_set(trial: Trial) -> None:
    original = trial.original(WHOLE_SIZE)
    assert differs(original, trial.naive(WHOLE_SIZE, SPLIT)), "hits of one rank over the rows of all"
    trial.same(WHOLE_SIZE, expected=original)


NORMALISED = """
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        model.train()
        for x, y in DataLoader(data, batch_size=6):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        model.train(epoch == 0)
        total = 0.0
        for x, y in DataLoader(data, batch_size=5):
            with torch.no_grad():
                total += F.cross_entropy(model(x), y, reduction="sum").item()
        print(epoch, total)
"""


def test_p33_evaluation_on_one_rank(trial: Trial) -> None:
    assert trial.hangs(
        NORMALISED,
        ("model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))",
         "model = naive.ddp(nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)))"),
        ("for x, y in DataLoader(data, batch_size=5)", "for x, y in [] if naive.rank() else DataLoader(data, 5)"),
    )  # fmt: skip
    trial.same(NORMALISED)


def test_p34_sharded_evaluation_with_unequal_batches(trial: Trial) -> None:
    assert trial.hangs(
        ACCURACY,
        ("optimizer = ", "model = naive.fully_shard(nn.Sequential(model))\noptimizer = "),
        ("DataLoader(held, batch_size=4)", "DataLoader(held, 4, sampler=range(naive.rank(), 9, 2))"),
    )
    trial.same(ACCURACY, backend="fsdp")
    trial.same(ACCURACY, backend="deepspeed", zero_stage=3)


BRANCHING = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(5, 4)
            self.norm = nn.BatchNorm1d(4)
            self.last = nn.Linear(4, 2)

        def forward(self, x):
            x = self.first(x)
            if CONDITION:
                x = self.norm(x)
            return self.last(x)


    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(data, batch_size=6):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item())
"""


def test_p35_normalisation_that_some_ranks_skip(trial: Trial) -> None:
    shared = BRANCHING.replace("CONDITION", "random.random() < 0.5")
    trial.same(shared)
    by_data = BRANCHING.replace("CONDITION", "x.mean() > 0")
    trial.refused(by_data, "DST126")
    trial.refused(BRANCHING.replace("CONDITION", "(x > 3).any()"), "DST126")
    trial.refused(BRANCHING.replace("CONDITION", "x.size(0) > 3"), "DST126")


@pytest.mark.parametrize(
    ("condition", "level"),
    [
        ("(x > 3).any()", "warning"),
        ("self.training and (x > 3).sum() > 0", "warning"),
        ("x.max() > 3", "error"),
        ("(x > 3).sum().item() > 2", "error"),
        ("x.dim() == 2", None),
        ("x.size(1) > 2 and self.training", None),
    ],
)
def test_p35_layer_that_some_ranks_skip(trial: Trial, condition: str, level: str | None) -> None:
    source = BRANCHING.replace("CONDITION", condition).replace("nn.BatchNorm1d(4)", "nn.Linear(4, 4)")
    found = [item.level for item in trial.convert(source).findings if item.code == "DST126"]
    assert found == ([] if level is None else [level])
    refusals = [item.code for item in trial.convert(source, backend="fsdp").findings if item.level == "error"]
    assert refusals == {"warning": ["DST903"], "error": ["DST126"], None: []}[level]


MEASURED = BRANCHING.replace("if CONDITION:\n                x = self.norm(x)", "INSIDE")


@pytest.mark.parametrize(
    ("inside", "found"),
    [
        ("x = x[:, : int((x > 0).sum(1).max())].mean(1, keepdim=True).expand(-1, 4)", ["DST126 warning"]),
        ("x = sum(x * t for t in range((x > 0).sum(1).max()))", ["DST126 warning"]),
        ("x = x * [1.0, 2.0][int(x.mean() > 0)]", ["DST126 error"]),
        ("x[0] = 0", ["DST111 error"]),
        ("x = x * x.size(0) ** -0.5", ["DST110 error"]),
        ("x = x / len(x)", ["DST110 error"]),
        ("for i, row in enumerate(x):\n                x[i, :2] = 0", []),
        ("x[:, 0] = 0", []),
        ("x = x / x.size(1)", []),
    ],
)
def test_p35_numbers_of_a_slice_inside_a_forward(trial: Trial, inside: str, found: list[str]) -> None:
    result = trial.convert(MEASURED.replace("INSIDE", inside))
    assert sorted({f"{item.code} {item.level}" for item in result.findings}) == found
