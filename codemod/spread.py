"""Shares out scripts among processes, and puts together what comes out, in the order of one process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from . import parallel
from .dataclass import replace
from .options import OptionError, Options, configuration
from .rewrite import InternalError, Result
from .rewriter import Attempt, Rewriter
from .source import SourceError

Failure = tuple[int, int, str, type[Exception], str]
"""The step and the place at which something failed, its name, and the error."""


def plan(rewriter: Rewriter, options: Options, name: str) -> None:
    """Plan one script under the options that hold in its folder."""
    rewriter.plan(name, replace(options, configured=configuration(Path(name).parent)))


def jobs(options: Options) -> int:
    """How many processes were asked for; 0 for as many as are worth it."""
    try:
        found = replace(options, configured=configuration(Path(os.curdir))).effective("jobs")
    except OptionError:  # said of a script that it counts for
        found = options.jobs or 0
    return int(found)


def shares(rewriter: Rewriter, scripts: Sequence[str], options: Options) -> list[list[str]]:
    """The scripts that each process converts, in one list if they are not worth several."""
    wanted = jobs(options) if len(scripts) > 1 else 1
    alone = wanted == 1 or not hasattr(os, "fork") or bool(os.environ.get("DISTIFY_DEBUG"))
    if alone or (not wanted and (parallel.cores() == 1 or rewriter.cost(scripts) < parallel.WORTH)):
        return [list(scripts)]
    found = rewriter.independent(scripts)
    split = parallel.shares([rewriter.cost(group) for group in found], wanted or parallel.cores())
    return [[name for index in share for name in found[index]] for share in split]


def results(
    rewriter: Rewriter, options: Options, scripts: Sequence[str], split: list[list[str]], attempt: Attempt
) -> list[Result]:
    """The results of scripts that processes share out; what fails is told in the order of one process."""
    from . import apply, rules  # noqa: F401  # once, and not in each process

    rules.rules()
    order = {name: place for place, name in enumerate(scripts)}
    planned: dict[str, Result] = {}
    failures: list[Failure] = []
    for made, failed in parallel.done([partial(share_of, rewriter, options, names, order) for names in split]):
        planned.update(made)
        failures += failed
    for _, _, name, kind, text in sorted(dict.fromkeys(failures), key=lambda item: item[:2]):
        attempt(name, partial(fail, kind, text))
    return rewriter.others(planned)


def share_of(
    rewriter: Rewriter, options: Options, names: Sequence[str], order: Mapping[str, int]
) -> tuple[dict[str, Result], list[Failure]]:
    """The results of some scripts and their modules, and what went wrong."""
    failed: list[Failure] = []

    def attempts(step: int) -> Attempt:
        def attempt(name: str, work: Callable[[], None]) -> None:
            try:
                work()
            except (SourceError, OptionError, InternalError) as error:
                failed.append((step, order.get(name, len(order)), name, type(error), str(error)))

        return attempt

    for name in sorted(names, key=order.__getitem__):
        attempts(0)(name, partial(plan, rewriter, options, name))
    rewriter.edit(attempts(1))
    rewriter.prove(attempts(2))
    return rewriter.planned(), failed


def fail(kind: type[Exception], text: str) -> None:
    """Fails as another process did."""
    error = kind.__new__(kind)
    error.args = (text,)
    raise error
