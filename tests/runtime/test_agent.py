"""`runtime.agent`: the exit status of a run, and signals that reach its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from distify.runtime import agent

WAITS = """\
import os, signal, sys, time
def ended(number, frame):
    open(f"ended{os.environ['RANK']}", "w").write(str(number))
    sys.exit(0)
signal.signal(signal.SIGTERM, ended)
print("ready", flush=True)
time.sleep(300)
"""


def test_a_signal_reaches_every_process(tmp_path):
    (tmp_path / "waits.py").write_text(WAITS)
    words = [sys.executable, "-m", "distify.runtime.agent", "--standalone", "--nproc-per-node", "2", "waits.py"]
    run = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert [run.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
        run.send_signal(signal.SIGTERM)
        assert run.wait(120) == 128 + signal.SIGTERM
    finally:
        run.kill()
        run.stdout.close()
    assert {(tmp_path / f"ended{rank}").read_text() for rank in (0, 1)} == {str(int(signal.SIGTERM))}


def started(tmp_path, text):
    """The status of a run in this process."""
    (tmp_path / "train.py").write_text(text)
    before = {
        number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
    }
    try:
        return agent.main(
            ["--standalone", "--nproc-per-node", "2", "--monitor-interval", "0.02", str(tmp_path / "train.py")]
        )
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_the_status_is_that_of_the_process_that_failed(tmp_path, capfd):
    first = "import os, sys, time\nif os.environ['RANK'] == '1':\n    {}\n{}\n"
    assert started(tmp_path, first.format("pass", "")) == 0
    assert started(tmp_path, first.format("sys.exit(3)", "time.sleep(60)")) == 3
    assert "distify: rank 1 (process " in capfd.readouterr().err
    assert started(tmp_path, first.format("os.kill(os.getpid(), 9)", "time.sleep(60)")) == 137
    told = capfd.readouterr().err
    assert "was ended by SIGKILL (the system does so when memory runs out)" in told
    assert "Traceback" not in told


def test_what_cannot_start_is_one_line(tmp_path, capfd, monkeypatch):
    monkeypatch.delenv("DISTIFY_DEBUG", raising=False)
    assert agent.main(["--nnodes", "2:1", "x.py"]) == 1
    assert capfd.readouterr().err.splitlines()[-1].startswith("distify: the processes could not be started: ")
    assert os.environ.get("RANK") is None
