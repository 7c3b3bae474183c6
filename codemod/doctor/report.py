"""What `distify doctor` found: an object for programs, lines of plain words for people."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from ..dataclass import dataclass
from ..launching import machine
from ..version import version
from .children import Answers
from .needs import Need


@dataclass(frozen=True)
class Findings:
    """All that was looked at.

    Attributes:
        packages: versions.
        answers: of the processes that import torch.
        tested: whether an all-reduce was asked for.
        backends, precisions: what each lacks.
        options: what is wrong with the settings of this folder; empty if nothing is.
    """

    packages: Mapping[str, str | None]
    answers: Answers
    tested: bool
    backends: list[Need]
    precisions: list[Need]
    options: str = ""

    @property
    def problems(self) -> list[str]:
        """Why a distributed run can't start here; empty if it can."""
        found = [f"a run needs {need.lacks}" for need in self.backends if need.name == "ddp" and need.lacks]
        found += [self.answers.error] if self.answers.error else []
        found += [f"{item['backend']}: {item['error']}" for item in self.answers.reduces if "error" in item]
        found += [
            f"{item['backend']}: the sum of an all-reduce is wrong"
            for item in self.answers.reduces
            if not item.get("right", True)
        ]
        if self.tested and not found and not self.answers.reduces:
            found.append("this build of torch has neither gloo nor a NCCL that can be used")
        return [*found, *([self.options] if self.options else [])]


def as_object(found: Findings) -> dict[str, Any]:
    """Everything, for `--format json`."""
    return {
        "version": version(),
        "python": platform.python_version(),
        "system": platform.system(),
        "packages": dict(found.packages),
        "torch": found.answers.facts or None,
        "driver_gpus": machine.gpu_names(),
        "all_reduce": [with_speed(item) for item in found.answers.reduces],
        "backends": [asdict(need) for need in found.backends],
        "precisions": [asdict(need) for need in found.precisions],
        "problems": found.problems,
    }


def with_speed(item: Mapping[str, Any]) -> dict[str, Any]:
    """An all-reduce with its bandwidth, if it worked."""
    return {**item, **({"gb_per_s": speed(item)} if "seconds" in item else {})}


def speed(item: Mapping[str, Any]) -> float:
    """Bytes that each link carries, in 10^9 per second: 2 (n - 1) / n of the tensor, however it is added up."""
    size = item["processes"]
    return round(float(item["bytes"] * 2 * (size - 1) / size / item["seconds"] / 1e9), 3)


def as_text(found: Findings) -> Iterator[str]:
    """Everything, for people."""
    yield f"distify {version()}, Python {platform.python_version()}, {platform.system()}"
    yield ""
    yield "Packages"
    there = {name: version for name, version in found.packages.items() if version}
    width = max(map(len, there))
    yield from (f"  {name:{width}}  {version}" for name, version in there.items())
    absent = [name for name, version in found.packages.items() if not version]
    if absent:
        yield f"  not installed: {', '.join(absent)}"
    if "torch" in absent:
        yield "  Without torch distify converts and checks scripts, but can't run them."
    yield ""
    yield "GPUs"
    yield from graphics(found)
    yield ""
    yield "Communication"
    yield from communication(found)
    for title, needs in (("Backends", found.backends), ("Precisions", found.precisions)):
        yield ""
        yield title
        width = max(len(need.name) for need in needs)
        for need in needs:
            said = f"needs {need.lacks}" if need.lacks else f"ready; {need.note}" if need.note else "ready"
            yield f"  {need.name:{width}}  {said}"
        yield from (f"  To install it: {remedy}" for remedy in dict.fromkeys(need.remedy for need in needs) if remedy)
    yield ""
    if not found.problems:
        yield "Ready: " + ("processes can be started here." if found.tested else "nothing that a run needs is missing.")
    yield from (f"Problem: {line}" for line in found.problems)


def graphics(found: Findings) -> Iterator[str]:
    """The GPUs that torch sees, else those of the driver."""
    seen = found.answers.facts.get("gpus", [])
    for number, gpu in enumerate(seen):
        capability = ".".join(map(str, gpu["capability"]))
        yield f"  {number}: {gpu['name']}, {gpu['memory_gib']} GiB, compute capability {capability}"
    names = [] if seen else machine.gpu_names()
    yield from (f"  {number}: {name}, which torch does not see" for number, name in enumerate(names))
    if not seen and not names:
        yield "  none"


def communication(found: Findings) -> Iterator[str]:
    """What is there, and how fast it was."""
    facts = found.answers.facts
    if not facts:
        yield "  unknown, since torch gives no answer"
        return
    for kind in ("gloo", "nccl"):
        done = next((item for item in found.answers.reduces if item["backend"] == kind), None)
        if not facts[kind]:
            yield f"  {kind}  not in this build of torch"
        elif done is None:
            why = "available; two processes need two GPUs" if kind == "nccl" and found.tested else "available"
            yield f"  {kind}  {why}"
        elif "error" in done:
            yield f"  {kind}  failed: {done['error']}"
        else:
            yield (
                f"  {kind}  all-reduce of {done['processes']} processes: {done['bytes'] >> 20} MiB in "
                f"{done['seconds'] * 1e3:.1f} ms, {speed(done):.2f} GB/s"
            )
            yield f"        4 bytes in {done['small_seconds'] * 1e6:.0f} microseconds"
