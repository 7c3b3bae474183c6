"""Report what differs between processes although Python's state is replicated.

Generators seeded by the operating system, seeds taken from the clock and names made of it have another value on every
process: vocabularies, splits and file names would differ (Lightning-AI/pytorch-lightning#9851). Findings only; seeded
generators, and the global streams of Python, NumPy and torch, which the runtime replicates, are fine.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..findings import finding
from . import Outcome, rule
from ._source import calls

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

GENERATORS = (
    "numpy.random.default_rng",
    "numpy.random.RandomState",
    "numpy.random.SeedSequence",
    "numpy.random.seed",
    "random.Random",
    "random.seed",
)
SYSTEM = ("random.SystemRandom", "os.urandom", "torch.seed", "secrets.token_hex", "secrets.randbelow", "secrets.choice")
SEEDS = (
    "torch.manual_seed",
    "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all",
    "numpy.random.seed",
    "random.seed",
    "numpy.random.default_rng",
    "numpy.random.RandomState",
    "random.Random",
)
CLOCK = ("time.time", "time.time_ns", "time.perf_counter", "time.strftime", "datetime.datetime.now", "os.getpid")
UNIQUE = ("uuid.uuid1", "uuid.uuid4")
FOLDERS = ("tempfile.mkdtemp", "tempfile.mktemp", "tempfile.TemporaryDirectory", "tempfile.NamedTemporaryFile")


@rule("determinism")
def determinism(facts: Facts, options: Options) -> Iterator[Outcome]:
    """Findings about values that differ by process."""
    for call in calls(facts, *GENERATORS):
        if (not call.args and not call.keywords) or is_none(call.args[0] if call.args else None):
            yield finding("DST130", call)
    for call in calls(facts, *SYSTEM):
        yield finding("DST130", call)
    for call in calls(facts, *SEEDS):
        if any(is_call(facts, node, CLOCK) for item in call.args for node in ast.walk(item)):
            yield finding("DST130", call, "a seed from the clock differs on every process")
    for call in calls(facts, *UNIQUE):
        yield finding("DST803", call)
    for call in calls(facts, *FOLDERS):
        what = "every process gets a temporary place of its own: what the main one saves there, the others don't find"
        yield finding("DST803", call, what, "use a folder with a fixed name", level="warning")
    for call in calls(facts, *CLOCK):
        if not is_shown(facts, call) and (
            isinstance(facts.parents[call], ast.FormattedValue) or names_something(facts, call)
        ):
            yield finding("DST803", call)


def is_shown(facts: Facts, call: ast.Call) -> bool:
    """Whether a statement only prints or logs what it makes of a time."""
    statement = facts.statement(call)
    value = statement.value if isinstance(statement, ast.Expr) else None
    name = facts.names.qualified(value.func) or "" if isinstance(value, ast.Call) else ""
    return name == "builtins.print" or name.startswith("logging.")


def is_none(node: ast.expr | None) -> bool:
    """Whether a seed is given as `None`."""
    return isinstance(node, ast.Constant) and node.value is None


def is_call(facts: Facts, node: ast.AST, names: tuple[str, ...]) -> bool:
    """Whether a node calls one of the functions."""
    return isinstance(node, ast.Call) and facts.names.qualified(node.func) in names


def names_something(facts: Facts, call: ast.Call) -> bool:
    """Whether a time becomes text: formatted, converted or joined to a string."""
    node: ast.AST = call
    parent = facts.parents[node]
    while isinstance(parent, (ast.Call, ast.Attribute)):
        if isinstance(parent, ast.Call) and facts.names.qualified(parent.func) == "builtins.str":
            return True
        if isinstance(parent, ast.Attribute) and parent.attr in ("strftime", "isoformat"):
            return True
        node, parent = parent, facts.parents[parent]
    return facts.names.qualified(call.func) == "time.strftime"
