"""The options of a run, and where each came from: the same order of sources as in `runtime.init`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..dataclass import dataclass
from ..options import (
    DEFAULTS,
    IDLE,
    OWNERS,
    OptionError,
    flag,
    parse,
    read_environment,
    read_pyproject,
    tool_table,
    variable,
)
from .script import Script

WHAT = {
    "zero_stage": "is a stage of DeepSpeed's ZeRO",
    "shard_size": "is how many processes share the parts of a model",
    "reshard": "is when gathered parameters are dropped",
    "offload": "is where parts of a model and its optimizer lie",
    "meta_init": "says that a model is built in parts",
}
SELDOM = ("reshard", "offload", "checkpoint_activations", "meta_init")  # not shown where nobody asks for them
CODE, FLAG, ENVIRONMENT, FILE, DEFAULT = range(5)


@dataclass(frozen=True)
class Setting:
    """One option of a run.

    Attributes:
        name: as everywhere.
        value: `None` where the script computes it, or where it means nothing in this run.
        source: where it came from, for people.
        level: `CODE`, `FLAG`, `ENVIRONMENT`, `FILE` or `DEFAULT`.
    """

    name: str
    value: str | int | None
    source: str
    level: int


def settings(script: Script, given: Mapping[str, str | int], environment: Mapping[str, str]) -> list[Setting]:
    """All options of a run of a script.

    Args:
        script: what is started.
        given: what the command line gives.
        environment: of this process.

    Raises:
        OptionError: an unknown or bad value, one that the script contradicts, or options that don't go together.
    """
    folder = Path(os.path.realpath(script.path)).parent
    file, table = tool_table(folder)[0], read_pyproject(folder)
    variables = read_environment(environment)
    flags = {name: parse(name, value, flag(name)) for name, value in given.items()}
    found = {name: setting(name, script, flags, variables, (table, file)) for name in DEFAULTS}
    for name, owners in OWNERS.items():
        check_owner(found, name, owners)
        if found["backend"].value not in (None, *owners):
            found[name] = Setting(name, None, f"of {' and '.join(owners)} only", DEFAULT)
    if found["shard_size"].value == DEFAULTS["shard_size"]:
        found["shard_size"] = Setting("shard_size", None, "default: all processes", DEFAULT)
    return [item for item in found.values() if item.name not in SELDOM or item.level != DEFAULT]


def setting(
    name: str,
    script: Script,
    flags: Mapping[str, str | int],
    variables: Mapping[str, str | int],
    configured: tuple[Mapping[str, str | int], Path | None],
) -> Setting:
    """One option, from the first of its sources that has it."""
    table, file = configured
    written = script.written.get(name)
    if written is not None:
        where = f"{written.place}: runtime.init({name}=…)"
        value = None if written.value is None else parse(name, written.value, where)
        if name in flags and value != flags[name]:
            what = f"{value!r}" if value is not None else "a value of its own"
            raise OptionError(
                f"{flag(name)} {flags[name]}: {where} says {what}, and what the code says wins. "
                f"Leave {flag(name)} out, or change the script: "
                f"distify rewrite {script.path} {flag(name)} {flags[name]}"
            )
        return Setting(name, value, where if value is not None else f"{where}, computed there", CODE)
    if name in flags:
        return Setting(name, flags[name], flag(name), FLAG)
    if name in variables:
        return Setting(name, variables[name], variable(name), ENVIRONMENT)
    if name in table:
        return Setting(name, table[name], f"{os.path.relpath(str(file))}: [tool.distify]", FILE)
    return Setting(name, DEFAULTS[name], "default", DEFAULT)


def check_owner(found: Mapping[str, Setting], name: str, owners: Sequence[str]) -> None:
    """Refuse what belongs to one backend beside another, as `runtime.init` would."""
    backend, own = found["backend"], found[name]
    if backend.value in (None, *owners) or own.level == DEFAULT or own.value == IDLE.get(name):
        return
    if own.level != FILE or backend.level >= FILE:
        raise OptionError(
            f"{own.source}: {own.value} {WHAT[name]}, but the backend is {backend.value} ({backend.source}). Leave it "
            f"out, or set the backend to {' or '.join(owners)}."
        )
