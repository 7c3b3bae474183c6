"""Output happens once: prints, bars, trackers and log files of the other ranks are switched off."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.launch import Ended, launch

FAKE_WANDB = """
import os
def init(project=None, mode=None, **kwargs):
    mode = mode or os.environ.get("WANDB_MODE", "online")
    open(f"wandb-{os.environ['RANK']}-{mode}", "w").close()
    return type("Run", (), {"log": lambda self, values: None})()
def login(**kwargs):
    open(f"login-{os.environ['RANK']}", "w").close()
"""

FAKE_MLFLOW = """
import os
def start_run(**kwargs):
    open(f"mlflow-{os.environ['RANK']}", "w").close()
    return open(os.devnull)
def log_metric(name, value, step=None):
    open(f"metric-{os.environ['RANK']}", "w").close()
class MlflowClient:
    def __init__(self):
        open(f"client-{os.environ['RANK']}", "w").close()
"""

FAKE_WRITER = """
import os
class SummaryWriter:
    def __init__(self, log_dir=None):
        self.log_dir = log_dir
        os.makedirs(log_dir, exist_ok=True)
        open(os.path.join(log_dir, "events-" + os.environ["RANK"]), "w").close()
        self.file_writer = open(os.devnull, "w")
    def add_scalar(self, tag, value, step=None):
        self.file_writer.write(str(value))
        open("scalar-" + os.environ["RANK"], "w").close()
    def get_logdir(self):
        return self.log_dir
    def close(self):
        self.file_writer.close()
    def __enter__(self):
        return self
    def __exit__(self, *_):
        self.close()
"""

SCRIPT = """
import logging, os, pprint, subprocess, sys
import logging.handlers
from tqdm import tqdm
import mlflow
from distify import runtime
import wandb
from tensorboardX.writer import SummaryWriter
import tqdm.auto

rank = os.environ["RANK"]
print("print", rank)
sys.stdout.write(f"write {rank}\\n")
pprint.pprint({"rank": rank})
sys.stdout.flush()
subprocess.run(["echo", "child " + rank])
print("error", rank, file=sys.stderr)
for _ in tqdm.tqdm(range(3), desc="bar" + rank, disable=False):
    pass
for _ in tqdm.auto.tqdm(range(3), desc="auto" + rank):
    pass
wandb.login()
wandb.init(project="p", mode="online").log({"a": 1})
with mlflow.start_run():
    mlflow.log_metric("a", 1)
mlflow.MlflowClient()
with SummaryWriter("logs") as writer:
    writer.add_scalar("a", 1.0, 0)
    assert writer.get_logdir() == writer.log_dir == "logs"
    writer.file_writer.write("x")
logging.basicConfig(level=logging.INFO, handlers=[
    logging.StreamHandler(),
    logging.FileHandler("train.log", mode="w"),
    logging.handlers.RotatingFileHandler("rotating.log", maxBytes=20, backupCount=1),
])
logging.info("info %s", rank)
logging.warning("warning %s", rank)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("output")
    (folder / "wandb.py").write_text(FAKE_WANDB)
    (folder / "mlflow.py").write_text(FAKE_MLFLOW)
    (folder / "tensorboardX").mkdir()
    (folder / "tensorboardX" / "__init__.py").write_text("from .writer import SummaryWriter\n")
    (folder / "tensorboardX" / "writer.py").write_text(FAKE_WRITER)
    (folder / "train.py").write_text(SCRIPT)
    return folder


@pytest.fixture(scope="module")
def ended(folder: Path) -> list[Ended]:
    made = launch(["-u", "train.py"], 2, {"PYTHONHASHSEED": "0", "DISTIFY_ALL_RANKS": None}, folder)
    assert [e.code for e in made] == [0, 0], made[1].stderr
    return made


def test_standard_output_comes_from_the_main_rank(ended: list[Ended]) -> None:
    assert ended[0].stdout == "print 0\nwrite 0\n{'rank': '0'}\nchild 0\n"
    assert ended[1].stdout == ""


def test_standard_error_stays_but_bars_and_info_go(ended: list[Ended]) -> None:
    for rank, e in enumerate(ended):
        assert f"error {rank}" in e.stderr
        assert f"warning {rank}" in e.stderr
        for text in (f"bar{rank}", f"auto{rank}", f"info {rank}"):
            assert (text in e.stderr) == (rank == 0), text


def test_trackers_write_once(folder: Path, ended: list[Ended]) -> None:
    names = {p.name for p in folder.iterdir()} | {p.name for p in (folder / "logs").iterdir()}
    assert {"wandb-0-online", "login-0", "mlflow-0", "metric-0", "client-0", "scalar-0", "events-0"} <= names
    assert "wandb-1-disabled" in names
    assert not {n for n in names if n.endswith("-1")}


def test_log_files_have_one_writer(folder: Path, ended: list[Ended]) -> None:
    assert (folder / "train.log").read_text() == "INFO:root:info 0\nWARNING:root:warning 0\n"
    assert (folder / "rotating.log").read_text() == "WARNING:root:warning 0\n"


def test_all_ranks_can_be_heard(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "talk.py").write_text("from distify import runtime\nprint('here')\n")
    environment: dict[str, str | None] = {"PYTHONHASHSEED": "0", "DISTIFY_ALL_RANKS": "1"}
    assert [e.stdout for e in launch(["talk.py"], 2, environment, tmp_path)] == ["here\n", "here\n"]
