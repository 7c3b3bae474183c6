"""The package as it is installed: every folder of code is listed, and the templates travel with it."""

from __future__ import annotations

import sys
from importlib import metadata, resources
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def project():
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_package_is_listed():
    folders = {
        file.parent.relative_to(ROOT)
        for top in ("codemod", "runtime", "templates")
        for file in (ROOT / top).rglob("*.py")
    }
    assert set(project()["tool"]["setuptools"]["packages"]) == {
        "distify." + ".".join(folder.parts) for folder in folders
    }


def test_every_template_is_data():
    found = {file.name for file in (resources.files("distify.templates") / "code").iterdir()}
    assert found == {file.name for file in (ROOT / "templates" / "code").glob("*.j2")}
    patterns = project()["tool"]["setuptools"]["package-data"]["distify.templates"]
    templates = ROOT / "templates"
    data = {path for pattern in patterns for path in templates.glob(pattern)}
    assert data == {path for path in templates.glob("*/*") if path.is_file() and path.suffix not in (".py", ".pyc")}


def test_version_and_command():
    assert metadata.version("torch-distify") == project()["project"]["version"]
    (command,) = metadata.entry_points(group="console_scripts", name="distify")
    assert callable(command.load())


@pytest.mark.parametrize("top", ["codemod", "runtime"])
def test_the_packages_keep_apart(top):
    foreign = {"codemod": ("torch", "deepspeed"), "runtime": ("libcst", "typer", "jinja2")}[top]
    for file in (ROOT / top).rglob("*.py"):
        for line in file.read_text().splitlines():
            words = line.split()
            if words[:1] in (["import"], ["from"]) and len(words) > 1:
                assert words[1].split(".")[0] not in foreign, f"{file}: {line}"
