"""Abstract interpretation: attribute access."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from . import divisors, library_losses, modules, order, packing, pieces, sinks
from .joins import join, join_all
from .ranks import WRAPPER
from .replacing import replace
from .values import COUNTED, EMPTY, GLOBAL, HOST, Batch, Dep, FunctionRef, Role, Value, union

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter

CLASS = "class"
_SAME_ROWS = {"data", "grad", "real", "imag"}
_METADATA = {"dtype", "device", "ndim", "requires_grad", "is_cuda", "itemsize", "layout", "grad_fn", "is_leaf"}


def attribute(ip: Interpreter, node: ast.Attribute, frame: Frame) -> Value:
    """Value of `base.attr`."""
    from . import expressions

    base = expressions.evaluate(ip, node.value, frame)
    ip.receivers[node] = base
    value = get(ip, base, node.attr, node, frame)
    if value == HOST and isinstance(node.ctx, ast.Load):
        return replace(value, size0=ip.text(node))  # an option: wherever it goes, it is that number
    return arrive_or_keep(ip, node, value, frame)


def get(ip: Interpreter, base: Value, name: str, node: ast.AST, frame: Frame) -> Value:
    """Value of an attribute of a value."""
    if base.ref is not None and not base.objs and base.dep <= Dep.GLOBAL:
        return Value(ref="|".join(f"{ref}.{name}" for ref in base.ref.split("|")))
    if base.is_sample and not base.objs:
        return _of_sample(ip, base, name, node, frame)
    if name == "shape" and base.dep <= Dep.GLOBAL and not (base.objs or base.is_param or base.batch.whole):
        return Value(batch=COUNTED if pieces.is_batch(base) else GLOBAL, shape_dim=-1, measured=True)
    if base.wrapped and name == "module":
        return replace(base, wrapped=False, ranks=base.ranks - WRAPPER)
    if name == "__dict__" and (held := members(ip, base)) is not None:
        return held
    found = EMPTY
    for index in base.objs:
        found = join(found, _of_cell(ip, index, name, frame))
    for cls in order.nodes(ip, base.classes):
        found = join(found, _of_class(ip, cls, name))
    if found != EMPTY:
        return found
    if base.is_param and name in ("data", "grad"):
        return _of_parameter(ip, base, name, node, frame)
    if base.items and name in base.names and len(base.names) == len(base.items):
        return base.items[base.names.index(name)]
    parent = ip.parents.get(node)
    if isinstance(parent, ast.Call) and parent.func is node:
        return EMPTY
    if base.items and not base.objs:
        # A named tuple of torch: `out.max(1).values`, `packed.data`.
        if name in packing.FIELDS and packing.is_packed(base):
            return base.items[packing.FIELDS.index(name)]
        positions = {"values": 0, "indices": -1}
        return base.items[positions[name]] if name in positions else join_all(base.items)
    if base.has(Role.MODEL):
        # A parameter or submodule that the program does not define (`model.fc.weight` of a library's model).
        return _model_part(base, name)
    if name == "param_groups" and base.has(Role.OPTIMIZER):
        return _groups(ip, base)
    if base.has(Role.LOADER) or base.has(Role.OPTIMIZER):
        return HOST
    if name == "data" and base.dep is Dep.GLOBAL and not (base.params or base.objs):
        return base
    if base.batch.whole and name in ("T", "mT", "H", "mH"):
        return base.with_batch(_transposed(base.batch, name))
    if base.batch.whole and name == "shape":
        return Value(batch=COUNTED if base.batch.dim == 0 else GLOBAL, shape_dim=-1, measured=True)
    if base.batch.whole and name in _METADATA:
        return HOST
    batch = base.batch if base.batch.dep is not Dep.BOTTOM else GLOBAL
    return Value(batch=batch, params=base.params, origin=base.origin if base.batch.whole else None)


def members(ip: Interpreter, base: Value) -> Value | None:
    """The attributes of an object as a dict, `None` where they aren't the program's."""
    held = [cell for cell in base.objs if modules.of_cell(ip, cell) is None]
    if not any(ip.heap[cell].cls is not None or ip.heap[cell].attrs for cell in held):
        return None
    return Value(objs=frozenset(ip.heap.vars(cell) for cell in held))


def _groups(ip: Interpreter, base: Value) -> Value:
    """`optimizer.param_groups`: dicts, in which the parameters of the models that it trains stand under "params"."""
    owners = union(root_all(ip, item.cells) for item in ip.made.optimizers.values() if item.made & base.objs)
    groups = set()
    for index in base.objs:
        cell = ip.heap.allocate(ip.heap[index].node, "group", context=ip.heap[index].context)
        parameter = Value(batch=GLOBAL, params=owners, is_param=True)
        ip.heap.store(cell, "params", Value(element=parameter, params=owners))
        groups.add(cell)
    return Value(element=Value(objs=frozenset(groups)))


def root_all(ip: Interpreter, cells: Iterable[int]) -> frozenset[int]:
    """The outermost models of modules."""
    return frozenset(root(ip, cell) for cell in cells)


def _of_parameter(ip: Interpreter, base: Value, name: str, node: ast.AST, frame: Frame) -> Value:
    """`p.data` is the parameter itself, without its graph; `p.grad` another tensor."""
    from . import changes

    holder = node.value if isinstance(node, ast.Attribute) else None
    if name == "data":
        return Value(batch=GLOBAL, params=base.params, is_param=True, arg=base.arg or holder)
    if isinstance(node, ast.Attribute) and not changes.in_optimizer(ip, frame):
        ip.made.grads.add(node)
        changes.note(ip, node.value, base, frame, grads=True)
    return Value(batch=GLOBAL, params=base.params)


def _model_part(base: Value, name: str) -> Value:
    if name in ("weight", "bias"):
        return Value(batch=GLOBAL, params=base.objs, is_param=True)
    return Value(batch=GLOBAL, roles=frozenset({Role.MODEL}), objs=base.objs, part=True)


def _of_sample(ip: Interpreter, base: Value, name: str, node: ast.AST, frame: Frame) -> Value:
    """Attribute of a tensor with a batch dimension, or of a batch or model output of unknown structure."""
    batch = base.batch
    if name == "shape":
        dim = -1 if batch.dim is None else batch.dim
        built = frozenset({node} if isinstance(node, ast.Attribute) else ())
        return Value(batch=GLOBAL, shape_dim=dim, sources=base.sources, built=built)
    if name in ("T", "mT", "H", "mH"):
        return base.with_batch(_transposed(batch, name))
    if name in _METADATA:
        return HOST
    if base.opaque and name == "loss":
        return library_losses.of_output(base)
    if name in _SAME_ROWS:
        return base
    return replace(base, batch=replace(batch, ndim=None, by=None))


def _transposed(batch: Batch, name: str) -> Batch:
    """`.T` of a matrix; `.mT` swaps the last two dimensions, which only in a matrix are the rows'."""
    if name.startswith("m") and batch.ndim != 2:
        return batch
    return replace(batch, dim={0: 1, 1: 0}.get(batch.dim) if batch.dim is not None else None)


def _of_cell(ip: Interpreter, index: int, name: str, frame: Frame) -> Value:
    """Attribute of an object: a stored value, a method, a property."""
    from . import calls

    cell = ip.heap[index]
    module = modules.of_cell(ip, index)
    if module is not None:
        if name == "__dict__":
            return Value(element=modules.any_of(ip, module))
        return modules.attribute(ip, module, name) or EMPTY
    if cell.cls is not None:
        method = ip.classes.method(cell.cls, name)
        if method is not None:
            ref = FunctionRef(method, None if _is(method, "staticmethod") else index)
            if _is(method, "classmethod"):
                ref = FunctionRef(method, _class_cell(ip, cell.cls))
            if is_property(ip, method):
                return calls.enter(ip, ref, {}, ip.closure(method), None, frame)
            refs = frozenset({ref})
            if method in ip.wrapped and Role.MODEL not in cell.roles:
                refs = frozenset(replace(wrapper, bound=ref.bound) for wrapper in ip.wrapped[method])
            return join(Value(defs=refs), cell.attrs.get(name, EMPTY))
    found = cell.attrs.get(name, EMPTY)
    if Role.MODEL in cell.roles:
        found = divisors.taken(index, name, found, frame)
    if found.is_param and Role.MODEL in cell.roles:
        found = replace(found, params=found.params | {root(ip, index)}, loose=False)
    if cell.cls is not None:
        kept = _of_class(ip, cell.cls, name)
        methods = (replace(ref, bound=index) if ref.bound is None else ref for ref in kept.defs)
        found = join(found, replace(kept, defs=frozenset(methods)))  # `fit = Base.fit` in a class body
    library = Role.MODEL in cell.roles and (cell.cls is None or not frame.forward)
    if found == EMPTY and library and name in ("weight", "bias"):
        return Value(batch=GLOBAL, params=frozenset({root(ip, index)}), is_param=True)
    return found


def _of_class(ip: Interpreter, cls: ast.ClassDef, name: str) -> Value:
    """Class attribute (through the bases that are part of the program)."""
    found = EMPTY
    if name == "apply" and ip.classes.is_function(cls):
        method = ip.classes.method(cls, "forward")
        context = () if ip.classes.method(cls, "setup_context") else ((0, HOST),)
        return found if method is None else Value(defs=frozenset({FunctionRef(method, None, context)}))
    for item in ip.classes.lineage(cls):
        if isinstance(item, ast.ClassDef):
            found = join(found, ip.heap[_class_cell(ip, item)].attrs.get(name, EMPTY))
            method = ip.classes.method(item, name)
            if method is not None:
                bound = _class_cell(ip, cls) if _is(method, "classmethod") else None
                found = join(found, Value(defs=frozenset({FunctionRef(method, bound)})))
    return found


def _class_cell(ip: Interpreter, cls: ast.ClassDef) -> int:
    """The object that holds the attributes of a class."""
    return ip.heap.allocate(cls, CLASS, cls=cls)


def _is(method: ast.FunctionDef, decorator: str) -> bool:
    return any(isinstance(d, ast.Name) and d.id == decorator for d in method.decorator_list)


def is_property(ip: Interpreter, method: ast.FunctionDef) -> bool:
    """Whether a method runs when its name is read."""
    cached = any(ip.names.qualified(item) == "functools.cached_property" for item in method.decorator_list)
    return cached or _is(method, "property")


def root(ip: Interpreter, index: int) -> int:
    """The outermost model that a module is a part of."""
    seen = {index}
    while (parent := ip.heap[index].root) is not None and parent not in seen:
        seen.add(parent)
        index = parent
    return index


def is_prepared(ip: Interpreter, index: int) -> bool:
    """Whether an optimizer owns parameters of the model that a module belongs to."""
    return index in ip.sites.owned or root(ip, index) in ip.sites.owned


def arrive_or_keep(ip: Interpreter, node: ast.expr, value: Value, frame: Frame) -> Value:
    """Outside a prepared forward, a PENDING expression without a name is reduced in place."""
    if value.dep is Dep.PENDING and not frame.forward and not sinks.is_runtime_argument(ip, node):
        return sinks.reduce_here(ip, node, value, frame)
    return value
