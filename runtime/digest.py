"""What decides the course of a run must be equal on all ranks: compared when a pass over a sharded loader ends.

Counts of backward calls and steps, the loss, hyperparameters such as the learning rate, modes and frozen parts of
modules, the loss scale, and parameters where each rank holds them whole. Under `DISTIFY_DEBUG=1` it is compared after
each step too, where parameters must be equal to the last bit. Random streams are compared by `same_streams`.

Rounding is no difference: ranks on different hardware compute the last digits otherwise. A reduction that was
forgotten, a step that one rank skipped, a rate that one rank lowered are.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from . import guard, meeting, places
from .collectives import gather_objects
from .deciding import KEPT, Fact, facts, notes
from .meeting import meet
from .same_streams import check_streams
from .state import DistifyError, state
from .steps import steps

LOSS = (1e-2, 1e-4)  # by how much losses may differ, of their size; the second when debugging
VALUE = (1e-6, 1e-6)  # hyperparameters
WEIGHTS = (1e-3, 1e-6)  # sums of norms of parameters
SLIGHT = 1e-7  # beyond which a difference of parameters is worth a warning
LONG, OFTEN = 8, 32  # batches of a pass, and of several short ones, after which all is compared
SHOWN = 8  # differences that a message names


class StateDiverged(DistifyError):
    """Ranks hold different values of what must be equal; the message names them, and when they were equal last."""


def note(loss: Tensor) -> None:
    """Remember the loss of a backward; it is not waited for."""
    if state.world_size > 1:
        found = notes()
        found.backwards += 1
        found.losses = [*(found.losses[1 - KEPT :] if meeting.on() else []), loss.detach()]


def after_step(optimizer: Optimizer) -> None:
    """Compare after a step, if debugging: the end of each accumulation window."""
    if meeting.on() and not guard.by_itself():
        when = f"step {steps().tried.get(optimizer, 0)} of {type(optimizer).__name__} was made"
        check_streams(when)
        compare(when)


def after_pass(name: str, batches: int) -> None:
    """Compare at the end of a pass; of passes of a few batches at some, since it costs about as much as one batch.

    Args:
        name: of the loader.
        batches: that it yielded.
    """
    noted = notes()
    noted.passes += 1
    noted.unseen += batches
    first = noted.passes & (noted.passes - 1) == 0
    if meeting.on() or first or batches >= LONG or noted.unseen >= OFTEN:
        noted.unseen = 0
        compare(f"a pass over {name} ended")


def compare(when: str) -> None:
    """Compare what must be equal on all ranks; a collective where all ranks come.

    Args:
        when: for the message.

    Raises:
        StateDiverged: it is not, on all ranks.
    """
    if not guard.all_here():
        return
    meet("the comparison of what ranks must hold alike", when)
    mine = dict(facts())
    found = gather_objects(mine)
    names = [name for name in dict.fromkeys(name for one in found for name in one) if _differ(name, found)]
    if not names:
        notes().agreed = when
        _warn(when, found)
        return
    told = [f"  {name}: {_values([one.get(name, 'nothing') for one in found])}" for name in names[:SHOWN]]
    more = [f"  and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
    script = _script()
    raise StateDiverged(
        "\n".join(
            [
                f"when {when}, ranks differ in what must be equal on all:",
                *told,
                *more,
                f"They were equal when {notes().agreed}. A value that depends on a rank's rows decided alone: reduce "
                "it first (runtime.mean, runtime.sum, runtime.any(condition)), and let runtime.on_main(…) do what one "
                f"rank does.{script}",
            ]
        )
    )


def _differ(name: str, found: Iterable[dict[str, Fact]]) -> bool:
    values = [one.get(name) for one in found]
    if not all(isinstance(value, float) for value in values):
        return any(value != values[0] for value in values)
    numbers = [value for value in values if isinstance(value, float)]
    if all(math.isnan(x) for x in numbers) or all(x == numbers[0] for x in numbers):
        return False
    bounds = LOSS if name.startswith("loss") and name != "loss scale" else WEIGHTS if "norms" in name else VALUE
    largest = max(abs(x) for x in numbers)
    if not math.isfinite(largest):
        return True  # some NaN or infinite, others not
    apart = max(numbers) - min(numbers)
    return not apart <= bounds[meeting.on()] * largest + 1e-9


def _warn(when: str, found: Sequence[dict[str, Fact]]) -> None:
    """Tell once that parameters differ by little: rounding on unlike hardware, or one small change on one rank."""
    for name, value in found[0].items():
        if "norms" in name and any(abs(one[name] - value) > SLIGHT * abs(value) for one in found):  # type: ignore[operator, arg-type]
            if state.rank == 0 and "slight" not in state.extra:
                state.extra["slight"] = True
                sys.stderr.write(
                    f"distify: when {when}, {name} differed slightly between ranks: "
                    f"{_values([one[name] for one in found])}. Unlike hardware rounds otherwise; if all ranks run on "
                    "the same, something changes parameters on one rank only: DISTIFY_DEBUG=1 finds the step.\n"
                )
            return


def _values(values: Sequence[Any]) -> str:
    """Values with the ranks that hold them."""
    held: dict[str, list[int]] = {}
    for rank, value in enumerate(values):
        held.setdefault(f"{value:.9g}" if isinstance(value, float) else str(value), []).append(rank)
    return ", ".join(f"{text} on {meeting.named(ranks)}" for text, ranks in list(held.items())[:SHOWN])


def _script() -> str:
    """Plain numbers of the script that differ too, as a hint: some of them may differ rightly."""
    mine = dict(places.numbers())
    found = gather_objects(mine)
    names = [name for name in found[0] if any(one.get(name) != found[0][name] for one in found)]
    told = ", ".join(f"{name} ({_values([one.get(name, 'nothing') for one in found])})" for name in names[:SHOWN])
    return f" In the script these differ too, rightly or not: {told}." if told else ""
