"""Files: found, read and replaced without losing anything."""

from __future__ import annotations

import os
import stat

import pytest

from distify.codemod import files
from distify.codemod.files import FileError, expand, read
from distify.codemod.writing import Replacement, write_all


def names(folder, paths=None):
    return [os.path.relpath(file, folder) for file, _ in expand([str(path) for path in paths or [folder]])]


def put(file, text="x = 1\n"):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_folders_are_searched_but_not_environments_and_hidden_ones(tmp_path):
    for name in (
        "a.py",
        "b/c.py",
        "b/d.txt",
        ".hidden/e.py",
        "b/.f.py",
        "env/lib/site-packages/g.py",
        "__pycache__/h.py",
    ):
        put(tmp_path / name)
    put(tmp_path / "venv" / "i.py")
    put(tmp_path / "venv" / "pyvenv.cfg")
    assert names(tmp_path) == ["a.py", "b/c.py"]


def test_each_file_once(tmp_path):
    put(tmp_path / "a.py")
    os.symlink("a.py", tmp_path / "b.py")
    assert names(tmp_path, [tmp_path / "a.py", tmp_path, tmp_path / "b.py"]) == ["a.py"]


def test_a_file_named_by_hand_needs_no_suffix(tmp_path):
    put(tmp_path / "train")
    assert names(tmp_path, [tmp_path / "train"]) == ["train"]


def test_a_missing_file_names_a_similar_one(tmp_path):
    put(tmp_path / "train.py")
    with pytest.raises(FileError, match=r"trian.py: no such file, did you mean '.*train.py'\?"):
        read(str(tmp_path / "trian.py"))


def test_what_is_no_regular_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="not a regular file"):
        read(str(tmp_path / "pipe"))
    with pytest.raises(FileError, match="is a folder"):
        read(str(tmp_path))
    with pytest.raises(FileError, match="not a regular file"):
        write_all([Replacement(str(tmp_path / "pipe"), b"x")])
    with pytest.raises(FileError, match="null"):
        read("a\0b")


def test_mode_is_kept_and_links_are_written_through(tmp_path):
    file = put(tmp_path / "a.py")
    file.chmod(0o751)
    os.symlink("a.py", tmp_path / "link.py")
    write_all([Replacement(str(tmp_path / "link.py"), b"y = 2\n", before=b"x = 1\n")])
    assert (tmp_path / "link.py").is_symlink()
    assert file.read_bytes() == b"y = 2\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o751
    assert sorted(os.listdir(tmp_path)) == ["a.py", "link.py"]


def test_a_new_file_gets_the_mode_of_its_model(tmp_path):
    model = put(tmp_path / "a.py")
    model.chmod(0o700)
    write_all([Replacement(str(tmp_path / "new" / "b.py"), b"y\n", like=str(model))])
    assert stat.S_IMODE((tmp_path / "new" / "b.py").stat().st_mode) == 0o700


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path):
    first, second = put(tmp_path / "a.py"), put(tmp_path / "b.py", "changed\n")
    with pytest.raises(FileError, match=r"b.py: changed while it was converted"):
        write_all([Replacement(str(first), b"y", before=b"x = 1\n"), Replacement(str(second), b"y", before=b"x = 1\n")])
    assert first.read_text() == "x = 1\n"
    assert second.read_text() == "changed\n"
    assert sorted(os.listdir(tmp_path)) == ["a.py", "b.py"]


@pytest.mark.parametrize("call", ["fsync", "chmod"])
def test_a_failure_while_writing_leaves_nothing_behind(tmp_path, monkeypatch, call):
    file = put(tmp_path / "a.py")

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, call, fail)
    with pytest.raises(FileError, match="no space left on device"):
        write_all([Replacement(str(file), b"y", before=b"x = 1\n")])
    assert os.listdir(tmp_path) == ["a.py"]
    assert file.read_text() == "x = 1\n"


def test_read_only_is_respected(tmp_path, monkeypatch):
    file = put(tmp_path / "a.py")
    monkeypatch.setattr(files.os, "access", lambda path, mode: False)  # root may always write
    with pytest.raises(FileError, match="read-only"):
        write_all([Replacement(str(file), b"y")])


def test_files_of_the_working_directory_are_called_as_their_scripts_import_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    for name in ("a.py", "-b.py", "sub/c.py"):
        (tmp_path / name).write_text("x = 1\n")
    wanted = ["./-b.py", "a.py", "sub/c.py"]  # what begins with a dash would be taken for an option
    assert [file for file, _ in expand(["."])] == [file for file, _ in expand(["./"])] == wanted
