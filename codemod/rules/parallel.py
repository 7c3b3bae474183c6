"""Take `nn.DataParallel` away: one process now has one device.

    -model = nn.DataParallel(model, device_ids=[0, 1]).cuda()
    +model = model.to(runtime.device())
    -torch.save(model.module.state_dict(), path)
    +torch.save(model.state_dict(), path)
    -for name, p in model.named_parameters():
    +for name, p in model.named_parameters(prefix="module"):

The wrapper would split each slice again, over devices that belong to other processes. What it gave to a script stays:
names and keys of checkpoints that begin with `module.`, where it is sure that there was a wrapper (whether a machine
has several devices is not; pytorch/pytorch#3805), and inputs on the device. The functional form inside a forward
becomes a plain call.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import Argument, Delete, Ref, Replace, Span
from ..facts.places import passed
from ..facts.values import Role
from ..findings import finding
from . import Outcome, rule
from ._order import is_alternative
from ._source import ancestors, argument, calls, function_of, has_role, method_calls

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

WRAPPERS = ("torch.nn.DataParallel", "torch.nn.parallel.DataParallel", "torch.nn.parallel.data_parallel.DataParallel")
FUNCTIONAL = ("torch.nn.parallel.data_parallel", "torch.nn.parallel.data_parallel.data_parallel")


@rule("parallel", order=45)
def parallel(facts: Facts, options: Options) -> Iterator[Outcome]:
    """No `DataParallel`, and no `.module` that only it provides."""
    wrapped = calls(facts, *WRAPPERS)
    for call in wrapped:
        yield from unwrapped(facts, call)
    if wrapped:
        yield finding("DST305", wrapped[0])
        yield from without_module(facts)
        yield from with_names(facts)
        yield from on_device(facts)
    for call in calls(facts, *FUNCTIONAL):
        yield from applied(call)


def unwrapped(facts: Facts, call: ast.Call) -> Iterator[Outcome]:
    """`model = nn.DataParallel(model)` goes away; elsewhere the call becomes its first argument."""
    model = argument(call, 0, "module")
    if model is None:
        yield finding("DST301", call)
        return
    statement = facts.parents[call]
    if isinstance(statement, ast.Assign) and [facts.text(item) for item in statement.targets] == [facts.text(model)]:
        yield Delete(Span.of(whole_branch(facts, statement)), kind="device")
    else:
        yield Replace(Span.of(call), "part", {"part": Ref.to(model)}, kind="device")


def whole_branch(facts: Facts, statement: ast.stmt) -> ast.stmt:
    """The `if` around a statement that is all it has, where its condition does nothing else."""
    parent = facts.parents[statement]
    if not isinstance(parent, ast.If) or len(parent.body) != 1 or parent.orelse or is_alternative(facts, parent):
        return statement
    calls_made = [node for node in ast.walk(parent.test) if isinstance(node, ast.Call)]
    names = [facts.names.qualified(node.func) or "" for node in calls_made]
    harmless = all(name.startswith("torch.cuda.") or name == "builtins.len" for name in names)
    return parent if harmless else statement


def without_module(facts: Facts) -> Iterator[Outcome]:
    """`model.module` becomes `model`, unless a condition asks first whether it is there."""
    own = {
        node.attr
        for node in facts.nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and facts.text(node.value) == "self"
    }
    if "module" in own:
        return
    for node in facts.nodes:
        if not (isinstance(node, ast.Attribute) and node.attr == "module" and has_role(facts, node.value, Role.MODEL)):
            continue
        if not asks_first(facts, node):
            yield Replace(Span.of(node), "part", {"part": Ref.to(node.value)}, kind="device")


def asks_first(facts: Facts, node: ast.AST) -> bool:
    """Whether a condition around a node calls `hasattr` or `isinstance`."""
    for item in ancestors(facts, node):
        if isinstance(item, (ast.If, ast.IfExp)) and any(
            isinstance(inner, ast.Call)
            and facts.names.qualified(inner.func) in ("builtins.hasattr", "builtins.isinstance")
            for inner in ast.walk(item.test)
        ):
            return True
    return False


def with_names(facts: Facts) -> Iterator[Outcome]:
    """`model.named_parameters()` of a wrapped model has names that begin with `module.`."""
    for call, callee in method_calls(facts, "named_parameters", "named_buffers"):
        if facts.value(callee.value).wrapped and not call.args and not call.keywords:
            yield Argument(Span.of(call), "prefix", '"module"', kind="device")


def on_device(facts: Facts) -> Iterator[Outcome]:
    """The wrapper moves its inputs to the device: what the script itself does not move is moved now."""
    for forward in facts.forwards:
        if not isinstance(forward.call.func, ast.expr) or not facts.value(forward.call.func).wrapped:
            continue
        for item in passed(forward.call):
            value = facts.value(item)
            if isinstance(item, ast.Name) and value.leaf and value.is_sample and not is_moved(facts, item):
                params = {"runtime": facts.runtime_name, "part": Ref.to(item)}
                yield Replace(Span.of(item), "moved", params, kind="device")


def is_moved(facts: Facts, name: ast.Name) -> bool:
    """Whether a function moves a variable somewhere: `x.cuda()`, `x.to(device)`."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in ("cuda", "to")
        and any(isinstance(part, ast.Name) and part.id == name.id for part in ast.walk(node.value))
        for node in ast.walk(function_of(facts, name))
    )


def applied(call: ast.Call) -> Iterator[Outcome]:
    """`data_parallel(module, x, devices)` becomes `module(x)`."""
    module, inputs = argument(call, 0, "module"), argument(call, 1, "inputs")
    if module is None or inputs is None:
        yield finding("DST301", call)
        return
    parts = inputs.elts if isinstance(inputs, ast.Tuple) else [inputs]
    params = {"function": Ref.to(module), "arguments": [Ref.to(part) for part in parts]}
    yield Replace(Span.of(call), "applied", params, kind="device")
