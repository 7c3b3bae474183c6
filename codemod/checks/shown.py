"""A number of one process that is shown, logged or stored as if it were that of all.

    correct += (logits.argmax(1) == y).sum().item()
    …
    print(correct / len(test_set))              # dist.all_reduce first

It is too small by the number of processes (jia-zhuang/pytorch-multi-gpu-training#5). What only counts rows is left
alone, and whatever a collective, or a library that may reduce, had a part in; and what tells whose number it is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.places import passed
from ..facts.ranks import Mark, is_own
from ..facts.saved import SAVES
from ..findings import Finding, finding
from ..rules._source import bindings, is_exit, position
from . import Kind, check

if TYPE_CHECKING:
    from ..facts.model import Facts

OF_ONE = re.compile(r"\b(?:rank|local|process)\b", re.IGNORECASE)
PRINTS = ("builtins.print", "tqdm.tqdm.write", "tqdm.write", "warnings.warn")
LOGS = ("wandb.log", "mlflow.log_metric", "mlflow.log_metrics", "json.dump", "neptune.log_metric", "trackio.log",
        "numpy.save", "numpy.savetxt", "pickle.dump", "yaml.dump")  # fmt: skip
LEVELS = ("debug", "info", "warning", "error", "critical", "log")
METHODS = frozenset(
    ["add_scalar", "add_scalars", "add_histogram", "log_metric", "log_metrics", "set_postfix", "set_postfix_str",
     "set_description", "set_description_str", "writerow", "report_scalar", "log_dict", "print"]
)  # fmt: skip


@check("shown", Kind.BY_HAND)
def shown(facts: Facts) -> Iterator[Finding]:
    """Prints, logs and trackers that are given what was not reduced."""
    for call in sorted((node for node in facts.nodes if isinstance(node, ast.Call)), key=position):
        given = [item.value if isinstance(item, ast.Starred) else item for item in passed(call)]
        given = members(facts, given[0]) if given and facts.names.qualified(call.func) in SAVES else given
        if not is_sink(facts, call) or ends(facts, call) or reports(facts, call):
            continue
        values = [facts.value(item) for item in given]
        if any(map(is_own, values)) and not any(Mark.RANK in value.ranks for value in values) and not named(call):
            yield finding("DST551", call)


def named(call: ast.Call) -> bool:
    """Whether the text of a call says that a number is one process's: `{"rank 0 loss": loss}`."""
    texts = (node.value for node in ast.walk(call) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return any(OF_ONE.search(text) for text in texts)


def members(facts: Facts, node: ast.expr) -> list[ast.expr]:
    """What is stored under the names of a checkpoint: `{"model": …, "loss": loss}`, written there or before."""
    made = [node] if not isinstance(node, ast.Name) else [item for item in bindings(facts, node) if item is not None]
    return [value for item in made if isinstance(item, ast.Dict) for value in item.values]


def reports(facts: Facts, call: ast.Call) -> bool:
    """Whether a message is all that a branch on a number of one process does: a word of that process, of odd data."""
    branch = facts.parents.get(facts.statement(call))
    alone = isinstance(branch, ast.If) and len(branch.body) == 1 and not branch.orelse
    return alone and isinstance(branch, ast.If) and is_own(facts.value(branch.test))


def ends(facts: Facts, call: ast.Call) -> bool:
    """Whether the program ends after this: the last words of one process."""
    last = facts.block(facts.statement(call))[-1]
    return isinstance(last, (ast.Raise, ast.Assert)) or (isinstance(last, ast.Expr) and is_exit(facts, last.value))


def is_sink(facts: Facts, call: ast.Call) -> bool:
    """Whether a call shows or stores what it is given."""
    name = facts.names.qualified(call.func)
    if name is not None:
        return name in (*PRINTS, *LOGS, *SAVES) or (name.startswith("logging.") and name.split(".")[-1] in LEVELS)
    if not isinstance(call.func, ast.Attribute) or facts.value(call.func).defs:
        return False
    if call.func.attr == "log" and call.args and (isinstance(call.args[0], ast.Dict) or facts.value(call.args[0]).objs):
        return True
    if call.func.attr in (*LEVELS, "write"):
        return any(is_text(item) for item in call.args[:1])
    return call.func.attr in METHODS


def is_text(node: ast.expr) -> bool:
    """Whether an argument is a message, as loggers take first, and files of text."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return is_text(node.func.value)
    text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return text or isinstance(node, (ast.JoinedStr, ast.BinOp))
