"""Work on several cores: parts of it in processes that are copies of this one and hand back what they made.

Programs that share no file are independent, so their results are those of one process, and are put back into its order.
Where processes can't be copied (Windows), and where one of them dies, this process does the work.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")

WORTH = 60_000
"""Characters of source, a few seconds of work, from which on several processes are faster without being asked for."""


def cores() -> int:
    """How many this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def groups(uses: Mapping[str, Iterable[Hashable]]) -> list[list[str]]:
    """Names that have something in common, directly or not, in their order.

    Args:
        uses: what each name uses.
    """
    home: dict[Hashable, list[str]] = {}
    for name, things in uses.items():
        group = [name]
        for thing in ((name,), *things):
            other = home.get(thing, group)
            if other is not group:
                if len(other) > len(group):
                    group, other = other, group
                group += other
                home.update((key, group) for key, value in home.items() if value is other)
            home[thing] = group
    order = {name: place for place, name in enumerate(uses)}
    found = {id(group): group for group in home.values()}
    return sorted((sorted(group, key=order.__getitem__) for group in found.values()), key=lambda group: order[group[0]])


def shares(costs: Sequence[int], jobs: int) -> list[list[int]]:
    """Indices of work in so many shares of about the same cost: the dearest first, each to who has least."""
    made: list[list[int]] = [[] for _ in range(min(jobs, len(costs)))]
    loads = [0] * len(made)
    for index in sorted(range(len(costs)), key=lambda index: -costs[index]):
        least = loads.index(min(loads))
        made[least].append(index)
        loads[least] += costs[index]
    return [sorted(share) for share in made]


def done(work: Sequence[Callable[[], T]]) -> list[T]:
    """What calls return, each in a process of its own but for the first one, which is done here."""
    if len(work) < 2 or not hasattr(os, "fork"):
        return [item() for item in work]
    import pickle

    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    children = [started(item) for item in work[1:]]
    try:
        first = work[0]()
        answers = [answer(pipe) for _, pipe in children]
    except BaseException:
        for pid, _ in children:
            os.kill(pid, 9)
        raise
    finally:
        for pid, pipe in children:
            os.close(pipe)
            os.waitpid(pid, 0)
    return [first, *(item() if data is None else pickle.loads(data) for item, data in zip(work[1:], answers))]


def started(work: Callable[[], object]) -> tuple[int, int]:
    """A child that does some work: its process id, and where its answer is read."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    try:
        import pickle

        os.close(reading)
        with open(writing, "wb") as file:
            file.write(pickle.dumps(work(), pickle.HIGHEST_PROTOCOL))
            file.flush()
        os._exit(0)
    except BaseException:
        os._exit(1)  # the parent sees that the answer isn't whole, and does the work itself


def answer(pipe: int) -> bytes | None:
    """All that comes out of a pipe, `None` if that is no whole answer."""
    import pickle

    parts = []
    while part := os.read(pipe, 1 << 20):
        parts.append(part)
    data = b"".join(parts)
    return data if data.endswith(pickle.STOP) else None
