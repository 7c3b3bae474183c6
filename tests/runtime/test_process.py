"""Joining a run: launcher variables, device, process group, hash seed, failures, exit."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from distify import runtime
from distify.runtime import gpus, launcher
from distify.runtime.config import ConfigError
from distify.runtime.launcher import Launcher, LaunchError, launched, main_rank, read_launcher
from distify.runtime.process import choose_device, timeout
from distify.runtime.state import DistifyError, NotInitialized, state
from tests.pool import Pool
from tests.runtime.forked import Forks
from tests.runtime.launch import launch

TORCHRUN = {
    "RANK": "3",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "host",
    "MASTER_PORT": "29500",
}


def test_launcher_variables() -> None:
    assert read_launcher({}) is None
    assert read_launcher({"LOCAL_RANK": "0", "MASTER_ADDR": "host"}) is None
    assert read_launcher(TORCHRUN) == Launcher(3, 4, 1, 2)
    assert launched(TORCHRUN)
    assert not main_rank(TORCHRUN)
    assert main_rank({})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"MASTER_PORT": "", "LOCAL_RANK": ""}, r"LOCAL_RANK, MASTER_PORT are not set.*torchrun"),
        ({"RANK": ""}, r"WORLD_SIZE=4.*but RANK is not set"),
        ({"WORLD_SIZE": "four"}, r"WORLD_SIZE='four' is not a whole number"),
        ({"RANK": "4"}, r"RANK=4 does not fit WORLD_SIZE=4"),
    ],
)
def test_wrong_launcher_variables_are_named(change: dict[str, str], message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        read_launcher({**TORCHRUN, **change})


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"])
def test_each_variable_of_a_launcher(name: str) -> None:
    """Absent, empty, blank or nonsense: each is named, with the command that sets it."""
    for bad in (
        None,
        "",
        " ",
        "x y",
        "-1" if name != "MASTER_ADDR" else "http://a",
        "1.5" if name != "MASTER_ADDR" else "a/b",
    ):
        environment = {key: value for key, value in {**TORCHRUN, name: bad}.items() if value is not None}
        with pytest.raises(LaunchError, match=rf"\b{name}\b.*Start with `torchrun --nproc-per-node N script\.py`"):
            read_launcher(environment)


def test_processes_that_would_each_train_alone() -> None:
    with pytest.raises(LaunchError, match=r"SLURM_STEP_NUM_TASKS=4: several.*RANK=\$SLURM_PROCID"):
        read_launcher({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "1"})
    assert read_launcher({"SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS": "8"}) is None


class Gpus:
    """Stands in for `torch.cuda` on a machine with some GPUs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
        self.chosen: list[torch.device] = []
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch.cuda, "set_device", self.chosen.append)


def test_each_process_takes_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Gpus(monkeypatch, 2)
    assert choose_device(Launcher(3, 4, 1, 2)) == torch.device("cuda", 1)
    assert found.chosen == [torch.device("cuda", 1)]
    assert choose_device(Launcher()) == torch.device("cuda", 0)
    assert len(found.chosen) == 1


@pytest.mark.parametrize("process", [Launcher(0, 4, 0, 4), Launcher(3, 4, 3)])
def test_more_processes_than_gpus(process: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    Gpus(monkeypatch, 2)
    with pytest.raises(LaunchError, match=r"4 processes were started.*has 2 GPUs.*--nproc-per-node 2"):
        choose_device(process)


def test_one_gpu_that_each_process_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several processes that see one GPU each may have different ones, which only all of them together can tell."""
    found = Gpus(monkeypatch, 1)
    process = Launcher(1, 3, 1, 3)
    assert choose_device(process) == torch.device("cuda", 0)
    assert found.chosen == [torch.device("cuda", 0)]
    assert gpus.unsure(process, torch.device("cuda", 0))
    assert not gpus.unsure(Launcher(), torch.device("cuda", 0))
    assert not gpus.unsure(process, torch.device("cpu"))
    store = dist.HashStore()
    for rank, name in ((0, "host a"), (2, "host b")):
        store.set(f"distify/gpu/{rank}", name)
    gpus.check_shared(store, process, "host c")
    assert store.get("distify/gpu/1") == b"host c"
    with pytest.raises(LaunchError, match=r"3 processes were started .* 1 GPU, and ranks 1 and 2 share it.*node 1"):
        gpus.check_shared(store, process, "host b")


def test_without_gpu_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    Gpus(monkeypatch, 0)
    assert choose_device(Launcher(1, 2, 1, 2)) == torch.device("cpu")


def test_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    assert timeout() == timedelta(minutes=30)
    monkeypatch.setenv("DISTIFY_TIMEOUT", "7.5")
    assert timeout() == timedelta(seconds=7.5)
    for text in ("soon", "-1", "nan"):
        monkeypatch.setenv("DISTIFY_TIMEOUT", text)
        with pytest.raises(ConfigError, match="DISTIFY_TIMEOUT"):
            timeout()


def test_one_process_without_launcher() -> None:
    with pytest.raises(NotInitialized, match=r"runtime\.device\(\)"):
        runtime.device()
    before = torch.get_rng_state()
    try:
        runtime.init(accumulate=2)
        assert (runtime.rank(), runtime.world_size(), runtime.is_main()) == (0, 1, True)
        assert runtime.device().type == ("cuda" if torch.cuda.is_available() else "cpu")
        assert state.backend is not None
        assert state.backend.name == "single"
        assert not dist.is_initialized()
        assert torch.equal(before, torch.get_rng_state())
        runtime.init(accumulate=2)
        runtime.init()
        with pytest.raises(
            DistifyError, match=r"ran before, with accumulate=2, .* again with accumulate=3\. .*one call"
        ):
            runtime.init(accumulate=3)
    finally:
        runtime.shutdown()
    runtime.shutdown()
    assert state.config is None


def joins() -> Any:
    group = dist.group.WORLD
    runtime.init()
    assert dist.group.WORLD is group
    assert state.reduce_group is not group
    assert not state.owns_group
    assert runtime.device().type == "cpu"
    answer = runtime.rank(), runtime.world_size(), runtime.is_main(), state.backend.name
    runtime.shutdown()
    assert dist.is_initialized()
    return answer


def test_an_existing_group_is_used_and_kept(pool2: Pool) -> None:
    assert pool2.run(joins) == [(0, 2, True, "ddp"), (1, 2, False, "ddp")]


WORDS = "print(list(set('the quick brown fox jumps over the lazy dog'.split())), os.getpid() == int(sys.argv[1]))"
# The launcher module alone, without the package's other modules: they take seconds to import torch.
LIGHT = f"""
import sys, types
package = types.ModuleType("distify.runtime")
package.__path__ = [{str(Path(launcher.__file__).parent)!r}]
sys.modules["distify.runtime"] = package
from distify.runtime import launcher
launcher.agree_on_hashes()
"""
BEGIN = """
import os, sys
sys.argv.insert(1, os.environ.setdefault("FIRST_PID", str(os.getpid())))
"""
FREE: dict[str, str | None] = {"PYTHONHASHSEED": None, "DISTIFY_ALL_RANKS": "1"}


@pytest.mark.parametrize("way", ["script", "module", "code"])
def test_string_hashes_agree_after_a_restart_in_place(way: str, tmp_path: Path) -> None:
    whole, light = BEGIN + "from distify import runtime\n" + WORDS, BEGIN + LIGHT + WORDS
    (tmp_path / "vocabulary.py").write_text(whole if way == "script" else light)
    command = {"script": ["vocabulary.py", "a"], "module": ["-m", "vocabulary", "a"], "code": ["-c", light, "a"]}
    ended = launch(command[way], 2, FREE, tmp_path)
    assert [e.code for e in ended] == [0, 0], ended[0].stderr
    assert ended[0].stdout == ended[1].stdout
    assert ended[0].stdout.rstrip().endswith("True")
    assert ended[0].stderr == ""


def test_no_restart_where_something_would_be_lost(tmp_path: Path) -> None:
    (tmp_path / "busy.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "print('once', flush=True)\n" + LIGHT
    )
    for e in launch(["busy.py"], 2, FREE, tmp_path):
        assert e.stdout == "once\n"
        assert "PYTHONHASHSEED is not set" in e.stderr
        assert "threads are running" in e.stderr


RUN = """
import os, sys, time, torch
import torch.distributed as dist
from distify import runtime
runtime.init()
import distify.runtime.state as s
assert s.state.owns_group
runtime.barrier()
"""
SEEDED: dict[str, str | None] = {"PYTHONHASHSEED": "0"}


def test_a_run_of_its_own_ends_by_itself(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(RUN + "time.sleep(0.5 * runtime.rank())\nprint('done')\n")
    ended = launch(["run.py"], 2, SEEDED, tmp_path)
    assert [e.code for e in ended] == [0, 0], ended[0].stderr + ended[1].stderr
    assert [e.stdout for e in ended] == ["done\n", ""]
    assert [e.stderr for e in ended] == ["", ""]


@pytest.mark.parametrize("rank", [0, 1])
def test_an_uncaught_exception_ends_the_process_at_once(rank: int, tmp_path: Path, forks: Forks) -> None:
    """The failing rank holds a pending collective and another one waits: neither may hang."""
    (tmp_path / "run.py").write_text(
        RUN
        + f"x = torch.ones(3)\nif runtime.rank() == {rank}:\n"
        + "    work = dist.all_reduce(x, async_op=True)\n    raise ValueError('bad sample')\n"
        + "dist.all_reduce(torch.ones(3)); runtime.barrier(); time.sleep(1)\n"
    )
    # Rank 0 goes through the end of the interpreter; another one does not, and may be a fork.
    ended = forks.run(tmp_path / "run.py", env=SEEDED) if rank else launch(["run.py"], 2, SEEDED, tmp_path)
    assert ended[rank].code != 0
    assert "ValueError: bad sample" in ended[rank].stderr
    assert f"rank {rank} of 2 failed" in ended[rank].stderr
    assert max(e.seconds for e in ended) < 50


SURFACE = """
    init device rank world_size is_main prepare shard split draw full autocast accumulate averaged backward grad frozen
    clip_grad_norm_ clip_grad_value_ step mean sum max min gather any on_main main_first
    save load state_dict load_state_dict clone barrier shutdown
    scaler whole cycle save_state load_state latest replicated stopping
"""


def test_surface() -> None:
    """Everything that converted code may call is there, and nothing is announced that isn't."""
    assert sorted(runtime.__all__) == sorted(SURFACE.split())
    for name in SURFACE.split():
        assert getattr(runtime, name).__doc__, name
    assert "libcst" not in sys.modules or "distify.codemod" in sys.modules
