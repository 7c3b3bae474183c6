"""Make folders without a race.

    -if not os.path.exists("out"):
    -    os.makedirs("out")
    +if not os.path.exists("out"):
    +    os.makedirs("out", exist_ok=True)

Several processes find the folder missing and all but one fail to make it. Where the script didn't look first, the main
process makes it, and an existing folder stays an error (Lightning-AI/pytorch-lightning#17732).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import Argument, Callee, Ref, Span
from ..findings import finding
from . import Outcome, rule
from ._order import before_start, depends_on_files, on_main_only
from ._source import calls, keyword_value, method_calls
from ._writers import has_paths, is_foreign

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options


FOLDERS = ("os.makedirs", "os.mkdir")


@rule("folders")
def folders(facts: Facts, options: Options) -> Iterator[Outcome]:
    """`os.makedirs`, `os.mkdir` and `Path.mkdir`."""
    for call in calls(facts, *FOLDERS):
        yield from folder(facts, call)
    if has_paths(facts):
        for call, callee in method_calls(facts, "mkdir"):
            if is_foreign(facts, callee):
                yield from folder(facts, call)


def folder(facts: Facts, call: ast.Call) -> Iterator[Outcome]:
    """Folders: `exist_ok=True` where the script looked first, else by the main process."""
    statement = facts.parents[call]
    if keyword_value(call, "exist_ok") is not None or on_main_only(facts, call) or not isinstance(statement, ast.Expr):
        return
    if depends_on_files(facts, call) or swallowed(facts, call):
        if facts.names.qualified(call.func) == "os.mkdir" and isinstance(call.func, ast.Attribute):
            params = {"receiver": Ref.to(call.func.value), "name": "makedirs"}
            yield Callee(Span.of(call), "method", params, kind="output", code="DST801")
        elif facts.names.qualified(call.func) == "os.mkdir":
            yield finding("DST802", call)
            return
        yield Argument(Span.of(call), "exist_ok", "True", kind="output", code="DST801")
    elif not before_start(facts, call):
        params = {"runtime": facts.runtime_name, "name": "on_main"}
        yield Callee(Span.of(call), "call", params, ("{{ callee }}",), kind="output", code="DST801")
    else:
        yield finding("DST802", call)


def swallowed(facts: Facts, call: ast.Call) -> bool:
    """Whether a `try` stands around a call, so that an existing folder is no failure."""
    parent = facts.parents[facts.parents[call]]
    return isinstance(parent, ast.Try)
