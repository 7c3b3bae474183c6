"""The command: what it prints where, what it writes, and how it exits."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from distify.codemod import __main__ as entry
from distify.codemod import rewriter
from distify.codemod.cli import app
from distify.codemod.edits import Span
from distify.codemod.files import FileError
from distify.codemod.findings import finding

TRAIN = """\
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(40, 3), torch.randn(40, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Linear(3, 1)
criterion = nn.MSELoss()
optimizer = optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    print(f"{epoch} {loss.item():.4f}")
"""
PLAIN = "import torch\n\nprint(torch.ones(3))\n"
REFUSED = TRAIN.replace("model = nn.Linear(3, 1)", "model = nn.Linear(3, 1)  # refuse")


@pytest.fixture
def train(tmp_path):
    file = tmp_path / "train.py"
    file.write_text(TRAIN)
    return file


@pytest.fixture(autouse=True)
def refusal(monkeypatch):
    """Whatever else the rules do, a line that says "refuse" is refused."""
    plans = rewriter.make_plans

    def refuse(module, plan):
        line = next((at for at, line in enumerate(module.source.splitlines(), 1) if "# refuse" in line), None)
        return plan if line is None else replace(plan, findings=[finding("DST301", Span(line, 8, line, 9))])

    def with_refusal(program, options):
        return [(module, refuse(module, plan)) for module, plan in plans(program, options)]

    monkeypatch.setattr(rewriter, "make_plans", with_refusal)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.startswith("DISTIFY_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def run(*arguments, stdin=None):
    return CliRunner().invoke(app, ["rewrite", *map(str, arguments)], input=stdin)


def test_in_place_with_a_report(train):
    result = run("train.py", "--backend", "fsdp", "--precision", "bf16")
    assert result.exit_code == 0, result.output
    text = train.read_text()
    assert 'runtime.init(backend="fsdp", precision="bf16")' in text
    assert result.stdout == ""
    assert result.stderr.startswith("train.py: converted: ")
    assert result.stderr.endswith("launch: torchrun --nproc-per-node 2 train.py\n")


def test_a_second_run_does_nothing(train):
    run("train.py")
    before = train.stat()
    result = run("train.py")
    assert result.exit_code == 0
    assert "nothing to do" in result.stderr
    assert train.stat().st_mtime_ns == before.st_mtime_ns
    assert run("train.py", "--check").exit_code == 0


def test_another_option_changes_the_one_call(train):
    run("train.py", "--backend", "fsdp")
    first = train.read_text()
    run("train.py", "--backend", "deepspeed")
    assert train.read_text() == first.replace('"fsdp"', '"deepspeed"')


def test_output_elsewhere_keeps_the_original(train):
    train.chmod(0o750)
    result = run("train.py", "-o", "new/out.py")
    assert result.exit_code == 0
    assert train.read_text() == TRAIN
    assert "runtime.prepare" in Path("new/out.py").read_text()
    assert Path("new/out.py").stat().st_mode & 0o777 == 0o750
    assert "torchrun --nproc-per-node 2 new/out.py" in result.stderr


def test_output_folder_keeps_the_tree(tmp_path):
    for name, text in (("src/a.py", TRAIN), ("src/b/c.py", PLAIN)):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    assert run("src", "-o", "out").exit_code == 0
    assert "runtime" in (tmp_path / "out/a.py").read_text()
    assert (tmp_path / "out/b/c.py").read_text() == PLAIN
    assert (tmp_path / "src/a.py").read_text() == TRAIN


def test_output_to_standard_output(train):
    result = run("train.py", "-o", "-")
    assert "runtime.prepare" in result.stdout
    assert train.read_text() == TRAIN


def test_standard_input_to_standard_output():
    result = run("-", stdin=TRAIN)
    assert result.exit_code == 0
    assert "runtime.prepare(model, optimizer)" in result.stdout
    assert "<stdin>: converted" in result.stderr
    assert "launch" not in result.stderr
    assert run("-", stdin=result.stdout).stdout == result.stdout
    assert run("-", stdin=PLAIN).stdout == PLAIN


def test_standard_input_has_a_name():
    result = run("-", "--stdin-filename", "a/b.py", "--diff", stdin=TRAIN)
    assert result.stdout.startswith("--- a/a/b.py\n+++ b/a/b.py\n@@ ")
    assert "a/b.py: would be converted" in result.stderr


def test_diff_can_be_applied_and_writes_nothing(train):
    result = run("train.py", "--diff")
    assert result.exit_code == 0
    assert train.read_text() == TRAIN
    subprocess.run(["git", "apply", "-"], input=result.stdout.encode(), check=True)
    converted = train.read_text()
    train.write_text(TRAIN)
    run("train.py")
    assert train.read_text() == converted


def test_check_writes_nothing_and_exits_with_one(train):
    result = run("train.py", "--check")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "train.py: would be converted" in result.stderr
    assert train.read_text() == TRAIN
    assert run("train.py", "--check", "--diff").stdout.startswith("--- a/train.py")


def test_a_file_without_training_is_left_alone(tmp_path):
    (tmp_path / "plain.py").write_text(PLAIN)
    result = run("plain.py")
    said = "plain.py: left alone, it trains no model\n"
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", said)
    assert run("plain.py", "--quiet").stderr == ""
    (tmp_path / "other.py").write_text(PLAIN)
    assert run("plain.py", "other.py").stderr == ""  # a hook names many
    assert run("plain.py", "other.py", "--verbose").stderr == said + said.replace("plain", "other")
    assert (tmp_path / "plain.py").read_text() == PLAIN


def test_a_refusal_writes_nothing_at_all(train, tmp_path):
    (tmp_path / "bad.py").write_text(REFUSED)
    result = run("train.py", "bad.py")
    assert result.exit_code == 1
    assert "bad.py:8:9 DST301 error: " in result.stderr
    assert "bad.py: not converted, 1 place refused" in result.stderr
    assert "train.py: not converted, since another file was refused" in result.stderr
    assert train.read_text() == TRAIN
    assert (tmp_path / "bad.py").read_text() == REFUSED


def test_training_that_is_not_understood_is_refused(train):
    train.write_text(TRAIN.replace("optim.SGD(model.parameters(), lr=0.1)", "make(model)"))
    result = run("train.py")
    assert result.exit_code == 1
    assert " error: " in result.stderr


def test_a_refused_standard_input_gives_nothing_back():
    result = run("-", stdin=REFUSED)
    assert (result.exit_code, result.stdout) == (1, "")


def test_partial_converts_the_rest(train, tmp_path):
    (tmp_path / "bad.py").write_text(REFUSED)
    (tmp_path / "old.py").write_text("import torch\nloss.backward()\nprint 'x'\n")
    result = run("train.py", "bad.py", "old.py", "--partial")
    assert result.exit_code == 2
    assert "runtime" in train.read_text()
    assert "runtime" in (tmp_path / "bad.py").read_text()
    assert "1 place refused and left as it was" in result.stderr
    assert "distify: old.py:3:1: not valid Python" in result.stderr


def test_quiet_says_errors_only(train, tmp_path):
    assert run("train.py", "--quiet").stderr == ""
    (tmp_path / "bad.py").write_text(REFUSED)
    lines = run("bad.py", "--quiet").stderr.splitlines()
    assert lines[0].startswith("bad.py: not converted")
    assert "DST301 error" in lines[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train.py", "--backend", "fdsp"], "did you mean 'fsdp'?"),
        (["train.py", "--accumulate", "0"], "not a whole number from 1"),
        (["-", "train.py"], "can't be mixed"),
        (["train.py", "--stdin-filename", "x"], "goes with '-' only"),
        (["train.py", "-o", "x", "--diff"], "-o writes and --diff doesn't"),
        (["train.py", "-q", "-v"], "exclude each other"),
    ],
)
def test_usage_errors(train, arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert train.read_text() == TRAIN


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("missing.py", None, "distify: missing.py: no such file\n"),
        ("old.py", "import torch\nloss.backward()\nprint 'x'\n", "distify: old.py:3:1: not valid Python: "),
        ("book.ipynb", "{}", "distify: book.ipynb: a notebook; export it first: jupyter nbconvert"),
    ],
)
def test_bad_input_is_one_line(tmp_path, name, text, message):
    if text is not None:
        (tmp_path / name).write_text(text)
    result = run(name)
    assert result.exit_code == 2
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("verb", ["check", "verify", "launch"])
def test_a_notebook_is_told_by_every_verb(tmp_path, capsys, verb):
    (tmp_path / "book.ipynb").write_text("{}")
    assert entry.run([verb, str(tmp_path / "book.ipynb")]) == 2
    assert "a notebook; export it first: jupyter nbconvert" in capsys.readouterr().err


def test_several_files_do_not_fit_into_one(train, tmp_path):
    (tmp_path / "b.py").write_text(TRAIN)
    assert "not a folder" in run("train.py", "b.py", "-o", "out.py").stderr
    assert "several files" in run("train.py", "b.py", "-o", "-").stderr


def test_a_wrong_pyproject_is_one_line(train, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.distify]\nbackend = "dpd"\n')
    result = run("train.py")
    assert result.exit_code == 2
    assert "unknown value 'dpd', did you mean 'ddp'?" in result.stderr
    assert train.read_text() == TRAIN


def test_pyproject_decides_the_shape_but_is_not_written_down(train, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.distify]\nbackend = "fsdp"\naccumulate = 4\n')
    run("train.py")
    assert "runtime.init()" in train.read_text()
    assert "with runtime.accumulate() as window:" in train.read_text()


def test_an_empty_folder(tmp_path):
    (tmp_path / "empty").mkdir()
    result = run("empty")
    assert (result.exit_code, result.stderr) == (0, "distify: no Python files found\n")


# The command itself


def command(*arguments, **more):
    return subprocess.run(
        [sys.executable, "-m", "distify.codemod", *arguments], capture_output=True, text=True, check=False, **more
    )


def test_exit_codes_of_the_process(train):
    assert command("rewrite", "train.py", "--check").returncode == 1
    done = command("rewrite", "train.py")
    assert (done.returncode, done.stdout) == (0, "")
    wrong = command("rewrite", "train.py", "--backnd", "x")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("distify: no such option: --backnd")
    assert wrong.stderr.count("\n") == 1


def test_a_link_to_nothing(tmp_path):
    (tmp_path / "link.py").symlink_to("gone.py")
    assert run("link.py").stderr == "distify: link.py: a link to nothing: gone.py\n"


FULL = [  # a device of Linux
    ("rewrite train.py --diff -q >/dev/full", "distify: standard output: no space left on device\n"),
    ("rewrite - -q <train.py >/dev/full", "distify: standard output: no space left on device; nothing was written\n"),
]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        *(FULL if sys.platform == "linux" else ()),
        ("rewrite - -q <train.py >&-", "distify: standard output: closed; nothing was written\n"),
        ("rewrite - -q <&-", "distify: standard input: closed\n"),
        ("rewrite missing.py 2>&-", ""),
    ],
)
def test_streams_that_fail_are_one_line(train, line, message):
    shell = ["sh", "-c", f"{sys.executable} -m distify.codemod {line}"]
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    for environment in (plain, {**plain, "PYTHONUNBUFFERED": "1"}):
        done = subprocess.run(
            shell, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=environment
        )
        assert (done.returncode, done.stderr) == (2, message)


def test_help_and_version_are_quick():
    code = (
        "import sys; from distify.codemod.__main__ import run; run(['rewrite', '--help']); run(['--version']);"
        "print([name for name in ('libcst', 'jinja2', 'torch', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")
    assert "distify rewrite train.py --diff" in done.stdout
    assert "distify 0." in done.stdout


def lines_of(capsys, *arguments):
    code = entry.run(list(arguments))
    return code, capsys.readouterr().err


def test_no_command_shows_help(capsys):
    code, text = lines_of(capsys)
    assert code == 2
    assert "rewrite" in text


def test_wrong_usage_is_one_line(capsys):
    code, text = lines_of(capsys, "rewrit")
    assert (code, text.count("\n")) == (2, 1)
    assert text.startswith("distify: no such command 'rewrit'")
    assert lines_of(capsys, "rewrite") == (2, "distify: missing argument 'PATH' (see: distify rewrite --help)\n")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "distify: interrupted; no file was left half-written\n"),
        (RuntimeError("a\nb"), 2, "distify: internal error: RuntimeError: a b"),
        (FileError("standard output: closed"), 2, "distify: standard output: closed\n"),
    ],
)
def test_whatever_happens_is_one_line(capsys, monkeypatch, error, code, message):
    def fail(request):
        raise error

    monkeypatch.setattr("distify.codemod.convert.convert", fail)
    assert entry.run(["rewrite", "x.py"]) == code
    text = capsys.readouterr().err
    assert text.lstrip().startswith(message)
    assert text.strip().count("\n") == 0


def test_a_reader_that_goes_away_is_no_error(train):
    script = f"{sys.executable} -m distify.codemod rewrite train.py --diff 2>err | head -c 1; cat err"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stdout + done.stderr
