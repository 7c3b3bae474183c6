"""Gradients that a script adds up by itself: backwards are told when they are needed, by the script's own condition."""

from __future__ import annotations

import pytest

from distify.codemod.options import Options
from tests.codemod.rules.checks import check_noop, check_rewritten, outcome, script

BUILD = """
import argparse
args = argparse.Namespace(k=4, train=True)
loader = DataLoader(data, batch_size=4)
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
count, k = 0, 4
held = {"train": loader, "k": 4}
"""
LOOP = """
for i, (x, y) in enumerate(loader):
    runtime.backward(runtime.mean(F.cross_entropy(model(x), y)) / k{sync})
    {between}
    if {test}:
        runtime.clip_grad_norm_(model.parameters(), 1.0)
        runtime.step(optimizer)
        optimizer.zero_grad()
    {after}
"""


def loop(test: str, sync: str = "", between: str = "pass", after: str = "pass") -> str:
    sync = f", sync={sync}" if sync else ""
    return BUILD + LOOP.format(test=test, sync=sync, between=between, after=after)


@pytest.mark.parametrize(
    ("test", "between", "sync"),
    [
        ("(i + 1) % k == 0", "pass", "(i + 1) % k == 0"),
        ("(i + 1) % k == 0 or i + 1 == len(loader)", "pass", "(i + 1) % k == 0 or i + 1 == len(loader)"),
        ("not (i + 1) % args.k", "pass", "not (i + 1) % args.k"),
        ("count % k == 0", "count += 1", "(count + 1) % k == 0"),
        ("count % k == 0", "count = count + 1", "(count + 1) % k == 0"),
        ("last", "last = i % k == 3", "i % k == 3"),
        ("count % k == 0", "print(count); count += 1", "(count + 1) % k == 0"),
        ("count % k == 0", "other = 3", "count % k == 0"),
        ("(i + 1) % k == 0 or i + 1 == len(held['train'])", "pass", "(i + 1) % k == 0 or i + 1 == len(held['train'])"),
    ],
)
def test_the_condition_of_the_step(test: str, between: str, sync: str) -> None:
    check_rewritten("unsynced", loop(test, "", between), loop(test, sync, between))


@pytest.mark.parametrize(
    ("test", "between"),
    [
        ("count % k == 0", "count = int(input())"),
        ("count % k == 0", "for count in range(3): pass"),
        ("i % held['k'] == 0", "held['k'] = int(input())"),
        ("ready(i) % k == 0", "pass"),
        ("y.sum() % k == 0", "pass"),
        ("(i + 1) % k == 0", "print(model.fc.weight.grad)"),
    ],
)
def test_what_cannot_be_told(test: str, between: str) -> None:
    edits, findings = outcome("unsynced", script(loop(test, "", between)), Options())
    assert not edits
    assert [(item.code, item.level) for item in findings] == [("DST217", "note")]


def test_gradients_are_read_elsewhere() -> None:
    """Between two steps they are those of this process's rows only."""
    after = "print(model.fc.weight.grad.norm())"
    edits, findings = outcome("unsynced", script(loop("(i + 1) % k == 0", "", "pass", after)), Options())
    assert not edits
    assert [item.code for item in findings] == ["DST217"]


FORMS = {
    "continue": (
        """
for i, (x, y) in enumerate(loader):
    runtime.backward(runtime.mean(F.cross_entropy(model(x), y)) / k{})
    if (i + 1) % k != 0 and i + 1 < len(loader):
        continue
    runtime.step(optimizer)
    optimizer.zero_grad()
""",
        "(i + 1) % k == 0 or not i + 1 < len(loader)",
    ),
    "both conditions": (
        """
for i, (x, y) in enumerate(loader):
    with runtime.autocast():
        runtime.backward(runtime.mean(F.cross_entropy(model(x), y)) / k{})
    if args.train:
        if (i + 1) % k == 0:
            runtime.step(optimizer)
            optimizer.zero_grad()
""",
        "args.train and (i + 1) % k == 0",
    ),
    "counted": (
        """
batches = iter(loader)
for step in range(3):
    optimizer.zero_grad()
    for micro in range(args.k):
        x, y = next(batches)
        runtime.backward(runtime.mean(F.cross_entropy(model(x), y)) / args.k{})
    runtime.step(optimizer)
""",
        "micro == args.k - 1",
    ),
    "a number": (
        """
batches = iter(loader)
for step in range(3):
    optimizer.zero_grad()
    for micro in range(4):
        x, y = next(batches)
        runtime.backward(runtime.mean(F.cross_entropy(model(x), y)) / 4{})
    runtime.step(optimizer)
""",
        "micro == 3",
    ),
    "a last step of its own": (
        """
for epoch in range(2):
    for i, (x, y) in enumerate(loader):
        runtime.backward(runtime.mean(F.cross_entropy(model(x), y)) / k{})
        if (i + 1) % k == 0:
            runtime.step(optimizer)
            optimizer.zero_grad()
    if len(loader) % k:
        runtime.step(optimizer)
        optimizer.zero_grad()
""",
        "(i + 1) % k == 0",
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    text, sync = FORMS[name]
    check_rewritten("unsynced", BUILD + text.format(""), BUILD + text.format(f", sync={sync}"))


SCALED = """
scaler = torch.amp.GradScaler("cuda")
for epoch in range(2):
    for i, (x, y) in enumerate(loader):
        runtime.backward(scaler.scale(runtime.mean(F.cross_entropy(model(x), y)) / k))
        if (i + 1) % k == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    {}
"""


def test_a_scaler_of_torch_reads_gradients_by_itself() -> None:
    """It goes past the runtime, which could not complete what it would read after the loop."""
    edits, _ = outcome("unsynced", script(BUILD + SCALED.format("pass")), Options())
    assert edits
    edits, findings = outcome("unsynced", script(BUILD + SCALED.format("scaler.step(optimizer)")), Options())
    assert not edits
    assert [item.code for item in findings] == ["DST217"]


PLAIN = """
for x, y in loader:
    optimizer.zero_grad()
    loss = runtime.mean(F.cross_entropy(model(x), y))
    runtime.backward(loss)
    if args.train:
        runtime.step(optimizer)
"""
HEADS = """
for x, y in loader:
    optimizer.zero_grad()
    out = model(x)
    for target in (y, 1 - y):
        runtime.backward(runtime.mean(F.cross_entropy(out, target)), retain_graph=True)
    runtime.step(optimizer)
"""


@pytest.mark.parametrize("text", [PLAIN, HEADS])
def test_steps_of_one_batch_are_left(text: str) -> None:
    check_noop("unsynced", BUILD + text)


def test_windows_of_the_runtime_know_by_themselves() -> None:
    edits, findings = outcome("unsynced", script(loop("(i + 1) % k == 0")), Options(accumulate=2))
    assert not edits
    assert not findings
