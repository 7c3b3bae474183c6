"""A window around each training step: what happens once per window says so, in the user's order."""

from __future__ import annotations

import pytest

from distify.codemod.apply import apply
from distify.codemod.options import Options
from tests.codemod.rules.checks import check_noop, check_rewritten, outcome, script

BUILD = """
loader = DataLoader(data, batch_size=4)
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
scheduler = optim.lr_scheduler.StepLR(optimizer, 10)
criterion = nn.CrossEntropyLoss()
total, count, limit = 0.0, 0, 10
"""

REWRITES = {
    "plain": (
        """
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    total += loss.item()
""",
        """
for x, y in loader:
    with runtime.accumulate() as window:
        if window.starts:
            optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        if window.ends:
            optimizer.step()
    total += loss.item()
""",
    ),
    "clip, step, scheduler and clearing share a condition": (
        """
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    # keep it small
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
""",
        """
for x, y in loader:
    with runtime.accumulate() as window:
        loss = criterion(model(x), y)
        loss.backward()
        # keep it small
        if window.ends:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
""",
    ),
    "cleared between forward and backward": (
        """
for x, y in loader:
    loss = criterion(model(x), y)
    model.zero_grad()
    loss.backward()
    optimizer.step()
""",
        """
for x, y in loader:
    with runtime.accumulate() as window:
        loss = criterion(model(x), y)
        if window.starts:
            model.zero_grad()
        loss.backward()
        if window.ends:
            optimizer.step()
""",
    ),
    "statements between stay where they are": (
        """
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    total += loss.item()
    optimizer.step()
    print(total)
    scheduler.step()
""",
        """
for x, y in loader:
    with runtime.accumulate() as window:
        if window.starts:
            optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        total += loss.item()
        if window.ends:
            optimizer.step()
        print(total)
        if window.ends:
            scheduler.step()
""",
    ),
    "conditions of the user": (
        """
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    if limit:
        nn.utils.clip_grad_norm_(model.parameters(), limit)
    optimizer.step()
    if scheduler is not None:
        scheduler.step()
""",
        """
for x, y in loader:
    with runtime.accumulate() as window:
        if window.starts:
            optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        if window.ends:
            if limit:
                nn.utils.clip_grad_norm_(model.parameters(), limit)
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
""",
    ),
    "a counter of steps, and what it decides": (
        """
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    count += 1
    if count % 5 == 0:
        print(count)
    if count >= limit:
        break
""",
        """
for x, y in loader:
    with runtime.accumulate() as window:
        if window.starts:
            optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        if window.ends:
            optimizer.step()
            count += 1
    if window.ends:
        if count % 5 == 0:
            print(count)
        if count >= limit:
            break
""",
    ),
    "a counter further down": (
        """
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    total += loss.item()
    if count % 10 == 0:
        print(count, total)
    print("next")
    count += 1
    if count >= limit:
        break
""",
        """
for x, y in loader:
    with runtime.accumulate() as window:
        loss = criterion(model(x), y)
        loss.backward()
        if window.ends:
            optimizer.step()
    total += loss.item()
    if window.ends:
        if count % 10 == 0:
            print(count, total)
    print("next")
    if window.ends:
        count += 1
        if count >= limit:
            break
""",
    ),
    "a counter before the step": (
        """
for x, y in loader:
    count += 1
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    if count >= limit:
        break
""",
        """
for x, y in loader:
    with runtime.accumulate() as window:
        if window.starts:
            count += 1
        loss = criterion(model(x), y)
        loss.backward()
        if window.ends:
            optimizer.step()
    if window.ends:
        if count >= limit:
            break
""",
    ),
    "a counter of batches stays": (
        """
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    count += 1
    total += loss.item()
    if count % 5 == 0:
        print(total / count)
""",
        """
for x, y in loader:
    with runtime.accumulate() as window:
        if window.starts:
            optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        if window.ends:
            optimizer.step()
    count += 1
    total += loss.item()
    if count % 5 == 0:
        print(total / count)
""",
    ),
    "two optimizers of one loss": (
        """
other = optim.SGD(model.fc.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    other.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    other.step()
""",
        """
other = optim.SGD(model.fc.parameters(), lr=0.1)
for x, y in loader:
    with runtime.accumulate() as window:
        if window.starts:
            optimizer.zero_grad()
            other.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        if window.ends:
            optimizer.step()
            other.step()
""",
    ),
    "the name is taken": (
        """
window = 3
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
""",
        """
window = 3
for x, y in loader:
    with runtime.accumulate() as accumulation:
        loss = criterion(model(x), y)
        loss.backward()
        if accumulation.ends:
            optimizer.step()
""",
    ),
    "a skipped batch": (
        """
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    if loss.isnan():
        continue
    loss.backward()
    optimizer.step()
""",
        """
for x, y in loader:
    with runtime.accumulate() as window:
        if window.starts:
            optimizer.zero_grad()
        loss = criterion(model(x), y)
        if loss.isnan():
            continue
        loss.backward()
        if window.ends:
            optimizer.step()
""",
    ),
    "a scheduler that is rarer": (
        """
for i, (x, y) in enumerate(loader):
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    if i % 3 == 0:
        scheduler.step()
""",
        """
for i, (x, y) in enumerate(loader):
    with runtime.accumulate() as window:
        loss = criterion(model(x), y)
        loss.backward()
        if window.ends:
            optimizer.step()
    if i % 3 == 0:
        scheduler.step()
""",
    ),
}
COUNTED = ("a counter of steps, and what it decides", "a counter further down", "a counter before the step")


@pytest.mark.parametrize("case", REWRITES)
def test_window(case: str) -> None:
    before, after = REWRITES[case]
    findings = ["DST207"] if case in COUNTED else []
    check_rewritten("accumulate", BUILD + before, BUILD + after, findings, again=[], accumulate=4)


@pytest.mark.parametrize("case", REWRITES)
def test_no_window_any_more(case: str) -> None:
    after, before = REWRITES[case]
    check_rewritten("accumulate", BUILD + before, BUILD + after, accumulate=1)


@pytest.mark.parametrize("case", ["plain", "conditions of the user"])
def test_noop(case: str) -> None:
    before, after = REWRITES[case]
    check_noop("accumulate", BUILD + before)
    check_noop("accumulate", BUILD + before, accumulate=1)
    check_noop("accumulate", BUILD + after)
    check_noop("accumulate", BUILD + after, accumulate=8)
    check_noop("accumulate", "runtime.init(accumulate=4)\n" + BUILD + after)


SCHEDULED = """
def warm(optimizer, total):
    return optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / total))


steps = 3 * len(loader)
scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps)
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    scheduler.step()
"""
SCHEDULES = {
    "length by name": (SCHEDULED, ["DST207"]),
    "through a function": (
        SCHEDULED.replace("optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps)", "warm(optimizer, steps)"),
        ["DST207"],
    ),
    "directly": (SCHEDULED.replace("total_steps=steps", "total_steps=len(loader)"), ["DST207"]),
    "divided": (SCHEDULED.replace("len(loader)", "(len(loader) // 4)"), []),
    "stepped per pass": (SCHEDULED.replace("    scheduler.step()", "scheduler.step()"), []),
    "another length": (SCHEDULED.replace("total_steps=steps", "total_steps=30"), []),
}


@pytest.mark.parametrize("case", SCHEDULES)
def test_a_schedule_that_counts_batches(case: str) -> None:
    source, codes = SCHEDULES[case]
    _, findings = outcome("accumulate", script(BUILD + source), Options(accumulate=4))
    assert [item.code for item in findings] == codes
    assert all(item.level == "warning" for item in findings)
    assert not outcome("accumulate", script(BUILD + source), Options())[1]


def test_batches_that_are_left_whole_are_no_exact_windows() -> None:
    source = (
        BUILD
        + """
def fit(x, y):
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()

for x, y in loader:
    loss = criterion(model(torch.zeros(4, 4)), torch.zeros(4, dtype=torch.long))
    loss.backward()
    optimizer.step()
for x, y in loader:
    fit(x, y)
"""
    )
    _, findings = outcome("accumulate", script(source), Options(accumulate=4))
    assert ("DST214", "warning") in [(item.code, item.level) for item in findings]


def test_a_line_that_was_added_to_a_window() -> None:
    _, converted = REWRITES["plain"]
    before = converted.replace("        if window.ends:", "        scheduler.step()\n        if window.ends:")
    after = converted.replace(
        "        if window.ends:", "        if window.ends:\n            scheduler.step()\n        if window.ends:"
    )
    check_rewritten("accumulate", BUILD + before, BUILD + after, accumulate=4)


def test_a_window_that_the_user_asks_stays() -> None:
    _, converted = REWRITES["plain"]
    text = converted + "    if window.ends and total > 1:\n        print(total)\n"
    check_noop("accumulate", BUILD + text, accumulate=1)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (
            "DST205",
            """
def descend(x, y):
    criterion(model(x), y).backward()


for x, y in loader:
    optimizer.zero_grad()
    descend(x, y)
    optimizer.step()
""",
        ),
        (
            "DST204",
            """
for i, (x, y) in enumerate(loader):
    loss = criterion(model(x), y) / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        (
            "DST211",
            """
other = Net()
second = optim.SGD(other.parameters(), lr=0.1)
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
    criterion(other(x), y).backward()
    second.step()
""",
        ),
        (
            "DST211",
            """
nets, optimizers = [Net(), Net()], []
first, second = nets
optimizers = [optim.SGD(first.parameters(), lr=0.1), optim.SGD(second.parameters(), lr=0.1)]
for x, y in loader:
    for net, opt in zip(nets, optimizers):
        opt.zero_grad()
        criterion(net(x), y).backward()
        opt.step()
""",
        ),
        (
            "DST205",
            """
for phase in ("train", "val"):
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)
        if phase == "train":
            loss.backward()
            optimizer.step()
""",
        ),
    ],
)
def test_refused(code: str, text: str) -> None:
    check_noop("accumulate", BUILD + text, [code], accumulate=4)


BY_HAND = """
loader = DataLoader(data, batch_size=4)
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
count = 0
for i, (x, y) in enumerate(loader):
    last = i + 1 == len(loader)
    (F.cross_entropy(model(x), y) / 4).backward()
    count += 1
    {step}
"""


@pytest.mark.parametrize(
    "step",
    [
        "if (i + 1) % 4 == 0 or last:\n        optimizer.step()\n        optimizer.zero_grad()",
        "if i % 4 != 3:\n        continue\n    optimizer.step()\n    optimizer.zero_grad()",
        "if count == 4:\n        optimizer.step()\n        optimizer.zero_grad()\n        count = 0",
        "full = count % 4 == 0\n    if full:\n        optimizer.step()\n        optimizer.zero_grad()",
    ],
)
def test_steps_that_a_script_takes_for_several_batches_are_not_doubled(step: str) -> None:
    _, findings = outcome("accumulate", script(BY_HAND.format(step=step)), Options(accumulate=2))
    assert "DST204" in [item.code for item in findings]


@pytest.mark.parametrize(
    "step",
    [
        "if torch.isfinite(norm):\n        optimizer.step()\n    optimizer.zero_grad()",
        "optimizer.step()\n    optimizer.zero_grad()\n    if i % 4 == 0:\n        continue",
    ],
)
def test_steps_that_a_condition_skips_add_nothing_up(step: str) -> None:
    _, findings = outcome(
        "accumulate", script("norm = torch.ones(())" + BY_HAND.format(step=step)), Options(accumulate=2)
    )
    assert not [item.code for item in findings if item.level == "error"]


EITHER = """
loader = DataLoader(data, batch_size=4)
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = F.cross_entropy(model(x), y)
    if scaler is None:
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    else:
        (3 * loss).backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def test_either_branch_ends_the_window() -> None:
    edits, findings = outcome("accumulate", script("scaler = None" + EITHER), Options(accumulate=2))
    assert not findings
    text = apply(script("scaler = None" + EITHER), edits)
    assert text.count("if window.ends:\n                optimizer.step()\n                optimizer.zero_grad()") == 2
    assert "window.starts" not in text


SCHEDULE = """
restarts = optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 2)
plateau = optim.lr_scheduler.ReduceLROnPlateau(optimizer)
updates = seen = 0
def warm(optimizer, now):
    for group in optimizer.param_groups:
        group["lr"] = 0.1 * min(1.0, now / 10)
for epoch in range(3):
    for i, (x, y) in enumerate(loader):
        seen += 1
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        updates += 1
        share = i / len(loader)
        {}
    if updates > 100:
        break
"""


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("restarts.step(epoch + i / len(loader))", True),
        ("restarts.step(epoch + share)", True),
        ("restarts.step(seen / 10)", True),
        ("plateau.step(loss.item())", True),
        ("runtime.step(restarts, epoch + i / len(loader))", True),
        ("for group in optimizer.param_groups: group['lr'] = 0.1 / (1 + i)", True),
        ("optimizer.param_groups[0]['lr'] = 0.1 * share", True),
        ("warm(optimizer, i)", True),
        ("warm(optimizer, updates)", False),
        ("scheduler.step()", False),
        ("restarts.step(updates / 10)", False),
        ("restarts.step(epoch)", False),
        ("for group in optimizer.param_groups: group['lr'] = 0.1 / (1 + updates)", False),
        ("for group in optimizer.param_groups: group['lr'] *= 0.9 ** epoch", False),
    ],
)
def test_rates_that_follow_batches(line: str, refused: bool) -> None:
    _, findings = outcome("accumulate", script(BUILD + SCHEDULE.format(line)), Options(accumulate=2))
    assert ["DST218"] * refused == [item.code for item in findings if item.level == "error"]


OWN = """
class Plain(optim.Optimizer):
    def __init__(self, params, lr=0.1):
        super().__init__(params, dict(lr=lr))
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.data.add_(p.grad, alpha=-group["lr"])
loader = DataLoader(data, batch_size=4)
model = Net()
optimizer = Plain(model.parameters())
for x, y in loader:
"""


def test_an_optimizer_of_the_program() -> None:
    body = "{}optimizer.zero_grad()\n{}F.cross_entropy(model(x), y).backward()\n{}optimizer.step()\n"
    before = OWN + body.format(*["    "] * 3)
    after = (
        OWN
        + "    with runtime.accumulate() as window:\n"
        + "        if window.starts:\n            optimizer.zero_grad()\n"
        + "        F.cross_entropy(model(x), y).backward()\n"
        + "        if window.ends:\n            optimizer.step()\n"
    )
    check_rewritten("accumulate", before, after, accumulate=4)
