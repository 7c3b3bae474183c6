"""A download that every process makes into one folder (pytorch/tutorials#3065, Lightning-AI/pytorch-lightning#17732).

    train_set = datasets.MNIST("data", train=True, download=True)

Those of hubs lock their files. One that some process goes ahead with, others waiting at a barrier, is left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.places import last_name
from ..findings import Finding, finding
from ..rules._downloads import fetches
from ..rules._source import FUNCTIONS, ancestors, function_of, position
from . import Kind, check
from ._guards import of_program as guards_of

if TYPE_CHECKING:
    from ..facts.model import Facts

PLAIN = ("urllib.request.urlretrieve", "wget.download", "gdown.download", "torchvision.datasets.utils.download_url",
         "torchvision.datasets.utils.download_and_extract_archive")  # fmt: skip
DATA = ("torchvision.datasets.", "torchaudio.datasets.", "builtins.")
HINT = "let one process go first: the others wait at a barrier before it, and the first one comes to it afterwards"
TURNS = ("barrier", "wait_for_everyone", "main_process_first", "local_main_process_first", "rank_zero_first")


@check("downloads", Kind.BY_HAND)
def downloads(facts: Facts) -> Iterator[Finding]:
    """Calls that download, on all processes at once."""
    for name, calls in facts.calls.items():
        for call in sorted(calls, key=position):
            loads = name in PLAIN or (name.startswith(DATA) and fetches(facts, call, name))
            if loads and not in_turn(facts, call) and not guards_of(facts).guarded(facts, call, perhaps=True):
                yield finding("DST131", call, hint=HINT)


def in_turn(facts: Facts, call: ast.Call) -> bool:
    """Whether something in the function of a call, or in a caller, lets processes wait for each other before it."""
    homes, todo = set[ast.AST](), [(facts, call)]
    while todo:
        file, node = todo.pop()
        home = function_of(file, node)
        if home in homes:
            continue
        homes.add(home)
        inner = [item for item in ast.walk(home) if isinstance(item, ast.Call) and function_of(file, item) is home]
        if any(waits(item) and position(item) < position(node) for item in inner):
            return True
        if any(isinstance(item, FUNCTIONS) for item in ancestors(file, node)):
            todo += guards_of(facts).sites(home)
    return False


def waits(call: ast.Call) -> bool:
    """Whether a call lets processes wait for each other."""
    return last_name(call.func) in TURNS
