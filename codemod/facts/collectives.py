"""Calls of what distributes by hand: collectives, after which a value is the same on all processes, and wrappers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .ranks import AGREED, RANK, WRAPPER
from .replacing import replace
from .values import EMPTY, GLOBAL, Value

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Frame, Interpreter

SPACE = "torch.distributed."
NUMBERS = ("get_rank", "get_node_local_rank", "get_group_rank", "get_global_rank")
SIZES = ("get_world_size", "get_backend", "is_initialized", "is_available", "init_process_group", "new_group", "Store",
         "init_device_mesh", "is_nccl_available", "is_torchelastic_launched", "is_gloo_available")  # fmt: skip
HOROVOD = "horovod.torch."
HOROVOD_NUMBERS = ("rank", "local_rank", "cross_rank")
HOROVOD_COLLECTIVES = ("allreduce", "grouped_allreduce", "allgather", "allgather_object", "alltoall", "barrier",
                       "broadcast", "broadcast_object", "broadcast_parameters",
                       "broadcast_optimizer_state")  # fmt: skip
SECOND = ("gather", "gather_object")
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


def call(ip: Interpreter, ref: str, arguments: Arguments, node: ast.Call, frame: Frame) -> Value | None:
    """Value of a call of what distributes by hand, `None` if it is none."""
    if ref in WRAPPERS and arguments.all:
        model = arguments.get(0, "module")
        return replace(model, wrapped=True, ranks=model.ranks | WRAPPER)
    if ref == "deepspeed.initialize":
        from . import launchers

        return launchers.initialised(ip, arguments)
    if ref in SHARDED_IN_PLACE and arguments.positional:
        return arguments.positional[0][1]
    if ref in ("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes"):
        return _spawned(ip, arguments, node, frame)
    if ref.startswith(HOROVOD):
        return _of_horovod(ip, ref[len(HOROVOD) :], node, frame)
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


def _of_horovod(ip: Interpreter, name: str, node: ast.Call, frame: Frame) -> Value | None:
    """A function of Horovod: those whose name ends in `_` write what they are given."""
    if name in HOROVOD_NUMBERS:
        return Value(batch=GLOBAL, ranks=RANK)
    if name.rstrip("_") not in HOROVOD_COLLECTIVES:
        return None
    ip.made.together[node] = name
    if name.endswith("_") and node.args:
        agree(ip, node.args[0], frame)
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


def agreed_inside(ip: Interpreter, node: ast.Call, frame: Frame) -> None:
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
