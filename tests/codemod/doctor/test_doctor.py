"""`distify doctor`: what it says of a machine, with and without torch, and that no process of it is left."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from distify.codemod import __main__ as entry
from distify.codemod.cli import app
from distify.codemod.doctor import children, main, needs
from distify.codemod.doctor.children import Answers, ask
from distify.codemod.launching import machine

FACTS = {"torch": "2.13.0", "cuda": None, "gpus": [], "gloo": True, "nccl": False, "threads": 1}
GOOD = {"backend": "gloo", "processes": 2, "right": True, "bytes": 1 << 24, "seconds": 0.01, "small_seconds": 0.0002}
PACKAGES = dict.fromkeys(needs.PACKAGES, "1.0") | {"torch": "2.13.0+cu130", "deepspeed": "0.19.8"}


@pytest.fixture(autouse=True)
def plain(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("DISTIFY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(machine, "gpu_names", lambda: [])
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def doctor(monkeypatch):
    """The command, where torch answers what is given."""

    def run(*arguments, facts=FACTS, reduces=(GOOD,), error="", packages=PACKAGES):
        monkeypatch.setattr(main, "installed", lambda: dict(packages))
        monkeypatch.setattr(main, "ask", lambda *asked: Answers(facts, list(reduces), error))
        return CliRunner().invoke(app, ["doctor", *arguments])

    return run


def test_a_machine_that_is_ready(doctor):
    result = doctor()
    assert result.exit_code == 0
    assert result.stdout.endswith("Ready: processes can be started here.\n")
    assert (
        "  gloo  all-reduce of 2 processes: 16 MiB in 10.0 ms, 1.68 GB/s\n        4 bytes in 200 microseconds\n"
        in result.stdout
    )
    assert "  nccl  not in this build of torch" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "\x1b" not in result.stdout


def test_for_programs(doctor):
    found = json.loads(doctor("--format", "json").stdout)
    assert found["problems"] == []
    assert found["all_reduce"] == [{**GOOD, "gb_per_s": 1.678}]
    assert [item["name"] for item in found["backends"]] == ["ddp", "fsdp", "deepspeed"]


def test_without_torch(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(main, "ask", lambda *asked: pytest.fail("there is nobody to ask"))
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 1
    assert "Without torch distify converts and checks scripts, but can't run them." in result.stdout
    assert "  To install it: pip install -U 'torch-distify[torch]'\n" in result.stdout
    assert "Problem: a run needs torch 2.6 or newer, which is not installed\n" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


GPU = {"name": "NVIDIA H100", "memory_gib": 79.1, "capability": [9, 0]}
OLD = {"name": "Tesla T4", "memory_gib": 15.0, "capability": [7, 5]}


def test_gpus(doctor, monkeypatch):
    text = doctor(facts={**FACTS, "gpus": [GPU], "nccl": "2.28.9"}).stdout
    assert "  0: NVIDIA H100, 79.1 GiB, compute capability 9.0\n" in text
    assert "  nccl  available; two processes need two GPUs\n" in text
    assert "  bf16  ready\n" in text
    assert "bf16  ready; Tesla T4 only emulates it" in doctor(facts={**FACTS, "gpus": [GPU, OLD], "nccl": "2"}).stdout
    monkeypatch.setattr(machine, "gpu_names", lambda: ["NVIDIA H100"])
    assert "0: NVIDIA H100, which torch does not see" in doctor().stdout


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"error": "no answer within 120 seconds"}, "no answer within 120 seconds"),
        ({"reduces": [{"backend": "nccl", "error": "unhandled system error"}]}, "nccl: unhandled system error"),
        ({"reduces": [{**GOOD, "right": False}]}, "gloo: the sum of an all-reduce is wrong"),
        ({"reduces": []}, "this build of torch has neither gloo nor a NCCL that can be used"),
        ({"packages": PACKAGES | {"torch": "2.5.1"}}, "a run needs torch 2.6 or newer, found 2.5.1"),
    ],
)
def test_problems(doctor, given, problem):
    result = doctor(**given)
    assert result.exit_code == 1
    assert f"Problem: {problem}" in result.stdout


def test_a_missing_package_is_no_problem_of_a_run(doctor):
    result = doctor(packages=PACKAGES | {"deepspeed": None})
    assert result.exit_code == 0
    assert "deepspeed  needs deepspeed 0.19.8 or newer, which is not installed" in result.stdout
    assert "needs deepspeed 0.19.8 or newer, found 0.16.0" in doctor(packages=PACKAGES | {"deepspeed": "0.16.0"}).stdout


def test_settings_of_the_folder(doctor, monkeypatch):
    monkeypatch.setenv("DISTIFY_BACKEND", "fdsp")
    result = doctor()
    assert result.exit_code == 1
    assert "Problem: DISTIFY_BACKEND: unknown value 'fdsp', did you mean 'fsdp'?" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--format", "jsn"], "did you mean 'json'?"), (["--nproc", "1"], "'--nproc'"), (["x"], "unexpected")],
)
def test_wrong_options(capsys, arguments, message):
    assert entry.run(["doctor", *arguments]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


# The processes


def stub(monkeypatch, text):
    monkeypatch.setattr(children, "command", lambda folder, rank, *rest: [sys.executable, "-c", text, str(rank)])


def test_answers_are_gathered(monkeypatch):
    stub(
        monkeypatch,
        f"import sys\nprint('noise')\nprint('[1]')\nif sys.argv[1] == '0': print({json.dumps({'facts': FACTS})!r})",
    )
    found = ask(2, ("gloo",), 60)
    assert (found.facts, found.reduces, found.error) == (FACTS, [], "")


def test_a_process_that_fails_tells_why(monkeypatch):
    stub(monkeypatch, "import sys, time\nif sys.argv[1] == '0': time.sleep(300)\nraise OSError('libcuda.so: gone')")
    begin = time.monotonic()
    assert ask(2, ("gloo",), 200).error == "process 1 ended with status 1: OSError: libcuda.so: gone"
    assert time.monotonic() - begin < 100


SLEEPS = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
open(FILE, "a").write(f"{os.getpid()} {child.pid} ")
time.sleep(300)
"""


@pytest.mark.parametrize("interrupted", [False, True])
def test_no_process_is_left(monkeypatch, tmp_path, interrupted):
    file = tmp_path / "processes"
    stub(monkeypatch, SLEEPS.replace("FILE", repr(str(file))))
    wait = children.wait

    def until_all_run(started, limit):
        while not file.exists() or len(file.read_text().split()) < 4:
            time.sleep(0.02)
        if interrupted:
            os.kill(os.getpid(), signal.SIGTERM)
        return wait(started, 0.1)

    monkeypatch.setattr(children, "wait", until_all_run)
    if interrupted:
        with pytest.raises(KeyboardInterrupt):
            ask(2, ("gloo",), 0.1)
    else:
        assert ask(2, ("gloo",), 0.1).error == "no answer within 0.1 seconds"
    for process in map(int, file.read_text().split()):
        assert gone(process)


def gone(process):
    """Whether a process has ended, or ends soon: what it started may wait for somebody to ask for its status."""
    for _ in range(3000):
        try:
            with open(f"/proc/{process}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] in "ZX":
                    return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_the_oldest_version_is_that_of_the_runtime():
    text = (Path(__file__).parents[3] / "runtime" / "backends" / "deepspeed_load.py").read_text()
    assert f"\nVERSION = {needs.OLDEST['deepspeed']}\n" in text
