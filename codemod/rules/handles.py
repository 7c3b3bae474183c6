"""Open files for writing on the main process only.

    -log = open("log.csv", "w")
    +log = open("log.csv" if runtime.is_main() else os.devnull, "w")
    -with open("history.json", "w") as f:
    -    json.dump(history, f)
    +if runtime.is_main():
    +    with open("history.json", "w") as f:
    +        json.dump(history, f)

A block that only writes is entered by the main process. A block that needs the others (a guard around a collective
never returns: huggingface/accelerate#2000, pytorch/pytorch#143536), or a handle that lives on, gets the null device on
them, so that the code that writes through it stays as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import AddImport, Enclose, Span, Wrap
from ..findings import finding
from . import Outcome, rule
from ._apart import stands_apart
from ._fetched import of_program as fetched_of
from ._order import before_start, on_main_only, shared_condition
from ._source import argument, is_runtime_call
from ._writers import openers, path_openers

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options


@rule("handles")
def handles(facts: Facts, options: Options) -> Iterator[Outcome]:
    """`open(…, "w")` and its like, `path.open("w")`."""
    fetched = fetched_of(facts)
    for call in openers(facts):
        name = argument(call, 0, "file")
        if not fetched.holds(call) and not is_settled(facts, call, name) and shared_condition(facts, call) is None:
            yield from opened(facts, call, name, "main_file", {})
    for call, path in path_openers(facts):
        if not fetched.holds(call) and not is_settled(facts, call, path) and shared_condition(facts, call) is None:
            kind = name_of_path(facts)
            yield from opened(facts, call, path, "main_path", {"path": kind or "pathlib.Path"})


def is_settled(facts: Facts, call: ast.Call, name: ast.expr | None) -> bool:
    """Whether a call is guarded already, or opens a file of each process's own."""
    own = name is None or any(is_runtime_call(facts, node, "is_main", "rank") for node in ast.walk(name))
    return own or on_main_only(facts, call)


def opened(
    facts: Facts, call: ast.Call, name: ast.expr | None, template: str, names: dict[str, str]
) -> Iterator[Outcome]:
    """The block that writes is entered by the main process; or the file's name becomes that of the null device."""
    block = own_block(facts, call)
    params = {"runtime": facts.runtime_name, "os": name_of_os(facts) or "os", **names}
    if name is None or before_start(facts, call):
        yield finding("DST802", call)
    elif block is not None and stands_apart(facts, block):
        yield Enclose(Span.of(block), Span.of(block), "is_main", params, kind="output", code="DST801")
    else:
        yield Wrap(Span.of(name), template, params, kind="output", code="DST801")
        if name_of_os(facts) is None:
            yield AddImport("import os", kind="output")
        if names.get("path") == "pathlib.Path" and name_of_path(facts) is None:
            yield AddImport("import pathlib", kind="output")


def own_block(facts: Facts, call: ast.Call) -> ast.With | None:
    """The `with` statement that a call opens a file for."""
    item = facts.parents[call]
    block = facts.parents[item]
    return block if isinstance(block, ast.With) and isinstance(item, ast.withitem) else None


def name_of_path(facts: Facts) -> str | None:
    """What the file calls `pathlib.Path`, if it imports it at its top."""
    for statement in facts.tree.body:
        for alias in statement.names if isinstance(statement, (ast.Import, ast.ImportFrom)) else ():
            if isinstance(statement, ast.Import) and alias.name == "pathlib":
                return f"{alias.asname or alias.name}.Path"
            if isinstance(statement, ast.ImportFrom) and statement.module == "pathlib" and alias.name == "Path":
                return alias.asname or alias.name
    return None


def name_of_os(facts: Facts) -> str | None:
    """What the file calls the module `os`, if it imports it at its top."""
    for statement in facts.tree.body:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.name == "os" or (alias.name.startswith("os.") and alias.asname is None):
                    return alias.asname or "os"
    return None
