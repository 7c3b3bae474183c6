"""What `distify verify` is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from ..dataclass import dataclass, field
from ..options import Options

FORMATS = ("text", "json")
DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class Request:
    """What the command line asks for.

    Attributes:
        script: the file.
        arguments: of the script.
        options: of the conversion.
        original: the file that a converted script was made of.
        processes: of the rewritten script.
        steps: after how many optimizer steps both end.
        dropout: whether dropout stays.
        limit: seconds that each run may take.
        matrix: whether all backends are tried.
        twice: whether the original is run a second time in any case.
        device: "auto", "cpu" or "cuda".
        tolerance: relative; `None` for that of the precision.
        ignore: lines of output that hold this regular expression are left out.
        plot, html: files to write.
        format: of the result.
        keep: whether the scratch copies stay.
        quiet: whether to say nothing but the result.
    """

    script: str
    arguments: Sequence[str] = ()
    options: Options = field(default_factory=Options)
    original: str | None = None
    processes: int = 2
    steps: int | None = None
    dropout: bool = True
    limit: float = 600.0
    matrix: bool = False
    twice: bool = False
    device: str = "auto"
    tolerance: float | None = None
    ignore: str | None = None
    plot: str | None = None
    html: str | None = None
    format: str = "text"
    keep: bool = False
    quiet: bool = False
