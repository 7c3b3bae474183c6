"""Compares the files that two runs saved: tensors one by one, texts number by number, the rest byte by byte."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..phrases import plural
from ..spawned import program
from .events import as_text
from .found import Check, Row
from .mirror import Mirror
from .numbers import Tolerance
from .output import compare_text

LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # what torch.save began with before it wrote zip files
PICKLE = re.compile(rb"\x80[\x02-\x05]")
PACKED: dict[bytes, Callable[[str], Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
BYTES = " bytes"  # how a file stands in a table that is compared byte by byte, such as a picture
NAME = "name of "  # how names stand there that differ in numbers
EVENTS = "tfevents"
TENSORS = (".safetensors", ".npy", ".npz")
CHANGING = re.compile(r"\d+")
CLOCK = re.compile(r"\d{9,}|\d{6,8}[-_T]\d{4,6}")  # seconds since 1970, or a date with a time
LIMIT = 64 << 20  # bytes of a text that is compared by its numbers

Pair = tuple[str, str]


def compare_files(original: Mirror, rewritten: Mirror, tolerance: Tolerance, steps: int = 0) -> Check:
    """Compares all files that one of the runs wrote or removed; `steps` backward calls were made."""
    check = Check("files", "value")
    tensors: list[tuple[str, str, str]] = []
    names = {side: side.written() for side in (original, rewritten)}
    matched = list(pairs(names[original], names[rewritten]))
    for a, b in matched:
        if a is None or b is None:
            check.add(Row(str(a or b), "not written" if a is None else "written", "written" if a else "not written"))
            continue
        if a != b and bare_name(a) != bare_name(b):
            check.add(Row(a, a, b, like=NAME + CHANGING.sub("#", a)))
        left, right = os.path.join(original.root, a), os.path.join(rewritten.root, b)
        compare_file(check, (a, left, right), tensors, tolerance, (original, rewritten))
    for name in sorted({*original.removed()} ^ {*rewritten.removed()}):
        gone = name in original.removed()
        check.add(Row(name, "removed" if gone else "there", "there" if gone else "removed"))
    if tensors:
        compare_tensors(check, tensors, tolerance.after(steps))
    both = [a for a, b in matched if a is not None and b is not None]
    if both:
        check.notes.insert(0, f"{plural(len(both), 'file')} written by both runs: {listed(both)}")
    return check


def listed(names: Sequence[str], most: int = 5) -> str:
    """Some names, and how many there are besides."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def pairs(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[str | None, str | None]]:
    """Files of both sides by name; those with other numbers in it by what is left of the name."""
    same = set(left) & set(right)
    yield from ((name, name) for name in sorted(same))
    rest: dict[str, tuple[list[str], list[str]]] = {}
    for side, names in enumerate((left, right)):
        for name in sorted(set(names) - same):
            rest.setdefault(CHANGING.sub("#", name), ([], []))[side].append(name)
    for _, (a, b) in sorted(rest.items()):
        for index in range(max(len(a), len(b))):
            yield (a[index] if index < len(a) else None), (b[index] if index < len(b) else None)


def bare_name(name: str) -> str:
    """A name without times; the name of TensorBoard's events holds the number of a process as well."""
    return CHANGING.sub("#", name) if EVENTS in os.path.basename(name) else CLOCK.sub("#", name)


def compare_file(
    check: Check,
    file: tuple[str, str, str],
    tensors: list[tuple[str, str, str]],
    tolerance: Tolerance,
    sides: tuple[Mirror, Mirror],
) -> None:
    """Compares one file of both runs by its kind; files of tensors are put off, to be read together."""
    name, left, right = file
    if same_bytes(left, right):
        check.add(Row(name, "same bytes", "same bytes", 0.0, 0.0))
        return
    if has_tensors(left) and has_tensors(right):
        tensors.append(file)
        return
    texts = [text(path, side) for path, side in zip((left, right), sides)]
    if texts[0] is None or texts[1] is None:
        check.add(in_bytes(name, left, right))
        return
    before = check.compared
    compare_text(check, texts[0], texts[1], tolerance, f"{name} ")
    if check.compared == before:  # bytes that are no lines differ
        check.add(Row(name, "text", "text", 0.0, 0.0, apart=0.0))


def in_bytes(name: str, left: str, right: str) -> Row:
    """The row of a file whose bytes differ."""
    return Row(name, f"{os.path.getsize(left)}{BYTES}", f"{os.path.getsize(right)}{BYTES}")


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
    """Whether a file was written by `torch.save` or `pickle.dump`, or in another format of tensors."""
    if path.endswith(TENSORS) or is_pickle(path):
        return True
    with open(path, "rb") as file:
        start = file.read(4096)
    return start.startswith(LEGACY) or (start.startswith(b"PK\x03\x04") and b"/data.pkl" in start)


def is_pickle(path: str) -> bool:
    """Whether a file was written by `pickle.dump`."""
    with open(path, "rb") as file:
        start = file.read(len(LEGACY))
        if start == LEGACY or not PICKLE.match(start):
            return False
        file.seek(-1, os.SEEK_END)
        return file.read() == b"."


def content(path: str) -> bytes | None:
    """The bytes of a file, unpacked if it is compressed; `None` if there are too many for a text."""
    if os.path.getsize(path) > LIMIT:
        return None
    with open(path, "rb") as file:
        start = file.read(5)
    for magic, unpack in PACKED.items():
        if start.startswith(magic):
            try:
                with unpack(path) as packed:
                    data: bytes = packed.read(LIMIT + 1)
            except (OSError, EOFError, lzma.LZMAError):
                break
            return data if len(data) <= LIMIT else None
    return Path(path).read_bytes()


def text(path: str, side: Mirror) -> str | None:
    """A file as text, with the project's folder in place of the scratch copy's; `None` if it is none."""
    data = content(path)
    if EVENTS in os.path.basename(path):
        return None if data is None else as_text(data)
    try:
        found = None if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if found is None:
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
        for file in files:
            check.add(in_bytes(*file))
        check.notes.append(f"files of tensors could not be compared: {reason}")
        return
    for file, answer in zip(files, answers):
        for what, a, b, difference, excess, apart, scale in answer.get("rows", ()):
            check.add(Row(what, a, b, difference, excess, check.compared, apart=apart, scale=scale))
        if "reason" in answer:
            check.add(in_bytes(*file))
            check.notes.append(f"{answer['name']}: the bytes differ, and it could not be read ({answer['reason']})")
