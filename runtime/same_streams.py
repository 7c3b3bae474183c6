"""The replicated random streams must be equal on all ranks: compared when a pass over a sharded loader begins."""

from __future__ import annotations

import sys

from . import streams
from .collectives import gather_objects, together
from .guard import follow_main, in_own_thread
from .meeting import meet
from .state import DistifyError, state


class StreamsDiverged(DistifyError):
    """The replicated random streams differ between ranks."""


def check_streams(where: str) -> None:
    """Compare the replicated random streams of all ranks (at the start of each pass over a loader).

    Python's and NumPy's streams are set to rank 0's with a warning if only they differ: a library that draws on one
    rank, such as a tracker, does that.

    Raises:
        StreamsDiverged: torch's streams differ, so that shuffles and noise would.
    """
    if state.world_size == 1 or state.streams is None or state.streams.depth > 0 or not in_own_thread():
        return
    together("shard")
    meet("the comparison of random streams", where)
    now = streams.capture()
    tensors = {name: value for name, value in now.items() if name in ("torch", "cuda")}
    mine = streams.digest({"python": None, **tensors}), streams.digest(now)
    found = gather_objects(mine)
    if len({torch_streams for torch_streams, _ in found}) > 1:
        raise StreamsDiverged(
            f"when {where}, torch's random streams differ between ranks; they were equal when "
            f"{state.extra.get('streams agreed', 'the run began')}. Since then random numbers were drawn on one rank "
            "only, or in an amount that depends on the rank's slice. Draw them with runtime.draw(…), which draws for "
            "the whole batch, and what one rank does in runtime.on_main(…)."
        )
    state.extra["streams agreed"] = where
    if len(set(found)) > 1:
        follow_main(now)
        if state.rank == 0 and "streams" not in state.extra:
            state.extra["streams"] = True
            sys.stderr.write(
                f"distify: when {where}, Python's or NumPy's random stream differed between ranks and was set to "
                "rank 0's. Something draws on one rank only.\n"
            )
