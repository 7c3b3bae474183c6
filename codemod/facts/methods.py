"""Calls of methods that the program does not define: of tensors, containers, modules, optimizers, anything."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import (
    attributes,
    changes,
    collating,
    distributions,
    expressions,
    externals,
    foreign,
    hooks,
    launchers,
    loops,
    models,
    order,
    packing,
    pieces,
    row_loops,
    runtimecalls,
    sinks,
    tensors,
)
from .heap import Cell
from .joins import join, join_all
from .local import is_local
from .replacing import replace
from .torchnames import TENSOR_METHODS
from .values import GLOBAL, HOST, Dep, Role, Value, union

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Frame, Interpreter

_SELF = {
    "to", "cuda", "cpu", "train", "eval", "half", "float", "double", "bfloat16", "requires_grad_", "apply",
    "share_memory", "to_empty", "type",
}  # fmt: skip


def call(ip: Interpreter, node: ast.Call, arguments: Arguments, frame: Frame) -> Value:
    """Value of `receiver.name(...)`."""
    assert isinstance(node.func, ast.Attribute)
    name, receiver = node.func.attr, arguments.receiver
    if isinstance(receiver.const, str):
        return _of_string(ip, arguments, frame)
    if name in hooks.OF_TENSOR:
        return hooks.of_tensor(ip, name, receiver, node)
    roles = receiver.roles | union(ip.heap[cell].roles for cell in receiver.objs)
    of_launcher = launchers.method(ip, name, receiver, arguments, node, frame) if ip.program.by_hand else None
    if of_launcher is not None:
        return of_launcher
    if name == "backward" and (not receiver.objs or (ip.program.by_hand and not roles and not node.args)):
        return runtimecalls.backward(ip, receiver, [(node.func.value, receiver)], node, frame)
    foreign.note_use(ip, name, receiver)
    if Role.MODEL in roles or (name in ("parameters", "named_parameters") and receiver.objs):
        found = _of_module(ip, name, receiver, arguments, node, frame)
        if found is not None:
            return found
    if Role.OPTIMIZER in roles or Role.SCHEDULER in roles or Role.SCALER in roles:
        return _of_optimizer(ip, name, roles, receiver, arguments, node, frame)
    if receiver.items is not None and not receiver.objs and name in ("index", "count"):
        return HOST
    if receiver.is_sample and receiver.items is not None and not packing.is_packed(receiver):
        receiver = replace(receiver, items=None)  # what may be a tuple or a tensor is a tensor where its methods run
    if receiver.distribution:
        return distributions.method(ip, name, receiver, arguments, node, frame)
    if receiver.is_sample and receiver.opaque and name in ("items", "values", "keys", "get", "pop"):
        part = replace(receiver, opaque=False)
        elements = {"items": Value(items=(HOST, part)), "values": part, "keys": HOST}
        return Value(element=elements[name]) if name in elements else part
    if receiver.objs and not receiver.is_sample and name in _SELF:
        return receiver
    plain = [cell for cell in receiver.objs if _is_container(ip.heap[cell])]
    if plain:
        return join_all(_of_container(ip, name, cell, arguments, node, frame) for cell in plain)
    if _is_tensor(name, receiver, arguments):
        operands = [(node.func.value, receiver), *arguments.positional]
        return tensors.apply(ip, name, operands, arguments.keywords, node, frame)
    if receiver.has(Role.LOADER):
        return receiver
    if name == "update_parameters" and receiver.objs & ip.made.averages:
        for operand, value in arguments.positional:
            changes.of_model(ip, operand, value, frame)
    value = externals.unknown(ip, arguments, node, frame)
    if receiver.is_sample or receiver.dep > Dep.SAMPLE:
        # A method of a batch object or model output: it keeps its rows.
        return receiver
    made = node if receiver.origin is not None and receiver.dep is Dep.GLOBAL and not receiver.objs else value.origin
    params, weak = value.params | receiver.params, value.weak or receiver.weak
    return replace(value, params=params, element=receiver.element, origin=made, weak=weak, rows=receiver.rows)


def is_method_of(ip: Interpreter, node: ast.Call, frame: Frame) -> bool:
    """Whether a call's callee is an attribute that stands for a method of its receiver."""
    return isinstance(node.func, ast.Attribute)


def _is_container(cell: Cell) -> bool:
    return cell.cls is None and cell.ref is None and not cell.roles


def _is_tensor(name: str, receiver: Value, arguments: Arguments) -> bool:
    """Whether a method is a tensor's."""
    if receiver.objs and not receiver.is_sample:
        return False
    if name in TENSOR_METHODS:
        return True
    per_sample = receiver.is_sample and not receiver.opaque
    return per_sample or receiver.dep is Dep.PENDING or receiver.is_param


def _of_string(ip: Interpreter, arguments: Arguments, frame: Frame) -> Value:
    """`"…".format(…)`: what is written is global."""
    for operand, value in arguments.all:
        sinks.as_global(ip, operand, value, frame)
    return HOST


def _of_module(
    ip: Interpreter, name: str, receiver: Value, arguments: Arguments, node: ast.Call, frame: Frame
) -> Value | None:
    """Methods of `nn.Module`."""
    owners = attributes.root_all(ip, receiver.objs)
    if name in ("parameters", "named_parameters"):
        for cell in receiver.objs:
            ip.heap.mark(cell, Role.MODEL)
        parameter = Value(batch=GLOBAL, params=owners, is_param=True, arg=node)
        element = parameter if name == "parameters" else Value(items=(HOST, parameter))
        return Value(element=element, params=owners)
    if name in ("apply", "reset_parameters") and isinstance(node.func, ast.Attribute):
        changes.of_model(ip, node.func.value, receiver, frame)
    if name in _SELF:
        return receiver
    if name in hooks.FORWARD or name in hooks.BACKWARD:
        return hooks.of_module(ip, name, receiver, arguments, node)
    if name in ("modules", "children", "named_modules", "named_children"):
        return Value(element=receiver if "named" not in name else Value(items=(HOST, receiver)))
    if name in ("values", "items", "update") and all(ip.heap[cell].cls is None for cell in receiver.objs):
        return _of_module_dict(ip, name, receiver, arguments)
    if name == "zero_grad":
        ip.made.zero_grads[node] = None
        return HOST
    if name == "forward":
        return join_all(models.run(ip, cell, arguments, node, frame) for cell in receiver.objs)
    if name in ("state_dict", "load_state_dict", "add_module", "register_buffer", "register_parameter"):
        return _registered(ip, name, receiver, arguments)
    if name in ("append", "extend", "insert"):
        return _grown(ip, receiver, arguments, frame)
    if any(is_local(v) for _, v in arguments.all):
        return join_all(models.run(ip, cell, arguments, node, frame) for cell in receiver.objs)
    return None


def _of_module_dict(ip: Interpreter, name: str, receiver: Value, arguments: Arguments) -> Value:
    """`nn.ModuleDict` as a mapping."""
    from . import stores

    if name == "update":
        for _, value in arguments.positional:
            for cell in receiver.objs:
                stores.adopt(ip, cell, value)
                for held in value.objs:
                    ip.heap.add(cell, ip.heap[held].element)
        return HOST
    member = join_all(ip.heap[cell].element for cell in receiver.objs)
    return Value(element=member if name == "values" else Value(items=(HOST, member)))


def _registered(ip: Interpreter, name: str, receiver: Value, arguments: Arguments) -> Value:
    from . import stores

    if name.startswith(("add_", "register_")) and len(arguments.positional) > 1:
        key, value = arguments.positional[0][1].const, arguments.positional[1][1]
        for cell in receiver.objs:
            if isinstance(key, str):
                ip.heap.store(cell, key, value)
                if name == "register_buffer":
                    ip.made.buffers.add((cell, key))
            stores.adopt(ip, cell, value)
    return Value(batch=GLOBAL)


def _grown(ip: Interpreter, receiver: Value, arguments: Arguments, frame: Frame) -> Value:
    """`ModuleList.append`."""
    from . import stores

    for cell in receiver.objs:
        for _, value in arguments.positional:
            ip.heap.add(cell, value)
            stores.adopt(ip, cell, value)
    return receiver


def _of_optimizer(
    ip: Interpreter,
    name: str,
    roles: frozenset[Role],
    receiver: Value,
    arguments: Arguments,
    node: ast.Call,
    frame: Frame,
) -> Value:
    """Methods of optimizers, schedulers and scalers."""
    if Role.SCALER in roles:
        if name == "step":
            ip.made.steps[node] = None
        return arguments.get(0, "outputs") if name == "scale" else HOST
    if name == "step":
        (ip.made.scheduler_steps if Role.SCHEDULER in roles else ip.made.steps)[node] = None
        for ref in order.functions(ip, arguments.get(0, "closure").defs):
            from . import calls

            calls.enter(ip, ref, {}, ip.closure(ref.node), node, frame)
    elif name == "zero_grad":
        ip.made.zero_grads[node] = None
    return Value(batch=GLOBAL)


def of_own_optimizer(ip: Interpreter, name: str, node: ast.Call) -> None:
    """A method of an optimizer that the program defines: its `step` is one of a training step, whatever it does."""
    if name == "step":
        ip.made.steps[node] = None
    elif name == "zero_grad":
        ip.made.zero_grads[node] = None


def _counts(value: Value) -> bool:
    """Whether a value is a number of this rank's rows, or a tuple of values with one."""
    return value.dep is Dep.ROWS or any(item.dep is Dep.ROWS for item in value.items or ())


def _for_later(ip: Interpreter, value: Value, frame: Frame) -> Value:
    """What a list keeps: batches that a loop picks without training on them are cut by the loop that does."""
    trains = bool(frame.loops) and frame.loops[-1] in ip.made.training_loops
    return value if trains or not frame.loops or frame.forward else pieces.stored(value)


def _of_container(ip: Interpreter, name: str, cell: int, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """Methods of lists, dicts and sets."""
    from . import stores

    held = ip.heap[cell]
    if name in ("append", "add", "appendleft", "insert", "extend", "update", "setdefault", "__setitem__"):
        for operand, value in arguments.positional[-1:]:
            if expressions.has_sample(value) and stores.outlives_batch(ip, cell, frame):
                value = sinks.gather(ip, operand, value, frame)
            elif _counts(value) and stores.outlives_batch(ip, cell, frame):
                value = sinks.as_global(ip, operand, value, frame)
            value = _for_later(ip, value, frame)
            for kept in value.objs if name == "update" and held.is_dict else ():
                for key, member in ip.heap[kept].attrs.items():
                    ip.heap.store(cell, key, member)
            if name in ("setdefault", "__setitem__"):
                ip.heap.outlive(cell, value)
            ip.heap.add(cell, loops.element(ip, value, frame) if name == "extend" else value)
            held.rows = held.rows or collating.in_loop_over_rows(ip, held.loops, frame)
            row_loops.kept(ip, cell, frame, whole=name in ("append", "insert", "appendleft"))
            named = arguments.get(0, "key").const if name in ("setdefault", "__setitem__") else None
            if isinstance(named, str):
                ip.heap.store(cell, named, value)
        for key, (_, value) in arguments.keywords.items():
            ip.heap.store(cell, key, value)
        return held.element if name == "setdefault" else HOST
    if name in ("get", "pop", "__getitem__"):
        wanted = arguments.get(0, "key").const
        if isinstance(wanted, str) and wanted in held.attrs:
            return held.attrs[wanted]
        return join(held.element, arguments.get(1, "default"))
    if name == "values":
        return Value(element=held.element)
    if name == "items":
        return Value(element=Value(items=(HOST, held.element)))
    if name == "keys":
        return Value(element=HOST)
    if name == "copy":
        return Value(objs=frozenset({cell}))
    for operand, value in arguments.all:
        sinks.as_global(ip, operand, value, frame)
    return HOST
