"""`DISTIFY_DEBUG=1`: before each call that all ranks must make, they compare what they are about to do, and where.

The comparison travels through a process group of its own, on the CPU, and is the same small exchange whatever the
call is: ranks that are about to do different things meet there, and both get an error that names both lines, where
they would wait for each other or exchange values that don't belong together. If the variable is set on one rank it
holds for all.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from . import places
from .collectives import accumulator, gather_objects
from .lost import in_own_process, leave_word, reach
from .state import DistifyError, state
from .words import some

END = "the end of the run"


class Disagreement(DistifyError):
    """Ranks are about to make different calls; the message names the lines of all."""


def asked() -> bool:
    """Whether the environment of this process asks for it."""
    return os.environ.get("DISTIFY_DEBUG", "") not in ("", "0")


def on() -> bool:
    """Whether this run compares."""
    return state.extra.get("control") is not None


def open_channel(limit: timedelta) -> None:
    """Create the group of the comparisons, if any rank asks for them; a collective of all ranks at `init`."""
    flag = torch.tensor([asked()], dtype=torch.uint8)
    reach(dist.all_reduce, flag, dist.ReduceOp.MAX, group=state.reduce_group)
    if flag.item():
        state.extra["control"] = dist.new_group(backend="gloo", timeout=limit)


def meet(call: str, detail: str = "") -> None:
    """Compare with the other ranks what comes next; does nothing unless debugging.

    Args:
        call: what this rank is about to do, as `runtime.mean()`.
        detail: what else must be equal, such as shape and type.

    Raises:
        Disagreement: another rank is about to do something else, or from another line; on all ranks.
        Lost: another rank has ended, or does not come.
    """
    control = state.extra.get("control")
    if control is None or _apart():
        return
    mine = places.entry() or call, detail, tuple(str(line) for line in places.lines())
    if call == END:  # exit handlers run outside of the script: what it called last tells where it ended
        mine = call, f"which came after {state.extra.get('last call', 'no other call')}", ()
    number = torch.tensor([int(mark(mine), 16) - (1 << 63)])
    table = [torch.empty_like(number) for _ in range(state.world_size)]
    reach(dist.all_gather, table, number, group=control)
    if all(other.item() == table[0].item() for other in table):
        state.extra["last call"] = f"{mine[0]} at {', called from '.join(mine[2]) or 'an unknown line'}"
        return
    found = gather_objects(mine, control)
    leave_word(f"disagreed about {call}")
    raise Disagreement(_told(found))


def mark(value: Any) -> str:
    """Sixteen hexadecimal digits that differ when the values' representations do."""
    return hashlib.blake2b(repr(value).encode(), digest_size=8).hexdigest()


def _apart() -> bool:
    """Whether this is no place where all ranks come: one runs alone, in its turn, in a thread or another process."""
    return bool(
        state.extra.get("alone")
        or state.extra.get("in turn")
        or state.extra.get("fetching")
        or state.extra.get("thread") != threading.get_ident()
        or not in_own_process()
    )


def _told(found: Iterable[tuple[str, str, tuple[str, ...]]]) -> str:
    ranks: dict[tuple[str, str, tuple[str, ...]], list[int]] = {}
    for rank, mine in enumerate(found):
        ranks.setdefault(mine, []).append(rank)
    sides = []
    for (call, detail, where), who in ranks.items():
        place = " at " + ", called from ".join(where) if where else ""
        sides.append(f"  {named(who)}: {call}{_more(detail)}{place}")
    same = len({(call, where) for call, _, where in ranks}) == 1
    reason = (
        "What they hand over must be alike on all ranks."
        if same
        else "All ranks must make the same calls in the same order: what leads here (a condition, the length of a "
        "loop, an exception that was caught) differs by rank. Let them decide alike: `if runtime.any(condition):`, or "
        "on values that are global (runtime.mean, runtime.sum, …)."
    )
    return "\n".join(["ranks disagree about what comes next:", *sides, reason])


def named(ranks: list[int]) -> str:
    """Ranks in words."""
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {some(ranks, 8)}"


def _more(detail: str) -> str:
    return f", {detail}" if detail.startswith("which") else f" of {detail}" if detail else ""


def form(x: Any) -> str:
    """Shape and type of an operand, as far as they must be equal on all ranks for an exchange element by element."""
    if not isinstance(x, Tensor):
        return ""
    kind = str(accumulator(x)).removeprefix("torch.")
    return f"a number ({kind})" if x.dim() == 0 else f"shape {tuple(x.shape)} ({kind})"


def watch_forward(module: nn.Module) -> None:
    """Compare before each forward of a module whose parameters lie in parts on the ranks: it gathers them."""
    if on() and getattr(module, "_compiled_call_impl", None) is None:
        module.register_forward_pre_hook(_before_forward, prepend=True)


def _before_forward(module: nn.Module, args: Any) -> None:
    if not torch.compiler.is_compiling():
        meet(f"the forward of {type(module).__name__}")
