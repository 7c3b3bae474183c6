"""Faults of real processes: ranks that raise, are killed, are asked to stop; files that can't be written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.runtime.forked import Forks

TRAIN = """
import os
import signal
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
from distify import runtime

fault, moment = (*sys.argv[1:], "", "")[:2]
first_time = not os.path.exists("happened")


def happen(now, number, process=None):
    # The fault, once in all attempts, on rank 1.
    if now == moment and runtime.rank() == 1 and not os.path.exists("happened"):
        open("happened", "x").close()
        os.kill(process or os.getpid(), number)


class Data(Dataset):
    def __len__(self):
        return 44

    def __getitem__(self, k):
        if k == 17 and fault == "term":
            happen("fetch", signal.SIGTERM)
        x = torch.arange(6.0).add(k).sin()
        return x, x.sum().reshape(1)


def save(**values):
    if fault == "term":
        happen("save", signal.SIGTERM)
    runtime.save_state("run", scheduler=scheduler, **values)
    print("saved", values, file=sys.stderr)


runtime.init()
torch.manual_seed(0)
loader = runtime.shard(DataLoader(Data(), batch_size=8, shuffle=True))
model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.0), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
runtime.prepare(model, optimizer)
at = {"epoch": 0, "step": 0}
if runtime.latest("run"):
    at = runtime.load_state("run", scheduler=scheduler)
runtime.stopping()  # from here on a signal waits to be asked for
for epoch in range(at["epoch"], 3):
    for x, y in loader:
        optimizer.zero_grad()
        loss = runtime.mean(F.mse_loss(model(x), y))
        if at["step"] == 9 and fault == "kill":
            happen("backward", signal.SIGKILL)
        runtime.backward(loss)
        if at["step"] == 9 and fault == "term":
            happen("backward", signal.SIGTERM)
        if at["step"] == 9 and fault == "agent":
            happen("backward", signal.SIGTERM, os.getppid())
        runtime.step(optimizer)
        print(epoch, at["step"], f"{loss.item():.6f}", torch.rand(1).item())
        at["step"] += 1
        if runtime.stopping():
            save(epoch=epoch, step=at["step"])
            raise SystemExit(143)
    runtime.step(scheduler)
    save(epoch=epoch + 1, step=at["step"])
print("end", f"{sum(p.double().abs().sum().item() for p in model.parameters()):.8f}")
"""


FILES = """
import os
import resource
import sys

import torch
from distify import runtime

case, path = sys.argv[1:]
runtime.init()
model = torch.nn.Linear(100, 100)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
runtime.prepare(model, optimizer)


def fail():
    raise FileNotFoundError("no such data")


if case == "on_main":
    runtime.on_main(fail)
elif case.startswith("main_first"):
    with runtime.main_first():
        if case.endswith(str(runtime.rank())):
            fail()
elif case == "save":
    runtime.save(runtime.state_dict(model), path)
elif case == "state":
    runtime.save_state(path)
elif case.startswith("full"):
    runtime.save_state("run", number=1)
    runtime.save(runtime.state_dict(model), "model.pt")
    if case[4:] in ("", str(runtime.rank())):
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
    try:
        runtime.save_state("run", number=2)
    except Exception as error:
        print(f"state: {type(error).__name__}: {error}", file=sys.stderr)
    print(runtime.load_state("run"), os.listdir("run"), file=sys.stderr)
    try:
        runtime.save({"a": torch.zeros(10_000)}, "model.pt")
    except Exception as error:
        print(f"file: {type(error).__name__}: {error}", file=sys.stderr)
    print(sorted(runtime.load("model.pt")), sorted(os.listdir(".")), file=sys.stderr)
"""

KILLED = """
import os
import random
import signal
import sys
import time

import torch
from distify import runtime

# Twenty times: a process that saves without end is killed, at a random moment after its first save of this life; the
# next finds what the last save that returned has written, or the one after.
draws, killed = random.Random(0), 0


def life(delay):
    runtime.init()
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.Adam(model.parameters())
    runtime.prepare(model, optimizer)
    number = 0
    if runtime.latest("run"):
        number = runtime.load_state("run")["number"]
        promised = int(open("done").read() or 0)
        assert promised <= number <= promised + 1, (promised, number)
        assert all(bool((p == number).all()) for p in model.parameters()), number
    parent, begun = os.getpid(), False
    while True:
        number += 1
        with torch.no_grad():
            for p in model.parameters():
                p.fill_(number)
        runtime.save_state("run", keep=0, number=number)
        with open("done.new", "w") as file:
            file.write(str(number))
        os.replace("done.new", "done")
        if not begun and os.fork() == 0:
            time.sleep(delay)
            os.kill(parent, signal.SIGKILL)
            os._exit(0)
        begun = True


open("done", "w").close()
for _ in range(21):
    delay = draws.uniform(0.0, 0.05)
    process = os.fork()
    if process == 0:
        try:
            life(delay)
        except BaseException as error:
            sys.stderr.write(f"{type(error).__name__}: {error}")
            sys.stderr.flush()
        os._exit(1)
    _, status = os.waitpid(process, 0)
    killed += os.waitstatus_to_exitcode(status) == -signal.SIGKILL
print(killed, sorted(name.partition(".")[2] for name in os.listdir("run")))
"""


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    made = {}
    for name in ("whole", "kill", "agent", "backward", "fetch", "save"):
        (tmp_path / name).mkdir()
        made[name] = tmp_path / name / "train.py"
        made[name].write_text(TRAIN)
    return made


def test_a_run_goes_on_after_a_kill_and_after_a_request_to_stop(forks: Forks, folders: dict[str, Path]) -> None:
    env = {"DISTIFY_TIMEOUT": "90"}
    asked = ("backward", "fetch", "save")
    runs = [
        (folders["whole"], [], 2, env, None),
        (folders["kill"], ["kill", "backward"], 2, env, 1),
        (folders["agent"], ["agent", "backward"], 2, env, 1),
        *((folders[moment], ["term", moment], 2, env, None) for moment in asked),
    ]
    whole, (killed,), (agent,), *stopped = forks.together(runs)
    assert [e.code for e in whole] == [0, 0], whole
    lines = whole[0].stdout.splitlines()
    assert len(lines) == 3 * 6 + 1

    # The elastic agent starts both again, and they go on where the last checkpoint was.
    assert killed.code == 0, killed.stderr
    parts = killed.stdout.splitlines()
    assert parts[:9] == lines[:9]
    assert parts[9:] == lines[6:], (parts, lines)
    assert re.search(r"rank 0 lost the others in runtime\.backward\(\) at train\.py:\d+", killed.stderr), killed.stderr
    assert killed.seconds < 80, "it waited until the time-out"

    # Asked to stop: saved once more, on all ranks at the same step, ended with the status of the signal.
    for moment, ended in zip(asked, stopped, strict=True):
        assert [e.code for e in ended] == [143, 143], (moment, ended)
    assert agent.code == 1
    assert "SIGTERM" in agent.stderr or "Signal" in agent.stderr or "signal" in agent.stderr, agent.stderr
    before = {**dict(zip(asked, (ended[0] for ended in stopped), strict=True)), "agent": agent}
    again = forks.together([(folders[name], ["", ""], 2, env, None) for name in before])
    for (name, first), rest in zip(before.items(), again, strict=True):
        told = first.stdout.splitlines()
        assert 0 < len(told) < len(lines), (name, first)
        assert [e.code for e in rest] == [0, 0], (name, rest)
        assert told + rest[0].stdout.splitlines() == lines, name
        extra = [
            line for line in first.stderr.splitlines() if line.startswith("saved") and f"'step': {len(told)}}}" in line
        ]
        assert len(extra) == (2 if name == "agent" else 1), (name, first.stderr)  # the agent's is that of both ranks


def test_a_kill_in_a_save_leaves_a_checkpoint(forks: Forks, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(KILLED)
    (ended,) = forks.run(tmp_path / "train.py", ranks=1)
    assert ended.code == 0
    assert ended.stdout.startswith("21 ["), ended
    assert ended.stderr == "", ended


GUARDED = {"on_main": 0, "main_first0": 0, "main_first1": 1}


def test_a_failure_in_a_guarded_block_ends_all_ranks(forks: Forks, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FILES)
    runs = [(tmp_path / "train.py", [case, ""], 2, {}, None) for case in GUARDED]
    for (case, rank), ended in zip(GUARDED.items(), forks.together(runs), strict=True):
        assert [e.code for e in ended] == [1, 1], (case, ended)
        assert "FileNotFoundError: no such data" in ended[rank].stderr, case
        other = ended[1 - rank].stderr
        assert f"RankFailed: rank {rank} raised inside a guarded block" in other, (case, other)
        assert "FileNotFoundError: no such data" in other, case
        assert max(e.seconds for e in ended) < 15, case


def test_files_that_cannot_be_written_are_one_clear_error_on_all_ranks(forks: Forks, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(FILES)
    (tmp_path / "file").touch()
    places = {"under": str(tmp_path / "file" / "run"), "readonly": "/sys/run", "absent": str(tmp_path / "no" / "run")}
    cases = [(kind, place) for place in ("under", "readonly") for kind in ("state", "save")] + [("save", "absent")]
    runs = [(script, [kind, places[place]], 2, {}, None) for kind, place in cases]
    for (kind, place), ended in zip(cases, forks.together(runs), strict=True):
        assert [e.code for e in ended] == [1, 1], (kind, place, ended)
        for e in ended:
            last = [line for line in e.stderr.splitlines() if places[place] in line][-1]
            assert re.search(r"Not a directory|No such file|not permitted|[Rr]ead-only|does not exist", last), (
                kind,
                last,
            )
            assert f"runtime.{kind.replace('state', 'save_state')}({places[place]!r})" in last, last
        assert max(e.seconds for e in ended) < 15


def test_a_full_disk_is_one_clear_error_on_all_ranks_and_takes_nothing(forks: Forks, tmp_path: Path) -> None:
    runs = []
    for rank in (0, 1):
        (tmp_path / str(rank)).mkdir()
        (tmp_path / str(rank) / "train.py").write_text(FILES)
        runs.append((tmp_path / str(rank) / "train.py", [f"full{rank}", ""], 2, {}, None))
    for full, ended in enumerate(forks.together(runs)):
        assert [e.code for e in ended] == [0, 0], ended
        for e in ended:
            found = dict(
                line.split(": ", 1) for line in e.stderr.splitlines() if line.startswith(("state: ", "file: "))
            )
            assert re.fullmatch(
                rf"CheckpointError: runtime\.save_state\('run'\): rank {full}: .*File too large.*", found["state"]
            ), (full, e.stderr)
            assert "{'number': 1} ['state-00000001']" in e.stderr, e.stderr
            if full == 0:  # who writes the file
                assert re.search(r"runtime\.save\('model\.pt'\): .*File too large", e.stderr), e.stderr
                assert "file" in found, e.stderr
                assert "['bias', 'weight'] ['model.pt', 'run', 'train.py']" in e.stderr


ODD_ENDS = """
import signal
import sys
import time

import torch
from distify import runtime
from distify.runtime import faults, saved_files

faults.GRACE = 1
runtime.init()
case, first = sys.argv[1], runtime.rank() == 0
model = torch.nn.Linear(2, 2)
runtime.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
if case == "exits" and not first:
    sys.exit(3)
if case == "signal" and not first:

    def handler(*args):  # as torch's own, when a worker of a loader was killed
        raise RuntimeError("what came meanwhile")

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
if case == "writing":
    record = saved_files.record
    saved_files.record = lambda *args: (time.sleep(0.5), record(*args))
    runtime.save_state("run", asynchronous=True)
    raise ValueError("after it")
if case == "signal" and first:
    time.sleep(1.5)
runtime.barrier()
"""


def test_ends_of_one_rank_alone_and_beside_a_checkpoint(forks: Forks, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ODD_ENDS)
    limit = {"DISTIFY_TIMEOUT": "60"}
    runs = [(tmp_path / "train.py", [case], 2, limit, None) for case in ("exits", "signal", "writing")]
    exits, signalled, writing = forks.together(runs)
    assert [e.code for e in exits] == [1, 3]
    assert "Rank 1 has come to the end of its script" in exits[0].stderr
    assert signalled[1].code == 1
    assert "\n[rank1]: RuntimeError: what came meanwhile" in signalled[1].stderr, signalled[1].stderr
    assert [e.code for e in writing] == [1, 1]
    assert not any("in thread" in e.stderr for e in writing)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["state-00000001"]
    assert max(e.seconds for run in (exits, signalled, writing) for e in run) < 30
