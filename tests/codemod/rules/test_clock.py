"""Decisions by the clock are taken together; what only measures or shows time stays."""

from __future__ import annotations

import pytest

from tests.codemod.helpers import convert
from tests.codemod.rules.checks import HEAD, check_noop, check_rewritten

TRAIN = """
import time
from time import perf_counter
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
start, limit = time.time(), 60
for x, y in DataLoader(data, batch_size=4):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    {inside}
"""

REWRITES = {
    "break": (
        "if time.time() - start > limit:\n        break",
        "if runtime.any(time.time() - start > limit):\n        break",
    ),
    "by a name": (
        "spent = time.time() - start\n    if spent > limit:\n        break",
        "spent = time.time() - start\n    if runtime.any(spent > limit):\n        break",
    ),
    "with another condition": (
        "if limit and perf_counter() > limit:\n        raise SystemExit",
        "if runtime.any(limit and perf_counter() > limit):\n        raise SystemExit",
    ),
    "by a flag": (
        "over = time.time() - start > limit\n    if over:\n        break",
        "over = time.time() - start > limit\n    if runtime.any(over):\n        break",
    ),
    "by a file": (
        "if os.path.exists('STOP'):\n        break",
        "if runtime.any(os.path.exists('STOP')):\n        break",
    ),
    "an evaluation": (
        "if time.time() > limit:\n        print(model(x).sum())",
        "if runtime.any(time.time() > limit):\n        print(model(x).sum())",
    ),
}

NOOPS = {
    "shown": "if time.time() - start > limit:\n        print('slow')",
    "measured": "spent = time.time() - start\n    print(spent)",
    "converted": "if runtime.any(time.time() - start > limit):\n        break",
    "other conditions": "if loss > limit:\n        break",
    "waited": "time.sleep(0)\n    if loss > limit:\n        break",
    "a file that stops nothing": "if os.path.exists('LOUD'):\n        print(loss.item())",
    "agreed on already": "over = runtime.any(time.time() - start > limit)\n    if over:\n        break",
    "a name of the script's own": "spent = len(x)\n    if spent > limit:\n        break",
}


@pytest.mark.parametrize("case", REWRITES)
def test_rewritten(case: str) -> None:
    before, after = REWRITES[case]
    check_rewritten("clock", TRAIN.format(inside=before), TRAIN.format(inside=after))


@pytest.mark.parametrize("case", NOOPS)
def test_noop(case: str) -> None:
    check_noop("clock", TRAIN.format(inside=NOOPS[case]))


OBJECT = """
import time
class Timer:
    def __init__(self, limit):
        self.begun, self.limit = time.time(), limit
    def over(self):
        return time.time() - self.begun > self.limit
    @property
    def left(self):
        return self.limit - self.over()
timer = Timer(60)
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
while not {first}:
    for x, y in DataLoader(data, batch_size=4):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if {second}:
            break
"""


def test_methods_and_properties_carry_the_time() -> None:
    before = OBJECT.format(first="timer.over()", second="timer.left < 1")
    after = before.replace("while not timer.over()", "while runtime.any(not timer.over())")
    check_rewritten("clock", before, after.replace("if timer.left < 1", "if runtime.any(timer.left < 1)"))


SIGNAL = """
import signal
stop = False
def handler(number, frame):
    global stop
    stop = True
signal.signal(signal.SIGTERM, handler)
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(data, batch_size=4):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if stop:
        break
"""


def test_signals_reach_processes_one_by_one() -> None:
    check_rewritten("clock", SIGNAL, SIGNAL.replace("if stop:", "if runtime.any(stop):"))


RESUMED = "for x, y in DataLoader(data, batch_size=4):\n"
FILES = {
    "a load": ("if os.path.exists('a.pt'):\n    state = torch.load('a.pt')\n", "runtime.any(os.path.exists('a.pt'))"),
    "a way out": (
        "def cached(path):\n    if os.path.exists(path):\n        return np.load(path)\n    made = np.zeros(3)\n"
        "    np.save(path, made)\n    return made\n",
        "runtime.any(os.path.exists(path))",
    ),
    "taken in turn": (
        "if not os.path.exists('a.pt'):\n    torch.save(torch.zeros(3), 'a.pt')\n",
        "with runtime.main_first():\n    if not os.path.exists('a.pt'):\n        runtime.save(",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_decide_over_what_needs_all(name: str) -> None:
    before, expected = FILES[name]
    source = TRAIN.format(inside="pass").replace(RESUMED, before + RESUMED)
    result = convert("import os\nimport numpy as np\n" + HEAD + source)
    assert expected in result.data.decode()
    assert convert(result.data.decode()).data == result.data


def test_what_a_sample_needs_is_nobody_elses_matter() -> None:
    fetch = (
        "class Rows(torch.utils.data.Dataset):\n    def __getitem__(self, i):\n        return self.row(f'{i}.pt')\n"
        "    def row(self, path):\n        if not os.path.exists(path):\n            torch.save(torch.zeros(3), path)\n"
        "        return torch.load(path)\n"
    )
    source = TRAIN.format(inside="pass").replace(RESUMED, fetch + RESUMED)
    result = convert("import os\n" + HEAD + source)
    assert fetch in result.data.decode()
