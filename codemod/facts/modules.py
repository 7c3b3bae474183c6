"""Abstract interpretation: imports of local modules, which run when they are first imported."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .. import imports
from .frame import Frame
from .joins import join_all
from .values import Value, union

if TYPE_CHECKING:
    from ..program import Module
    from .interpreter import Interpreter

KIND = "module"
MAX_CHOICE = 4  # architectures, above which none of them is looked into


def load(ip: Interpreter, module: Module) -> None:
    """Interpret a module's statements, once in each pass; in a cycle of imports, what ran so far is there."""
    from . import statements

    if module in ip.imported:
        return
    ip.imported.add(module)
    ip.frames[module] = frame = Frame(env={})
    statements.block(ip, module.tree.body, frame)


def value_of(ip: Interpreter, module: Module) -> Value:
    """A module as an object, whose attributes are its global names."""
    load(ip, module)
    return Value(objs=frozenset({ip.heap.allocate(module.tree, KIND)}))


def imported(ip: Interpreter, node: ast.Import, name: str, renamed: bool) -> Value:
    """What `import a.b` binds to `a`, or `import a.b as c` to `c`."""
    here = ip.names.module(node)
    top = name.split(".")[0]
    parts = name.split(".")
    found = [ip.program.resolve(here, ".".join(parts[: end + 1])) for end in range(len(parts))]
    for module in found:
        if module is not None:
            load(ip, module)
    wanted = found[-1] if renamed else found[0]
    return value_of(ip, wanted) if wanted is not None else Value(ref=name if renamed else top)


def member(ip: Interpreter, node: ast.ImportFrom, name: str) -> Value:
    """What `from module import name` binds: a global name of the module, or a module inside it."""
    here = ip.names.module(node)
    base = "." * node.level + (node.module or "")
    dotted = f"{base}{'' if base.endswith('.') else '.'}{name}"
    module = ip.program.resolve(here, base)
    if module is None:
        inner = ip.program.resolve(here, dotted)
        return value_of(ip, inner) if inner is not None else Value(ref=dotted)
    load(ip, module)
    return attribute(ip, module, name) or Value(ref=dotted)


def starred(ip: Interpreter, node: ast.ImportFrom) -> dict[str, Value]:
    """What `from module import *` binds; nothing that is known if the module is none of the program."""
    module = ip.program.resolve(ip.names.module(node), "." * node.level + (node.module or ""))
    if module is None:
        return {}
    load(ip, module)
    return exported(ip, module)


def by_call(ip: Interpreter, node: ast.Call) -> Value | None:
    """What `importlib.import_module(name)` gives: any module that the name may mean, `None` if the program has none."""
    here, name = ip.names.module(node), imports.beginning(node.args[0])
    if isinstance(node.args[0], ast.Constant):
        found = [here.targets.get(name)]
    else:
        package, _, start = name.rpartition(".")
        found = [here.targets[target] for target in here.targets if package and target.startswith(f"{package}.{start}")]
    values = [value_of(ip, module) for module in found if module is not None]
    return join_all(values) if values else None


def attribute(ip: Interpreter, module: Module, name: str) -> Value | None:
    """A global name of a module, or a module inside it; `None` if it has neither."""
    frame = ip.frames.get(module)
    found = frame.env.get(name) if frame is not None else None
    if found is not None:
        return found
    inner = ip.program.submodule(module, name)
    return value_of(ip, inner) if inner is not None else None


def of_cell(ip: Interpreter, index: int) -> Module | None:
    """The module that an object is, `None` for any other object."""
    cell = ip.heap[index]
    return ip.names.module(cell.node) if cell.kind == KIND and isinstance(cell.node, ast.Module) else None


def any_of(ip: Interpreter, module: Module) -> Value:
    """What a module may give for a name that is known only at run time, as in `getattr(models, args.arch)`.

    A class of modules if it has any, else a function or another class. A choice of many architectures is taken for a
    model of a library: whatever it is, it is built, moved and run.
    """
    values = list(exported(ip, module).values())
    classes, defs = union(value.classes for value in values), union(value.defs for value in values)
    models = frozenset(cls for cls in classes if ip.classes.is_module(cls))
    if len(models or defs) > MAX_CHOICE and any(ip.classes.is_module(cls) for cls in _reached(ip, module)):
        return Value(ref="torchvision.models.<dynamic>")
    return Value(classes=models) if models else Value(classes=classes, defs=defs)


def exported(ip: Interpreter, module: Module) -> dict[str, Value]:
    """The public global names of a module: those of its `__all__`, else all that don't begin with an underscore."""
    frame = ip.frames.get(module)
    env = frame.env if frame is not None else {}
    listed = env["__all__"].items if "__all__" in env else None
    if listed and all(isinstance(item.const, str) for item in listed):
        return {item.const: env[item.const] for item in listed if isinstance(item.const, str) and item.const in env}
    return {name: value for name, value in env.items() if not name.startswith("_")}


def _reached(ip: Interpreter, module: Module) -> frozenset[ast.ClassDef]:
    """The classes of a module and of those that it imports."""
    near = [module, *module.targets.values()]
    frames = [ip.frames[item] for item in near if item in ip.frames]
    return union(value.classes for frame in frames for value in frame.env.values())
