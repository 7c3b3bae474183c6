"""The work of `distify doctor`."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ..dataclass import dataclass
from ..files import FileError
from ..launching.machine import has_torch
from ..options import OptionError, configuration, nearest
from ..report.stream import complain, put
from .children import Answers, ask
from .needs import backends, installed, precisions
from .report import Findings, as_object, as_text

READY, LACKS, FAILED = 0, 1, 2
FORMATS = ("text", "json")


@dataclass(frozen=True)
class Request:
    """What the command line asks for.

    Attributes:
        form: of the output.
        nproc: processes of the all-reduce; 1 for none.
        limit: seconds that it may take.
    """

    form: str = "text"
    nproc: int = 2
    limit: float = 120.0


def examine(request: Request) -> int:
    """Looks, tells, and returns the exit code: whether a distributed run can start here."""
    if request.form not in FORMATS:
        complain(f"--format: unknown value '{request.form}', {nearest(request.form, FORMATS)}")
        return FAILED
    found = findings(request)
    text = json.dumps(as_object(found), indent=2) if request.form == "json" else "\n".join(as_text(found))
    try:
        put((text + "\n").encode())
    except FileError as error:
        complain(str(error))
        return FAILED
    return LACKS if found.problems else READY


def findings(request: Request) -> Findings:
    """All that there is to find."""
    packages = installed()
    there = has_torch()
    answers = ask(request.nproc, ("gloo", "nccl"), request.limit) if there else Answers()
    if not there:
        packages["torch"] = None
    wrong = ""
    try:
        configuration(Path(os.curdir))
    except OptionError as error:
        wrong = str(error)
    return Findings(
        packages, answers, there and request.nproc > 1, backends(packages), precisions(packages, answers.facts), wrong
    )
