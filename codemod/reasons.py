"""Why an edit is made, in a line: by its kind, and where rules of different purposes share a kind, by the rule."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "accumulate": "one optimizer step is made of several loader batches, so this has its place in their window",
        "autocast": "the model and its losses run in the precision that is asked for when the script starts",
        "backward": "after this, gradients are those of the whole batch on every process",
        "batch": "each process works on its slice of a batch that the script makes itself",
        "checkpoint": "a file has the original's keys and shapes on every backend, and is written once",
        "clip": "the norm is that of the whole gradient: unscaled, and over the shards of all processes",
        "count": "counted over the whole batch, and not over this process's slice",
        "decision": "all processes must decide alike, or some would wait for the others for ever",
        "device": "each process has a device of its own, which the launcher tells it",
        "download": "the main process downloads while the others wait, then they find the files",
        "gathered": "rows of all processes are needed here, in the order of the original",
        "loader": "each process fetches its slice of the very batches that the original would draw",
        "output": "written once, by the main process",
        "parameters": "parameters are needed whole here, and a sharded backend keeps them in parts",
        "precision": "the script's own mixed precision gives way to the one that is asked for when the script starts",
        "prepare": "gradients are shared, and parameters sharded, from here on",
        "processes": "the original runs on one process, and decides nothing by which one it is",
        "random numbers": "drawn at the size of the whole batch, then sliced: the numbers of the original",
        "reduction": "the batch dimension disappears here, so this is the value over the whole batch from here on",
        "setup": "starts the process group where the script runs under a launcher",
        "step": "all processes make the step or skip it together, whatever the backend and precision",
    }
)

OF_RULE: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("cycle", "loader"): "later rounds yield tensors of the first again, which must know the batch they belong to",
        ("packing", "reduction"): "padded to the longest sequence of the whole batch, and not of this process's slice",
        ("readback", "output"): "the main process has written the file before another one reads it",
        ("handles", "output"): "the main process writes the file; the others write to nowhere",
        ("folders", "output"): "made once, and no error where it is there already",
        ("parallel", "device"): "processes take the place of threads: one for each device",
        ("unsynced", "backward"): "gradients are shared only where an optimizer step follows",
    }
)

IMPORTED = "imported for what is called below"


def reason(rule: str, kind: str) -> str:
    """Why a rule makes an edit of a kind, as a phrase without a full stop; "" for a kind that isn't known."""
    return OF_RULE.get((rule, kind)) or REASONS.get(kind, "")
