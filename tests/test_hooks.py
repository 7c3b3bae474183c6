"""The hooks of .pre-commit-hooks.yaml, run by the real `pre-commit` in a repository of their own.

Their entries are run as they are, but from this environment: making one takes the network and most of a minute.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
TRAIN = """\
import torch
from lib import Net
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(40, 3), torch.randn(40, 1)), batch_size=8)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
print(loss.item())
"""
LIB = "from torch import nn\n\n\nclass Net(nn.Linear):\n    def __init__(self):\n        super().__init__(3, 1)\n"


def local(hook, **changes):
    """A hook as a repository has its own ones."""
    words = hook["entry"].split()
    entry = " ".join([sys.executable, "-m", "distify.codemod", *words[1:]])
    return {**hook, "language": "system", "entry": entry, **changes}


@pytest.fixture
def repository(tmp_path):
    """A repository in which the hooks are set up."""
    hooks = [local(hook, exclude="^old/") for hook in HOOKS]
    (tmp_path / ".pre-commit-config.yaml").write_text(yaml.safe_dump({"repos": [{"repo": "local", "hooks": hooks}]}))
    git(tmp_path, "init", "-q")
    return tmp_path


def git(folder, *arguments):
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def write(folder, **texts):
    for name, text in texts.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    git(folder, "add", "-A")


def commit(folder, *hooks, **changes):
    """What `pre-commit` says of all files, and its exit status."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("DISTIFY_", "GIT_"))}
    variables |= {"PRE_COMMIT_HOME": str(folder / ".git" / "cache"), "NO_COLOR": "1", **changes}
    words = [sys.executable, "-m", "pre_commit", "run", "--all-files", "--color", "never", *hooks]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, env=variables)
    return done.returncode, done.stdout + done.stderr


def test_dirty_then_fixed_and_clean(repository):
    write(repository, plain="print(1)\n", lib=LIB, train=TRAIN, other=TRAIN.replace("0.1", "0.2"), old__train=TRAIN)
    code, text = commit(repository, "distify-rewrite")
    assert code == 1, text
    assert "files were modified by this hook" in text
    assert "train.py: converted: " in text
    assert "other.py: converted: " in text
    assert git(repository, "diff", "--name-only").split() == ["other.py", "train.py"]  # old/ is excluded
    git(repository, "add", "-A")
    code, text = commit(repository)
    assert code == 0, text
    assert text.count("Passed") == 2
    # A line that somebody adds later:
    train = (repository / "train.py").read_text()
    write(repository, train=train + "torch.save(model.state_dict(), 'model.pt')\n")
    code, text = commit(repository)
    assert code == 1, text
    assert "Failed" in text.split("\n")[0]  # the check tells
    assert "runtime.save(runtime.state_dict(model), 'model.pt')" in (repository / "train.py").read_text()


def test_a_refusal_stops_the_commit_and_writes_nothing(repository):
    refused = TRAIN.replace("model = Net()\n", "model = Net()\ntorch.distributed.init_process_group()\n")
    write(repository, lib=LIB, train=refused)
    code, text = commit(repository, "distify-rewrite")
    assert code == 1, text
    assert "DST107 error" in text
    assert git(repository, "diff", "--name-only") == ""


def test_several_at_once_leave_whole_files(tmp_path):
    """Hooks of two repositories, or an editor and a hook, may meet in one file."""
    git(tmp_path, "init", "-q")
    write(tmp_path, lib=LIB, train=TRAIN, other=TRAIN.replace("0.1", "0.2"))
    words = [sys.executable, "-m", "distify.codemod", "rewrite", "train.py", "other.py"]
    running = [subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate()[1] for process in running]
    for process, text in zip(running, said, strict=True):
        assert process.returncode == 0 or "changed while it was converted; run distify again" in text, text
    assert any(process.returncode == 0 for process in running)
    whole = (tmp_path / "train.py").read_text()
    assert whole.replace("0.1", "0.2") == (tmp_path / "other.py").read_text()
    assert whole.count("runtime.prepare(") == whole.count("runtime.init(") == 1
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != ".git") == ["lib.py", "other.py", "train.py"]


def test_the_manifest_is_valid():
    from pre_commit.clientlib import load_manifest

    assert [hook["id"] for hook in load_manifest(str(ROOT / ".pre-commit-hooks.yaml"))] == [
        "distify-check",
        "distify-rewrite",
    ]
    assert all(hook["language"] == "python" and hook["require_serial"] for hook in HOOKS)


def test_a_hook_installs_without_torch():
    wanted = [line for line in metadata.requires("torch-distify") or [] if "extra ==" not in line]
    names = {line.split(";")[0].strip().split(">")[0].lower() for line in wanted}
    assert names <= {"libcst", "typer", "jinja2", "rich", "tomli"}
