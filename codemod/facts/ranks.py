"""What differs from process to process in a script that is distributed by hand.

The rows of a batch that a loader shards are one process's own, and so is every number that is computed of them, until a
collective makes it the same everywhere. The number of the process is its own too, and whatever is decided by it. This
follows both through the program, in scripts that are looked over only: conversions need none of it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from .values import EMPTY, GLOBAL, Dep, FunctionRef, Role, Value, union

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Frame, Interpreter


class Mark(Enum):
    """What a value is made of, besides the batches of loaders."""

    RANK = "the number of the process, or a decision by it"
    AGREED = "the result of a collective"
    CLOCK = "the time of day"


RANK: frozenset[object] = frozenset({Mark.RANK})
AGREED: frozenset[object] = frozenset({Mark.AGREED})
SPACE = "torch.distributed."
NUMBERS = ("get_rank", "get_node_local_rank", "get_group_rank", "get_global_rank")
SIZES = ("get_world_size", "get_backend", "is_initialized", "is_available", "init_process_group", "new_group", "Store",
         "init_device_mesh", "is_nccl_available", "is_torchelastic_launched", "is_gloo_available")  # fmt: skip
CLOCKS = ("time.time", "time.monotonic", "time.perf_counter", "time.process_time", "datetime.datetime.now")
# The device of one process, and what lies on it, are as good as those of another.
SHARED = frozenset([Role.MODEL, Role.OPTIMIZER, Role.SCHEDULER, Role.LOADER, Role.CRITERION, Role.SCALER, Role.DEVICE])
SECOND = ("gather", "gather_object")
OWN_ATTRIBUTES = ("is_main_process", "is_local_main_process", "process_index", "local_process_index", "is_global_zero",
                  "global_rank", "local_rank", "node_rank")  # fmt: skip
LAUNCHERS = ("accelerate.", "lightning.", "lightning_fabric.", "pytorch_lightning.")
RUNTIME = ("distify.runtime.rank", "distify.runtime.is_main")
VARIABLES = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "SLURM_LOCALID", "OMPI_COMM_WORLD_RANK", "GROUP_RANK")
WRAPPERS = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
    "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel",
)
SHARDED_IN_PLACE = (
    "torch.distributed.fsdp.fully_shard",
    "torch.distributed._composable.fsdp.fully_shard",
    "torch.distributed._composable.replicate",
    "torch.distributed._composable.replicate.replicate",
)
# Functions of these give the same for the same arguments; what others do with a number, nobody knows.
PURE = ("torch.", "math.", "numpy.", "builtins.", "statistics.", "sklearn.metrics.", "scipy.")
# What these tell of a value is not its numbers.
OUTSIDE = frozenset(
    ["shape", "size", "dim", "numel", "device", "dtype", "ndim", "is_cuda", "requires_grad", "element_size",
     "isinstance", "issubclass", "callable", "hasattr", "type", "len", "id", "print"]
)  # fmt: skip
MOVES = frozenset({"to", "cuda"})
PLACES = ("device", "map_location", "device_ids", "output_device", "generator")
DEPTH = 3
DEPTH_OF_TEXT = 12


def followed(ip: Interpreter, node: ast.expr, value: Value, frame: Frame) -> Value:
    """The value of an expression with what of it is one process's own."""
    if isinstance(node, ast.Name) or frame.forward or value.roles & SHARED:
        return value
    if isinstance(node, ast.Call):
        _agreed_inside(ip, node, frame)
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
    elif isinstance(node, (ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Lambda)):
        return value
    elif isinstance(node, ast.JoinedStr):
        parts = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
        found = union(of(ip, part) | said(ip, ip.current.get(part, EMPTY), frame) for part in parts)
    else:
        found = union(of(ip, child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
    return added(value, found)


def added(value: Value, found: frozenset[object]) -> Value:
    """A value that is also made of something."""
    return value if found <= value.ranks else replace(value, ranks=value.ranks | found)


def of(ip: Interpreter, node: ast.expr) -> frozenset[object]:
    """What an expression that was evaluated is made of."""
    return held(ip, ip.current.get(node, EMPTY))


def held(ip: Interpreter, value: Value, depth: int = DEPTH) -> frozenset[object]:
    """What a value, and what it holds, is made of; the attributes of objects apart."""
    found = value.ranks
    if value.is_sample or value.dep is Dep.PENDING:
        found = found | frozenset(source for source in value.sources if source in ip.made.apart)
    if depth:
        inner = [*(value.items or ()), *([value.element] if value.element is not None else [])]
        for cell in value.objs:
            kept = ip.heap[cell]
            if kept.cls is None and kept.ref is None and not kept.roles:
                inner += [kept.element, *kept.attrs.values()]
        found = found | union(held(ip, item, depth - 1) for item in inner)
    return found


def _called(ip: Interpreter, node: ast.Call) -> frozenset[object]:
    """What a call gives: of torch and of Python, what goes in; of the program's own functions, what they return."""
    callee = ip.current.get(node.func, EMPTY)
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    qualified = ip.names.qualified(node.func) or callee.ref or ""
    if qualified in RUNTIME:
        return RANK
    if qualified in CLOCKS:
        return frozenset({Mark.CLOCK})
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
    return any(cell.ref is not None and not any(role in cell.roles for role in known) for cell in cells)


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
    return RANK if environment and isinstance(key, ast.Constant) and key.value in VARIABLES else frozenset()


# ---- calls that know of processes -----------------------------------------------------------------------------------


def call(ip: Interpreter, ref: str, arguments: Arguments, node: ast.Call, frame: Frame) -> Value | None:
    """Value of a call of what distributes by hand, `None` if it is none."""
    if ref in WRAPPERS and arguments.all:
        return replace(arguments.get(0, "module"), wrapped=True)
    if ref == "deepspeed.initialize":
        from . import launchers

        return launchers.initialised(ip, arguments)
    if ref in SHARDED_IN_PLACE and arguments.positional:
        return arguments.positional[0][1]
    if ref in ("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes"):
        return _spawned(ip, arguments, node, frame)
    if not ref.startswith(SPACE) or ref.rsplit(".", 1)[-1][:1].isupper():
        return None
    name = ref.rsplit(".", 1)[-1]
    if name in NUMBERS:
        return Value(batch=GLOBAL, ranks=RANK)
    if name in SIZES:
        return Value(batch=GLOBAL)
    position = 1 if name in SECOND else 0
    if len(node.args) > position:
        agree(ip, node.args[position], frame)
    for keyword in node.keywords:
        if isinstance(keyword.value, (ast.Name, ast.Attribute, ast.Subscript)) and keyword.arg not in ("op", "group"):
            agree(ip, keyword.value, frame)
    return Value(batch=GLOBAL, ranks=AGREED)


def agree(ip: Interpreter, target: ast.expr, frame: Frame) -> None:
    """What a collective wrote is the same on all processes from here on."""
    from . import stores

    agreed = Value(batch=GLOBAL, ranks=AGREED)
    if isinstance(target, ast.Subscript):
        agree(ip, target.value, frame)
    elif isinstance(target, ast.Name):
        if frame.node is not None and target.id in parameters(frame.node):
            ip.made.agreed.setdefault(frame.node, set()).add(target.id)
        stores.store(ip, target, Value(batch=GLOBAL, ranks=AGREED, element=agreed), None, frame)
    elif isinstance(target, ast.Attribute):
        stores.store(ip, target, agreed, None, frame)
    for cell in ip.current.get(target, EMPTY).objs:
        ip.heap.add(cell, agreed)
    if isinstance(target, ast.Call) and isinstance(target.func, ast.Attribute):
        agree(ip, target.func.value, frame)  # `x.data`, `x.detach()`: the same numbers


def parameters(function: ast.AST) -> list[str]:
    """The names of a function's positional parameters."""
    given = getattr(function, "args", None)
    return [item.arg for item in (*given.posonlyargs, *given.args)] if isinstance(given, ast.arguments) else []


def _agreed_inside(ip: Interpreter, node: ast.Call, frame: Frame) -> None:
    """What a function of the program gives to a collective, its caller has the result of."""
    for ref in ip.current.get(node.func, EMPTY).defs:
        names = ip.made.agreed.get(ref.node, set())
        given = dict(zip(parameters(ref.node)[ref.shift :], node.args)) if names else {}
        given.update({item.arg: item.value for item in node.keywords if item.arg is not None})
        for name in sorted(names & given.keys()):
            agree(ip, given[name], frame)


def _spawned(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """The function that each of several processes runs is told the number of its process first."""
    from . import calls, order

    given = arguments.get(1, "args")
    passed = [Value(batch=GLOBAL, ranks=RANK), *(given.items or ())]
    for ref in order.functions(ip, arguments.get(0, "fn").defs):
        held_by: dict[int | str, Value] = {index + ref.shift: value for index, value in enumerate(passed)}
        calls.enter(ip, ref, held_by, ip.closure(ref.node), node, frame)
    return Value(batch=GLOBAL)


def loader(ip: Interpreter, arguments: Arguments, node: ast.Call) -> None:
    """Whether a loader gives each process batches of its own, as its sampler or its data tells."""
    sampler, batches = arguments.get(4, "sampler"), arguments.get(5, "batch_sampler")
    data = arguments.get(0, "dataset")
    if any(_is_apart(ip, value) for value in (sampler, batches, data)):
        ip.made.apart.add(node)
    elif any(_is_unknown(ip, value) for value in (sampler, batches)) or not data.objs:
        ip.made.unclear.add(node)


def _is_apart(ip: Interpreter, value: Value, depth: int = DEPTH) -> bool:
    """Whether a sampler or data set gives each process something of its own."""
    if Mark.RANK in held(ip, value):
        return True
    for cell in value.objs if depth else ():
        kept = ip.heap[cell]
        if (kept.ref or "").endswith("DistributedSampler"):
            return True
        if kept.cls is not None and any(_asks_for_rank(ip, base) for base in ip.classes.lineage(kept.cls)):
            return True
        inner = [kept.attrs[name] for name in ("sampler", "dataset") if name in kept.attrs]
        if any(Mark.RANK in held(ip, item) for item in kept.attrs.values()):
            return True
        if any(_is_apart(ip, item, depth - 1) for item in inner):
            return True
    return any(_is_apart(ip, item, depth - 1) for item in value.items or ()) if depth else False


def _asks_for_rank(ip: Interpreter, base: ast.ClassDef | str) -> bool:
    """Whether a class asks for the number of its process."""
    if isinstance(base, str):
        return base.endswith("DistributedSampler")
    names = (ip.names.qualified(node.func) or "" for node in ast.walk(base) if isinstance(node, ast.Call))
    return any(name.startswith(SPACE) for name in names)


def _is_unknown(ip: Interpreter, value: Value) -> bool:
    """Whether something is given that nothing is known of."""
    if value == EMPTY or value.const is None:
        return False
    known = [cell for cell in value.objs if (ip.heap[cell].ref or "").startswith("torch.utils.data.")]
    return len(known) < max(len(value.objs), 1)


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


def is_own(value: Value) -> bool:
    """Whether a value is made of one process's batches, and of nothing that the processes agreed on."""
    return Mark.AGREED not in value.ranks and any(isinstance(item, ast.AST) for item in value.ranks)


__all__ = ["Mark", "added", "call", "followed", "held", "is_own", "loader", "of"]
