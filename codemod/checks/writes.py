"""Checkpoints and files that every process writes at once; names by the number of the process are its own.

torch.save(model.module.state_dict(), "model.pt")       # if dist.get_rank() == 0:
with open("log.csv", "w") as file: …
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.places import passed
from ..facts.ranks import Mark
from ..facts.saved import SAVES
from ..findings import Finding, finding
from ..rules._source import FUNCTIONS, ancestors, bindings, calls, keyword_value, method_calls
from ..rules._writers import openers, path_openers, writers
from . import Kind, check
from ._guards import of_program as guards_of

if TYPE_CHECKING:
    from ..facts.model import Facts


COMMANDS = ("os.system", "subprocess.", "matplotlib.pyplot.show")  # they may do anything, or write no file
OF_SAMPLES = ("__getitem__", "__getitems__")  # each process fetches samples of its own
FOLDERS = ("os.makedirs", "os.mkdir")
FOLDER = "All processes make this folder at once, and those that come later fail."
BUFFERS = ("io.BytesIO", "io.StringIO")


@check("writes", Kind.BY_HAND)
def writes(facts: Facts) -> Iterator[Finding]:
    """Saves and other writes that no condition on the process is around."""
    for call in calls(facts, *SAVES):
        if is_shared(facts, call):
            yield finding("DST751", call)
    others = [*writers(facts), *openers(facts), *(call for call, _ in path_openers(facts))]
    for call in dict.fromkeys(others):
        if is_shared(facts, call) and not (facts.names.qualified(call.func) or "").startswith(COMMANDS):
            yield finding(
                "DST802", call, "All processes write this file at once.", "guard it: if dist.get_rank() == 0:"
            )
    for call in [*calls(facts, *FOLDERS), *(call for call, _ in method_calls(facts, "mkdir"))]:
        fails = keyword_value(call, "exist_ok") is None and len(call.args) < 3 and not is_tried(facts, call)
        if fails and is_shared(facts, call):
            yield finding("DST802", call, FOLDER, "exist_ok=True, or guard it: if dist.get_rank() == 0:")


def is_tried(facts: Facts, call: ast.Call) -> bool:
    """Whether it is caught that a folder is there already."""
    return isinstance(facts.enclosing(call, ast.Try, *FUNCTIONS), ast.Try)


def is_memory(facts: Facts, node: ast.expr) -> bool:
    """Whether an expression is a buffer in memory, as far as its function tells."""
    if not isinstance(node, ast.Name):
        return facts.names.qualified(getattr(node, "func", node)) in BUFFERS
    made = [value for value in bindings(facts, node) if value is not None]
    for block in ancestors(facts, node):
        for item in block.items if isinstance(block, ast.With) else ():
            if isinstance(item.optional_vars, ast.Name) and item.optional_vars.id == node.id:
                made.append(item.context_expr)
    return any(isinstance(value, ast.Call) and facts.names.qualified(value.func) in BUFFERS for value in made)


def is_shared(facts: Facts, call: ast.Call) -> bool:
    """Whether all processes make a call, on the same file."""
    guards = guards_of(facts)
    told = passed(call)
    if isinstance(call.func, ast.Attribute):
        told.append(call.func.value)
    if any(is_memory(facts, item) for item in told):
        return False
    own = any({Mark.RANK, Mark.PROCESS} & facts.value(item).ranks for item in told)
    if own or guards.inside(facts, call, OF_SAMPLES) or guards.before_all(facts, call):
        return False
    return not guards.guarded(facts, call, perhaps=True)
