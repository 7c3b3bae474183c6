"""What differs from process to process in a script that is distributed by hand.

The rows of a batch that a loader shards are one process's own, and so is every number that is computed of them, until a
collective makes it the same everywhere. The number of the process is its own too, and whatever is decided by it. This
follows both through the program, in scripts that are looked over only: conversions need none of it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..launchers import NUMBERS
from .collectives import SPACE, agreed_inside
from .places import last_name
from .ranks import RANK, Mark, added, held, of
from .values import EMPTY, FunctionRef, Role, Value, union

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter

CLOCKS = ("time.time", "time.monotonic", "time.perf_counter", "time.process_time", "datetime.datetime.now")
# The device of one process, and what lies on it, are as good as those of another.
SHARED = frozenset([Role.MODEL, Role.OPTIMIZER, Role.SCHEDULER, Role.LOADER, Role.CRITERION, Role.SCALER, Role.DEVICE])
OWN_ATTRIBUTES = ("is_main_process", "is_local_main_process", "process_index", "local_process_index", "is_global_zero",
                  "global_rank", "local_rank", "node_rank")  # fmt: skip
LAUNCHERS = ("accelerate.", "lightning.", "lightning_fabric.", "pytorch_lightning.")
RUNTIME = ("distify.runtime.rank", "distify.runtime.is_main")
# Functions of these give the same for the same arguments; what others do with a number, nobody knows.
PURE = ("torch.", "math.", "numpy.", "builtins.", "statistics.", "sklearn.metrics.", "scipy.", "os.path.", "pathlib.",
        "copy.")  # fmt: skip
# What these give is another thing in each process, or on each machine.
DIFFERENT = ("uuid.", "tempfile.", "os.getpid", "socket.gethostname", "platform.node", "secrets.")
# What these tell of a value is not its numbers.
OUTSIDE = frozenset(
    ["shape", "size", "dim", "numel", "device", "dtype", "ndim", "is_cuda", "requires_grad", "element_size",
     "isinstance", "issubclass", "callable", "hasattr", "type", "len", "id", "print"]
)  # fmt: skip
MOVES = frozenset({"to", "cuda"})
PLACES = ("device", "map_location", "device_ids", "output_device", "generator")
DEPTH_OF_TEXT = 12


def followed(ip: Interpreter, node: ast.expr, value: Value, frame: Frame) -> Value:
    """The value of an expression with what of it is one process's own."""
    if isinstance(node, ast.Name) or frame.forward or value.roles & SHARED:
        return value
    if isinstance(node, ast.Call):
        agreed_inside(ip, node, frame)
        found = _called(ip, node) | _as_text(ip, node, frame)
    elif isinstance(node, ast.Attribute):
        found = _attribute(ip, node, value)
    elif isinstance(node, ast.Subscript):
        index = (part for part in ast.walk(node.slice) if isinstance(part, ast.expr))
        found = of(ip, node.value) | union(of(ip, part) for part in index) | _variable(ip, node.value, node.slice)
    elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        found = of(ip, node.elt)
    elif isinstance(node, ast.DictComp):
        found = of(ip, node.value)
    elif isinstance(node, ast.Compare) and is_same_for_all(node):
        found = of(ip, node.left) - RANK
    elif isinstance(node, ast.Compare) and all(isinstance(item, (ast.Is, ast.IsNot)) for item in node.ops):
        # Whether there is something is not its numbers.
        found = frozenset(item for item in of(ip, node.left) if not isinstance(item, ast.AST))
    elif isinstance(node, (ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Lambda)):
        return value
    elif isinstance(node, ast.JoinedStr):
        parts = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
        found = union(of(ip, part) | said(ip, ip.current.get(part, EMPTY), frame) for part in parts)
    else:
        found = union(of(ip, child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
    return added(value, found)


def _called(ip: Interpreter, node: ast.Call) -> frozenset[object]:
    """What a call gives: of torch and of Python, what goes in; of the program's own functions, what they return."""
    callee = ip.current.get(node.func, EMPTY)
    name = last_name(node.func)
    qualified = ip.names.qualified(node.func) or callee.ref or ""
    if qualified in RUNTIME:
        return RANK
    if qualified in CLOCKS:
        return frozenset({Mark.CLOCK})
    if qualified.startswith(DIFFERENT):
        return frozenset({Mark.PROCESS})
    if name in MOVES and isinstance(node.func, ast.Attribute):
        return of(ip, node.func.value)
    if qualified in ("os.getenv", "os.environ.get"):
        return _variable(ip, None, node.args[0]) if node.args else frozenset()
    if callee.defs or callee.classes or name in OUTSIDE or qualified.startswith((SPACE, "distify.runtime.")):
        return frozenset()
    operands = [item.value if isinstance(item, ast.Starred) else item for item in node.args]
    operands = operands[:1] if qualified == "torch.load" else operands
    operands += [keyword.value for keyword in node.keywords if keyword.arg not in PLACES]
    if qualified:
        return union(of(ip, item) for item in operands) if qualified.startswith(PURE) else frozenset()
    if isinstance(node.func, ast.Attribute):
        receiver = ip.current.get(node.func.value, EMPTY)
        if _is_foreign(ip, receiver):
            return frozenset()
        operands.append(node.func.value)
    elif callee.objs and not (callee.has(Role.MODEL) or callee.has(Role.CRITERION)):
        return frozenset()
    return union(of(ip, item) for item in operands)


def _as_text(ip: Interpreter, node: ast.Call, frame: Frame) -> frozenset[object]:
    """What an object of the program's own says of itself: `str(meter)`."""
    if ip.names.qualified(node.func) not in ("builtins.str", "builtins.repr", "builtins.format", "builtins.print"):
        return frozenset()
    return union(said(ip, ip.current.get(item, EMPTY), frame) for item in node.args)


def said(ip: Interpreter, value: Value, frame: Frame) -> frozenset[object]:
    """What the text of an object tells."""
    from . import calls

    found: frozenset[object] = frozenset()
    for cell in sorted(value.objs) if frame.depth < DEPTH_OF_TEXT else ():
        cls = ip.heap[cell].cls
        methods = [ip.classes.method(cls, name) for name in ("__str__", "__repr__", "__format__")] if cls else []
        for method in methods:
            if method is not None:
                text = calls.enter(ip, FunctionRef(method, cell), {}, ip.closure(method), None, frame)
                found = found | held(ip, text)
    return found


def _is_foreign(ip: Interpreter, receiver: Value) -> bool:
    """Whether a value is an object of a library that may do anything: a metric that is the same on all processes."""
    cells = [ip.heap[cell] for cell in receiver.objs]
    known = (Role.MODEL, Role.CRITERION, Role.SCALER)
    foreign = [cell for cell in cells if cell.ref is not None and not cell.ref.startswith("pathlib.")]
    return any(not any(role in cell.roles for role in known) for cell in foreign)


def _attribute(ip: Interpreter, node: ast.Attribute, value: Value) -> frozenset[object]:
    """An attribute of a tensor; a setting of the launcher."""
    base = ip.current.get(node.value, EMPTY)
    cells = [ip.heap[cell] for cell in base.objs]
    if node.attr in OWN_ATTRIBUTES and any((cell.ref or "").startswith(LAUNCHERS) for cell in cells):
        return RANK
    if node.attr in ("local_rank", "rank") and f"--{node.attr}" in ip.options and not value.ranks:
        return RANK
    if node.attr in OUTSIDE or base.objs:
        return frozenset()
    return of(ip, node.value)


def _variable(ip: Interpreter, base: ast.expr | None, key: ast.expr) -> frozenset[object]:
    """Whether something is a variable of the environment by which a launcher tells a process its number."""
    environment = base is None or ip.names.qualified(base) == "os.environ"
    return RANK if environment and isinstance(key, ast.Constant) and key.value in NUMBERS else frozenset()


MATCHES: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
}
PROCESSES = range(4)


def is_same_for_all(test: ast.Compare) -> bool:
    """Whether a comparison of the number of a process with a constant comes out alike for all: `local_rank != -1`."""
    if len(test.ops) != 1:
        return False
    other, match = _number(test.comparators[0]), MATCHES.get(type(test.ops[0]))
    return other is not None and match is not None and len({match(rank, other) for rank in PROCESSES}) == 1


def _number(node: ast.expr) -> int | None:
    """A whole number as it is written."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else None
