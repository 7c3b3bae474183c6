"""Schedules whose length counts batches, while their scheduler steps once per window; no rule by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..facts.values import Role
from ..findings import Finding, finding
from ._source import FUNCTIONS, ancestors, bindings, dotted, has_role, is_runtime_call

if TYPE_CHECKING:
    from ..facts.model import Facts

MESSAGE = "this counts batches, and the scheduler that is made of it steps once per window, so the schedule never ends"
HINT = "divide by the batches of a window, rounding up for each pass: -(-len(loader) // N), or leave out --accumulate"
ELSEWHERE = (Role.OPTIMIZER, Role.MODEL, Role.LOADER)


def lengths(facts: Facts, schedulers: Iterable[ast.Call]) -> Iterator[Finding]:
    """A warning for each undivided `len(loader)` that a scheduler stepped once per window is made of."""
    seen: set[int] = set()
    pending: list[ast.AST] = [base(facts, call) for call in schedulers]
    while pending:
        root = pending.pop()
        if id(root) in seen:
            continue
        seen.add(id(root))
        for node in ast.walk(root):
            if isinstance(node, ast.Call) and is_length(facts, node) and id(node) not in seen:
                seen.add(id(node))
                yield finding("DST207", node, MESSAGE, HINT, level="warning")
            elif isinstance(node, (ast.Name, ast.Attribute)) and not has_role(facts, node, *ELSEWHERE):
                pending.extend(origins(facts, node))


def base(facts: Facts, call: ast.Call) -> ast.AST:
    """The scheduler of `scheduler.step()` or `runtime.step(scheduler)`."""
    if is_runtime_call(facts, call, "step") and call.args:
        return call.args[0]
    return call.func.value if isinstance(call.func, ast.Attribute) else call


def is_length(facts: Facts, call: ast.Call) -> bool:
    """Whether a call is `len(loader)`, and nothing divides it."""
    if not (isinstance(call.func, ast.Name) and call.func.id == "len" and len(call.args) == 1):
        return False
    if not has_role(facts, call.args[0], Role.LOADER):
        return False
    around = [node for node in ancestors(facts, call) if isinstance(node, ast.BinOp)]
    return not any(isinstance(node.op, (ast.Div, ast.FloorDiv)) for node in around)


def origins(facts: Facts, node: ast.Name | ast.Attribute) -> Iterator[ast.AST]:
    """What a name or an attribute of `self` may be: what is assigned, a function of the file, what callers give."""
    if isinstance(node, ast.Attribute):
        text = dotted(node)
        for item in facts.nodes:
            if text is not None and isinstance(item, ast.Assign) and text in map(dotted, item.targets):
                yield item.value
        return
    yield from (value for value in bindings(facts, node) if value is not None)
    for item in facts.nodes:
        if isinstance(item, ast.FunctionDef) and item.name == node.id:
            yield from item.body
    for scope in ancestors(facts, node):
        if isinstance(scope, ast.FunctionDef) and node.id in [item.arg for item in parameters(scope)]:
            yield from given(facts, scope, node.id)
            return


def parameters(function: ast.FunctionDef) -> list[ast.arg]:
    """The parameters of a function that may be given by name, in order."""
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def given(facts: Facts, function: ast.FunctionDef, name: str) -> Iterator[ast.AST]:
    """What the callers of a function give for one of its parameters; methods are called through an instance."""
    names = [item.arg for item in parameters(function)]
    owner = next((item for item in ancestors(facts, function) if isinstance(item, (*FUNCTIONS, ast.ClassDef))), None)
    index = names.index(name) - (1 if isinstance(owner, ast.ClassDef) else 0)
    called = owner.name if isinstance(owner, ast.ClassDef) and function.name == "__init__" else function.name
    for call in facts.nodes:
        if isinstance(call, ast.Call) and (dotted(call.func) or "").split(".")[-1] == called:
            yield from (item.value for item in call.keywords if item.arg == name)
            if 0 <= index < len(call.args):
                yield call.args[index]
