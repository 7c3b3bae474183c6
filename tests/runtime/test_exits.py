"""A run that can't start as it is configured: one line on standard error, exit status 2, no traceback."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from distify import runtime
from distify.runtime.config import ConfigError
from distify.runtime.exits import Misconfigured, speaks
from distify.runtime.launcher import LaunchError, read_launcher
from distify.runtime.state import state
from tests.runtime.forked import Forks

SCRIPT = """
import sys
from distify import runtime

def main():
    try:
        runtime.init({options})
    except Exception as error:
        print("hidden", error)
    print("went on")

main()
"""
SEEDED: dict[str, str | None] = {"PYTHONHASHSEED": "0", "DISTIFY_ALL_RANKS": None}
NO_LAUNCHER = dict.fromkeys(("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def write(folder: Path, options: str = "", table: str = "") -> Path:
    (folder / "train.py").write_text(SCRIPT.format(options=options))
    if table:
        (folder / "pyproject.toml").write_text(table)
    return folder / "train.py"


@pytest.mark.parametrize(
    ("options", "table", "variables", "message"),
    [
        ("backend='fdsp'", "", {}, r"train\.py:7: runtime\.init\(backend=…\): unknown value 'fdsp', did you mean"),
        ("", "", {"DISTIFY_PRECISION": "half"}, r"DISTIFY_PRECISION: unknown value 'half'"),
        ("", "", {"DISTIFY_BACKENDS": "ddp"}, r"unknown environment variable DISTIFY_BACKENDS, did you mean"),
        ("", "", {"DISTIFY_TIMEOUT": "soon"}, r"DISTIFY_TIMEOUT='soon' is not a positive number of seconds"),
        ("", "", {"DISTIFY_TRACE": "absent/trace"}, r"DISTIFY_TRACE=absent/trace: no file can be written"),
        ("", "[tool.distify]\nbackand = 'ddp'\n", {}, r"pyproject\.toml: \[tool\.distify\]: unknown key 'backand'"),
        ("", "[tool.distify]\nbackend = \n", {}, r"pyproject\.toml can't be read: .*line 2"),
        ("backend='ddp', zero_stage=3", "", {}, r"zero_stage=…\): 3 is a stage of DeepSpeed's ZeRO, but .* 'ddp'"),
        ("", "", {"WORLD_SIZE": "two"}, r"WORLD_SIZE='two' is not a whole number.*torchrun"),
        ("", "", {"MASTER_ADDR": None}, r"MASTER_ADDR is not set\. Start with `torchrun"),
    ],
)
def test_all_ranks_fail_alike_and_one_says_so(
    options: str, table: str, variables: dict[str, str | None], message: str, tmp_path: Path, forks: Forks
) -> None:
    ended = forks.run(write(tmp_path, options, table), (), 2, {**SEEDED, **variables})
    assert [e.code for e in ended] == [2, 2], ended
    assert [e.stdout for e in ended] == ["", ""]
    assert ended[1].stderr == ""
    assert re.fullmatch(rf"distify: .*{message}.*\n", ended[0].stderr), ended[0].stderr


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({**NO_LAUNCHER, "DISTIFY_BATCHNORM": "global"}, r"DISTIFY_BATCHNORM: unknown value 'global'"),
        ({**NO_LAUNCHER, "DISTIFY_DEBUG": "yes"}, r"DISTIFY_DEBUG: unknown value 'yes', set it to 1"),
        ({"RANK": "7"}, r"RANK=7 does not fit WORLD_SIZE=1: ranks go from 0 to 0"),
        ({"RANK": None, "LOCAL_RANK": None}, r"but RANK, LOCAL_RANK are not set"),
    ],
)
def test_one_process(variables: dict[str, str | None], message: str, tmp_path: Path, forks: Forks) -> None:
    (ended,) = forks.run(write(tmp_path), (), 1, {**SEEDED, **variables})
    assert (ended.code, ended.stdout) == (2, "")
    assert re.fullmatch(rf"distify: .*{message}.*\n", ended.stderr), ended.stderr


def test_the_launcher_does_not_end_the_rank_that_speaks_before_it_has_spoken(tmp_path: Path, forks: Forks) -> None:
    (tmp_path / "train.py").write_text(
        "import os, time\nfrom distify import runtime\ntime.sleep(2 * (os.environ['RANK'] == '0'))\nruntime.init()\n"
    )
    variables = {**NO_LAUNCHER, **SEEDED, "DISTIFY_BACKEND": "dpd"}
    (ended,) = forks.run(tmp_path / "train.py", (), 2, variables, restarts=0)
    assert ended.code == 1
    assert len(re.findall(r"^distify: DISTIFY_BACKEND: unknown value 'dpd', did you mean", ended.stderr, re.M)) == 1
    assert re.search(r"exitcode: 2\) local_rank: 0|exitcode\s*: 2", ended.stderr)


def test_a_missing_package_is_named_after_the_processes_joined(tmp_path: Path, forks: Forks) -> None:
    (tmp_path / "deepspeed.py").write_text("raise ImportError('no deepspeed here')\n")
    ended = forks.run(write(tmp_path, "backend='deepspeed'"), (), 2, SEEDED)
    assert [(e.code, e.stdout) for e in ended] == [(2, "")] * 2, ended
    assert ended[1].stderr == ""
    found = re.fullmatch(r"distify: .*no deepspeed here.*pip install 'torch-distify\[deepspeed\]'.*\n", ended[0].stderr)
    assert found, ended[0].stderr


def test_a_port_that_is_taken(tmp_path: Path, forks: Forks) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        variables = {**SEEDED, "MASTER_PORT": port, "WORLD_SIZE": "2", "DISTIFY_TIMEOUT": "5"}
        (ended,) = forks.run(write(tmp_path), (), 1, variables)
    assert (ended.code, ended.stdout) == (2, "")
    assert re.search(rf"^distify: rank 0 of 2 can't join .*MASTER_PORT={port}: .*the port is free", ended.stderr, re.M)
    assert "Traceback" not in ended.stderr


def test_more_processes_than_gpus(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the launcher says how many run here, rank 0 speaks; else the first that finds no GPU fails, and says so."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    everyone = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    for size, spoken in (("3", ["0", "1", "2"][:1]), (None, ["2"])):
        for rank in ("0", "1", "2") if size else ("2",):
            for name, value in {**everyone, "RANK": rank, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size}.items():
                monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
            with pytest.raises(Misconfigured, match="--nproc-per-node 2"):
                runtime.init()
            said = capsys.readouterr().err
            assert said.count("\n") == (rank in spoken), (size, rank)
            assert ("3 processes were started on this machine, which has 2 GPUs" in said) == (rank in spoken)
    assert state.config is None


def test_processes_that_would_share_a_gpu(tmp_path: Path, forks: Forks) -> None:
    """Each sees one GPU, and they find out when they meet."""
    (tmp_path / "train.py").write_text(
        "from distify import runtime\nfrom distify.runtime import gpus\n"
        "gpus.unsure = lambda *_: True\ngpus.name_of = lambda _: 'GPU-1'\nruntime.init()\nprint('went on')\n"
    )
    ended = forks.run(tmp_path / "train.py", (), 2, SEEDED)
    assert [(e.code, e.stdout) for e in ended] == [(2, "")] * 2, ended
    assert re.fullmatch(r"distify: 2 processes .* 1 GPU, and ranks 0 and 1 share it\. Start.* 1 .*\n", ended[0].stderr)
    # Rank 0, which keeps the store, may be gone before the other has joined: that one says so then.
    others = [line for line in ended[1].stderr.splitlines() if line.startswith("distify:")]
    assert all("can't join the others" in line for line in others), ended[1].stderr


def test_it_can_be_caught_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Misconfigured, match="did you mean 'ddp'") as caught:
        runtime.init(backend="dpd")
    assert caught.value.code == 2
    assert isinstance(caught.value.error, ConfigError)
    assert not isinstance(caught.value, Exception)
    assert re.fullmatch(r"distify: \S*test_exits\.py:\d+: runtime\.init\(.*\n", capsys.readouterr().err)
    assert state.config is None


@pytest.mark.parametrize(
    ("change", "message", "everywhere"),
    [
        ({"MASTER_PORT": "http"}, "MASTER_PORT='http' is not a port", True),
        ({"MASTER_PORT": "99999"}, "from 1 to 65535", True),
        ({"MASTER_ADDR": "tcp://host"}, "MASTER_ADDR='tcp://host' is not the bare name", True),
        ({"MASTER_ADDR": "10.0.0.1:29500"}, "the port stands in MASTER_PORT", True),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE=0 is no number of processes", True),
        ({"LOCAL_RANK": "2"}, "LOCAL_RANK=2 does not fit 2 processes: it is from 0 to 1", False),
        ({"LOCAL_RANK": "-1"}, "LOCAL_RANK=-1 does not fit", False),
        ({"LOCAL_WORLD_SIZE": "9"}, "LOCAL_WORLD_SIZE=9 does not fit WORLD_SIZE=4", True),
        ({"RANK": "first"}, "RANK='first' is not a whole number", False),
        ({"LOCAL_RANK": ""}, "but LOCAL_RANK is not set", False),
        ({"MASTER_PORT": ""}, "but MASTER_PORT is not set", True),
    ],
)
def test_nonsense_of_a_launcher(change: dict[str, str], message: str, everywhere: bool) -> None:
    good = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "29500"}
    with pytest.raises(LaunchError, match=re.escape(message)) as caught:
        read_launcher({"MASTER_ADDR": "host", **good, **change})
    assert caught.value.everywhere == everywhere
    for address in ("::1", "fe80::1", "node-3", "10.0.0.1", "localhost"):
        assert read_launcher({**good, "MASTER_ADDR": address}) is not None


def test_one_process_of_each_machine_speaks() -> None:
    assert speaks({})
    assert speaks({"RANK": "4", "LOCAL_RANK": "0"})
    assert not speaks({"RANK": "4", "LOCAL_RANK": "1"})
    assert speaks({"RANK": "x"})
    assert not speaks({"SLURM_LOCALID": "3"})


WITHOUT_WINDOWS = """
import torch
from distify import runtime

runtime.init()
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
runtime.prepare(model, optimizer)
runtime.backward(runtime.mean(model(runtime.split(torch.ones(4, 2))).mean()))
{step}
print("went on")
"""


@pytest.mark.parametrize("step", ["runtime.step(optimizer)", "optimizer.step()"])
def test_windows_asked_of_a_script_without_them(step: str, tmp_path: Path, forks: Forks) -> None:
    (tmp_path / "train.py").write_text(WITHOUT_WINDOWS.format(step=step))
    ended = forks.run(tmp_path / "train.py", (), 2, {**SEEDED, "DISTIFY_ACCUMULATE": "4"})
    assert [(e.code, e.stdout) for e in ended] == [(2, ""), (2, "")]
    said = "".join(e.stderr for e in ended)
    assert re.search(r"^distify: accumulate=4 is set .*`distify rewrite --accumulate 4`", said, re.M)
    assert "Traceback" not in said
