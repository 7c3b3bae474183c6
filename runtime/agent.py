"""Starts the processes of a run as torchrun does, and ends as they end: `distify launch` runs this.

torchrun answers every failure with exit status 1 and a traceback of its own. Here the status is that of the process
that failed first (128 and the signal's number, if a signal ended it), and the reason is one line.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Sequence
from typing import Any

from . import interface

SIGNALLED = 128
PORT = re.compile(r":\d+$")


def main(arguments: Sequence[str]) -> int:
    """Runs torchrun with its command line, and returns the exit status of the run."""
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    options: Any = run.parse_args(list(arguments))  # type: ignore[no-untyped-call]
    meeting(options)
    try:
        run.run(options)  # type: ignore[no-untyped-call]
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        return told(rank, failure.pid, failure.exitcode, len(error.failures))
    except SignalException as error:
        return SIGNALLED + int(error.sigval)
    except KeyboardInterrupt:
        return SIGNALLED + int(signal.SIGINT)
    except Exception as error:
        if os.environ.get("DISTIFY_DEBUG") == "1":
            raise
        say(f"the processes could not be started: {type(error).__name__}: {' '.join(str(error).split())}")
        return 1
    return 0


def meeting(options: Any) -> None:
    """Tell machines that number themselves which of them keeps the store, and at which address this one is found.

    torchrun looks at the machine's own name for both; see `interface`.

    Args:
        options: of torchrun, changed in place.
    """
    host = PORT.sub("", options.rdzv_endpoint).strip("[]")
    if options.rdzv_backend != "c10d" or options.standalone or not host or not interface.name_is_local():
        return
    address = interface.source_towards(host)
    if address is None or interface.is_local(address):
        return
    options.local_addr = options.local_addr or address
    if "is_host" not in options.rdzv_conf:
        mine = int(interface.leads_to(host, address))
        options.rdzv_conf = ",".join(filter(None, [options.rdzv_conf, f"is_host={mine}"]))


def told(rank: int, process: int, status: int, failures: int) -> int:
    """Say which process failed first, and return the exit status for it."""
    more = f"; {failures} processes failed in all" if failures > 1 else ""
    if status < 0:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        memory = " (the system does so when memory runs out)" if name == "SIGKILL" else ""
        say(f"rank {rank} (process {process}) was ended by {name}{memory}{more}")
        return SIGNALLED - status
    say(f"rank {rank} (process {process}) failed first, with exit status {status}{more}")
    return status or 1


def say(text: str) -> None:
    sys.stderr.write(f"distify: {text}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
