"""What differs from run to run of one and the same script: times, speeds, memory, addresses, progress bars.

Nothing is left out beforehand: lines are compared as they are, and only where they differ once more without these.
"""

from __future__ import annotations

import re

UNIT = r"(?: ?(?:ns|us|µs|ms|s|secs?|seconds?|mins|minutes?|hrs?|hours?|[KMGT]i?B|[kKMGT]?FLOPS?)|min|h)"
RATE = r" ?(?:[A-Za-z_]+ ?/ ?(?:s|sec|seconds?|min)|(?:m?s|sec|seconds?) ?/ ?[A-Za-z_]+|fps|Hz)"
WORD = r"(?:times?|elapsed|duration|took|eta|speed|throughput|latency|memory|fps|seconds|timestamp)"
LABEL = rf"(?:(?:\w*[_-])?{WORD}|(?:m?s|sec|seconds?|\w+) ?/ ?(?:batch|iter|it|step|epoch|image|s|sec))"
FLOAT = r"[-+]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?"
DATE = r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}"
HOUR = r"\d{1,2}[:.-]?\d{2}(?:[:.-]?\d{2})?(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{2})?"

NOISE = re.compile(
    "|".join(
        (
            rf"\b{DATE}(?:[T _-]{HOUR})?",
            r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\w*,? \w{3} +\d+|\b\d{4}[-_]?\d{4}[-_]\d{6}\b",
            r"\b(?:\d+ days?, )?\d+:\d{2}(?::\d{2})?(?:[.,]\d+)?\b",
            rf"\b{FLOAT}(?:{RATE}|{UNIT})(?![\w/]|\.\w)",
            rf"(?i:\b{LABEL}\b\W{{0,4}}(?:(?:is|was|in|of|per \w+)\W{{1,3}})?){FLOAT}",
            r"\b0x[0-9a-fA-F]+\b",
            r"(?i:\bpid\b\W{0,3})\d+",
        )
    )
)
BAR = re.compile(r"\d+%\|.*\||\d+(?:\.\d+)?(?:it/s|s/it)\b")
SPACES = re.compile(r"[ \t]+")


def without_noise(line: str) -> str:
    """A line with a mark in place of what differs from run to run."""
    return NOISE.sub("~", line)


def lines_of(text: str) -> list[str]:
    """The lines of an output as somebody would read them: what was overwritten on its line and bars are left out."""
    lines = (line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n"))
    kept = [line for line in lines if not BAR.search(line)]
    while kept and not kept[-1]:
        kept.pop()
    return kept


def folded(text: str) -> str:
    """A text with single spaces: columns move by one where 9.99 became 10.00."""
    return SPACES.sub(" ", text).strip()
