"""Compares the files that two runs saved: tensors one by one, texts number by number, the rest byte by byte."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from ..phrases import plural
from ..spawned import program
from .found import Check, Row
from .mirror import Mirror
from .numbers import Tolerance
from .output import compare_text

LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # what torch.save began with before it wrote zip files
EVENTS = "tfevents"
TENSORS = (".safetensors", ".npy", ".npz")
CHANGING = re.compile(r"\d+")
LIMIT = 64 << 20  # bytes of a text that is compared by its numbers

Pair = tuple[str, str]


def compare_files(original: Mirror, rewritten: Mirror, tolerance: Tolerance) -> Check:
    """Compares all files that one of the runs wrote or removed."""
    check = Check("files", "value")
    tensors: list[tuple[str, str, str]] = []
    names = {side: side.written() for side in (original, rewritten)}
    matched = list(pairs(names[original], names[rewritten]))
    for a, b in matched:
        if a is None or b is None:
            check.add(Row(str(a or b), "not written" if a is None else "written", "written" if a else "not written"))
            continue
        left, right = os.path.join(original.root, a), os.path.join(rewritten.root, b)
        compare_file(check, (a, left, right), tensors, tolerance, (original, rewritten))
    for name in sorted({*original.removed()} ^ {*rewritten.removed()}):
        gone = name in original.removed()
        check.add(Row(name, "removed" if gone else "there", "there" if gone else "removed"))
    if tensors:
        compare_tensors(check, tensors, tolerance)
    both = [a for a, b in matched if a is not None and b is not None]
    if both:
        check.notes.insert(0, f"{plural(len(both), 'file')} written by both runs: {listed(both)}")
    return check


def listed(names: Sequence[str], most: int = 5) -> str:
    """Some names, and how many there are besides."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def pairs(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[str | None, str | None]]:
    """Files of both sides by name; those with a time or number of a process in it by what is left of the name."""
    same = set(left) & set(right)
    yield from ((name, name) for name in sorted(same))
    rest: dict[str, tuple[list[str], list[str]]] = {}
    for side, names in enumerate((left, right)):
        for name in sorted(set(names) - same):
            rest.setdefault(CHANGING.sub("#", name), ([], []))[side].append(name)
    for _, (a, b) in sorted(rest.items()):
        for index in range(max(len(a), len(b))):
            yield (a[index] if index < len(a) else None), (b[index] if index < len(b) else None)


def compare_file(
    check: Check,
    file: tuple[str, str, str],
    tensors: list[tuple[str, str, str]],
    tolerance: Tolerance,
    sides: tuple[Mirror, Mirror],
) -> None:
    """Compares one file of both runs by its kind; files of tensors are put off, to be read together."""
    name, left, right = file
    if EVENTS in os.path.basename(name):
        check.notes.append(f"{name}: events of TensorBoard hold times, they are not compared")
        return
    if same_bytes(left, right):
        check.add(Row(name, "same bytes", "same bytes", 0.0, 0.0))
        return
    if has_tensors(left) and has_tensors(right):
        tensors.append(file)
        return
    texts = [text(path, side) for path, side in zip((left, right), sides)]
    if texts[0] is None or texts[1] is None:
        check.add(Row(name, f"{os.path.getsize(left)} bytes", f"{os.path.getsize(right)} bytes"))
        return
    before = check.compared
    compare_text(check, texts[0], texts[1], tolerance, f"{name} ")
    if check.compared == before:  # bytes that are no lines differ
        check.add(Row(name, "text", "text", 0.0, 0.0))


def same_bytes(left: str, right: str) -> bool:
    """Whether two files are equal."""
    if os.path.getsize(left) != os.path.getsize(right):
        return False
    with open(left, "rb") as a, open(right, "rb") as b:
        while True:
            x, y = a.read(1 << 20), b.read(1 << 20)
            if x != y:
                return False
            if not x:
                return True


def has_tensors(path: str) -> bool:
    """Whether a file was written by `torch.save`, or in another format of tensors."""
    if path.endswith(TENSORS):
        return True
    with open(path, "rb") as file:
        start = file.read(4096)
    return start.startswith(LEGACY) or (start.startswith(b"PK\x03\x04") and b"/data.pkl" in start)


def text(path: str, side: Mirror) -> str | None:
    """A file as text, with the project's folder in place of the scratch copy's; `None` if it is none."""
    if os.path.getsize(path) > LIMIT:
        return None
    data = Path(path).read_bytes()
    try:
        found = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in found else found.replace(side.root, side.source)


def compare_tensors(check: Check, files: Sequence[tuple[str, str, str]], tolerance: Tolerance) -> None:
    """Compares files of tensors in a process that imports torch."""
    job = json.dumps({"files": files, **{key: asdict(tolerance)[key] for key in ("many", "absolute", "norm")}})
    command = program("distify.codemod.verify.child.tensors")
    done = subprocess.run(command, input=job.encode(), capture_output=True, check=False)
    try:
        answers = json.loads(done.stdout)
    except ValueError:
        reason = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no answer"])[-1]
        check.add(Row(files[0][0], "unreadable", "unreadable"))
        check.notes.append(f"files of tensors could not be compared: {reason}")
        return
    for answer in answers:
        for what, a, b, difference, excess in answer.get("rows", ()):
            check.add(Row(what, a, b, difference, excess, check.compared))
        if "reason" in answer:
            check.add(Row(answer["name"], "unreadable", "unreadable"))
            check.notes.append(f"{answer['name']}: the bytes differ, and it could not be read ({answer['reason']})")
