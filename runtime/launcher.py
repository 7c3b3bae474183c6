"""What the launcher says about this process, and the restart that gives all ranks the same string hashes."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from .state import DistifyError

NEEDED = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
# Number of processes that another launcher started: and where it says the rank and the local rank of each.
OTHERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "SLURM_STEP_NUM_TASKS": ("SLURM_PROCID", "SLURM_LOCALID"),
        "OMPI_COMM_WORLD_SIZE": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
        "PMI_SIZE": ("PMI_RANK", "MPI_LOCALRANKID"),
    }
)
RESTARTED = "_DISTIFY_RESTARTED"
HOW = "Start with `torchrun --nproc-per-node N script.py`, or alone, with RANK and WORLD_SIZE not set."


class LaunchError(DistifyError):
    """The launcher's variables are incomplete or contradict the machine.

    Args:
        message: what is wrong, and what to type.
        everywhere: whether all processes of this machine fail alike.
    """

    def __init__(self, message: str, everywhere: bool = True) -> None:
        super().__init__(message)
        self.everywhere = everywhere


@dataclass(frozen=True)
class Launcher:
    """This process among those that a launcher started.

    Attributes:
        rank, world_size: position among all processes and their number.
        local_rank, local_size: the same on this machine; `local_size` is `None` if the launcher does not say.
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_size: int | None = None


def launched(environment: Mapping[str, str] | None = None) -> bool:
    """Whether a launcher started this process as one of several."""
    environment = os.environ if environment is None else environment
    return bool(environment.get("RANK") or environment.get("WORLD_SIZE"))


def main_rank(environment: Mapping[str, str] | None = None) -> bool:
    """Whether this process is the one that speaks; true without a launcher."""
    environment = os.environ if environment is None else environment
    return environment.get("RANK", "0") in ("", "0")


def read_launcher(environment: Mapping[str, str] | None = None) -> Launcher | None:
    """Read the launcher's variables; `None` without a launcher.

    Raises:
        LaunchError: some are missing, are no numbers, or contradict each other.
    """
    environment = os.environ if environment is None else environment
    if not launched(environment):
        _check_other_launchers(environment)
        return None
    missing = [name for name in NEEDED if not environment.get(name)]
    if missing:
        there = ", ".join(f"{n}={environment[n]}" for n in NEEDED if environment.get(n))
        raise LaunchError(
            f"a launcher set {there}, but {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set. {HOW}",
            everywhere="RANK" not in missing and "LOCAL_RANK" not in missing,
        )
    _check_address(environment["MASTER_ADDR"], environment["MASTER_PORT"])
    values = {name: _whole(name, environment) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")}
    rank, size, local, here = (values[name] or 0 for name in values)
    if size < 1:
        raise LaunchError(f"WORLD_SIZE={size} is no number of processes: it is at least 1. {HOW}")
    if not 0 <= rank < size:
        raise LaunchError(f"RANK={rank} does not fit WORLD_SIZE={size}: ranks go from 0 to {size - 1}. {HOW}", False)
    if values["LOCAL_WORLD_SIZE"] is not None and not 1 <= here <= size:
        raise LaunchError(f"LOCAL_WORLD_SIZE={here} does not fit WORLD_SIZE={size}: it is from 1 to {size}. {HOW}")
    most = here if values["LOCAL_WORLD_SIZE"] is not None else size
    if not 0 <= local < most:
        raise LaunchError(f"LOCAL_RANK={local} does not fit {most} processes: it is from 0 to {most - 1}. {HOW}", False)
    return Launcher(rank, size, local, values["LOCAL_WORLD_SIZE"])


def _whole(name: str, environment: Mapping[str, str]) -> int | None:
    """The whole number in a variable, `None` if it is not set."""
    text = environment.get(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        alike = name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE")
        raise LaunchError(f"{name}={text!r} is not a whole number; a launcher sets it to one. {HOW}", alike) from None


def _check_address(address: str, port: str) -> None:
    """The form of the main rank's address; whether a machine has it shows when the processes join."""
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise LaunchError(f"MASTER_PORT={port!r} is not a port, a whole number from 1 to 65535. {HOW}")
    host, _, tail = address.partition(":")
    if "/" in address or any(c.isspace() for c in address) or (tail.isdigit() and "." in host):
        raise LaunchError(
            f"MASTER_ADDR={address!r} is not the bare name or address of the machine that runs rank 0, such as "
            f"127.0.0.1; the port stands in MASTER_PORT. {HOW}"
        )


def _check_other_launchers(environment: Mapping[str, str]) -> None:
    """Refuse N processes that would each train alone and write the same files."""
    for name, (rank, local) in OTHERS.items():
        size = environment.get(name, "")
        if size.isdigit() and int(size) > 1:
            raise LaunchError(
                f"{name}={size}: several processes were started, but RANK and WORLD_SIZE are not set, so each would "
                f"train alone. Start torchrun once per machine instead, or set RANK=${rank}, LOCAL_RANK=${local}, "
                f"WORLD_SIZE=${name}, MASTER_ADDR and MASTER_PORT for each process."
            )


def agree_on_hashes() -> None:
    """Give all ranks the same string hashes, so that sets of strings have the same order everywhere.

    Python picks a hash seed per process when it starts, so the process is replaced by itself with `PYTHONHASHSEED`
    set: same process id, same command line. What stood before the import of the runtime runs a second time.
    """
    if not launched() or os.environ.get("PYTHONHASHSEED", "random") != "random":
        return
    size = os.environ.get("WORLD_SIZE", "")
    if size == "1" or not size.isdigit() or RESTARTED in os.environ:  # nonsense is for `init` to name
        return
    reason = _cannot_restart()
    if reason is None:
        os.environ["PYTHONHASHSEED"] = "0"
        os.environ[RESTARTED] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    sys.stderr.write(
        f"distify: PYTHONHASHSEED is not set and the process can't be restarted to set it ({reason}): sets of strings "
        "are ordered differently on each rank. Start with PYTHONHASHSEED=0 in the environment.\n"
    )


def _cannot_restart() -> str | None:
    """Why a restart would lose something; `None` if it would not."""
    main = sys.modules.get("__main__")
    if not sys.executable or len(getattr(sys, "orig_argv", ())) < 2:
        return "the command line is unknown"
    if sys.flags.ignore_environment:
        return "Python ignores its environment"
    if sys.flags.interactive or hasattr(sys, "ps1") or "-" in sys.orig_argv[1:2] or _from_stdin():
        return "the program comes from standard input"
    if getattr(main, "__file__", None) and not os.path.exists(main.__file__):  # type: ignore[union-attr, arg-type]
        return "the working directory has changed"
    if threading.current_thread() is not threading.main_thread() or threading.active_count() > 1:
        return "threads are running"
    if "multiprocessing" in sys.modules:
        import multiprocessing

        if multiprocessing.parent_process() is not None or multiprocessing.active_children():
            return "it has child processes, or is one"
    return _torch_is_running()


def _from_stdin() -> bool:
    main = sys.modules.get("__main__")
    return getattr(main, "__file__", None) in (None, "<stdin>") and "-c" not in sys.orig_argv


def _torch_is_running() -> str | None:
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return "its process group exists"
    return "CUDA is in use" if torch.cuda.is_initialized() else None
