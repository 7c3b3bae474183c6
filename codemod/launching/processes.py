"""How many processes on how many machines, and how they find each other: flags, then torchrun's own variables."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..dataclass import dataclass
from ..options import OptionError, flag, nearest
from . import machine

RENDEZVOUS = ("static", "c10d", "etcd-v2", "etcd")
PORT = 29500
ALONE = 2  # processes where there is no GPU: the least that is distributed
HOST = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s\[\]:/]+)(?::(?P<port>\d+))?")


@dataclass(frozen=True)
class Found:
    """A value and where it came from, for people."""

    value: str
    source: str


@dataclass(frozen=True)
class Processes:
    """The processes of a run.

    Attributes:
        nproc: of each machine: a number, or a word of torchrun.
        nnodes: machines, "2", or "1:4" for a run that goes on with fewer.
        rank: of this machine, where it was given.
        endpoint: "host:port" of where they meet, with several machines.
        backend, id: of the rendezvous.
        restarts: how often torchrun starts all of them again after a failure.
        shown: names with values and sources, for the table.
    """

    nproc: str
    nnodes: str = "1"
    rank: str = ""
    endpoint: str = ""
    backend: str = ""
    id: str = ""
    restarts: str = "0"
    shown: tuple[tuple[str, Found], ...] = ()

    @property
    def alone(self) -> bool:
        """Whether there is one machine."""
        return self.nnodes == "1"

    def elsewhere(self) -> str:
        """What is still to be typed on other machines, or waited for; empty with one machine."""
        if self.alone:
            return ""
        if self.rank not in ("", "0"):
            return f"waits for the first machine, at {self.endpoint}"
        if self.backend != "static":
            return f"type the same command on the other machines; it starts when {self.nnodes} are there"
        last = int(self.nnodes) - 1
        ranks = "1" if last == 1 else f"1 to {last}"
        which = "the other machine" if last == 1 else f"the other {last} machines"
        return f"type the same command on {which}, with --node-rank {ranks}; it starts when all are there"

    def words(self) -> list[str]:
        """The options of torchrun."""
        if self.alone:
            found = ["--standalone", "--nproc-per-node", self.nproc]
        else:
            found = ["--nnodes", self.nnodes, "--nproc-per-node", self.nproc, "--rdzv-backend", self.backend]
            found += ["--rdzv-endpoint", self.endpoint]
            found += ["--node-rank", self.rank] if self.backend == "static" else []
            found += ["--rdzv-id", self.id] if self.id else []
        return [*found, *(["--max-restarts", self.restarts] if self.restarts != "0" else [])]


def processes(given: Mapping[str, str], environment: Mapping[str, str], elsewhere: bool = False) -> Processes:
    """What was asked for, checked.

    Args:
        given: flags, by name: nproc, nnodes, node_rank, rdzv_endpoint, rdzv_backend, rdzv_id, max_restarts.
        environment: of this process; torchrun's variables (`PET_…`) count where no flag is given.
        elsewhere: the run is for other machines than this one, which then tells nothing about them.

    Raises:
        OptionError: a bad value, or one that is missing.
    """
    environment = {} if elsewhere else environment
    found = {name: find(name, given, environment) for name in VARIABLES}
    if found["rdzv_endpoint"] is None and environment.get("PET_MASTER_ADDR"):
        address = f"{environment['PET_MASTER_ADDR']}:{environment.get('PET_MASTER_PORT') or PORT}"
        found["rdzv_endpoint"] = Found(address, "PET_MASTER_ADDR")
    nproc = found["nproc"] or count(elsewhere, environment)
    check(nproc, r"[1-9]\d{0,5}" if elsewhere else r"[1-9]\d{0,5}|gpu|cpu|auto", "a whole number from 1, gpu or cpu")
    nnodes = found["nnodes"] or Found("1", "default")
    check(nnodes, r"[1-9]\d{0,5}(:[1-9]\d{0,5})?", "a whole number from 1, or FEWEST:MOST")
    least, _, most = nnodes.value.partition(":")
    if most and int(most) < int(least):
        raise OptionError(f"{nnodes.source}: {nnodes.value}: the first number is the smaller one")
    restarts = found["max_restarts"] or Found("0", "default")
    check(restarts, r"\d{1,6}", "a whole number from 0")
    shown = [("nproc", nproc), ("nnodes", nnodes)]
    if nnodes.value == "1":
        for_several(found)
        result = Processes(nproc.value, restarts=restarts.value)
    elif elsewhere:
        result = Processes(nproc.value, nnodes.value, restarts=restarts.value)
    else:
        result, more = meeting(found, nproc.value, nnodes, restarts.value)
        shown += more
    if restarts.value != "0":
        shown.append(("max_restarts", restarts))
    return Processes(**{**vars(result), "shown": tuple(shown)})


VARIABLES: Mapping[str, str] = {
    "nproc": "PET_NPROC_PER_NODE",
    "nnodes": "PET_NNODES",
    "node_rank": "PET_NODE_RANK",
    "rdzv_endpoint": "PET_RDZV_ENDPOINT",
    "rdzv_backend": "PET_RDZV_BACKEND",
    "rdzv_id": "PET_RDZV_ID",
    "max_restarts": "PET_MAX_RESTARTS",
}


def find(name: str, given: Mapping[str, str], environment: Mapping[str, str]) -> Found | None:
    """One value, from its flag or torchrun's variable."""
    if name in given:
        return Found(given[name], flag(name))
    variable = VARIABLES[name]
    return Found(environment[variable], variable) if environment.get(variable) else None


def count(elsewhere: bool, environment: Mapping[str, str]) -> Found:
    """One process per GPU of this machine."""
    if elsewhere:
        raise OptionError("--emit needs --nproc N: how many processes (GPUs) each machine of the job has")
    there = machine.gpus(environment)
    return Found(str(there), "GPUs of this machine") if there else Found(str(ALONE), "default without a GPU")


def check(found: Found, pattern: str, wanted: str) -> None:
    """Raises `OptionError` for a value that doesn't look as it should."""
    if not re.fullmatch(pattern, found.value):
        raise OptionError(f"{found.source}: {found.value!r} is not {wanted}")


def for_several(found: Mapping[str, Found | None]) -> None:
    """With one machine, what only several have is a mistake: most likely --nnodes was forgotten."""
    for name in ("node_rank", "rdzv_endpoint", "rdzv_backend", "rdzv_id"):
        item = found[name]
        if item is not None and item.source.startswith("--") and item.value != ("0" if name == "node_rank" else ""):
            raise OptionError(f"{item.source} goes with several machines: give --nnodes too")


def meeting(
    found: Mapping[str, Found | None], nproc: str, nnodes: Found, restarts: str
) -> tuple[Processes, list[tuple[str, Found]]]:
    """Where several machines meet."""
    endpoint, rank, identity = found["rdzv_endpoint"], found["node_rank"], found["rdzv_id"]
    if endpoint is None:
        raise OptionError(
            f"{nnodes.source} {nnodes.value}: several machines need --rdzv-endpoint HOST[:PORT], the same on all: the "
            "machine of rank 0 and a free port there"
        )
    backend = found["rdzv_backend"] or Found("c10d" if rank is None else "static", "default")
    if backend.value not in RENDEZVOUS:
        raise OptionError(f"{backend.source}: unknown value {backend.value!r}, {nearest(backend.value, RENDEZVOUS)}")
    match = HOST.fullmatch(endpoint.value)
    port = int(match["port"] or PORT) if match else 0
    if match is None or not 0 < port < 65536:
        raise OptionError(f"{endpoint.source}: {endpoint.value!r} is not HOST or HOST:PORT")
    shown = [("rdzv_endpoint", Found(f"{match['host']}:{port}", endpoint.source)), ("rdzv_backend", backend)]
    if backend.value == "static":
        check_rank(rank, nnodes)
    elif rank is not None and rank.source.startswith("--"):
        raise OptionError(f"--node-rank goes with --rdzv-backend static; {backend.value} numbers the machines itself")
    shown += [] if rank is None or backend.value != "static" else [("node_rank", rank)]
    shown += [] if identity is None else [("rdzv_id", identity)]
    result = Processes(
        nproc,
        nnodes.value,
        "" if rank is None else rank.value,
        f"{match['host']}:{port}",
        backend.value,
        "" if identity is None else identity.value,
        restarts,
    )
    return result, shown


def check_rank(rank: Found | None, nnodes: Found) -> None:
    """The number of this machine, which a static rendezvous needs."""
    if ":" in nnodes.value:
        raise OptionError(f"{nnodes.source} {nnodes.value} goes with --rdzv-backend c10d: static needs a fixed number")
    most = int(nnodes.value) - 1
    if rank is None:
        raise OptionError(f"--rdzv-backend static needs --node-rank, from 0 to {most}, another on each machine")
    if not re.fullmatch(r"\d{1,6}", rank.value) or int(rank.value) > most:
        raise OptionError(f"{rank.source}: {rank.value!r} is not a whole number from 0 to {most}")
