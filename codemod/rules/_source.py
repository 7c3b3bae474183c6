"""Questions about the source that several rules ask; no rule by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..dataclass import dataclass
from ..facts.places import dotted as dotted
from ..facts.values import Role

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

RUNTIME = "distify.runtime"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
SHARDED = ("fsdp", "deepspeed")  # backends that leave each process parts of the parameters
EXITS = ("sys.exit", "os._exit", "builtins.exit", "builtins.quit")
Definition = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def position(node: ast.AST) -> tuple[int, int]:
    """Sort key: where a node begins."""
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def calls(facts: Facts, *names: str) -> list[ast.Call]:
    """All calls of functions with the given dotted names, in source order."""
    return sorted((call for name in names for call in facts.calls.get(name, ())), key=position)


def runtime_calls(facts: Facts, *names: str) -> list[ast.Call]:
    """All calls of runtime functions, in source order."""
    return calls(facts, *(f"{RUNTIME}.{name}" for name in names))


def is_runtime_call(facts: Facts, node: ast.AST | None, *names: str) -> bool:
    """Whether a node calls one of the runtime's functions."""
    return isinstance(node, ast.Call) and facts.names.qualified(node.func) in {f"{RUNTIME}.{name}" for name in names}


def is_exit(facts: Facts, node: ast.AST | None) -> bool:
    """Whether a node ends the process."""
    return isinstance(node, ast.Call) and facts.names.qualified(node.func) in EXITS


def has_closure(facts: Facts, call: ast.Call) -> bool:
    """Whether an optimizer step is given a closure: `optimizer.step(closure)`, or the converted form.

    `scaler.step(optimizer)`, like the converted form, names the optimizer first.
    """
    scaled = isinstance(call.func, ast.Attribute) and has_role(facts, call.func.value, Role.SCALER)
    own = 1 if scaled or is_runtime_call(facts, call, "step") else 0
    return len(call.args) > own or any(item.arg == "closure" for item in call.keywords)


def setting(facts: Facts, options: Options, name: str) -> object:
    """An option as the rewritten script will find it: given on the command line, else in its init call, else in the
    environment or `[tool.distify]`, else `None`."""
    given = options.given().get(name)
    if given is not None:
        return given
    for call in facts.worked_out(init_calls):
        for keyword in call.keywords:
            if keyword.arg == name:
                return keyword.value.value if isinstance(keyword.value, ast.Constant) else ...
    return options.configured.get(name)


def init_calls(facts: Facts) -> list[ast.Call]:
    """The init calls of the program."""
    return [call for file in facts.program for call in runtime_calls(file, "init")]


def keyword_value(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument."""
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def argument(call: ast.Call, index: int, name: str) -> ast.expr | None:
    """An argument by position or keyword; `None` where it is missing or hidden in `*args` or `**kwargs`."""
    head = call.args[: index + 1]
    if len(head) > index and not any(isinstance(item, ast.Starred) for item in head):
        return head[index]
    return keyword_value(call, name)


def method_calls(facts: Facts, *names: str) -> Iterator[tuple[ast.Call, ast.Attribute]]:
    """Calls `x.name(…)` of methods (not of functions in modules), each with its callee, in source order."""
    found = [item for name in dict.fromkeys(names) for item in facts.methods.get(name, ())]
    for call, callee in sorted(found, key=lambda item: position(item[0])):
        if facts.names.qualified(callee) is None:
            yield call, callee


def ancestors(facts: Facts, node: ast.AST) -> Iterator[ast.AST]:
    """The nodes around a node, innermost first."""
    found = facts.parents.get(node)
    while found is not None:
        yield found
        found = facts.parents.get(found)


def function_of(facts: Facts, node: ast.AST) -> ast.AST:
    """The innermost function (or the module) whose body holds a node."""
    return next((item for item in ancestors(facts, node) if isinstance(item, (*FUNCTIONS, ast.Module))), facts.tree)


def enclosing_with(facts: Facts, node: ast.AST, *names: str) -> ast.With | None:
    """The innermost `with` around a node that enters a call of one of the dotted names."""
    for item in ancestors(facts, node):
        if isinstance(item, ast.With) and any(
            isinstance(entry.context_expr, ast.Call) and facts.names.qualified(entry.context_expr.func) in names
            for entry in item.items
        ):
            return item
        if isinstance(item, Definition):
            return None
    return None


def is_module_class(facts: Facts, node: ast.ClassDef) -> bool:
    """Whether a class derives from a torch module, directly or through classes of the program."""
    todo, seen = [node], {node}
    while todo:
        for base in todo.pop().bases:
            if (facts.names.qualified(base) or "").startswith("torch.nn."):
                return True
            found = facts.value(base).classes - seen
            seen |= found
            todo.extend(found)
    return False


def class_of(facts: Facts, node: ast.AST) -> ast.ClassDef | None:
    """The innermost class around a node."""
    return next((item for item in ancestors(facts, node) if isinstance(item, ast.ClassDef)), None)


def in_module_class(facts: Facts, node: ast.AST) -> bool:
    """Whether a node stands in a torch module's class (its code runs inside a forward)."""
    return any(isinstance(item, ast.ClassDef) and is_module_class(facts, item) for item in ancestors(facts, node))


def statements_around(facts: Facts, node: ast.AST) -> Iterator[ast.stmt]:
    """The statements that hold a node, innermost first, up to the body of its function, class or module."""
    statement = facts.statement(node)
    while True:
        yield statement
        parent = facts.parents[statement]
        if isinstance(parent, (*Definition, ast.Module)):
            return
        statement = facts.statement(parent)


@dataclass(frozen=True)
class Run:
    """Consecutive statements of one block: `block[first:last + 1]`."""

    block: list[ast.stmt]
    first: int
    last: int

    @property
    def statements(self) -> list[ast.stmt]:
        """The statements themselves."""
        return self.block[self.first : self.last + 1]

    def holds(self, node: ast.AST) -> bool:
        """Whether a node is inside."""
        return any(node is inner for statement in self.statements for inner in ast.walk(statement))


def index_in(block: list[ast.stmt], statement: ast.stmt) -> int:
    """Where a statement stands in its block, by identity."""
    return next(index for index, item in enumerate(block) if item is statement)


def before(facts: Facts, node: ast.AST) -> list[ast.stmt]:
    """The statements of a block before one of them; none for another node."""
    if not isinstance(node, ast.stmt):
        return []
    block = facts.block(node)
    return block[: index_in(block, node)]


def after(facts: Facts, node: ast.AST) -> list[ast.stmt]:
    """The statements of a block after one of them; none for another node."""
    if not isinstance(node, ast.stmt):
        return []
    block = facts.block(node)
    return block[index_in(block, node) + 1 :]


def smallest_run(facts: Facts, nodes: Iterable[ast.AST]) -> Run | None:
    """The smallest run of statements of one block that holds all nodes; `None` if they share no function body."""
    chains = [list(statements_around(facts, node)) for node in nodes]
    if not chains:
        return None
    for candidate in chains[0]:
        block = facts.block(candidate)
        members = {id(item) for item in block}
        found = [next((item for item in chain if id(item) in members), None) for chain in chains]
        if None not in found:
            places = [index_in(block, item) for item in found if item is not None]
            return Run(block, min(places), max(places))
    return None


def contains(root: ast.AST | list[ast.stmt], nodes: Iterable[ast.AST]) -> bool:
    """Whether a tree (or a list of statements) holds any of the nodes."""
    wanted = {id(node) for node in nodes}
    roots = root if isinstance(root, list) else [root]
    return any(id(inner) in wanted for item in roots for inner in ast.walk(item))


def has_role(facts: Facts, node: ast.expr, *roles: Role) -> bool:
    """Whether an expression may have one of the roles."""
    found = facts.value(node).roles
    return any(role in found for role in roles)


def bindings(facts: Facts, node: ast.Name) -> list[ast.expr | None]:
    """The expressions that are assigned to a name in the scope that binds it; `None` for any other binding."""
    for scope in [facts.names.scope(node), *ancestors(facts, facts.names.scope(node))]:
        if isinstance(scope, (*FUNCTIONS, ast.Module)):
            found = _bound_in(facts, scope, node.id)
            if found:
                return found
    return []


def _bound_in(facts: Facts, scope: ast.AST, name: str) -> list[ast.expr | None]:
    found: list[ast.expr | None] = []
    for item in ast.walk(scope):
        if isinstance(item, ast.arg) and item.arg == name and facts.names.scope(item) is scope:
            found.append(None)
        if not isinstance(item, ast.Name) or item.id != name or isinstance(item.ctx, ast.Load):
            continue
        if facts.names.scope(item) is scope:
            parent = facts.parents[item]
            single = isinstance(parent, ast.Assign) and item in parent.targets
            found.append(parent.value if isinstance(parent, ast.Assign) and single else None)
    return found


def free_name(facts: Facts, *candidates: str) -> str:
    """The first candidate that the file doesn't use; the last one with a number if all are taken."""
    used = {node.id for node in facts.nodes if isinstance(node, ast.Name)}
    used |= {node.arg for node in facts.nodes if isinstance(node, ast.arg)}
    for name in candidates:
        if name not in used:
            return name
    number = 2
    while f"{candidates[-1]}{number}" in used:
        number += 1
    return f"{candidates[-1]}{number}"


def imported(facts: Facts) -> frozenset[str]:
    """Top-level packages that the file imports."""
    return facts.packages
