"""Scratch copies: what is copied, what is linked, and that nothing is written through a link."""

from __future__ import annotations

import os

import pytest

from distify.codemod.verify import mirror as module
from distify.codemod.verify.child.linked import Links
from distify.codemod.verify.child.settings import Facts, Settings
from distify.codemod.verify.mirror import mirror


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A small project with a large file, a folder of many files, links, and what is never copied."""
    monkeypatch.setattr(module, "SMALL", 1000)
    monkeypatch.setattr(module, "CROWD", 20)
    home = tmp_path / "project"
    for folder in ("lib", "images", "data", "__pycache__", ".git", "env"):
        (home / folder).mkdir(parents=True)
    (home / "train.py").write_text("print()" + "#" * 2000)
    (home / "lib" / "net.py").write_text("x = 1")
    (home / "data" / "big.bin").write_bytes(b"b" * 5000)
    (home / "data" / "small.txt").write_text("s")
    (home / "env" / "pyvenv.cfg").write_text("")
    for number in range(30):
        (home / "images" / f"{number}.png").write_text("i")
    (tmp_path / "elsewhere").mkdir()
    (home / "outside").symlink_to(tmp_path / "elsewhere")
    (home / "dangling").symlink_to("nowhere")
    return home


def copy_of(home, tmp_path):
    root = tmp_path / "distify-verify-1" / "project"
    return mirror(str(home), str(root), [str(home / "train.py")]), root


def links_of(home, root, tmp_path):
    settings = Settings(root=str(root), source=str(home), notes=str(tmp_path / "notes"), lead=True, rewritten=False)
    return Links(settings, Facts(str(tmp_path / "facts")))


def test_small_files_are_copied_and_large_ones_linked(project, tmp_path):
    made, root = copy_of(project, tmp_path)
    assert not (root / "train.py").is_symlink()  # the script, whatever its size
    assert not (root / "lib" / "net.py").is_symlink()
    assert (root / "data" / "big.bin").is_symlink()
    assert all((root / name).is_symlink() for name in ("images", ".git", "env", "outside", "dangling"))
    assert not (root / "__pycache__").exists()
    assert made.written() == []
    assert made.removed() == []
    assert made.harmed() == []


def test_what_a_script_wrote(project, tmp_path):
    made, root = copy_of(project, tmp_path)
    (root / "model.pt").write_text("m")
    (root / "data" / "small.txt").write_text("other")
    (root / "lib" / "net.py").unlink()
    made.replace({str(project / "lib" / "net.py"): b"y = 2"})
    (root / "train.py").unlink()
    assert made.written() == ["data/small.txt", "model.pt"]
    assert made.removed() == ["train.py"]
    assert (project / "lib" / "net.py").read_text() == "x = 1"


def test_links_become_copies_before_they_are_written(project, tmp_path):
    made, root = copy_of(project, tmp_path)
    links = links_of(project, root, tmp_path)
    for event, args in (
        ("open", (str(root / "data" / "big.bin"), "a", os.O_WRONLY | os.O_APPEND)),
        ("open", (str(root / "images" / "3.png"), "w", os.O_WRONLY | os.O_TRUNC | os.O_CREAT)),
        ("os.mkdir", (str(root / "outside" / "runs"), 0o777, -1)),
        ("os.remove", (str(root / "images" / "4.png"), -1)),
        ("open", (str(root / "images" / "5.png"), "r", os.O_RDONLY)),
        ("open", (7, "w", os.O_WRONLY)),
    ):
        links.hook(event, args)
    with (root / "data" / "big.bin").open("ab") as file:
        file.write(b"more")
    (root / "images" / "3.png").write_text("new")
    (root / "images" / "4.png").unlink()
    (root / "outside" / "runs").mkdir()
    assert (project / "data" / "big.bin").stat().st_size == 5000
    assert (root / "data" / "big.bin").stat().st_size == 5004
    assert (project / "images" / "3.png").read_text() == "i"
    assert (project / "images" / "4.png").exists()
    assert (root / "images" / "5.png").read_text() == "i"
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert made.written() == ["data/big.bin", "images/3.png"]
    assert made.harmed() == []


def test_what_is_written_elsewhere_is_told(project, tmp_path):
    _, root = copy_of(project, tmp_path)
    links = links_of(project, root, tmp_path)
    links.quiet = ("/dev/",)
    links.hook("open", ("/dev/null", "w", os.O_WRONLY))
    links.hook("open", ("/results/run.txt", "w", os.O_WRONLY))
    links.hook("open", ("/home/me/.cache/torch/x", "w", os.O_WRONLY))
    assert links.facts.known == {"outside": ["/results/run.txt"]}
    for path in (project / "model.pt", project / "data" / "big.bin"):
        with pytest.raises(PermissionError, match="leaves the project alone"):
            links.hook("open", (str(path), "w", os.O_WRONLY))
    links.hook("open", (str(project / "__pycache__" / "train.pyc"), "w", os.O_WRONLY))
    links.hook("open", (str(project / "model.pt"), "r", os.O_RDONLY))


def test_a_file_that_changes_behind_a_link_is_told(project, tmp_path):
    made, _ = copy_of(project, tmp_path)
    (project / "data" / "big.bin").write_bytes(b"changed")
    assert made.harmed() == [str(project / "data" / "big.bin")]
