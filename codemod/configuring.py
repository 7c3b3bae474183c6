"""The work of `distify config`: which options pyproject.toml is to hold, and writing them there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from .dataclass import dataclass
from .files import FileError, read
from .options import CHOICES, DEFAULTS, IDLE, OWNERS, OptionError, flag, parse, read_pyproject, toml, tool_table
from .report.diff import unified
from .report.stream import complain, put_diff, say
from .tomledit import Unwritable, with_values
from .writing import Replacement, write_all

FAILED = 2

Values = dict[str, "str | int"]

# What is asked, with a line of help for each answer.
QUESTIONS: Mapping[str, tuple[str, str]] = {
    "backend": (
        "Backend",
        "ddp: each process holds the whole model. fsdp: parameters, gradients and\n"
        "optimizer state are shared out. deepspeed: ZeRO, with a stage of your choice.",
    ),
    "zero_stage": (
        "ZeRO stage",
        "1 shares out the optimizer's state, 2 gradients too, 3 parameters too.",
    ),
    "precision": (
        "Precision",
        "fp32 as the script has it; bf16 on GPUs since 2020; fp16, with loss scaling,\non older ones.",
    ),
    "accumulate": (
        "Batches per optimizer step",
        "More than 1 trains as with a batch so many times larger.",
    ),
}


@dataclass(frozen=True)
class Request:
    """What the command line asks for.

    Attributes:
        folder: the project; its nearest pyproject.toml at or above counts, as in a run.
        given: flags, by option.
        ask: asks a question with a default and returns the answer; `None` to ask nothing.
        sure: asks whether to write; `None` to write without.
        dry: only show what would change.
    """

    folder: str
    given: Mapping[str, str]
    ask: Callable[[str, str], str] | None = None
    sure: Callable[[str], bool] | None = None
    dry: bool = False


def configured(request: Request) -> int:
    """Writes the options and returns the exit code; what is wrong is one line and code 2."""
    try:
        return configure(request)
    except Unwritable as error:
        complain(f"{path_of(request.folder)}: {error}")
    except (OptionError, FileError) as error:
        complain(str(error))
    return FAILED


def configure(request: Request) -> int:
    """The same.

    Raises:
        OptionError, FileError, Unwritable: what is wrong.
    """
    if not os.path.isdir(request.folder):
        raise FileError(f"{request.folder}: no such folder")
    path = path_of(request.folder)
    now = {name: value for name, value in read_pyproject(Path(request.folder)).items() if name in DEFAULTS}
    given = {name: parse(name, value, flag(name)) for name, value in request.given.items()}
    if not given and request.ask is None:
        raise OptionError(
            "nothing to write: questions are asked on a terminal only; give flags here, such as --backend fsdp"
        )
    values = given if request.ask is None else {**given, **answers(request.ask, given, now)}
    data = read(path) if os.path.exists(path) else b""
    after = with_values(text_of(path, data), complete(values, given, now)).encode()
    if after == data:
        say([[(f"{path}: nothing to change", "")]])
        return 0
    put_diff(unified(path, data, after))
    if request.dry or (request.sure is not None and not request.sure(f"Write {path}?")):
        say([[("nothing was written", "")]])
        return 0
    write_all([Replacement(path, after, before=data if os.path.exists(path) else None)])
    say([[(f"{path}: written", "")]])
    return 0


def text_of(path: str, data: bytes) -> str:
    """The text of a pyproject.toml.

    Raises:
        FileError: it is no TOML; a table that is added to such a file would be as unreadable.
    """
    try:
        text = data.decode()
        toml(text)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: {error}; correct the file first") from None
    return text


def path_of(folder: str) -> str:
    """The file that a run in a folder reads, as the user would call it."""
    found = tool_table(Path(folder))[0]
    return os.path.normpath(os.path.join(folder, "pyproject.toml") if found is None else os.path.relpath(found))


def answers(ask: Callable[[str, str], str], given: Values, now: Values) -> Values:
    """What the user answers; an answer that is the default is written only where something else was."""
    found: Values = {}
    for name in questions(given, now, found):
        default = now.get(name, DEFAULTS[name])
        title, help_ = QUESTIONS[name]
        say([[("", "")], *([(line, "dim")] for line in help_.split("\n"))])
        choices = f" ({'|'.join(CHOICES[name])})" if name in CHOICES else ""
        while True:
            try:
                value = parse(name, ask(f"{title}{choices}", str(default)).strip(), title)
                break
            except OptionError as error:
                complain(str(error))
        if value != now.get(name, DEFAULTS[name]):
            found[name] = value
    return found


def questions(given: Values, now: Values, found: Values) -> Iterator[str]:
    """What is still to be asked; what belongs to one backend only where it means something."""
    for name in QUESTIONS:
        backend = {**DEFAULTS, **now, **given, **found}["backend"]
        if name not in given and backend in OWNERS.get(name, (backend,)):
            yield name


def complete(values: Values, given: Values, now: Values) -> dict[str, str | int | None]:
    """What is written: a ZeRO stage goes with deepspeed only, and one that was there before goes away with it.

    Raises:
        OptionError: what belongs to one backend was asked for beside another.
    """
    backend = {**DEFAULTS, **now, **values}["backend"]
    others = [name for name, owners in OWNERS.items() if backend not in owners]
    for name in others:
        if name in given and given[name] != IDLE.get(name):
            raise OptionError(f"{flag(name)} goes with --backend {' or '.join(OWNERS[name])}; the backend is {backend}")
    return {**values, **{name: None for name in others if name in now}}
