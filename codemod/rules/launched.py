"""What a script asks about processes is answered as it is on one, before any launcher and any process group.

    -rank = int(os.environ.get("RANK", 0))
    +rank = 0
    -    return dist.is_available() and dist.is_initialized()
    +    return dist.is_available() and False

Without a launcher the original finds none of these variables, and no process group. In the converted script there are
both: code under `if rank == 0:` would run on one process, where its collectives wait for ever, and totals that are
global already would be added up once more (yiqiao-yin/deepspeed-course#16). A variable that the original can't do
without, or sets itself, is refused.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from ..edits import Ref, Replace, Span
from ..findings import finding
from ..launchers import MEETING, NUMBERS, OWN, SIZES
from . import Outcome, rule
from ._source import FUNCTIONS, ancestors, argument, position

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

TOLD = frozenset((*NUMBERS, *SIZES))
ENVIRONMENT = "os.environ"
LOOKUPS = ("os.getenv", "os.environ.get")
NUMBER = re.compile(r"-?\d+")
CHANGES = ("os.putenv", "os.unsetenv", "os.environ.pop", "os.environ.setdefault")
RUNNING = ("torch.distributed.is_initialized", "torch.distributed.is_torchelastic_launched")
ASKS = ("torch.distributed.get_rank", "torch.distributed.get_world_size", "torch.distributed.get_node_local_rank")


@rule("launched", order=90)
def launched(facts: Facts, options: Options) -> Iterator[Outcome]:
    """What the original finds instead of each question about processes."""
    if facts.worked_out(names_runtime):
        return  # it is converted, and whoever asks for the rank there knows of the processes
    for node in sorted((node for node in facts.nodes if isinstance(node, ast.expr)), key=position):
        changed = changes(facts, node)
        if changed:
            message = (
                f"The script sets {changed}, by which the launcher tells each process of itself and of the others."
            )
            yield finding("DST107", node, message, f"remove it: torchrun sets {changed}")
            continue
        name, found = asked(facts, node)
        if not name or is_dead(facts, node):
            continue
        if found is not None:
            yield from answered(facts, node, name, found)
        elif "(" in name:
            message = f"The script calls {name}, which is another number on each process, and an error in the original."
            yield finding("DST107", node, message, "remove it: the original is rank 0 of 1")
        else:
            message = f"The script reads {name}, which a launcher sets: each process would go a way of its own."
            yield finding("DST107", node, message, f"remove it: the converted script needs no {name}")


def answered(facts: Facts, node: ast.expr, name: str, found: ast.expr | str) -> Iterator[Outcome]:
    """The answer in the place of a question, and of what is made of it at once: `int("0")`, `a if False else b`."""
    text = found if isinstance(found, str) else facts.text(found)
    parent = facts.parents.get(node)
    called = facts.names.qualified(parent.func) if isinstance(parent, ast.Call) else ""
    place: ast.expr = node
    shown: str | Ref = text if isinstance(found, str) else Ref.to(found)
    if isinstance(parent, ast.IfExp) and node is parent.test and found in ("True", "False"):
        place = parent
        chosen = parent.body if found == "True" else parent.orelse
        shown, text = Ref.to(chosen), facts.text(chosen)
    elif isinstance(parent, ast.Call) and called == "builtins.int" and len(parent.args) == 1:
        number = text.strip("\"'")
        if NUMBER.fullmatch(number):
            place, shown, text = parent, number, number
    message = f"{name} tells of processes, which the original knows nothing of: what it finds is written, {text}"
    yield finding("DST132", node, message)
    yield Replace(Span.of(place), "text", {"text": shown}, kind="processes", code="DST107")


def asked(facts: Facts, node: ast.expr) -> tuple[str, ast.expr | str | None]:
    """What is asked about processes: its name, "" if nothing is; and what the original finds, if it can do without."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and is_environment(facts, node.value):
        return told(facts, node.slice)[0], None
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        name, sure = told(facts, node.left) if is_environment(facts, node.comparators[0]) else ("", False)
        return name, str(isinstance(node.ops[0], ast.NotIn)) if sure else None
    if not isinstance(node, ast.Call):
        return "", None
    called = function(facts, node.func)
    if called in RUNNING:
        return f"{called.rpartition('.')[2]}()", "False"
    if called in ASKS:
        return (f"{called}()" if is_tried(facts, node) else ""), None
    key, fallback = argument(node, 0, "key"), argument(node, 1, "default")
    if called not in LOOKUPS or key is None:
        return "", None
    name, sure = told(facts, key)
    return name, ("None" if fallback is None else fallback) if sure else None


def changes(facts: Facts, node: ast.expr) -> str:
    """The variable that an expression sets or takes away, of those that the runtime goes by."""
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and is_environment(facts, node.value):
        return told(facts, node.slice, (*OWN, *MEETING))[0]
    if not isinstance(node, ast.Call):
        return ""
    called = function(facts, node.func)
    if called == f"{ENVIRONMENT}.update":
        keys = (key for item in node.args if isinstance(item, ast.Dict) for key in item.keys)
        given = [*(key.value for key in keys if isinstance(key, ast.Constant)), *(item.arg for item in node.keywords)]
        return next((str(name) for name in given if name in (*OWN, *MEETING)), "")
    key = argument(node, 0, "key")
    names = OWN if called == f"{ENVIRONMENT}.setdefault" else (*OWN, *MEETING)  # which changes nothing under a launcher
    return told(facts, key, names)[0] if called in CHANGES and key is not None else ""


def function(facts: Facts, node: ast.expr) -> str:
    """The dotted name of what is called; of a method of the environment under another name too."""
    if isinstance(node, ast.Attribute) and is_environment(facts, node.value):
        return f"{ENVIRONMENT}.{node.attr}"
    name = facts.names.qualified(node) or facts.value(node).ref or ""
    return name.replace(".distributed_c10d.", ".")


def is_environment(facts: Facts, node: ast.expr) -> bool:
    """Whether an expression is the variables of the process."""
    return ENVIRONMENT in (facts.names.qualified(node), facts.value(node).ref)


def told(facts: Facts, key: ast.expr, names: Collection[str] = TOLD) -> tuple[str, bool]:
    """The variable among some that a key names, and whether it is sure; "" if none."""
    found = key.value if isinstance(key, ast.Constant) else facts.value(key).const
    if isinstance(found, str):
        return (found if found in names else ""), True
    return next((name for name in sorted(facts.worked_out(mentioned)) if name in names), ""), False


def mentioned(facts: Facts) -> frozenset[str]:
    """Variables of launchers that the program names anywhere but where one is asked for."""
    texts = ((file, node) for file in facts.program for node in file.nodes if isinstance(node, ast.Constant))
    named = ((file, node) for file, node in texts if isinstance(node.value, str) and node.value in TOLD)
    return frozenset(str(node.value) for file, node in named if not is_key(file, node))


def is_key(facts: Facts, node: ast.Constant) -> bool:
    """Whether a text is what an environment is asked for."""
    parent = facts.parents.get(node)
    if isinstance(parent, ast.Call):
        return function(facts, parent.func) in (*LOOKUPS, *CHANGES)
    if isinstance(parent, ast.Compare):
        return is_environment(facts, parent.comparators[0])
    return isinstance(parent, ast.Subscript) and is_environment(facts, parent.value)


def is_tried(facts: Facts, node: ast.AST) -> bool:
    """Whether an error in an expression is caught around it."""
    child = node
    for item in ancestors(facts, node):
        if isinstance(item, FUNCTIONS):
            return False
        if isinstance(item, ast.Try) and item.handlers and child in item.body:
            return True
        child = item
    return False


def is_dead(facts: Facts, node: ast.AST) -> bool:
    """Whether the original doesn't come to an expression: `int(os.environ["RANK"])` under `if "RANK" in os.environ`."""
    child = node
    for item in ancestors(facts, node):
        if isinstance(item, (ast.If, ast.IfExp)) and child is not item.test:
            body = item.body if isinstance(item.body, list) else [item.body]
            if truth(facts, item.test) is (child not in body):
                return True
        elif isinstance(item, ast.BoolOp):
            before = next(index for index, value in enumerate(item.values) if value is child)
            if any(truth(facts, value) is isinstance(item.op, ast.Or) for value in item.values[:before]):
                return True
        child = item
    return False


def truth(facts: Facts, test: ast.expr) -> bool | None:
    """How a condition on processes comes out in the original; `None` if it is on something else as well."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = truth(facts, test.operand)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        ends = isinstance(test.op, ast.Or)
        parts = [truth(facts, value) for value in test.values]
        return ends if ends in parts else None if None in parts else not ends
    name, found = asked(facts, test)
    answers: dict[str, bool] = {"True": True, "False": False, "None": False}
    return answers.get(found) if name and isinstance(found, str) else None


def names_runtime(facts: Facts) -> bool:
    """Whether a file of the program imports distify."""
    return any(name.partition(".")[0] == "distify" for file in facts.program for name in imported(file))


def imported(facts: Facts) -> Iterator[str]:
    """The modules that a file names in its import statements."""
    for node in facts.nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
