"""What differs from run to run of one and the same script: times, rates, memory, addresses, progress bars.

Nothing is left out beforehand: lines are compared as they are, and only where they differ once more without these. A
number is taken for noise by a unit of time or a word for it; a slash alone makes no rate, and a colon no clock.
"""

from __future__ import annotations

import re

# What follows a time per piece, and stands before a rate: loss/step and acc/image are neither, m/s is of physics.
PIECE = (
    r"(?:it|iter|iteration|step|batch|batche|epoch|sample|image|img|example|token|tok|seq|sequence|frame|item|file|word"
    r"|query|request|call|update)s?"
)
SECOND = r"(?:secs?|seconds?|s)"
MANY = r"(?!(?:[kcm]?m|rad|deg|km|mi)\b)[A-Za-z_]{2,}"
PER = r"(?: ?/ ?|[ _]?(?<![A-Za-z])per[ _]?)"
RATED = rf"(?:{MANY}{PER}(?:{SECOND}|mins|minutes?|hours?)|{PIECE}{PER}min|fps)\b"  # loss/min is the smallest loss
EACH = rf"(?:ns|us|µs|ms|{SECOND}|mins|minutes?|hours?){PER}{PIECE}\b"
UNIT = rf"(?: ?(?:ns|us|µs|ms|{SECOND}|mins|minutes?|hrs?|hours?|[kKMGTP]?FLOPS)|min|h)"
TIMED = r"(?:run|wall)?time(?:[ _](?:taken|used|cost|spent))?"
WORD = rf"(?:{TIMED}|elapsed|duration|took|latency|seconds|timestamp|throughput|fps)"
LABEL = rf"(?:(?:\w*[_-])?{WORD}(?:{PER}\w+)?|{EACH}|{RATED})"
IN = rf"(?:(?:[ _]?[(\[]|[ _])(?:in )?(?:ms|{SECOND}|mins?|minutes?|hours?)[)\]]?)?"
AFTER = rf" ?(?:{RATED}|{EACH})|{UNIT}"
END = r"(?![\w/]|[.,]\w)"
FLOAT = r"(?<![\d.])[-+]?\d+(?:,\d{3}){0,4}(?:[.,]\d+)?(?:[eE][-+]?\d+)?(?![.,]?\d)"

MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
DATE = r"(?<![\w.])(?:19|20)\d{2}(?P<sep>[-/.])(?:0?[1-9]|1[0-2])(?P=sep)(?:0?[1-9]|[12]\d|3[01])"
HOUR = r"\d{1,2}[:.-]?\d{2}(?:[:.-]?\d{2})?(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{2})?"
SHORT = r"\d+:[0-5]\d(?::[0-5]\d)?(?:[.,]\d+)?"
CLOCK = r"(?<![\w.:])(?:\d+ days?, )?\d+:[0-5]\d:[0-5]\d(?:[.,]\d+)?(?![\w:])"

BYTES = r"\d+(?:\.\d+)? ?[KMGT]?i?B\b"
HELD = r"(?:mem|memory|allocated|alloc|reserved|vram|ram|rss)"
HOLDS = rf"(?i:\b(?:\w*_)?{HELD}\b)"

TIME = (
    CLOCK,
    rf"(?<=\[){SHORT}<(?:{SHORT}|\?)|(?i:\beta\b\W{{0,4}}){SHORT}(?!\w)",  # as a number it is a rate of learning
    rf"(?i:\b{LABEL}{IN}\W{{0,4}}(?:(?:is|was|of|per \w+)\W{{1,3}})?)(?:{SHORT}|{FLOAT})(?:{AFTER})?{END}",
    rf"{FLOAT}(?:{AFTER}){END}",
)
DAY = (
    rf"{DATE}(?:[T _-]{HOUR})?(?!\w)",
    rf"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? {MONTH}[a-z]* +\d+\b|\b20\d{{2}}[-_]?\d{{4}}[-_T]\d{{6}}\b",
)
PLACE = (
    rf"{HOLDS}[^\d,;|]{{0,24}}{BYTES}(?: ?/ ?{BYTES})?",
    rf"(?<![\w.]){BYTES}(?= (?:of )?(?i:(?:gpu|cuda|cpu|peak|max) )*{HOLDS})",
    r"(?i:\b(?:max|peak|gpu|cuda)[ _](?:gpu[ _])?mem(?:ory)?\b\W{0,3})\d+(?:\.\d+)?(?![\w.]| ?[kKMGT]?i?B\b)",
    r"\b0x[0-9a-fA-F]{8,16}\b",
    r"(?i:\bpid\b\W{0,3})\d+",
)
TIMES = re.compile("|".join(TIME))
NOISE = re.compile("|".join((*DAY, *TIME, *PLACE)))
BAR = re.compile(r"\d+%\|[ #\d█-▏]*\| *[\d.]+[kMGT]?/[\d.]+[kMGT]? \[")
WHOLE = re.compile(r"100%\|[^|]*\| *(?P<done>\S+) \[[^\],]*(?:,[^\],]*(?:/s|s/it))?(?:, (?P<told>.*))?\]")
COUNTER = re.compile(r"\d+(?:\.\d+)?[kMG]?it \[[\d:]+, *\S+(?:/s|s/it)(?:, (?P<told>.*))?\]")
SPACES = re.compile(r"[ \t]+")


def without_noise(line: str) -> str:
    """A line with a mark in place of what differs from run to run."""
    return NOISE.sub("~", line)


def lines_of(text: str) -> list[str]:
    """The lines of an output as somebody would read them: what was overwritten on its line and bars are left out."""
    lines = (line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n"))
    kept = [line for line in map(without_bar, lines) if line is not None]
    while kept and not kept[-1]:
        kept.pop()
    return kept


def without_bar(line: str) -> str | None:
    """What the last state of a progress bar tells besides its progress, such as a loss; `None` if there is nothing."""
    if BAR.search(line) is None and COUNTER.search(line) is None:
        return line
    found = WHOLE.search(line) or COUNTER.search(line)
    if found is None or not found["told"]:
        return None  # one of many states; how many are shown is a matter of time
    return f"{line[: found.start()]}[{found['told']}]{line[found.end() :]}"


def folded(text: str) -> str:
    """A text with single spaces: columns move by one where 9.99 became 10.00."""
    return SPACES.sub(" ", text).strip()
