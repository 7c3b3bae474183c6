"""Output: files, names of files, trackers."""

from __future__ import annotations

from .code import Code

ENTRIES = (
    Code("DST801", "note", "written once", "only the main process writes this", ""),
    Code(
        "DST802",
        "warning",
        "file written by every process",
        "all processes write the same file at once",
        "guard it: if runtime.is_main():",
    ),
    Code(
        "DST803",
        "note",
        "name that differs between processes",
        "a name made of the time or a random identifier is another one on every process; the main one writes files",
        "make it of what all processes share: a seed, the date, an option",
    ),
    Code(
        "DST851",
        "warning",
        "tracker started by every process",
        "each of them makes a run of its own, with its own numbers",
        "start it on one: if dist.get_rank() == 0:",
    ),
)
