"""Start the runtime: the import, and one `runtime.init(…)` before anything that seeds, builds or loads.

    +from distify import runtime
     args = parse()
    +runtime.init(backend="fsdp", accumulate=4)
     torch.manual_seed(args.seed)

Only options of the command line are written; the rest is found when the script starts. In converted code the arguments
that differ are changed in place, and nothing else. A guard that ran before the start of the processes would do nothing
(yiqiao-yin/deepspeed-course#16).
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import AddImport, Argument, InsertBefore, Span
from . import Outcome, rule
from ._amp import folds, scales_always
from ._source import runtime_calls

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options


@rule("setup", order=10)
def setup(facts: Facts, options: Options) -> Iterator[Outcome]:
    """The import of the runtime and its init call."""
    name = facts.runtime_name
    if not facts.runtime_imported:
        alias = "" if name == "runtime" else f" as {name}"
        yield AddImport(f"from distify import runtime{alias}", kind="setup")
    existing = runtime_calls(facts, "init")
    if existing:
        yield from changed(existing[0], options)
    elif facts.entry_statement is not None:
        given = {key: json.dumps(value) for key, value in written(facts, options).items()}
        params = {"runtime": name, "options": given}
        yield InsertBefore(Span.of(facts.entry_statement), "init", params, kind="setup")


def written(facts: Facts, options: Options) -> dict[str, str | int]:
    """The options to write: those given, and the precision of a script whose own loss scaling gives way."""
    given = options.given()
    if "precision" not in given and folds(facts, options) and scales_always(facts):
        return {**given, "precision": "fp16"}
    return given


def changed(call: ast.Call, options: Options) -> Iterator[Outcome]:
    """The arguments of an existing init call that differ from the options given."""
    present = {keyword.arg: keyword.value for keyword in call.keywords}
    for name, value in options.given().items():
        old = present.get(name)
        if not (isinstance(old, ast.Constant) and old.value == value and type(old.value) is type(value)):
            yield Argument(Span.of(call), name, json.dumps(value), kind="setup")
