"""Two machines with two processes each: one agent of torchrun on each, in a folder of its own, on one loopback address.

`bench/two_nodes.py` does the same in network namespaces, through `distify launch`; here the processes are forks.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import torch

from tests.runtime.forked import Forks

ROOT = Path(__file__).resolve().parents[2]
PLAIN = (ROOT / "bench" / "two_nodes_train.py").read_text(encoding="utf-8")
CONVERTED = (
    (
        "    parser = argparse.ArgumentParser()\n",
        "    runtime.init(backend='fsdp', shard_size=2)\n    parser = argparse.ArgumentParser()\n",
    ),
    ("loader = DataLoader(", "loader = runtime.shard(DataLoader("),
    ("shuffle=True)", "shuffle=True))"),
    ("    seconds = []\n", "    runtime.prepare(model, optimizer)\n    seconds = []\n"),
    ("loss = F.cross_entropy(model(x), y)", "loss = runtime.mean(F.cross_entropy(model(x), y))"),
    ("loss.backward()", "runtime.backward(loss)"),
    ("nn.utils.clip_grad_norm_", "runtime.clip_grad_norm_"),
    ("optimizer.step()", "runtime.step(optimizer)"),
    ("torch.save(model.state_dict(), args.out)", "runtime.save(runtime.state_dict(model), args.out)"),
    ("    middle =", "    assert len(blocks(model)) == 2 and mesh(model) == (2, 2)\n    middle ="),
)
LOOK = """
def blocks(model):
    return [m for m in model.blocks if type(m).__mro__[1].__name__ == "FSDPModule"]


def mesh(model):
    return tuple(model.first.weight.device_mesh.shape)


"""
# What each machine's torchrun does; the fork's own variables of a launcher are not those of the run.
AGENT = """
import os, runpy, sys
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

node, port = int(os.environ.pop("RANK")), os.environ.pop("MASTER_PORT")
for name in ("LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR"):
    os.environ.pop(name)
os.chdir(f"node{node}")


def work():
    from tests.runtime import forked

    forked._worker(os.path.abspath("train.py"), sys.argv[1:])


config = LaunchConfig(
    min_nodes=2, max_nodes=2, nproc_per_node=2, run_id="two", rdzv_backend="static", rdzv_configs={"rank": node},
    rdzv_endpoint=f"127.0.0.1:{port}", monitor_interval=0.1, start_method="fork",
)
elastic_launch(config, work)()
"""


def test_a_run_on_two_machines_is_the_original_s(
    forks: Forks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PLAIN.replace("class Block", f"from distify import runtime\n\n{LOOK}class Block")
    for old, new in CONVERTED:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (tmp_path / "agent.py").write_text(AGENT)
    options = ["--steps", "3", "--width", "512", "--depth", "2"]
    for folder in ("original", "node0", "node1"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.py").write_text(text)
    monkeypatch.chdir(tmp_path / "original")
    monkeypatch.setattr("sys.argv", ["train.py", *options])
    runpy.run_path(str(ROOT / "bench" / "two_nodes_train.py"), run_name="__main__")
    printed = capsys.readouterr().out
    first, second = forks.run(tmp_path / "agent.py", options, ranks=2)
    assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
    assert second.stdout == ""
    numbers = [[float(x) for x in re.findall(r"\d+\.\d+", out)] for out in (printed, first.stdout)]
    assert len(numbers[0]) == 6
    assert numbers[1] == pytest.approx(numbers[0], rel=1e-5)
    assert [path.name for path in (tmp_path / "node1").iterdir()] == ["train.py"]
    saved = [torch.load(tmp_path / folder / "model.pt", weights_only=True) for folder in ("original", "node0")]
    assert list(saved[0]) == list(saved[1])
    for name, value in saved[
        0
    ].items():  # a first step moves each by 1e-3, however small its gradient and much of it noise
        torch.testing.assert_close(saved[1][name], value, rtol=0, atol=3e-5)
