"""The work of `distify verify`, and its exit code."""

from __future__ import annotations

from collections.abc import Sequence

from ..convert import BUG
from ..dataclass import replace
from ..files import FileError
from ..options import OptionError
from ..report.stream import complain, put, put_lines, say
from ..rewrite import InternalError
from ..source import SourceError
from ..spawned import stoppable
from .asjson import as_json
from .outcome import Outcome
from .page import write_page
from .plot import can_plot, write_plot
from .request import Request
from .session import Session, scratch
from .sources import Unable
from .table import report
from .watch import Watch

EQUAL, DIFFERS, UNABLE = 0, 1, 2
"""Exit codes: the same run; another run; it could not be told."""


def verify(request: Request) -> int:
    """Compare a script with its conversion; returns the exit code."""
    if request.plot is not None and not can_plot():
        request = replace(request, plot=None)
    try:
        with stoppable(), scratch(request.keep) as folder:
            outcomes = Session(request, folder, Watch(request.quiet)).outcomes()
            code = code_of(outcomes)
            deliver(request, outcomes, code)
            return code
    except Unable as error:
        reason, *lines = error.args
        outcome = Outcome(str(request.options.effective("backend")), unable=[reason, *lines])
        if request.format == "json":
            put(as_json(request.script, [outcome], UNABLE))
        complain(f"could not run: {reason}")
        say([[(f"  {line}", "")] for line in lines])
    except (FileError, SourceError, OptionError) as error:
        complain(str(error))
    except InternalError as error:
        complain(f"{error}. {BUG}")
    return UNABLE


def code_of(outcomes: Sequence[Outcome]) -> int:
    """The worst of all: a difference, then what could not be run. What is not installed does not count."""
    if any(not (outcome.equal or outcome.unable) for outcome in outcomes):
        return DIFFERS
    if any(outcome.unable and not outcome.skipped for outcome in outcomes):
        return UNABLE
    return EQUAL if any(outcome.equal for outcome in outcomes) else UNABLE


def deliver(request: Request, outcomes: Sequence[Outcome], code: int) -> None:
    """Write the result where it was asked for."""
    if request.html is not None:
        write_page(request.html, request.script, outcomes)
    if request.plot is not None:
        write_plot(request.plot, request.script, outcomes)
    if request.format == "json":
        put(as_json(request.script, outcomes, code))
    else:
        put_lines(report(request.script, outcomes))
