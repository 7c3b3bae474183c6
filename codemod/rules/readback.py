"""Read what the main process wrote only once it is there.

     with open("history.json" if runtime.is_main() else os.devnull, "w") as f:
         json.dump(history, f)
    +runtime.barrier()
     with open("history.json") as f:
         history = json.load(f)

A file that is opened for writing is written by the main process alone; another process may come to the line that reads
it before the main process has closed it, and find no file, half of one, or that of an earlier run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import InsertBefore, Span
from . import Outcome, rule
from ._fetched import of_program as fetched_of
from ._order import before_start, on_main_only, shared_condition
from ._source import argument, calls, function_of, index_in, is_runtime_call, method_calls
from ._writers import openers, opens_for_writing, path_openers

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

READERS = ("builtins.open", "io.open", "codecs.open", "gzip.open", "numpy.load", "numpy.loadtxt", "numpy.genfromtxt",
           "pandas.read_csv", "pandas.read_json", "pandas.read_pickle", "PIL.Image.open", "zipfile.ZipFile",
           "shutil.copy", "shutil.copyfile", "shutil.move")  # fmt: skip
METHODS = ("open", "read_text", "read_bytes")


@rule("readback")
def readback(facts: Facts, options: Options) -> Iterator[Outcome]:
    """`runtime.barrier()` before statements that read a file of a path that is opened for writing elsewhere."""
    written = set(paths_written(facts))
    placed: set[ast.stmt] = set()
    fetched = fetched_of(facts)
    for call, path in readers(facts) if written else ():
        statement = facts.statement(call)
        if key(facts, path) not in written or statement in placed or before_start(facts, call) or fetched.holds(call):
            continue
        if on_main_only(facts, call) or shared_condition(facts, call) is not None or is_waited_for(facts, statement):
            continue
        placed.add(statement)
        yield InsertBefore(Span.of(statement), "barrier", {"runtime": facts.runtime_name}, kind="output")


def paths_written(facts: Facts) -> Iterator[tuple[object, str]]:
    """The paths that are opened for writing."""
    found = [argument(call, 0, "file") for call in openers(facts)] + [path for _, path in path_openers(facts)]
    for path in found:
        guarded = isinstance(path, ast.IfExp) and any(is_runtime_call(facts, n, "is_main") for n in ast.walk(path.test))
        place = path.body if guarded and isinstance(path, ast.IfExp) else path
        if place is not None:
            yield key(facts, place)


def key(facts: Facts, path: ast.expr) -> tuple[object, str]:
    """What a path is told by: a constant or an attribute by its text, anything else by its text in its function."""
    alike = not any(isinstance(node, ast.Name) for node in ast.walk(path)) or isinstance(path, ast.Attribute)
    return (None if alike else function_of(facts, path), facts.text(path))


def readers(facts: Facts) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Calls that read a file, with its path."""
    for call in calls(facts, *READERS):
        if call.args and not opens_for_writing(call):
            yield call, call.args[0]
    for call, callee in method_calls(facts, *METHODS):
        if not opens_for_writing(call, 0):
            yield call, callee.value


def is_waited_for(facts: Facts, statement: ast.stmt) -> bool:
    """Whether the statement before waits for all processes."""
    block = facts.block(statement)
    index = index_in(block, statement)
    before = block[index - 1] if index else None
    return isinstance(before, ast.Expr) and is_runtime_call(facts, before.value, "barrier")
