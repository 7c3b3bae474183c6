"""Processes: how they are started, told from each other when they fail, and that none is left. No torch is started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from distify.codemod.verify.devices import device_for, gpus
from distify.codemod.verify.main import verify
from distify.codemod.verify.request import Request
from distify.codemod.verify.running import Job, run
from distify.codemod.verify.session import Session
from distify.codemod.verify.sources import Program, Unable, how_to_run
from distify.codemod.verify.watch import Follower, Watch

PATIENCE = 90  # seconds: the machine may be busy

HELD = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
with open(os.path.join({folder!r}, f"pids-{{os.environ.get('RANK', 'alone')}}"), "w") as file:
    file.write(f"{{os.getpid()}} {{child.pid}}")
time.sleep(600)
"""


def gone(pid):
    """Whether a process has ended; one that nobody has waited for counts as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def all_gone(folder, count):
    pids = [int(pid) for path in folder.glob("pids-*") for pid in path.read_text().split()]
    assert len(pids) == count
    end = time.monotonic() + PATIENCE
    while not all(map(gone, pids)) and time.monotonic() < end:
        time.sleep(0.1)
    return all(map(gone, pids))


def job(tmp_path, text, processes=0):
    (tmp_path / "train.py").write_text(text)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return Job("j", [sys.executable, "train.py"], str(tmp_path), scratch, str(tmp_path), str(tmp_path), processes)


def test_a_run_past_its_time_leaves_no_process(tmp_path):
    started = time.monotonic()
    held = job(tmp_path, HELD.format(folder=str(tmp_path)), processes=2)

    def look(seconds):
        if len(list(tmp_path.glob("pids-*"))) == 2:
            raise KeyboardInterrupt  # as Ctrl-C does, at any line

    with pytest.raises(KeyboardInterrupt):
        run(held, PATIENCE, look)
    assert all_gone(tmp_path, 4)
    assert time.monotonic() - started < PATIENCE


def test_the_time_limit(tmp_path):
    ended = run(job(tmp_path, "import time; time.sleep(600)"), 0.5, lambda seconds: None)
    assert ended.late
    assert not ended.well


def test_what_a_process_is_told(tmp_path):
    text = "import os, sys, json; print(json.dumps([dict(os.environ), sys.path]))"
    done = job(tmp_path, text, processes=2)
    assert run(done, PATIENCE, lambda seconds: None).well
    for rank in (0, 1):
        environment, path = json.loads(done.file(rank, "out").read_text())
        assert (environment["RANK"], environment["LOCAL_RANK"], environment["WORLD_SIZE"]) == (
            str(rank),
            str(rank),
            "2",
        )
        assert environment["PYTHONHASHSEED"].isdigit()
        assert environment.get("PYTHONPATH") == os.environ.get("PYTHONPATH")  # its own children are not traced
        assert "_DISTIFY_VERIFY" not in environment
        assert str(done.scratch / "hook") not in path
        assert done.file(rank, "err").read_text() == ""


def test_one_process_fails_and_the_others_are_ended(tmp_path, monkeypatch):
    monkeypatch.setattr("distify.codemod.verify.running.GRACE", 0.5)
    text = "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit('no more')\ntime.sleep(600)"
    failing = job(tmp_path, text, processes=2)
    ended = run(failing, PATIENCE, lambda seconds: None)
    assert (ended.first, ended.codes[1], ended.late) == (1, 1, False)
    assert failing.file(1, "err").read_text().strip() == "no more"


TRAIN = """
import os, sys
if {condition}:
    raise ValueError("out of luck in " + os.getcwd())
print("loss 1.0")
"""


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    """A project of its own: nothing in it may be written by what is run."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "train.py").write_text(TRAIN.format(condition="'--fail' in sys.argv"))
    (folder / "made.py").write_text(TRAIN.format(condition="'RANK' in os.environ"))
    return folder


def test_a_failing_original_is_told_from_a_failing_conversion(scripts, capfd):
    request = {"device": "cpu", "quiet": True, "processes": 1}
    assert verify(Request("made.py", ["--fail"], original="train.py", **request)) == 2
    told = capfd.readouterr()
    assert "the original failed (exit status 1)" in told.err
    assert f"ValueError: out of luck in {scripts}" in told.err  # the project's folder, not that of the copy
    assert verify(Request("made.py", original="train.py", **request)) == 2
    told = capfd.readouterr().out
    assert "the rewritten script failed in process 0 (exit status 1)" in " ".join(told.split())
    assert "the original ran well" in " ".join(told.split())
    assert f"ValueError: out of luck in {scripts}" in told
    assert verify(Request("train.py", original="train.py", format="json", **request)) == 0
    assert json.loads(capfd.readouterr().out)["runs"][0]["checks"]["output"]["compared"] == 1
    assert sorted(path.name for path in scripts.iterdir()) == ["made.py", "train.py"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("print(1)\n", "trains no model"),
        ("import torch\nfrom distify import runtime\n", "--original FILE"),
        ("import torch\nloss.backward()\noptimizer.step()\nx = (\n", "not valid Python"),
    ],
)
def test_what_there_is_nothing_to_verify_of(scripts, capfd, text, words):
    (scripts / "train.py").write_text(text)
    assert verify(Request("train.py", quiet=True)) == 2
    assert words in " ".join(capfd.readouterr().err.split())


def test_a_refused_conversion_is_not_run(scripts, capfd):
    refused = Path(__file__).parents[1] / "facts" / "scripts" / "rl_reinforce.py"
    (scripts / "train.py").write_bytes(refused.read_bytes())
    assert verify(Request("train.py", quiet=True)) == 2
    told = capfd.readouterr().out
    assert "refuses the script" in told
    assert "DST142" in told


def test_a_script_in_a_package_is_run_as_a_module(tmp_path):
    package = tmp_path / "package" / "inner"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    script = package / "train.py"
    script.write_text("from . import net\n")
    assert how_to_run(str(script), str(tmp_path)) == ["-m", "package.inner.train"]
    assert how_to_run(str(script), str(package)) == ["train.py"]  # as the user would start it there
    script.write_text("import net\n")
    assert how_to_run(str(script), str(tmp_path)) == ["package/inner/train.py"]


def test_progress_follows_a_trace_that_is_being_written(tmp_path):
    trace = tmp_path / "trace"
    follower, watch = Follower(tmp_path / "none", trace), Watch(quiet=True)
    assert follower.read() == []
    trace.write_text('{"backward": 0, "loss": 2.5}\n{"step": 0, "grad_norm": 1.0}\n{"backward": 1, "lo')
    assert follower.read() == [2.5]
    with trace.open("a") as file:
        file.write('ss": 1.5}\n')
    assert follower.read() == [2.5, 1.5]
    with watch.phase("rewritten script (deepspeed) on 16 processes", follower, [2.5, 1.6, 1.0]):
        line = watch.line(1234.5, follower.read())
    assert line == "rewritten (deepspeed): 1234 s, backward 2 of 3, loss 1.5, difference 6e-02"
    assert len(line) < 80


def test_where_runs_compute():
    assert device_for("auto", 2, lambda: 2) == ("cuda", [])
    assert device_for("cpu", 2, lambda: 2) == ("cpu", [])
    device, (note,) = device_for("auto", 2, lambda: 1)
    assert device == "cpu"
    assert "1 GPU for 2 processes" in note
    with pytest.raises(Unable):
        device_for("cuda", 2, lambda: 1)


def test_gpus_are_those_that_are_there_and_visible(monkeypatch):
    monkeypatch.setattr("glob.glob", lambda pattern: [f"/dev/nvidia{k}" for k in (*range(4), "ctl")])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert gpus() == 4
    for visible, count in (("0,3", 2), ("", 0), ("1,2,-1,3", 2), ("0,1,2,3,4,5", 4)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert gpus() == count


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_no_process_and_no_file(scripts, tmp_path, number):
    (scripts / "held.py").write_text(HELD.format(folder=str(tmp_path)))
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "distify.codemod", "verify", "held.py", "--original", "held.py", "--device", "cpu"]
    process = subprocess.Popen(
        command,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in the background may ignore it
    )
    end = time.monotonic() + PATIENCE
    while not list(tmp_path.glob("pids-*")) and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(number)
    _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert b"interrupted" in told
    assert all_gone(tmp_path, 2)
    assert list((tmp_path / "tmp").iterdir()) == []


WRITTEN = """
from sys import argv
from distify.runtime import init

init(precision=str("bf16"), accumulate=len(argv), backend=None, batch="per-device")
"""


def test_options_that_hold_are_those_that_the_script_gives(scripts, monkeypatch):
    (scripts / "made.py").write_text(WRITTEN)
    monkeypatch.setenv("DISTIFY_BACKEND", "fsdp")
    monkeypatch.setenv("DISTIFY_ACCUMULATE", "4")
    session = Session(Request("made.py", original="train.py", device="cpu"), scripts, Watch(True))
    found = session.effective(Program(str(scripts / "made.py")))
    assert (found["backend"], found["batch"]) == ("fsdp", "per-device")
    assert (found["accumulate"], found["reset"], found["precision"]) == (1, False, "fp32")  # computed: nobody knows
    found = session.effective(Program(str(scripts / "made.py"), {str(scripts / "made.py"): b"import distify\n"}))
    assert (found["accumulate"], found["reset"], found["batch"]) == (1, True, "global")
