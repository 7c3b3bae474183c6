"""The files of a program: which modules an import means, and what is followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from distify.codemod.imports import imported
from distify.codemod.nearby import Nearby
from distify.codemod.program import Program, search_roots


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / (name.replace("__", "/").replace("/init", "/__init__") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def load(script: Path) -> Program:
    def read(path: str) -> str | None:
        return Path(path).read_text()

    return Program.load(str(script), script.read_text(), read)


def names(program: Program, folder: Path) -> list[str]:
    """The files of a program relative to a folder, folders without `__init__.py` with a slash."""
    return [os.path.relpath(m.real, folder) + ("" if m.path else "/") for m in program.modules]


NETS = ["lib/__init__.py", "lib/models/__init__.py", "lib/models/net.py"]


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("import engine", ["engine.py"]),
        ("import engine as e", ["engine.py"]),
        ("from engine import fit", ["engine.py"]),
        ("from engine import *", ["engine.py"]),
        ("import lib.models.net", ["lib/__init__.py", "lib/models/__init__.py", "lib/models/net.py"]),
        ("from lib.models import net", ["lib/__init__.py", "lib/models/__init__.py", "lib/models/net.py"]),
        ("from lib import models", ["lib/__init__.py", "lib/models/__init__.py"]),
        ("from .engine import fit", ["engine.py"]),
        ("from . import engine", ["./", "engine.py"]),
        ("import bare.tool", ["bare/", "bare/tool.py"]),
        ("from bare.tool import f", ["bare/", "bare/tool.py"]),
        ("def f():\n    import engine", ["engine.py"]),
        ("try:\n    import engine\nexcept ImportError:\n    engine = None", ["engine.py"]),
        ("import torch", []),
        ("import engine.missing", ["engine.py"]),
        ("import missing", []),
        ("import broken", []),
        ("import wandb", []),
        ("import os, json", []),
        ("m = import_module('engine')", ["engine.py"]),
        ("m = importlib.import_module('lib.models')", ["lib/__init__.py", "lib/models/__init__.py"]),
        ("m = import_module('lib.models.' + name)", NETS),
        ("m = import_module(f'lib.models.{name}')", NETS),
        ("m = import_module('lib.models.%s' % name)", NETS),
        ("m = __import__('lib.models.{}'.format(name))", NETS),
        ("m = import_module('lib.models.tr' + name)", ["lib/__init__.py", "lib/models/__init__.py"]),
        ("m = import_module(name)", []),
        ("m = import_module('missing.' + name)", []),
    ],
)
def test_what_an_import_means(tmp_path: Path, line: str, files: list[str]) -> None:
    write(tmp_path, train=line + "\n", engine="def fit(): ...", broken="def (", bare__tool="def f(): ...")
    write(tmp_path, lib__init="", lib__models__init="", lib__models__net="")
    (tmp_path / "wandb").mkdir()  # a folder of runs
    (tmp_path / "wandb" / "log.txt").write_text("")
    assert sorted(names(load(tmp_path / "train.py"), tmp_path)[1:]) == files


def test_imports_are_followed_once_through_cycles(tmp_path: Path) -> None:
    write(tmp_path, train="import a", a="import b\nimport train", b="from a import *")
    assert names(load(tmp_path / "train.py"), tmp_path) == ["train.py", "a.py", "b.py"]


def test_relative_imports_start_from_their_own_package(tmp_path: Path) -> None:
    write(tmp_path, train="import lib.a.one", lib__init="", lib__a__init="", lib__a__one="from ..b import two")
    write(tmp_path, lib__b__init="", lib__b__two="from .three import x", lib__b__three="x = 1", three="wrong = 1")
    found = names(load(tmp_path / "train.py"), tmp_path)
    assert {"lib/b/two.py", "lib/b/three.py"} <= set(found)
    assert "three.py" not in found


def test_scripts_in_folders_find_the_project_above(tmp_path: Path) -> None:
    write(
        tmp_path,
        tools__train="from lib.net import Net\nimport helper\nfrom pack import thing",
        lib__net="class Net: ...",
    )
    write(tmp_path, tools__helper="", helper="wrong = 1", src__pack__init="thing = 1")
    assert names(load(tmp_path / "tools" / "train.py"), tmp_path)[1:] == ["tools/helper.py"]  # no project: no way up
    (tmp_path / "pyproject.toml").write_text("")
    found = names(load(tmp_path / "tools" / "train.py"), tmp_path)
    assert set(found[1:]) == {"lib/", "lib/net.py", "tools/helper.py", "src/pack/__init__.py"}
    found_roots = search_roots(str(tmp_path / "tools"))
    assert found_roots == (str(tmp_path / "tools"), str(tmp_path), str(tmp_path / "src"))


def test_folders_that_a_script_puts_on_the_path(tmp_path: Path) -> None:
    write(tmp_path, lib__net="x = 1", other__thing="x = 1")
    lines = ["import sys, os", "sys.path.append('../other')", "from lib.net import x", "import thing"]
    write(tmp_path, deep__tools__train="\n".join(lines))
    assert names(load(tmp_path / "deep" / "tools" / "train.py"), tmp_path)[1:] == ["lib/", "lib/net.py"]
    write(tmp_path, deep__other__thing="x = 2")
    found = names(load(tmp_path / "deep" / "tools" / "train.py"), tmp_path)
    assert found[1:] == ["lib/", "lib/net.py", "deep/other/thing.py"]


def test_installed_packages_are_outside(tmp_path: Path) -> None:
    write(tmp_path, train="import package")
    write(tmp_path / "env" / "site-packages", package="import torch")
    os.symlink(tmp_path / "env" / "site-packages" / "package.py", tmp_path / "package.py")
    assert names(load(tmp_path / "train.py"), tmp_path) == ["train.py"]


def test_a_look_at_the_bytes_finds_what_parsing_finds(tmp_path: Path) -> None:
    source = "from engine import (\n    fit,\n)\nimport lib.models.net as n, other\nfrom .peer import x\nfrom lib import models\n"
    source += "importlib.import_module('kinds.' + name)\n"
    write(tmp_path, train=source, engine="import deep", deep="", other="", peer="", kinds__tall="")
    write(tmp_path, lib__init="", lib__models__init="", lib__models__net="")
    looked: list[str] = []
    near = Nearby(lambda path: looked.append(path) or Path(path).read_bytes())
    assert not near.trains(str(tmp_path / "train.py"), source.encode())
    found = {os.path.relpath(path, tmp_path) for path in looked}
    (tmp_path / "deep.py").write_text("import torch; torch.no_grad()")
    assert Nearby(lambda path: Path(path).read_bytes()).trains(str(tmp_path / "train.py"), source.encode())
    parsed = {name for name in names(load(tmp_path / "train.py"), tmp_path)[1:] if not name.endswith("/")}
    assert parsed <= found | {"lib/__init__.py"}
    assert "deep.py" in found


def test_every_name_that_may_be_a_module() -> None:
    import ast

    tree = ast.parse("import a.b.c\nfrom d.e import f, g as h\nfrom .. import i\nfrom .j import *\n")
    assert list(imported(tree)) == ["a", "a.b", "a.b.c", "d", "d.e", "d.e.f", "d.e.g", "..", "..i", ".j"]
