"""Scripts converted together with the local modules that they import."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from distify.codemod.cli import app

MODEL = """\
from torch import nn, optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 3)

    def forward(self, x):
        return self.body(x)


def build():
    model = Net()
    return model, optim.SGD(model.parameters(), lr=0.1)
"""
DATA = """\
import torch
from torch.utils.data import DataLoader, TensorDataset


def make():
    data = TensorDataset(torch.randn(29, 4), torch.randint(0, 3, (29,)))
    return DataLoader(data, batch_size=7)
"""
ENGINE = """\
import torch.nn.functional as F


def fit(model, optimizer, loader):
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())
"""
TRAIN = """\
import data
from engine import fit
from model import build


def main():
    model, optimizer = build()
    fit(model, optimizer, data.make())


if __name__ == "__main__":
    main()
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("DISTIFY_")]:
        monkeypatch.delenv(name)
    for name, text in {"train": TRAIN, "model": MODEL, "data": DATA, "engine": ENGINE}.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["rewrite", *arguments])


def test_every_file_that_needs_it_is_rewritten_and_named(project: Path) -> None:
    result = run("train.py", "--backend", "ddp")
    assert result.exit_code == 0
    lines = result.stderr.splitlines()
    assert [line.split(":")[0] for line in lines] == ["train.py", "data.py", "engine.py", "launch"]
    assert '    runtime.init(backend="ddp")\n    model, optimizer = build()' in (project / "train.py").read_text()
    assert "runtime.prepare(model, optimizer)" in (project / "train.py").read_text()
    assert (project / "model.py").read_text() == MODEL
    assert "return runtime.shard(DataLoader(" in (project / "data.py").read_text()
    assert "loss = runtime.mean(F.cross_entropy(model(x), y))" in (project / "engine.py").read_text()
    before = {path: path.read_bytes() for path in project.glob("*.py")}
    again = run("train.py")
    assert again.stderr == "train.py: nothing to do, already converted\n"
    assert {path: path.read_bytes() for path in project.glob("*.py")} == before
    assert 'runtime.init(backend="fsdp")' in run("train.py", "--backend", "fsdp", "--diff").stdout


@pytest.mark.parametrize(
    "name", ['"nets." + sys.argv[1]', 'f"nets.{sys.argv[1]}"', '"nets.%s" % sys.argv[1]', '"nets.small"']
)
def test_a_module_of_a_computed_name(project: Path, name: str) -> None:
    (project / "nets").mkdir()
    for net in ("small", "large"):
        text = MODEL.replace("self.body(x)", "self.body(x.cuda())")
        (project / "nets" / f"{net}.py").write_text(text)
    text = TRAIN.replace("from model import build", "import importlib\nimport sys").replace(
        "= build()", f"= importlib.import_module({name}).build()"
    )
    (project / "train.py").write_text(text)
    result = run("train.py", "--backend", "ddp")
    assert result.exit_code == 0, result.stderr
    assert "runtime.prepare(model, optimizer)" in (project / "train.py").read_text()
    assert "x.to(runtime.device())" in (project / "nets/small.py").read_text()
    assert ("runtime.device()" in (project / "nets/large.py").read_text()) == (name != '"nets.small"')


def test_no_follow_restricts_it_to_the_files_given(project: Path) -> None:
    assert run("train.py", "--no-follow").exit_code == 0
    assert (project / "train.py").read_text() == TRAIN
    assert run("model.py", "--no-follow").exit_code == 0
    assert (project / "model.py").read_text() == MODEL


def test_a_folder_gives_the_same_as_its_script(project: Path) -> None:
    single = run("train.py", "--diff").stdout
    folder = run(".", "--diff").stdout
    assert sorted(folder.replace("a/./", "a/").replace("b/./", "b/").splitlines()) == sorted(single.splitlines())


def test_check_exits_with_one_if_a_module_would_change(project: Path) -> None:
    assert run("train.py").exit_code == 0
    assert run("train.py", "--check").exit_code == 0
    (project / "engine.py").write_text(ENGINE)
    result = run("train.py", "--check")
    assert result.exit_code == 1
    assert "engine.py: would be converted" in result.stderr


def test_a_refusal_in_a_module_writes_nothing(project: Path) -> None:
    broken = ENGINE.replace("print(loss.item())", "print(F.made_up_loss(model(x), y).item())")
    (project / "engine.py").write_text(broken.replace("loss = F.cross", "loss = F.made_up_loss(model(x), y) + F.cross"))
    result = run("train.py")
    if result.exit_code == 0:
        pytest.fail("an unknown loss was converted")
    assert result.exit_code == 1
    assert "engine.py:" in result.stderr
    assert (project / "train.py").read_text() == TRAIN
    assert (project / "model.py").read_text() == MODEL


def test_a_broken_module_is_a_name_only(project: Path) -> None:
    (project / "extra.py").write_text("def (")
    (project / "train.py").write_text("import extra\nimport missing\n" + TRAIN)
    assert run("train.py").exit_code == 0


def test_modules_of_two_scripts_serve_both(project: Path) -> None:
    other = TRAIN.replace("fit(model, optimizer, data.make())", "fit(model, optimizer, data.make())\n    print(1)")
    (project / "other.py").write_text(other)
    assert run("train.py", "other.py").exit_code == 0
    shared = (project / "engine.py").read_text()
    assert shared.count("runtime.mean(") == 1
    for name in ("train.py", "other.py"):
        assert (project / name).read_text().count("runtime.init()") == 1
    for paths in (["train.py"], ["other.py"], ["train.py", "other.py"], ["."]):
        assert run(*paths, "--check").exit_code == 0


def test_elsewhere(project: Path, tmp_path: Path) -> None:
    result = run("train.py", "-o", "one.py")
    assert result.exit_code == 2
    assert result.stderr.startswith("distify: -o one.py: the script imports modules that change as well (data.py, eng")
    assert result.stderr.count("\n") == 1
    assert not (project / "one.py").exists()
    assert run("train.py", "-o", "out/").exit_code == 0
    assert sorted(path.name for path in (project / "out").iterdir()) == ["data.py", "engine.py", "model.py", "train.py"]
    assert (project / "train.py").read_text() == TRAIN


def test_a_module_that_seeds_when_it_is_imported(project: Path) -> None:
    """The runtime has to be there before."""
    (project / "config.py").write_text("import torch\n\ntorch.manual_seed(1)\ndevice = torch.device('cuda')\n")
    (project / "train.py").write_text(TRAIN.replace("import data\n", "import data\nimport config\n"))
    assert run("train.py").exit_code == 0
    text = (project / "train.py").read_text()
    assert text.index("runtime.init()") < text.index("import config")
    assert "device = runtime.device()" in (project / "config.py").read_text()


STYLES = {
    "a module attribute": ("import torch_names as t", "t.optim.SGD", "t.nn.Linear(4, 3)"),
    "a star import": ("from torch_names import *", "optim.SGD", "nn.Linear(4, 3)"),
    "a renamed member": ("from torch_names import optim as o, nn as n", "o.SGD", "n.Linear(4, 3)"),
    "a class of a module": ("import nets", "nets.optim.SGD", "nets.Net()"),
    "a class found by its name": ("import nets", "nets.optim.SGD", "getattr(nets, 'N' + 'et')()"),
    "a class in the module's dict": ("import nets", "nets.optim.SGD", "nets.__dict__['N' + 'et']()"),
}


@pytest.mark.parametrize("style", STYLES)
def test_names_that_come_through_modules(project: Path, style: str) -> None:
    line, optimizer, model = STYLES[style]
    (project / "torch_names.py").write_text("import torch\nfrom torch import nn, optim\n")
    (project / "nets.py").write_text(MODEL)
    train = f"""\
{line}
import data
from engine import fit

model = {model}
opt = {optimizer}(model.parameters(), lr=0.1)
fit(model, opt, data.make())
"""
    (project / "train.py").write_text(train)
    assert run("train.py").exit_code == 0
    assert "runtime.prepare(model, opt)" in (project / "train.py").read_text()
    assert "runtime.mean(" in (project / "engine.py").read_text()


def test_a_loss_that_cannot_be_seen_into_is_refused(project: Path) -> None:
    """Left alone, every process would train the whole run."""
    script = """\
import torch
from torch import nn, optim
from elsewhere import amp
net = nn.Linear(4, 3)
opt = optim.SGD(net.parameters(), lr=0.1)
net, opt = amp.initialize(net, opt)
for _ in range(3):
    loss = net(torch.randn(8, 4)).mean()
    with amp.scale_loss(loss, opt) as scaled:
        scaled.backward()
    opt.step()
"""
    (project / "script.py").write_text(script)
    result = run("script.py")
    assert result.exit_code == 1
    assert "script.py:10:9 DST202 error: " in result.stderr
    assert (project / "script.py").read_text() == script


NETS = """\
import torch.nn as layers
import torch.nn.functional as F

PAD = 0


class Net(layers.Module):
    def __init__(self):
        super().__init__()
        self.fc = layers.Linear(4, 3)

    def forward(self, x, labels):
        return F.cross_entropy(self.fc(x), labels, ignore_index=PAD)
"""
TRAINS_NET = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

from nets import Net

PAD = 7
model = Net()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(TensorDataset(torch.randn(20, 4), torch.randint(0, 3, (20,))), batch_size=4):
    opt.zero_grad()
    loss = model(x, y)
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("PAD", "by=(y != 0).sum())"),
        ("layers.PAD", "DST116"),
    ],
)
def test_a_divisor_in_names_of_another_file(project: Path, option: str, expected: str) -> None:
    (project / "nets.py").write_text(NETS.replace("=PAD", f"={option}"))
    (project / "train.py").write_text(TRAINS_NET)
    result = run("train.py", "--diff")
    assert expected in result.stdout + result.stderr
