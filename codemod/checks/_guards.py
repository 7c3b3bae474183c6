"""Which statements run on some processes only; no check by itself."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

from ..facts.places import last_name
from ..facts.ranks import Mark
from ..rules._source import FUNCTIONS, ancestors, before, calls
from ..rules.distributed import PROCESSES

if TYPE_CHECKING:
    from ..facts.model import Facts

LEAVES = (ast.Return, ast.Continue, ast.Break, ast.Raise)
# What a test is called in a module that can't be looked into, if it asks for the process.
SAYS = ("main", "rank", "master", "zero", "primary", "chief")


class Guards:
    """Tells what is guarded by the number of the process. Of one program."""

    def __init__(self, facts: Facts) -> None:
        self._files = facts.program
        self._sites: dict[ast.AST, list[tuple[Facts, ast.Call]]] = {}
        for file in facts.program:
            for node in file.nodes:
                if not isinstance(node, ast.Call):
                    continue
                callee = file.value(node.func)
                for made in (*(ref.node for ref in callee.defs), *callee.classes):
                    self._sites.setdefault(made, []).append((file, node))
        self._spawned = reached(facts.program)

    def sites(self, function: ast.AST) -> list[tuple[Facts, ast.Call]]:
        """Where a function of the program is called, or objects of a class are made."""
        return self._sites.get(function, [])

    def before_all(self, facts: Facts, node: ast.AST) -> bool:
        """Whether a node runs in the process that starts the others, and in none of those."""
        inside = [item for item in ancestors(facts, node) if item in self._spawned]
        return bool(self._spawned) and not inside

    def inside(
        self, facts: Facts, node: ast.AST, names: Container[str], seen: frozenset[ast.AST] = frozenset()
    ) -> bool:
        """Whether a node runs in a function of some name, or in one that such a function calls."""
        function = facts.enclosing(node, *FUNCTIONS)
        if function is None or function in seen:
            return False
        if getattr(function, "name", "") in names:
            return True
        return any(self.inside(file, call, names, seen | {function}) for file, call in self.sites(function))

    def guarded(
        self, facts: Facts, node: ast.AST, *, perhaps: bool = False, seen: frozenset[ast.AST] = frozenset()
    ) -> bool:
        """Whether a node runs on some processes only.

        Args:
            facts: of its file.
            node: what runs.
            perhaps: whether what may be a guard, in code that can't be looked into, counts as one.
            seen: functions that are being asked about.
        """
        if self.test_of(facts, node, perhaps=perhaps) is not None:
            return True
        function = facts.enclosing(node, *FUNCTIONS)
        if function is None or function in seen:
            return False
        if perhaps and getattr(function, "decorator_list", []):
            return True
        inner = seen | {function}
        owner = facts.parents.get(function)
        comes = [(file, call) for file, call in self.sites(function) if may_reach(facts, node, function, call)]
        for sites in (comes, self.sites(owner) if isinstance(owner, ast.ClassDef) else []):
            if sites and all(self.guarded(file, call, perhaps=perhaps, seen=inner) for file, call in sites):
                return True  # called, or its object made, there only
        return False

    def test_of(self, facts: Facts, node: ast.AST, *, perhaps: bool = False) -> ast.AST | None:
        """The condition on the process that a node stands under in its function."""
        child = node
        for item in ancestors(facts, node):
            tests: list[ast.expr] = []
            if isinstance(item, (ast.If, ast.While, ast.IfExp)) and child is not item.test:
                tests = [item.test]
            elif isinstance(item, ast.Match) and child is not item.subject:
                tests = [item.subject]
            elif isinstance(item, ast.BoolOp):
                tests = item.values[: item.values.index(child)] if isinstance(child, ast.expr) else []
            if any(self.asks(facts, test, perhaps) for test in tests):
                return item
            for above in before(facts, child):
                leaves = isinstance(above, ast.If) and isinstance(above.body[-1], LEAVES) and not above.orelse
                if isinstance(above, ast.If) and leaves and self.asks(facts, above.test, perhaps):
                    return above
            if isinstance(item, FUNCTIONS):
                return None
            child = item
        return None

    def asks(self, facts: Facts, test: ast.expr, perhaps: bool = False) -> bool:
        """Whether a condition holds on some processes and not on others."""
        if isinstance(test, ast.BoolOp):
            return any(self.asks(facts, part, perhaps) for part in test.values)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.asks(facts, test.operand, perhaps)
        if perhaps and any(may_ask(facts, node) for node in ast.walk(test)):
            return True
        if Mark.RANK not in facts.value(test).ranks:
            return False
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
            return perhaps  # `writer is not None`, where one process has a writer
        return True


def of_program(facts: Facts) -> Guards:
    """The guards of the program of a file."""
    return facts.worked_out(Guards)


def conditions(facts: Facts, node: ast.AST) -> list[ast.expr]:
    """The conditions around a node in its function."""
    found = []
    child = node
    for item in ancestors(facts, node):
        if isinstance(item, FUNCTIONS):
            break
        if isinstance(item, (ast.If, ast.While, ast.IfExp)) and child is not item.test:
            found.append(item.test)
        child = item
    return found


def may_reach(facts: Facts, node: ast.AST, function: ast.AST, call: ast.Call) -> bool:
    """Whether a node may run for a call of its function: it is not for an argument that the call leaves out."""
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return True
    absent = left_out(function, call)
    child = node
    for item in ancestors(facts, node):
        if item is function:
            return True
        inside = isinstance(item, ast.If) and any(child is statement for statement in item.body)
        if inside and isinstance(item, ast.If) and asked_for(item.test) in absent:
            return False
        child = item
    return True


def left_out(function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call) -> frozenset[str]:
    """The parameters that are `None` in a call: it gives nothing for them, or that."""
    args = function.args
    names = [item.arg for item in (*args.posonlyargs, *args.args)]
    defaults = dict(zip(reversed(names), reversed(args.defaults)))
    defaults |= {item.arg: value for item, value in zip(args.kwonlyargs, args.kw_defaults) if value is not None}
    shift = 1 if names[:1] in (["self"], ["cls"]) else 0
    if any(isinstance(item, ast.Starred) for item in call.args) or any(item.arg is None for item in call.keywords):
        return frozenset()
    given = {**dict(zip(names[shift:], call.args)), **{str(item.arg): item.value for item in call.keywords}}
    return frozenset(name for name, value in {**defaults, **given}.items() if is_none(value))


def is_none(node: ast.AST) -> bool:
    """Whether an expression is `None` as it is written."""
    return isinstance(node, ast.Constant) and node.value is None


def asked_for(test: ast.expr) -> str:
    """The name that a condition asks for being there, `x` or `x is not None`; "" if it asks something else."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot) and is_none(test.comparators[0]):
        test = test.left
    return test.id if isinstance(test, ast.Name) else ""


def reached(program: list[Facts]) -> frozenset[ast.AST]:
    """The functions and classes that run in processes which the program starts itself, none if it starts none."""
    names = {item: file for file in program for item in file.nodes if isinstance(item, (*FUNCTIONS, ast.ClassDef))}
    todo = [node for file in program for call in calls(file, *PROCESSES) for node in named(file, call)]
    found: set[ast.AST] = set()
    while todo:
        node = todo.pop()
        if node in names and node not in found:
            found.add(node)
            todo += named(names[node], node)
    return frozenset(found)


def named(facts: Facts, node: ast.AST) -> Iterator[ast.AST]:
    """The functions and classes of the program that something in a node is."""
    for part in ast.walk(node):
        if isinstance(part, ast.expr):
            value = facts.value(part)
            yield from (ref.node for ref in value.defs)
            yield from value.classes


def may_ask(facts: Facts, node: ast.AST) -> bool:
    """Whether code that can't be looked into may ask for the number of the process: by what it is called."""
    return isinstance(node, ast.expr) and any(word in last_name(node).lower() for word in SAYS)
