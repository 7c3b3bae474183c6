"""The options of a run and where they come from: code, environment, pyproject.toml, defaults, in this order."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .state import DistifyError

CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "backend": ("ddp", "fsdp", "deepspeed"),
        "precision": ("fp32", "bf16", "fp16"),
        "batch": ("global", "per-device"),
        "batchnorm": ("exact", "local"),
        "offload": ("none", "cpu"),
        "reshard": ("auto", "always", "never"),
    }
)
INTEGERS: Mapping[str, tuple[int, int | None]] = MappingProxyType(
    {"accumulate": (1, None), "zero_stage": (0, 3), "shard_size": (2, None)}
)
SWITCHED = ("checkpoint_activations", "meta_init")  # on or off
# Options that mean something to some backends only: which, and what they are.
OWNERS: Mapping[str, tuple[tuple[str, ...], str]] = MappingProxyType(
    {
        "zero_stage": (("deepspeed",), "a stage of DeepSpeed's ZeRO"),
        "shard_size": (("fsdp",), "how many processes share the parts of a model"),
        "reshard": (("fsdp",), "when gathered parameters are dropped"),
        "offload": (("fsdp",), "where parts of parameters and optimizer state lie"),
        "meta_init": (("fsdp",), "to build a model in parts"),
    }
)
# Values of such options that ask for nothing, and may stand beside any backend.
IDLE: Mapping[str, Any] = MappingProxyType({"reshard": "auto", "offload": "none", "meta_init": False})
# Why an option does nothing beside a backend.
INSTEAD: Mapping[str, str] = MappingProxyType(
    {
        "ddp": "which keeps parameters, gradients and optimizer state whole",
        "fsdp": "which cuts parameters, gradients and optimizer state like stage 3",
        "deepspeed": "which cuts a model that is built whole, and over all processes",
    }
)

# Options of the codemod, which a run passes over, and its tables.
REWRITING = ("budget", "jobs", "check")

# Variables that steer the runtime but are no options of a run.
SWITCHES = ("DISTIFY_ALL_RANKS", "DISTIFY_DEBUG", "DISTIFY_TIMEOUT", "DISTIFY_TRACE")

ONOFF = ("DISTIFY_ALL_RANKS", "DISTIFY_DEBUG")


class ConfigError(DistifyError, ValueError):
    """An unknown option or value; the message names the nearest valid one."""


@dataclass(frozen=True)
class Config:
    """Resolved options of a run.

    Attributes:
        backend: "ddp", "fsdp" or "deepspeed".
        precision: "fp32", "bf16" or "fp16".
        accumulate: loader batches per optimizer step.
        batch: "global" (each rank takes a slice of the batch) or "per-device" (each rank draws whole batches).
        batchnorm: "exact" (statistics of the whole batch) or "local" (of this rank's slice).
        zero_stage: 0 to 3, for deepspeed.
        shard_size: processes that share the parts of a model, for fsdp; 0 for all.
        reshard: "auto", "always" or "never" drop gathered parameters after a forward, for fsdp.
        offload: "none" or "cpu" (parts lie in host memory), for fsdp.
        checkpoint_activations: compute what repeated blocks hold in a forward anew in the backward.
        meta_init: large parameters lie in files until they are cut, for fsdp.
    """

    backend: str = "ddp"
    precision: str = "fp32"
    accumulate: int = 1
    batch: str = "global"
    batchnorm: str = "exact"
    zero_stage: int = 2
    shard_size: int = 0
    reshard: str = "auto"
    offload: str = "none"
    checkpoint_activations: bool = False
    meta_init: bool = False


NAMES = tuple(item.name for item in fields(Config))


def resolve(
    given: Mapping[str, Any], environment: Mapping[str, str] | None = None, start: Path | None = None
) -> Config:
    """The options that hold for this run.

    Args:
        given: what the code passes to `init`; `None` values count as not given.
        environment: `os.environ` if not given.
        start: the script or its folder; found from `__main__` if not given.

    Raises:
        ConfigError: an unknown key or value, options that don't go together, or a pyproject.toml that can't be read.
    """
    environment = os.environ if environment is None else environment
    code = {n: parse(n, v, f"runtime.init({n}=…)") for n, v in given.items() if v is not None}
    start = script_folder() if start is None else start
    levels = (read_pyproject(start), read_environment(environment), code)
    values: dict[str, Any] = {name: value for level in levels for name, value in level.items()}
    config = Config(**values)
    for name in OWNERS:
        _check_owner(config, levels, name, f"{pyproject(start)}: [tool.distify] {name}")
    return config


def _check_owner(config: Config, levels: Sequence[Mapping[str, Any]], name: str, table: str) -> None:
    """Refuse what belongs to one backend beside another.

    What pyproject.toml says in general may be moot in a run whose backend was chosen in code or environment.

    Args:
        config: what holds.
        levels: options of pyproject.toml, environment and code.
        name: of the option.
        table: how the user wrote it in pyproject.toml.
    """
    owners, what = OWNERS[name]
    if getattr(config, name) == IDLE.get(name):
        return
    chosen, own = (max((k for k, level in enumerate(levels) if key in level), default=-1) for key in ("backend", name))
    if config.backend not in owners and own >= 0 and (own > 0 or own >= chosen):
        source = (table, f"DISTIFY_{name.upper()}", f"runtime.init({name}=…)")[own]
        raise ConfigError(
            f"{source}: {getattr(config, name)} is {what}, but the backend is '{config.backend}', "
            f"{INSTEAD[config.backend]}. Leave it out, or set backend to {' or '.join(map(repr, owners))}."
        )


def parse(name: str, value: Any, source: str) -> str | int:
    """The checked value of one option.

    Args:
        name: field of `Config`.
        value: text, or what TOML or the code gave.
        source: how the user wrote the option, for the message.

    Raises:
        ConfigError: the value is not valid.
    """
    if name in CHOICES:
        if value in CHOICES[name]:
            return str(value)
        raise ConfigError(f"{source}: unknown value {value!r}, {nearest(str(value), CHOICES[name])}")
    if name in SWITCHED:
        known = {"1": True, "true": True, "0": False, "false": False}.get(str(value).lower())
        if known is None:
            raise ConfigError(f"{source}: {value!r} is neither true nor false")
        return known
    low, high = INTEGERS[name]
    try:
        number = int(str(value)) if not isinstance(value, (bool, float)) else None
    except ValueError:
        number = None
    if number is None or number < low or (high is not None and number > high):
        bounds = f"from {low}" + ("" if high is None else f" to {high}")
        raise ConfigError(f"{source}: {value!r} is not a whole number {bounds}")
    return number


def nearest(word: str, valid: Iterable[str]) -> str:
    """A phrase that names the nearest valid word and all of them: `did you mean 'fsdp'? (valid: ddp, fsdp)`."""
    names = list(valid)
    folded = {name.lower().replace("_", "-"): name for name in names}
    close = difflib.get_close_matches(word.lower().replace("_", "-"), list(folded), 1, 0.4)
    listing = ", ".join(names)
    return f"did you mean '{folded[close[0]]}'? (valid: {listing})" if close else f"valid: {listing}"


def read_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """The checked `DISTIFY_*` options; empty ones count as not set."""
    options = {f"DISTIFY_{name.upper()}": name for name in NAMES}
    rewriting = [f"DISTIFY_{name.upper()}" for name in REWRITING]
    values: dict[str, Any] = {}
    for variable, text in environment.items():
        if variable in options and text:
            values[options[variable]] = parse(options[variable], text, variable)
        elif variable in ONOFF and text not in ("", "0", "1"):
            raise ConfigError(f"{variable}: unknown value {text!r}, set it to 1 (on) or 0 (off)")
        elif variable.startswith("DISTIFY_") and variable not in {*options, *SWITCHES, *rewriting}:
            raise ConfigError(f"unknown environment variable {variable}, {nearest(variable, (*options, *SWITCHES))}")
    return values


def read_pyproject(start: Path) -> dict[str, Any]:
    """The checked `[tool.distify]` table of the nearest pyproject.toml at or above `start`; empty if there is none."""
    file = pyproject(start)
    return {} if file is None else read_table(file)


def pyproject(start: Path) -> Path | None:
    """The nearest pyproject.toml at or above `start`."""
    start = start.absolute()
    files = (folder / "pyproject.toml" for folder in (start, *start.parents))
    return next((file for file in files if os.path.isfile(file)), None)  # `is_file` raises in a folder that is closed


def read_table(file: Path) -> dict[str, Any]:
    """The checked `[tool.distify]` table of one pyproject.toml; keys with dashes or underscores."""
    try:
        data = file.read_bytes()
        if b"distify" not in data:  # spares Python 3.10 the need for tomli where nothing is configured
            return {}
        table = _toml(data.decode("utf-8")).get("tool", {}).get("distify", {})
    except RecursionError:
        raise ConfigError(f"{file} can't be read: it is nested too deeply. Correct the file") from None
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(f"{file} can't be read: {error}. Correct the file, or move [tool.distify] to one") from None
    if not isinstance(table, dict):
        raise ConfigError(f"{file}: [tool.distify] must be a table")
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = str(key).replace("-", "_")
        if name in REWRITING:
            continue
        if name not in NAMES:
            raise ConfigError(f"{file}: [tool.distify]: unknown key '{key}', {nearest(str(key), NAMES)}")
        values[name] = parse(name, value, f"{file}: [tool.distify] {key}")
    return values


@lru_cache(maxsize=1)
def _toml(text: str) -> dict[str, Any]:
    """What a file says; a test suite starts many runs in one project."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    found: dict[str, Any] = tomllib.loads(text)
    return found


def script_folder() -> Path:
    """The folder of the script that runs, else the working directory."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(file).resolve().parent if file else Path.cwd()
