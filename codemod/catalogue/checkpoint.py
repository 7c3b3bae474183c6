"""Checkpoints: what is saved and loaded."""

from __future__ import annotations

from .code import Code

ENTRIES = (
    Code(
        "DST702",
        "warning",
        "whole model pickled",
        "a sharded model can't be pickled whole",
        "save model.state_dict() instead",
    ),
    Code("DST703", "note", "best model kept as a copy", "state_dict() of a sharded model is gathered first", ""),
    Code(
        "DST751",
        "error",
        "checkpoint written by every process",
        "all of them write to one file at once, and it may end up broken",
        "by hand: if dist.get_rank() == 0:; with the runtime: runtime.save(…), which --fix writes",
    ),
    Code(
        "DST752",
        "note",
        "keys that carry the prefix of a wrapper",
        "the state of the wrapper can't be loaded into the bare model",
        "save model.module.state_dict()",
    ),
    Code(
        "DST753",
        "note",
        "loaded to the device that it was saved from",
        "without map_location all processes put a copy on the first device",
        'torch.load(…, map_location="cpu"), or the device of this process',
    ),
)
