"""`distify check`: exit codes, selection, fixing, formats, and what goes where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from distify.codemod.cli import app
from distify.codemod.options import OptionError
from distify.codemod.selection import Selection, Selections, parse_codes, parse_per_file
from tests.codemod.facts.snippets import NET

from .by_hand import script
from .test_converted import PLAIN, changed, converted

LOCAL = "print(loss.item())"
BAD = script(after_step=LOCAL)
WORSE = script(epoch="pass", after_step=LOCAL)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str, files: dict[str, str] | None = None, text: str | None = None):
    for name, content in (files or {}).items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(content)
    return CliRunner().invoke(app, ["check", *words], input=text)


def test_nothing_found() -> None:
    result = run("train.py", files={"train.py": script()})
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "nothing found in 1 file, 1 of a training script\n"


def test_notes_alone_do_not_fail() -> None:
    result = run("train.py", files={"train.py": PLAIN})
    assert result.exit_code == 0
    assert " DST952 note: A rewrite would make 10 edits" in result.stdout
    assert "1 note in 1 file" in result.stderr
    assert Path("train.py").read_text() == PLAIN
    quiet = run("train.py", "-q")
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, "", "")


def test_warnings_fail_unless_told_otherwise() -> None:
    line = BAD.splitlines().index(f"        {LOCAL}") + 1
    result = run("train.py", files={"train.py": BAD})
    assert result.exit_code == 1
    assert result.stdout.startswith(f"train.py:{line}:9 DST551 warning: ")
    assert run("train.py", "--exit-zero").exit_code == 0
    assert run("train.py", "-q").stderr == ""


def test_standard_input() -> None:
    result = run("-", "--stdin-filename", "a.py", text=BAD)
    assert result.exit_code == 1
    assert result.stdout.startswith("a.py:")


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        ([], ["DST152", "DST551"]),
        (["--select", "DST152"], ["DST152"]),
        (["--select", "DST5,DST152"], ["DST152", "DST551"]),
        (["--select", "DST1", "--ignore", "DST152"], []),
        (["--ignore", "DST1", "--select", "DST152"], ["DST152"]),
        (["--ignore", "ALL", "--select", "DST5"], ["DST551"]),
        (["--per-file-ignores", "t*.py:DST551"], ["DST152"]),
        (["--per-file-ignores", "src:DST5"], ["DST152"]),
        (["--per-file-ignores", "other.py:DST551"], ["DST152", "DST551"]),
    ],
)
def test_selection(words: list[str], codes: list[str]) -> None:
    result = run("src/train.py", *words, "--format", "json", files={"src/train.py": WORSE})
    (file,) = json.loads(result.stdout)["files"]
    assert [item["code"] for item in file["findings"]] == codes
    assert result.exit_code == (1 if codes else 0)


def test_selection_of_the_project() -> None:
    table = '[tool.distify.check]\nignore = ["DST551"]\nper-file-ignores = {"src/*" = ["DST152"]}\n'
    result = run("src", files={"pyproject.toml": table, "src/train.py": WORSE})
    assert (result.exit_code, result.stdout) == (0, "")
    assert run("src", "--ignore", "DST7").stdout.count("DST551") == 1


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("selct = ['DST101']", "[tool.distify.check]: unknown key 'selct', did you mean 'select'?"),
        ("select = ['DST1O1']", "[tool.distify.check] select: unknown code 'DST1O1', did you mean 'DST101'?"),
        ("ignore = 7", "[tool.distify.check] ignore: a list of codes is due"),
        ("per-file-ignores = ['a']", "'a' is not PATTERN:CODES"),
    ],
)
def test_mistakes_of_the_project(table: str, message: str) -> None:
    result = run("train.py", files={"pyproject.toml": f"[tool.distify.check]\n{table}\n", "train.py": BAD})
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--select", "DST1O1"], "--select: unknown code 'DST1O1', did you mean 'DST101'?"),
        (["--ignore", "E501"], "--ignore: unknown code 'E501'"),
        (["--per-file-ignores", "DST551"], "--per-file-ignores: 'DST551' is not PATTERN:CODES"),
        (["--format", "sarf"], "--format: unknown value 'sarf', did you mean 'sarif'?"),
        (["--budget", "none"], "--budget: 'none' is not a whole number"),
        (["-"], "can't be mixed"),
        (["--stdin-filename", "a.py"], "goes with '-' only"),
    ],
)
def test_mistakes_of_the_command_line(words: list[str], message: str) -> None:
    result = run("train.py", *words, files={"train.py": BAD})
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())


def test_what_cannot_be_read() -> None:
    result = run("missing.py")
    assert (result.exit_code, result.stdout) == (2, "")
    result = run("train.py", "--exit-zero", files={"train.py": "import torch\nloss.backward(\n"})
    assert result.exit_code == 2
    assert "train.py:2" in result.stderr
    assert "Traceback" not in result.stderr


def test_fix_converts_a_plain_script() -> None:
    result = run("train.py", "--fix", files={"train.py": PLAIN})
    assert result.exit_code == 0
    assert result.stdout == ""
    assert result.stderr.startswith("train.py: fixed: ")
    assert Path("train.py").read_text() == converted()


def test_fix_mends_what_is_new_and_tells_the_rest() -> None:
    source = changed("runtime.backward(loss)", "loss.backward()").replace("if right > 3:", "if runtime.is_main():")
    result = run("train.py", "--fix", files={"train.py": source})
    assert result.exit_code == 1
    assert "DST251" not in result.stdout
    assert result.stdout.count("DST651 error") == 2
    assert Path("train.py").read_text() == source.replace("loss.backward()", "runtime.backward(loss)")


def test_fix_writes_nothing_where_something_is_refused() -> None:
    source = PLAIN.replace("out = model(x)\n", "out = model(x)\n    x[0] = 0\n")
    result = run("train.py", "--fix", files={"train.py": source})
    assert result.exit_code == 1
    assert "DST110 error" in result.stdout
    assert Path("train.py").read_text() == source


SHARED_MODEL = (
    """
from torch import nn


def save(model, path):
    import torch

    torch.save(model.state_dict(), path)


"""
    + NET
)


def test_a_module_of_a_script_distributed_by_hand_is_not_converted_for_another() -> None:
    by_hand = script(head="from model import Net, save\n", after="if rank == 0:\n    save(model.module, 'm.pt')")
    plain = PLAIN.replace("import torch\n", "import torch\nfrom model import save\n", 1)
    plain = plain.replace("torch.save(model.state_dict(), 'model.pt')", "save(model, 'model.pt')")
    files = {"model.py": SHARED_MODEL, "plain.py": plain, "hand.py": by_hand}
    result = run(".", files=files)
    assert result.exit_code == 0, result.output
    assert "plain.py" in result.stdout
    fixed = run(".", "--fix")
    assert fixed.exit_code == 0
    assert {name: Path(name).read_text() for name in files} == files
    Path("hand.py").unlink()
    run(".", "--fix")
    assert "runtime.save(" in Path("model.py").read_text()


def test_a_mistake_about_one_script_keeps_nothing_from_being_told_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from distify.codemod.plan import File
    from distify.codemod.rewrite import InternalError

    edit = File.edit

    def fails(self: File, *rest: bool) -> None:
        if self.path == "bad.py":
            raise InternalError("bad.py: no")
        edit(self, *rest)

    monkeypatch.setattr(File, "edit", fails)
    result = run("bad.py", "good.py", files={"bad.py": PLAIN, "good.py": BAD})
    assert result.exit_code == 2
    assert "bad.py: no. This is a mistake of distify" in result.stderr
    assert "DST551" in result.stdout
    assert "bad.py" not in result.stdout


@pytest.mark.parametrize("form", ["json", "github", "sarif", "markdown"])
def test_formats(form: str) -> None:
    result = run("train.py", "--format", form, files={"train.py": BAD})
    assert result.exit_code == 1
    assert "DST551" in result.stdout
    assert "train.py" in result.stdout


def test_files_without_a_marker_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    def parsed(text: str, path: str) -> None:
        raise AssertionError(path)

    monkeypatch.setattr("distify.codemod.rewriter.check_syntax", parsed)
    result = run("src", files={f"src/m{number}.py": f"print({number})\n" for number in range(50)})
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "nothing found in 50 files, 0 of a training script\n"


def test_the_longest_selector_decides() -> None:
    selection = Selection(select=("DST1",), ignore=("DST15",), per_file=(("a.py", ("ALL",)),))
    assert selection.wants("DST101", "b.py")
    assert not selection.wants("DST152", "b.py")
    assert not selection.wants("DST551", "b.py")
    assert selection.wants("DST101", "a.py")  # ALL says less than DST1


def test_what_is_no_list_of_codes() -> None:
    with pytest.raises(OptionError, match="a list of codes is due"):
        parse_codes([1], "select")
    with pytest.raises(OptionError, match="a table of patterns"):
        parse_per_file(3, "per-file-ignores")
    assert parse_per_file({"a/*": ["DST1"]}, "x") == (("a/*", ("DST1",)),)
    assert Selections.given(None, None, None) == Selections()


HELPERS = """\
import torch
import torch.distributed as dist


def is_first():
    return dist.get_rank() == 0


def mean(value):
    value = value.detach().clone()
    {reduce}
    return value / dist.get_world_size()


def show(name, value):
    print(name, value.item())
"""
USES = script(head="import helpers\n", after_step="helpers.show('loss', helpers.mean(loss))", after="").replace(
    "average(", "unused("
)


@pytest.mark.parametrize(("reduce", "place"), [("dist.all_reduce(value)", ""), ("pass", "helpers.py:16:5 DST551 ")])
def test_imported_modules_are_checked_with_the_script(reduce: str, place: str) -> None:
    result = run("train.py", files={"train.py": USES, "helpers.py": HELPERS.format(reduce=reduce)})
    assert result.exit_code == (1 if place else 0)
    assert result.stdout.startswith(place)
    assert result.stdout.count("DST") == (1 if place else 0)


def test_what_is_not_followed_has_the_benefit_of_the_doubt() -> None:
    result = run("train.py", "--no-follow", files={"train.py": USES, "helpers.py": HELPERS.format(reduce="pass")})
    assert (result.exit_code, result.stdout) == (0, "")
