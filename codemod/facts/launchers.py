"""Accelerate, Fabric and DeepSpeed in scripts that are looked over: what they wrap, what all must call."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import ranks, runtimecalls
from .replacing import replace
from .values import EMPTY, GLOBAL, HOST, Role, Value

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Frame, Interpreter

WRAPS = ("prepare", "prepare_model", "prepare_optimizer", "prepare_data_loader", "prepare_scheduler", "setup",
         "setup_module", "setup_optimizers", "setup_dataloaders")  # fmt: skip
AGREES = ("gather", "gather_for_metrics", "reduce", "all_reduce", "all_gather", "broadcast", "pad_across_processes")
TOGETHER = frozenset(
    [*AGREES, "wait_for_everyone", "barrier", "backward", "save_checkpoint", "save_state", "load_state",
     "load_checkpoint", "get_state_dict", "save_model"]
)  # fmt: skip
OF_FABRIC = ("save", "load", "load_raw", "clip_gradients")
ENGINE = ("backward", "step", "save_checkpoint", "load_checkpoint")


def is_launcher(ip: Interpreter, value: Value, names: tuple[str, ...] = (".Accelerator", ".Fabric")) -> bool:
    """Whether a value is an `Accelerator` or a `Fabric`."""
    refs = [ip.heap[cell].ref or "" for cell in value.objs]
    return any(ref.endswith(names) or (ref.startswith("accelerate.") and len(names) > 1) for ref in refs)


def _is_metric(ip: Interpreter, value: Value) -> bool:
    """Whether a value is a metric of torchmetrics, whose result is that of all processes."""
    return any((ip.heap[cell].ref or "").startswith("torchmetrics.") for cell in value.objs)


def method(
    ip: Interpreter, name: str, receiver: Value, arguments: Arguments, node: ast.Call, frame: Frame
) -> Value | None:
    """Value of a method of such an object, or of an engine; `None` if it is of another."""
    if name == "compute" and _is_metric(ip, receiver):
        ip.made.together[node] = name
        return None
    launcher = is_launcher(ip, receiver)
    engine = receiver.wrapped and receiver.has(Role.MODEL) and name in ENGINE
    if not (launcher or engine):
        return None
    given = [value for _, value in arguments.positional]
    if name in TOGETHER or (name in OF_FABRIC and not engine and is_launcher(ip, receiver, (".Fabric",))):
        ip.made.together[node] = name
    if name == "backward":
        loss = given[0] if given else EMPTY
        return runtimecalls.backward(ip, loss, arguments.positional[:1], node, frame)
    if engine:
        if name == "step":
            ip.made.steps[node] = None
        return HOST
    if name in WRAPS:
        found = [wrapped(ip, value) for value in given]
        return found[0] if len(found) == 1 else Value(items=tuple(found))
    if name in AGREES and given:
        return agreed(given[0])
    if name == "unwrap_model" and given:
        return replace(given[0], wrapped=False, ranks=given[0].ranks - ranks.WRAPPER)
    return None


def initialised(ip: Interpreter, arguments: Arguments) -> Value:
    """What `deepspeed.initialize` gives: an engine around the model, the optimizer, a loader and a scheduler."""
    model, optimizer = arguments.get(1, "model"), arguments.get(2, "optimizer")
    return Value(items=(wrapped(ip, model), optimizer, HOST, arguments.get(6, "lr_scheduler")))


def wrapped(ip: Interpreter, value: Value) -> Value:
    """A model is wrapped, a loader gives each process batches of its own."""
    if value.has(Role.LOADER):
        ip.made.apart.update(value.sources)
    return replace(value, wrapped=True, ranks=value.ranks | ranks.WRAPPER) if value.has(Role.MODEL) else value


def agreed(value: Value) -> Value:
    """The same structure, equal on all processes."""
    items = None if value.items is None else tuple(agreed(item) for item in value.items)
    return Value(batch=GLOBAL, ranks=ranks.AGREED, items=items)
