"""The options of a conversion: what was given on the command line, and what holds where nothing was given."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .choices import CHOICES as CHOICES
from .dataclass import dataclass, field

INTEGERS: Mapping[str, tuple[int, int | None]] = MappingProxyType(
    {"accumulate": (1, None), "zero_stage": (0, 3), "shard_size": (2, None)}
)
DEFAULTS: Mapping[str, str | int] = MappingProxyType(
    {
        "backend": "ddp",
        "precision": "fp32",
        "accumulate": 1,
        "batch": "global",
        "batchnorm": "exact",
        "zero_stage": 2,
        "shard_size": 0,
        "reshard": "auto",
        "offload": "none",
        "checkpoint_activations": False,
        "meta_init": False,
    }
)
SWITCHED = ("checkpoint_activations", "meta_init")
"""Options that are on or off."""

OWNERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "zero_stage": ("deepspeed",),
        "shard_size": ("fsdp",),
        "reshard": ("fsdp",),
        "offload": ("fsdp",),
        "meta_init": ("fsdp",),
    }
)
"""Options that mean something to some backends only."""

IDLE: Mapping[str, str | int] = {"reshard": "auto", "offload": "none", "meta_init": False}
"""Values of such options that ask for nothing, and may stand beside any backend."""

TOOL: Mapping[str, int] = MappingProxyType({"budget": 120, "jobs": 0})
"""Options of the codemod alone, with their defaults: no run knows them."""

TABLES = ("check",)
"""Tables of other verbs inside `[tool.distify]`, which read them themselves."""

# Variables that steer the runtime or help to find mistakes, and are no options of a run.
SWITCHES = ("DISTIFY_ALL_RANKS", "DISTIFY_DEBUG", "DISTIFY_TIMEOUT", "DISTIFY_TRACE")


class OptionError(ValueError):
    """An unknown option or value; the message names the nearest valid one."""


@dataclass(frozen=True)
class Options:
    """Options of a conversion.

    Those before `partial` are `None` unless given on the command line; what is given goes into `runtime.init(…)`.

    Attributes:
        backend: "ddp", "fsdp" or "deepspeed".
        precision: "fp32", "bf16" or "fp16".
        accumulate: loader batches per optimizer step, at least 1.
        batch: "global" (each rank takes a slice of the batch) or "per-device".
        batchnorm: "exact" (statistics of the whole batch) or "local".
        zero_stage: 0 to 3, for deepspeed.
        shard_size: processes that share the parts of a model, at least 2, for fsdp; all if not given.
        reshard: "auto" (by size and free memory), "always" or "never" drop gathered parameters after a forward, fsdp.
        offload: "none" or "cpu" (parameters and optimizer state lie in host memory), for fsdp.
        checkpoint_activations: compute what repeated blocks hold in a forward anew in the backward.
        meta_init: large parameters lie in files until they are cut, for fsdp.
        partial: write what could be converted although something was refused.
        budget: seconds of processor time that the analysis of one program may take.
        jobs: processes that convert programs; 0, written "auto", for as many as there are cores if that is worth it.
        configured: values from the environment and `[tool.distify]`, which hold where nothing was given.
    """

    backend: str | None = None
    precision: str | None = None
    accumulate: int | None = None
    batch: str | None = None
    batchnorm: str | None = None
    zero_stage: int | None = None
    shard_size: int | None = None
    reshard: str | None = None
    offload: str | None = None
    checkpoint_activations: bool | None = None
    meta_init: bool | None = None
    partial: bool = False
    budget: int | None = None
    jobs: int | None = None
    configured: Mapping[str, str | int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in (*DEFAULTS, *TOOL):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, parse(name, value, flag(name)))
        for name, backends in OWNERS.items():
            value = getattr(self, name)
            if value not in (None, IDLE.get(name)) and self.backend not in (None, *backends):
                raise OptionError(f"{flag(name)} goes with --backend {' or '.join(backends)}, not with {self.backend}")

    def effective(self, name: str) -> str | int:
        """The value that holds at rewrite time: given, else configured, else the default."""
        given: str | int | None = getattr(self, name)
        return given if given is not None else self.configured.get(name, {**DEFAULTS, **TOOL}[name])

    def given(self) -> dict[str, str | int]:
        """What goes into `runtime.init(…)`, in the order of `DEFAULTS`."""
        values = ((name, getattr(self, name)) for name in DEFAULTS)
        return {name: value for name, value in values if value is not None}


def of_run(values: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a run among the parameters of a verb: those that were given, a switch that is on as "true"."""
    found = {name: values.get(name) for name in DEFAULTS}
    return {name: "true" if value is True else value for name, value in found.items() if value not in (None, False)}


def flag(name: str) -> str:
    """The command-line spelling of an option."""
    return "--" + name.replace("_", "-")


def variable(name: str) -> str:
    """The spelling of an option in the environment."""
    return f"DISTIFY_{name.upper()}"


def nearest(word: str, valid: Iterable[str]) -> str:
    """A phrase that names the nearest valid word and all of them: `did you mean 'fsdp'? (valid: ddp, fsdp)`."""
    import difflib

    names = list(valid)
    folded = {name.lower().replace("_", "-"): name for name in names}
    close = difflib.get_close_matches(word.lower().replace("_", "-"), list(folded), 1, 0.4)
    listing = ", ".join(names)
    return f"did you mean '{folded[close[0]]}'? (valid: {listing})" if close else f"valid: {listing}"


def parse(name: str, value: Any, source: str) -> str | int:
    """The checked value of one option.

    Args:
        name: field of `Options`.
        value: text, or what TOML gave.
        source: how the user wrote the option, for the message.

    Raises:
        OptionError: the value is not valid.
    """
    if name in CHOICES:
        if value in CHOICES[name]:
            return str(value)
        raise OptionError(f"{source}: unknown value '{value}', {nearest(str(value), CHOICES[name])}")
    if name in SWITCHED:
        known = {"1": True, "true": True, "0": False, "false": False}.get(str(value).lower())
        if known is None:
            raise OptionError(f"{source}: '{value}' is neither true nor false")
        return known
    if name == "jobs" and value in ("auto", 0):
        return 0
    low, high = INTEGERS.get(name, (1, None))
    bounds = f"a whole number from {low}" + ("" if high is None else f" to {high}")
    try:
        number = int(str(value)) if not isinstance(value, (bool, float)) else None
    except ValueError:
        number = None
    if number is None or number < low or (high is not None and number > high):
        raise OptionError(f"{source}: '{value}' is not {bounds}")
    return number


def configuration(start: Path, environment: Mapping[str, str] | None = None) -> dict[str, str | int]:
    """Values from `DISTIFY_*` and, below them, from the nearest pyproject.toml above a script.

    Args:
        start: the script or its folder.
        environment: `os.environ` if not given.

    Raises:
        OptionError: unknown key or value, or a pyproject.toml that can't be read.
    """
    values = read_pyproject(start)
    values.update(read_environment(os.environ if environment is None else environment))
    return values


def read_environment(environment: Mapping[str, str]) -> dict[str, str | int]:
    """The checked `DISTIFY_*` options; empty ones count as not set."""
    options = {variable(name): name for name in (*DEFAULTS, *TOOL)}
    values: dict[str, str | int] = {}
    for key, text in environment.items():
        if key in options and text:
            values[options[key]] = parse(options[key], text, key)
        elif key.startswith("DISTIFY_") and key not in options and key not in SWITCHES:
            raise OptionError(f"unknown environment variable {key}, {nearest(key, (*options, *SWITCHES))}")
    return values


def read_pyproject(start: Path) -> dict[str, str | int]:
    """The checked `[tool.distify]` table of the nearest pyproject.toml at or above `start`; empty if there is none."""
    file, table = tool_table(start)
    values: dict[str, str | int] = {}
    for key, value in table.items():
        name = str(key).replace("-", "_")
        if name in TABLES and isinstance(value, dict):
            continue
        if name not in DEFAULTS and name not in TOOL:
            valid = nearest(str(key), (*DEFAULTS, *TOOL, *TABLES))
            raise OptionError(f"{file}: [tool.distify]: unknown key '{key}', {valid}")
        values[name] = parse(name, value, f"{file}: [tool.distify] {key}")
    return values


def tool_table(start: Path) -> tuple[Path | None, dict[str, Any]]:
    """The nearest pyproject.toml at or above a script or folder, and its `[tool.distify]` table as it is.

    Raises:
        OptionError: it can't be read.
    """
    start = start.absolute()
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        if os.path.isfile(file):  # `Path.is_file` raises where a folder above can't be searched
            return file, read_table(file)
    return None, {}


def read_table(file: Path) -> dict[str, Any]:
    """The `[tool.distify]` table of one pyproject.toml, not checked yet."""
    try:
        data = file.read_bytes()
        if b"distify" not in data:
            return {}
        table = toml(data.decode("utf-8")).get("tool", {}).get("distify", {})
    except RecursionError:
        raise OptionError(f"{file}: nested too deeply to be parsed") from None
    except (OSError, ValueError, AttributeError) as error:
        raise OptionError(f"{file}: {error}") from None
    if not isinstance(table, dict):
        raise OptionError(f"{file}: [tool.distify] must be a table")
    return table


def toml(text: str) -> dict[str, Any]:
    """What a TOML text says.

    Raises:
        ValueError: it is none.
        RecursionError: it is nested too deeply.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    found: dict[str, Any] = tomllib.loads(text)
    return found
