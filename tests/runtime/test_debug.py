"""Ranks that part: under DISTIFY_DEBUG=1 an error on all names both lines; else the timeout ends the wait, and names them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.runtime.forked import Forks

SCRIPT = """
import os
import sys
import time

import torch
from distify import runtime

case = sys.argv[1]
runtime.init()
first = runtime.rank() == 0
x = runtime.split(torch.ones(4, 2))


def log(value):
    return runtime.mean(value).item()  # logs


if case == "call":
    if first:
        runtime.mean(x.mean())  # mean
    else:
        runtime.gather(x)  # gather
elif case == "way":
    if first:
        log(x.mean())  # one way
    else:
        log(x.mean())  # other way
elif case == "shape":
    runtime.sum(x.sum(0)[: 2 - first])  # shape
elif case == "type":
    runtime.sum(x.sum().int() if first else x.sum())  # type
elif case == "more":
    for _ in range(1 + first):
        runtime.any(False)  # any
    runtime.barrier()  # barrier
elif case == "leave":
    runtime.barrier()  # barrier
    if first:
        sys.exit()
    runtime.mean(x.mean())  # waits
elif case == "caught":
    try:
        if first:
            raise OSError("no such sample")
        runtime.mean(x.mean())  # waits
    except OSError:
        pass
    runtime.barrier()  # barrier
elif case == "prepare":
    runtime.prepare(torch.nn.Linear(2, 2 + first))  # prepare
elif case == "forward":
    model = torch.nn.Linear(2, 2)
    runtime.prepare(model)
    if first:
        model(x)  # forward
    runtime.barrier()  # barrier
elif case == "raise":
    if not first:
        raise ValueError("bad sample")
    runtime.mean(x.mean())  # waits
elif case == "abort":
    if not first:
        os.abort()  # aborts, as NCCL's watchdog does
    runtime.mean(x.mean())
elif case == "busy":
    if first:
        with open("waiting", "w") as file:
            file.write(str(os.getpid()))
    else:  # for as long as the other lives
        end = time.monotonic() + 60
        while time.monotonic() < end and not (os.path.exists("waiting") and open("waiting").read()):
            time.sleep(0.1)
        while time.monotonic() < end:
            try:
                os.kill(int(open("waiting").read()), 0)
            except ProcessLookupError:
                print("outlived the other", file=sys.stderr)
                break
            time.sleep(0.1)
    runtime.mean(x.mean())  # waits
"""


def line(comment: str, case: str = "") -> str:
    """Where the script says so: `train.py:NUMBER`."""
    start = SCRIPT.index(f'case == "{case}"') if case else 0
    return f"train.py:{SCRIPT[: SCRIPT.index(f'# {comment}', start)].count(chr(10)) + 1}"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path / "train.py"


DISAGREEMENTS = {
    "call": (
        f"runtime.mean() of a number (float64) at {line('mean')}",
        f"runtime.gather() of float32 at {line('gather')}",
    ),
    "way": (
        f"runtime.mean() of a number (float64) at {line('logs')} in log, called from {line('one way')}",
        f"{line('logs')} in log, called from {line('other way')}",
    ),
    "shape": (f"shape (1,) (float64) at {line('shape')}", f"shape (2,) (float64) at {line('shape')}"),
    "type": (f"a number (int64) at {line('type')}", f"a number (float64) at {line('type')}"),
    "more": (f"runtime.any() at {line('any')}", f"runtime.barrier() at {line('barrier', 'more')}"),
    "leave": (
        f"the end of the run, which came after runtime.barrier() at {line('barrier', 'leave')}",
        f"runtime.mean() of a number (float64) at {line('waits')}",
    ),
    "caught": (
        f"runtime.barrier() at {line('barrier', 'caught')}",
        f"runtime.mean() of a number (float64) at {line('waits', 'caught')}",
    ),
    "prepare": ("runtime.prepare() of Linear with 2 tensors, 9 elements", "Linear with 2 tensors, 6 elements"),
    "forward": (
        f"the forward of Linear at {line('forward', 'forward')}",
        f"runtime.barrier() at {line('barrier', 'forward')}",
    ),
}


def test_both_lines_are_named_on_all_ranks(forks: Forks, script: Path) -> None:
    debug = {"DISTIFY_DEBUG": "1", "DISTIFY_TIMEOUT": "90"}
    backends = {"forward": {"DISTIFY_BACKEND": "fsdp"}}
    runs = [(script, [case], 2, {**debug, **backends.get(case, {})}, None) for case in DISAGREEMENTS]
    for case, ended in zip(DISAGREEMENTS, forks.together(runs), strict=True):
        assert [e.code for e in ended] == [1, 1], (case, ended)
        for e in ended:
            text = re.sub(r"^\[rank\d\]: ?", "", e.stderr, flags=re.M)
            assert "ranks disagree about what comes next:" in text, (case, e.stderr)
            for rank, side in enumerate(DISAGREEMENTS[case]):
                assert re.search(rf"^  rank {rank}: .*{re.escape(side)}(?!\d)", text, re.M), (case, side, text)
        assert max(e.seconds for e in ended) < 80, "they waited until the time-out"


def test_without_debugging_a_wait_ends_and_names_the_lines(forks: Forks, script: Path) -> None:
    limited = {"DISTIFY_TIMEOUT": "5"}
    cases = "call", "busy", "raise", "abort"
    call, busy, failed, aborted = forks.together([(script, [case], 2, limited, None) for case in cases])
    assert aborted[1].code == -6
    assert re.search(rf'File ".*train\.py", line {line("aborts").partition(":")[2]} in <module>', aborted[1].stderr), (
        aborted
    )
    mean, gather, waits = line("mean"), line("gather"), line("waits", "busy")
    assert [e.code for e in (*call, *failed)] == [1] * 4
    assert re.search(rf"rank 0 .* in runtime\.mean\(\) at {mean}[,:]", call[0].stderr), call
    assert re.search(rf"rank 1 .* in runtime\.gather\(\) at {gather}[,:]", call[1].stderr), call
    told = f"Rank 1 waited in runtime.gather() at {gather}", f"Rank 0 waited in runtime.mean() at {mean}"
    assert any(text in e.stderr for text, e in zip(told, call, strict=True)), call
    assert busy[0].code == 1
    assert re.search(
        rf"rank 0 waited in vain .* in runtime\.mean\(\) at {waits}, as long as DISTIFY_TIMEOUT", busy[0].stderr
    )
    assert "outlived the other" in busy[1].stderr, "it waited on, though nobody came"
    assert "Rank 1 failed with ValueError: bad sample at train.py:" in failed[0].stderr, failed
    assert f"lost the others in runtime.mean() at {line('waits', 'raise')}" in failed[0].stderr
    assert "frame #0" not in failed[0].stderr
    assert max(e.seconds for e in failed) < 40
