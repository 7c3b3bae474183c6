"""What each backend and precision needs, and what of that is missing here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from ..dataclass import dataclass
from ..options import CHOICES

PACKAGES = ("torch", "deepspeed", "safetensors", "numpy", "libcst", "typer", "jinja2", "rich")
OLDEST: Mapping[str, tuple[int, ...]] = {"torch": (2, 6), "deepspeed": (0, 19, 8)}
TORCH = "pip install -U 'torch-distify[torch]'"
DEEPSPEED = "pip install -U 'torch-distify[deepspeed]'"
AMPERE = (8, 0)


@dataclass(frozen=True)
class Need:
    """Whether something can be used here.

    Attributes:
        name: of the backend or precision.
        lacks: what is missing; empty if nothing is.
        remedy: what to type then.
        note: what it costs here.
    """

    name: str
    lacks: str = ""
    remedy: str = ""
    note: str = ""


def installed() -> dict[str, str | None]:
    """Versions of the packages that matter, `None` for those that are not there."""
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def backends(packages: Mapping[str, str | None]) -> list[Need]:
    """What each backend lacks."""
    torch, deepspeed = missing("torch", packages), missing("deepspeed", packages)
    found = {"deepspeed": deepspeed} if deepspeed and not torch else {}
    return [
        Need(name, found[name], DEEPSPEED) if name in found else Need(name, torch, TORCH if torch else "")
        for name in CHOICES["backend"]
    ]


def missing(name: str, packages: Mapping[str, str | None]) -> str:
    """What is wrong with a package, empty if nothing is."""
    version, oldest = packages.get(name), OLDEST[name]
    wanted = ".".join(map(str, oldest))
    if version is None:
        return f"{name} {wanted} or newer, which is not installed"
    if numbers(version) < oldest:
        return f"{name} {wanted} or newer, found {version}"
    return ""


def numbers(version: str) -> tuple[int, ...]:
    """`(2, 13, 0)` of `2.13.0+cpu`."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def precisions(packages: Mapping[str, str | None], facts: Mapping[str, Any]) -> list[Need]:
    """What each precision lacks, and what it costs here."""
    lacks = missing("torch", packages)
    if lacks or not facts:
        return [Need(name, lacks or "an answer of torch") for name in CHOICES["precision"]]
    gpus = facts["gpus"]
    if not gpus:
        note = {
            "bf16": "on the CPU: slow unless it has AMX or AVX-512",
            "fp16": "on the CPU: slow; deepspeed refuses it",
        }
    else:
        old = [gpu for gpu in gpus if tuple(gpu["capability"]) < AMPERE]
        slow = f"{old[0]['name']} only emulates it: slow; fp16 is faster there" if old else ""
        note = {"bf16": slow}
    return [Need(name, note=note.get(name, "")) for name in CHOICES["precision"]]
