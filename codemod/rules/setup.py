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

from ..edits import AddImport, Argument, InsertBefore, Replace, Span
from ..options import DEFAULTS, OWNERS
from . import Outcome, rule
from ._amp import folds, own_precision
from ._source import runtime_calls, setting

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
        yield from changed(facts, existing[0], options)
    elif facts.entry_statement is not None:
        given = {key: literal(value) for key, value in written(facts, options).items()}
        params = {"runtime": name, "options": given}
        yield InsertBefore(Span.of(facts.entry_statement), "init", params, kind="setup")


def written(facts: Facts, options: Options) -> dict[str, str | int]:
    """The options to write: those given, and the precision of a script whose own autocast or scaling gives way."""
    given = options.given()
    own = facts.worked_out(own_precision)
    if own is not None and setting(facts, options, "precision") is None and folds(facts, options):
        given = {**given, "precision": own}
    return {name: given[name] for name in sorted(given, key=rank)}


def changed(facts: Facts, call: ast.Call, options: Options) -> Iterator[Outcome]:
    """The arguments of an existing init call that differ from the options given."""
    present = {keyword.arg or "": keyword.value for keyword in call.keywords}
    new = {name: value for name, value in written(facts, options).items() if not is_same(present.get(name), value)}
    # What the script had for another backend means nothing to the one given now, which would refuse it.
    gone = {name for name, owners in OWNERS.items() if name in present and new.get("backend", owners[0]) not in owners}
    merged = {name: facts.text(value) for name, value in present.items() if name not in gone}
    merged.update((name, literal(value)) for name, value in new.items())
    ordered = {name: merged[name] for name in sorted(merged, key=rank)}
    if list(ordered) != list(merged) and set(new) - set(present) and call.lineno == call.end_lineno and not call.args:
        arguments = {
            "function": facts.text(call.func),
            "arguments": [f"{name}={text}" for name, text in ordered.items()],
        }
        yield Replace(Span.of(call), "applied", arguments, kind="setup")
        return
    for name in gone:
        yield Argument(Span.of(call), name, None, kind="setup")
    for name, value in new.items():
        yield Argument(Span.of(call), name, literal(value), kind="setup")


def rank(name: str) -> int:
    """Where an option stands in an init call."""
    return list(DEFAULTS).index(name) if name in DEFAULTS else len(DEFAULTS)


def literal(value: str | int) -> str:
    """A value as code."""
    return repr(value) if isinstance(value, bool) else json.dumps(value)


def is_same(node: ast.expr | None, value: str | int) -> bool:
    """Whether an argument has a value already."""
    return isinstance(node, ast.Constant) and node.value == value and type(node.value) is type(value)
