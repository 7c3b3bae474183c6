"""What the codemod reads is text: nothing of it is executed or imported, and no kind of file makes it wait or fail badly."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from distify.codemod import files, writing
from distify.codemod.cli import app
from distify.codemod.editing.errors import EditError
from distify.codemod.options import Options
from distify.codemod.rewrite import rewrite_source
from distify.codemod.templates import render
from tests.codemod.test_cli import TRAIN


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty project, and where the user is."""
    for name in list(os.environ):
        if name.startswith("DISTIFY_"):
            monkeypatch.delenv(name)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def run(*arguments, stdin=None):
    return CliRunner().invoke(app, ["rewrite", *map(str, arguments)], input=stdin)


def refused(result, *words):
    """One line on standard error, exit status 2, no traceback."""
    assert result.exit_code == 2, result.stderr
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.startswith("distify: ")
    assert result.stdout == ""
    for word in words:
        assert word in result.stderr


# --- nothing is executed or imported

MARK = "open({!r}, 'a').write(__file__ + '\\n')\n"
NAMES = (
    "libcst typer click rich jinja2 markupsafe tomli yaml yaml_ft numpy torch attr IPython ipywidgets shellingham colorama pygments "
    "typing_extensions codemod runtime templates conftest sitecustomize usercustomize torch_distify helper"
)


def test_a_project_that_is_full_of_traps(folder):
    """Modules named like those that distify and its libraries import lie where it is started."""
    mark = folder.parent / "executed"
    trap = MARK.format(str(mark))
    for name in {*NAMES.split(), *sys.stdlib_module_names} - {"__main__"}:
        (folder / f"{name}.py").write_text(trap)
    (folder / "pkg").mkdir()
    (folder / "pkg" / "__init__.py").write_text(trap + "import torch\n")
    (folder / "pkg" / "data.py").write_text(trap + "import torch\nSIZE = 8\n")
    text = trap + "import helper, pkg\nfrom pkg.data import SIZE\n" + TRAIN.replace("batch_size=8", "batch_size=SIZE")
    (folder / "train.py").write_text(text)
    installed = os.path.join(os.path.dirname(sys.executable), "distify")
    ways = [[sys.executable, "-m", "distify.codemod"], [installed]]
    for way in ways if os.path.exists(installed) else ways[:1]:
        command = [*way, "rewrite", "train.py", "--diff"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        assert done.returncode == 0, done.stderr
        assert "+    runtime.backward(loss)" in done.stdout.replace("        ", "    ")
        assert not mark.exists(), mark.read_text()
    assert (folder / "train.py").read_text() == text
    assert not list(folder.glob("**/__pycache__"))


@pytest.mark.parametrize(
    "hostile",
    ["{{ 7 * 7 }}", "{% for x in y %}", "{# #}", "{{ ''.__class__.__mro__ }}", "{{ node }}", "{%- raw %}{{ callee }}"],
)
def test_text_of_a_script_is_no_template(hostile):
    """Expressions that end up inside inserted code hold what a template engine would execute."""
    source = TRAIN.replace("criterion(model(x), y)", f"criterion(model(x), y) * len({hostile!r})")
    source = source.replace("batch_size=8", f"batch_size=len({hostile!r}) * 0 + 8")
    result = rewrite_source(source.encode(), "train.py", Options(accumulate=2, precision="bf16"))
    assert result.changed, result.findings
    assert result.data.decode().count(repr(hostile)) == 2


def test_templates_run_in_a_sandbox():
    for attack in (
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{{ node.__init__.__globals__ }}",
        "{{ missing }}",
    ):
        with pytest.raises((EditError, TypeError)):
            render(attack, {"node": Path})
    with pytest.raises(EditError):
        render("no_such_template", {})
    assert render("{{ node }}", {"node": "{{ 7 * 7 }}"}) == "{{ 7 * 7 }}"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("backend = \"__import__('os').system('touch executed')\"", "unknown value"),
        ("accumulate = \"__import__('os').getpid()\"", "is not a whole number"),
        ('"__class__" = "x"', "unknown key '__class__'"),
        ("backend = " + "[" * 5000, "pyproject.toml: "),
        ("accumulate = " + "9" * 5000, "pyproject.toml: "),
        ("backend = {a = 1}", "unknown value"),
    ],
)
def test_a_hostile_configuration(folder, table, words):
    (folder / "pyproject.toml").write_text(f"[tool.distify]\n{table}\n")
    (folder / "train.py").write_text(TRAIN)
    refused(run("train.py"), words)
    assert sorted(os.listdir(folder)) == ["pyproject.toml", "train.py"]
    assert (folder / "train.py").read_text() == TRAIN


# --- kinds of files


def special(folder):
    """Everything that is no file, by name."""
    os.mkfifo(folder / "pipe.py")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("sock.py")
    (folder / "folder.py").mkdir()
    for name, to in {"null": os.devnull, "fifo": "pipe.py", "self": "self.py", "gone": "absent.py"}.items():
        os.symlink(to, folder / f"{name}.py")
    os.symlink("b.py", folder / "a.py")
    os.symlink("a.py", folder / "b.py")
    os.symlink(".", folder / "loop")
    with contextlib.suppress(PermissionError):  # only root may
        os.mknod(folder / "device.py", stat.S_IFCHR | 0o600, os.makedev(1, 5))


def test_what_is_no_file(folder):
    special(folder)
    expected = {
        "pipe": "not a regular file",
        "sock": "not a regular file",
        "null": "not a regular file",
        "fifo": "not a regular file",
        "device": "not a regular file",
        "self": "too many levels of symbolic links",
        "a": "too many levels of symbolic links",
        "gone": "a link to nothing: absent.py",
    }
    before = sorted(os.listdir(folder))
    for name, words in expected.items():
        if os.path.lexists(f"{name}.py"):
            refused(run(f"{name}.py"), f"{name}.py: {words}")
    refused(run(os.devnull), "not a regular file")
    assert run("folder.py").stderr == "distify: no Python files found\n"
    for name in ("pipe", "sock", "device"):  # nor as the place to write to
        if os.path.exists(f"{name}.py"):
            refused(run("-", "-o", f"{name}.py", stdin=TRAIN), "not a regular file")
    assert sorted(os.listdir(folder)) == before


def test_a_folder_that_holds_them_is_converted(folder):
    special(folder)
    (folder / "train.py").write_text("import pipe, null, a, folder, gone\n" + TRAIN)
    result = run(".")
    assert result.exit_code == 0, result.stderr
    assert "runtime.init()" in (folder / "train.py").read_text()
    assert "left alone" not in result.stderr


def test_a_file_that_becomes_a_pipe(folder, monkeypatch):
    """Between the look at it and the opening: nobody writes to it, so an ordinary `open` would wait for ever."""
    (folder / "train.py").write_text(TRAIN)
    os.mkfifo(folder / "pipe.py")
    seen = os.stat("train.py")
    monkeypatch.setattr(files.os, "stat", lambda path, *rest, **more: seen)
    with pytest.raises(files.FileError, match="not a regular file"):
        files.read("pipe.py")


# --- links


def test_a_link_is_edited_at_its_target(folder):
    (folder.parent / "elsewhere.py").write_text(TRAIN)
    os.symlink("../elsewhere.py", folder / "train.py")
    result = run("train.py")
    assert result.exit_code == 0
    assert (folder / "train.py").is_symlink()
    assert "runtime.init()" in (folder.parent / "elsewhere.py").read_text()


def test_links_that_lead_out_of_a_folder_are_left_alone(folder):
    (folder.parent / "elsewhere.py").write_text(TRAIN)
    (folder.parent / "more").mkdir()
    (folder.parent / "more" / "inside.py").write_text(TRAIN)
    os.symlink("../elsewhere.py", folder / "out.py")
    os.symlink("../more", folder / "more")
    (folder / "train.py").write_text(TRAIN)
    os.symlink("train.py", folder / "same.py")
    result = run(".")
    assert result.exit_code == 0
    assert "out.py: a link that leads out of . is left alone; name it to convert what it leads to" in result.stderr
    assert (folder.parent / "elsewhere.py").read_text() == TRAIN
    assert (folder.parent / "more" / "inside.py").read_text() == TRAIN
    assert "runtime.init()" in (folder / "train.py").read_text()
    assert "left alone" not in run(".", "-q").stderr


MODULE = "import torch\n\n\ndef step(model, loss, optimizer):\n    loss.backward()\n    optimizer.step()\n"
IMPORTS = TRAIN.replace("        loss.backward()\n        optimizer.step()\n", "        step(model, loss, optimizer)\n")


@pytest.mark.parametrize("way", ["link", "path", "folder"])
def test_modules_outside_of_the_project_are_not_edited_unasked(folder, way):
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "steps.py").write_text(MODULE)
    (folder / "pyproject.toml").write_text("")
    head = "from steps import step\n"
    if way == "link":
        os.symlink(outside / "steps.py", folder / "steps.py")
    elif way == "folder":
        os.symlink(outside, folder / "lib")
        head = "from lib.steps import step\n"
    else:
        head = f"import sys\nsys.path.append({str(outside)!r})\n" + head
    (folder / "train.py").write_text(head + IMPORTS)
    for arguments in (["train.py"], ["train.py", "--check"], ["train.py", "--diff"]):
        refused(run(*arguments), "steps.py", "lies outside of the project", "give it by name as well, or --no-follow")
    assert (outside / "steps.py").read_text() == MODULE
    assert (folder / "train.py").read_text() == head + IMPORTS
    done = run("train.py", outside / "steps.py")
    assert done.exit_code == 0, done.stderr
    assert "runtime.backward(loss)" in (outside / "steps.py").read_text()


def test_a_module_beside_the_script_is_converted_with_it(folder):
    (folder / "steps.py").write_text(MODULE)
    (folder / "train.py").write_text("from steps import step\n" + IMPORTS)
    assert run("train.py").exit_code == 0
    assert "runtime.backward(loss)" in (folder / "steps.py").read_text()


def test_hard_links_are_told(folder):
    (folder / "train.py").write_text(TRAIN)
    os.link(folder / "train.py", folder / "backup")
    result = run("train.py")
    assert result.exit_code == 0
    assert "distify: train.py: had 2 names (hard links); only this one has the new text\n" in result.stderr
    assert (folder / "backup").read_text() == TRAIN


# --- what may not be read or written


@contextlib.contextmanager
def powerless():
    """As a user who owns nothing, if this is root, who may do everything."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder(folder, monkeypatch):
    """A folder that every user may enter, unlike those that pytest makes."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    monkeypatch.chdir(made)
    yield made
    for inside in (path for path in made.iterdir() if path.is_dir()):
        inside.chmod(0o755)
    shutil.rmtree(made)


def test_permissions(open_folder):
    folder = open_folder
    run("-", "--diff", stdin=TRAIN)  # loads what is loaded late
    (folder / "train.py").write_text("import secret\nimport closed.module\n" + TRAIN)
    (folder / "secret.py").write_text("import torch\n")
    (folder / "secret.py").chmod(0)
    for name in ("closed", "shut"):
        (folder / name).mkdir()
    (folder / "closed" / "module.py").write_text("import torch\n")
    (folder / "closed").chmod(0)
    (folder / "shut").chmod(0o555)
    with powerless():
        refused(run("secret.py"), "secret.py: permission denied")
        refused(run("closed"), "closed: permission denied")
        refused(run("."), "closed: permission denied")
        refused(run(os.path.join("closed", "module.py")), "permission denied")
        shown = run("train.py", "--diff")  # what it imports and can't be read stays a name
        assert shown.exit_code == 0, shown.stderr
        refused(run("-", "-o", os.path.join("shut", "out.py"), stdin=TRAIN), "permission denied; nothing was written")
    assert os.listdir(folder / "shut") == []


def test_a_closed_folder_above(folder, monkeypatch):
    """Where a folder above can't be searched, it has no pyproject.toml to speak of."""
    (folder / "train.py").write_text(TRAIN)
    real = os.stat

    def closed(path, *rest, **more):
        if os.path.basename(os.fspath(path)) == "pyproject.toml" and isinstance(path, (str, os.PathLike)):
            raise PermissionError(13, "Permission denied")
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "stat", closed)
    assert run("train.py").exit_code == 0


def test_a_rename_that_fails_undoes_those_before(folder, monkeypatch):
    """In a folder with the sticky bit, files of others can be read and new ones made, but none replaced."""
    (folder / "a.py").write_text("old a\n")
    (folder / "c.py").write_text("old c\n")
    rename, calls = os.replace, []

    def replace(source, target):
        calls.append(target)
        if len(calls) == 3:
            raise PermissionError(1, "Operation not permitted")
        rename(source, target)

    monkeypatch.setattr(writing.os, "replace", replace)
    wanted = [writing.Replacement(str(folder / name), b"new\n") for name in ("a.py", "b.py", "c.py")]
    with pytest.raises(files.FileError, match=r"c\.py: operation not permitted$") as caught:
        writing.write_all(wanted)
    assert not isinstance(caught.value, writing.PartlyWritten)
    assert sorted(os.listdir(folder)) == ["a.py", "c.py"]
    assert [(folder / name).read_text() for name in ("a.py", "c.py")] == ["old a\n", "old c\n"]

    calls.clear()
    monkeypatch.setattr(writing.os, "unlink", lambda path: os.remove(path) if path.endswith(".tmp") else fail())

    def fail():
        raise PermissionError(1, "Operation not permitted")

    with pytest.raises(writing.PartlyWritten, match=r"c\.py: operation not permitted; written all the same: .*b\.py$"):
        writing.write_all(wanted)


# --- sizes and depths


def test_files_of_more_than_ten_megabytes(folder, monkeypatch):
    monkeypatch.setattr(files, "LIMIT", 1 << 20)
    large = TRAIN + "# " + "x" * (1 << 20) + "\n"
    (folder / "large.py").write_text(large)
    refused(run("large.py"), "large.py: larger than 1 MB, which no script is")
    refused(run("-", stdin=large), "standard input: larger than 1 MB")
    (folder / "train.py").write_text("import large\n" + TRAIN)
    result = run(".")
    assert result.exit_code == 0
    assert "large.py: larger than 1 MB, which no script is; keep data in a file of its own; left alone" in result.stderr
    assert (folder / "large.py").read_text() == large
    assert "runtime.init()" in (folder / "train.py").read_text()


def test_the_limit_is_ten_megabytes():
    assert files.LIMIT == 10 * 1024 * 1024


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("x = " + "(" * 5000 + "1" + ")" * 5000, "not valid Python: "),
        ("x = " + "-" * 30_000 + "1", "nested too deeply"),
        ("x = " + "lambda: " * 3000 + "1", "nested too deeply"),
        ("x = " + "+".join(["1"] * 30_000), "nested too deeply"),
        ("x = a" + ".b" * 30_000, "nested too deeply"),
        ("x = a" + "()" * 5000, "nested too deeply"),
        ("if x:\n    pass\n" + "elif x:\n    pass\n" * 5000, "nested too deeply"),
        ("x = " + "9" * 5000, "not valid Python: "),
        ("x = '\0'", "not valid Python: "),
    ],
    ids=["parentheses", "signs", "lambdas", "sum", "attributes", "calls", "elif", "digits", "null"],
)
def test_text_that_is_nested_too_deeply(folder, line, words):
    (folder / "train.py").write_text(TRAIN + line + "\n")
    refused(run("train.py"), "train.py", words)
    assert (folder / "train.py").read_text() == TRAIN + line + "\n"
    assert os.listdir(folder) == ["train.py"]


def test_a_long_literal(folder):
    (folder / "train.py").write_text(TRAIN + f"table = [{', '.join(map(str, range(1500)))}]\n")
    assert run("train.py").exit_code == 0
    assert "1498, 1499]\n" in (folder / "train.py").read_text()


@pytest.mark.parametrize("name", ["zip", "hex", "rot13", "idna", "punycode", "undefined", "no_such"])
def test_encodings_that_are_none(folder, name):
    text = f"# coding: {name}\n" + TRAIN
    (folder / "train.py").write_text(text)
    result = run("train.py")
    refused(result, "train.py: ")
    assert "mistake of distify" not in result.stderr
    assert (folder / "train.py").read_text() == text


def test_folders_of_any_depth(folder):
    for _ in range(1200):
        os.mkdir("a")
        os.chdir("a")
    Path("train.py").write_text(TRAIN)
    os.chdir(folder)
    try:
        assert list(files.walk(".")) == [f"{'a/' * 1200}train.py"]
    finally:  # too deep for pytest's own cleaning
        subprocess.run(["rm", "-rf", "a"], check=True)


# --- names


def test_names_that_steer_the_terminal_or_are_no_text(folder):
    names = [b"a\x1b[31mb.py", b"new\nline.py", b"-x.py", "ä [red].py".encode()]
    for name in [*names, *([b"\xff.py"] if sys.platform == "linux" else [])]:  # elsewhere names are text
        with open(os.path.join(os.fsencode(folder), name), "w") as file:
            file.write(TRAIN)
    result = run(".")
    assert result.exit_code == 0, result.stderr
    assert "\x1b" not in result.stderr
    assert "a\\x1b[31mb.py" in result.stderr
    assert all("runtime.init()" in file.read_text() for file in folder.iterdir())
