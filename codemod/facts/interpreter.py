"""Abstract interpretation of a program: statements.

Functions of the program are interpreted at each call with the values they are called with (remembered by argument
values); loops until nothing changes; branches are joined. Nothing of the program is ever run.
"""

from __future__ import annotations

import ast
from typing import Any

from ..budget import UNLIMITED, Budget
from ..findings import Finding
from ..program import Module, Program
from . import ahead, attributes, calls, expressions, implied, modules, narrowing, owners, stores, unseen
from .frame import Frame, join_env
from .heap import Classes, Heap
from .made import Made
from .names import Names
from .sites import Sites
from .text import SourceText
from .values import EMPTY, HOST, FunctionRef, Role, Value, join

MAX_DEPTH = 24
LOOP_ROUNDS = 3
PADDING_LIBRARIES = ("transformers", "trl", "peft")

Loop = ast.For | ast.AsyncFor | ast.While


class Interpreter:
    """State of the interpretation of a program.

    Args:
        program: its files.
        parents: child node -> parent node, in all of them.
        names: resolver of their names.
        split_dim: dimension along which hand-made batches are taken to be split, `None` to leave them whole.
        budget: the time that it may take.
    """

    def __init__(
        self,
        program: Program,
        parents: dict[ast.AST, ast.AST],
        names: Names,
        split_dim: int | None = 0,
        budget: Budget = UNLIMITED,
    ) -> None:
        self.budget = budget
        self.split_dim = split_dim
        self.program = program
        self._texts = {module.tree: SourceText(module.source) for module in program.modules}
        self.parents = parents
        self.names = names
        self.heap = Heap()
        self.classes = Classes()
        self.sites = Sites()
        self.assume_feeds = True
        self.memo: dict[tuple[Any, ...], Value] = {}
        self.running: set[ast.AST] = set()
        self.called: set[ast.AST] = set()
        self.ran_forwards: set[ast.AST] = set()
        self.closures: dict[ast.AST, Frame] = {}
        self.wrapped: dict[ast.AST, frozenset[FunctionRef]] = {}
        self.frames: dict[Module, Frame] = {}
        self.imported: set[Module] = set()
        self.loop_sources: dict[ast.AST, set[ast.AST]] = {}
        self.batch_sizes: dict[ast.AST, str] = {}
        self.loads: dict[ast.expr, ast.expr] = {}
        self.current: dict[ast.AST, Value] = {}
        self.receivers: dict[ast.AST, Value] = {}
        self.uses_minus_100 = any(_is_minus_100(node) for module in program.modules for node in module.nodes)
        self.made = Made()
        self.owned_now: set[int] = set()
        self.ran_now: set[int] = set()
        self.whole: dict[ast.expr, None] = {}
        self.refutation: Finding | None = None  # why hand-made batches can't be split along their first dimension

    def text(self, node: ast.AST) -> str:
        """Source text of a node."""
        return self._texts[self.names.module(node).tree].of(node)

    def frame_of(self, node: ast.AST) -> Frame:
        """The module frame of the file that a node stands in."""
        return self.frames.setdefault(self.names.module(node), Frame(env={}))

    def allocate(
        self, node: ast.AST, frame: Frame, kind: str = "", *, cls: ast.ClassDef | None = None, ref: str | None = None
    ) -> int:
        """The heap cell of an object made here: one for each object whose method runs, and for each call of a maker."""
        maker = self.heap.maker(frame.self_cell, node, cls)
        return self.heap.allocate(node, kind, context=(maker, frame.call), cls=cls, ref=ref, loops=frame.loops)

    def note_way(self, frame: Frame, found: set[ast.AST]) -> None:
        """Add the functions that lead here to those of a kind."""
        for current in frame.chain():
            if current.node is not None and current.node not in found:
                found.add(current.node)
                self.sites.changed = True

    def run(self) -> None:
        """One pass over the program: the script with what it imports, then its functions that nothing called."""
        self.memo.clear()
        self.called.clear()
        self.ran_forwards.clear()
        self.owned_now.clear()
        self.ran_now.clear()
        self.imported.clear()
        entry = self.program.entry
        modules.load(self, entry)
        for node in entry.nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node not in self.called:
                self._run_uncalled(node)
        unseen.look(self)
        owners.name_optimizers(self)

    def _run_uncalled(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Interpret a function that no call reaches, its parameters unknown."""
        parent = self.parents.get(node)
        bound = None
        if isinstance(parent, ast.ClassDef) and node.args.args:
            bound = self.heap.allocate(parent, "unmade", cls=parent)
            if self.classes.is_module(parent):
                self.heap.mark(bound, Role.MODEL)
        calls.enter(self, FunctionRef(node, bound), {}, self.closure(node), None)

    def closure(self, node: ast.AST) -> Frame:
        """The frame that a function was defined in: its module's if that did not run."""
        return self.closures.get(node) or self.frame_of(node)

    # ---- statements -------------------------------------------------------------------------------------------------

    def block(self, statements: list[ast.stmt], frame: Frame) -> bool:
        """Interpret statements in order; return whether control surely leaves the block."""
        for statement in statements:
            frame.statement = statement
            if self.statement(statement, frame):
                return True
        return False

    def statement(self, node: ast.stmt, frame: Frame) -> bool:
        """Interpret one statement; return whether control surely leaves the block."""
        self.budget.check()
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        if handler is not None:
            return bool(handler(node, frame))
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                expressions.evaluate(self, child, frame)
        return isinstance(node, (ast.Raise, ast.Break, ast.Continue))

    def _import(self, node: ast.Import, frame: Frame) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.split(".")[0]
            self.bind(name, modules.imported(self, node, alias.name, bool(alias.asname)), frame)

    def _importfrom(self, node: ast.ImportFrom, frame: Frame) -> None:
        for alias in node.names:
            if alias.name == "*":
                for name, value in modules.starred(self, node).items():
                    self.bind(name, value, frame)
            else:
                self.bind(alias.asname or alias.name, modules.member(self, node, alias.name), frame)

    def _assert(self, node: ast.Assert, frame: Frame) -> None:
        expressions.decide(self, node.test, frame)
        if node.msg is not None:
            expressions.evaluate(self, node.msg, frame)

    def _defaults(self, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> None:
        for default in [*node.args.defaults, *[d for d in node.args.kw_defaults if d is not None]]:
            expressions.evaluate(self, default, frame)

    def _functiondef(self, node: ast.FunctionDef, frame: Frame) -> None:
        self._defaults(node, frame)
        self.closures[node] = frame
        self.bind(node.name, self._decorated(node, Value(defs=frozenset({FunctionRef(node)})), frame), frame)

    _asyncfunctiondef = _functiondef

    def _decorated(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, made: Value, frame: Frame
    ) -> Value:
        """What the decorators of a function or class make of it, the innermost first."""
        found = [expressions.evaluate(self, decorator, frame) for decorator in node.decorator_list]
        for decorator in reversed(found):
            made = implied.decorate(self, decorator, made, frame)
        return made

    def _classdef(self, node: ast.ClassDef, frame: Frame) -> None:
        bases: list[ast.ClassDef | str] = []
        for base in node.bases:
            value = expressions.evaluate(self, base, frame)
            bases.extend(value.classes)
            if value.ref:
                bases.extend(value.ref.split("|"))
        self.classes.define(node, bases)
        self.bind(node.name, Value(classes=frozenset({node})), frame)
        inner = Frame(env={}, node=node, outer=frame, caller=frame.caller, loops=frame.loops)
        for statement in node.body:
            inner.statement = statement
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.closures[statement] = frame
                self._defaults(statement, inner)
                itself = Value(defs=frozenset({FunctionRef(statement)}))
                made = self._decorated(statement, itself, inner)
                if made is not itself:
                    self.wrapped[statement] = made.defs
            else:
                self.statement(statement, inner)
        cell = self.heap.allocate(node, attributes.CLASS, cls=node)
        for name, value in inner.env.items():
            self.heap.store(cell, name, value)
        self._decorated(node, Value(classes=frozenset({node})), frame)  # one may put the class into a registry

    def _assign(self, node: ast.Assign, frame: Frame) -> None:
        value = expressions.evaluate(self, node.value, frame)
        for target in node.targets:
            stores.store(self, target, value, node, frame)

    def _annassign(self, node: ast.AnnAssign, frame: Frame) -> None:
        if node.value is not None:
            value = expressions.evaluate(self, node.value, frame)
            stores.store(self, node.target, value, node, frame)

    def _augassign(self, node: ast.AugAssign, frame: Frame) -> None:
        stores.augment(self, node, frame)

    def _return(self, node: ast.Return, frame: Frame) -> bool:
        if node.value is not None:
            frame.returned = join(frame.returned, expressions.evaluate(self, node.value, frame))
        return True

    def _global(self, node: ast.Global, frame: Frame) -> None:
        frame.global_names.update(node.names)

    def _nonlocal(self, node: ast.Nonlocal, frame: Frame) -> None:
        frame.nonlocal_names.update(node.names)

    def _if(self, node: ast.If, frame: Frame) -> bool:
        expressions.decide(self, node.test, frame)
        return self._branches([node.body, node.orelse], frame, narrowing.tested(self, node.test))

    def _branches(self, bodies: list[list[ast.stmt]], frame: Frame, tested: narrowing.Tested | None = None) -> bool:
        """Interpret alternatives from the same environment and join those that go on.

        `tested` says what a name is in the first alternative and in the second.
        """
        start, going = frame.env, []
        for index, body in enumerate(bodies):
            frame.env = dict(start)
            held = frame.env.get(tested.name) if tested is not None else None
            if held is not None and tested is not None:
                narrowed = tested.narrow(held, index == 0)
                if narrowed is None:
                    continue
                frame.env[tested.name] = narrowed
            if not self.block(body, frame):
                going.append(frame.env)
        frame.env = join_env(going) if going else start
        return not going

    def _match(self, node: ast.Match, frame: Frame) -> None:
        subject = expressions.evaluate(self, node.subject, frame)
        for case in node.cases:
            for part in ast.walk(case.pattern):
                name = getattr(part, "name", None)
                if isinstance(name, str):
                    self.bind(name, subject, frame)
        self._branches([case.body for case in node.cases] + [[]], frame)

    def _for(self, node: ast.For, frame: Frame) -> None:
        frame.fetching = node
        element = expressions.iterate(self, node.iter, frame)
        frame.fetching = None
        self._loop(node, frame, element)

    _asyncfor = _for

    def _while(self, node: ast.While, frame: Frame) -> None:
        expressions.decide(self, node.test, frame)
        self._loop(node, frame, None)

    def _loop(self, node: Loop, frame: Frame, element: Value | None) -> None:
        """Interpret a loop body until its environment is stable."""
        outer_loops = frame.loops
        frame.loops = (*outer_loops, node)
        for _ in range(LOOP_ROUNDS):
            before = dict(frame.env)
            if element is not None and not isinstance(node, ast.While):
                stores.store(self, node.target, element, node, frame)
            self.block(node.body, frame)
            if isinstance(node, ast.While):
                frame.statement = node
                expressions.decide(self, node.test, frame)
            frame.env = join_env([before, frame.env])
            if frame.env == before:
                break
        ahead.carried(self, node)
        frame.loops = outer_loops
        self.block(node.orelse, frame)

    def _with(self, node: ast.With, frame: Frame) -> bool:
        for item in node.items:
            value = expressions.evaluate(self, item.context_expr, frame)
            if item.optional_vars is not None:
                stores.store(self, item.optional_vars, implied.entered(self, value, frame), node, frame)
        return self.block(node.body, frame)

    _asyncwith = _with

    def _try(self, node: ast.Try, frame: Frame) -> bool:
        start = dict(frame.env)
        left = self.block(node.body, frame)
        if not left:
            left = self.block(node.orelse, frame)
        ends = [] if left else [frame.env]
        for handler in node.handlers:
            frame.env = join_env([start, frame.env])
            if handler.name:
                self.bind(handler.name, HOST, frame)
            if not self.block(handler.body, frame):
                ends.append(frame.env)
        frame.env = join_env(ends) if ends else start
        return self.block(node.finalbody, frame) or not ends

    _trystar = _try

    # ---- names ------------------------------------------------------------------------------------------------------

    def bind(self, name: str, value: Value, frame: Frame) -> None:
        """Assign a name where the function says it lives."""
        if name in frame.global_names:
            home = frame.root.env
            home[name] = join(home.get(name, EMPTY), value)
            return
        if name in frame.nonlocal_names:
            outer = frame.outer
            while outer is not None and name not in outer.env:
                outer = outer.outer
            (outer or frame.root).env[name] = value
            return
        frame.env[name] = value

    def lookup(self, name: str, frame: Frame) -> Value | None:
        """Value of a name in the scopes around a frame, `None` if nothing binds it."""
        current: Frame | None = frame
        while current is not None:
            if name in current.env and (current is frame or not isinstance(current.node, ast.ClassDef)):
                return current.env[name]
            current = current.outer
        return None


def _is_minus_100(node: ast.AST) -> bool:
    """What tells of targets of -100, which losses ignore unless told otherwise: the number, also in a text or under its
    name in a loss, and libraries whose collate functions pad labels with it."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            names = [] if node.level else [node.module or ""]
        return any(name.split(".")[0] in PADDING_LIBRARIES for name in names)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and "-100" in node.value
    if isinstance(node, ast.Attribute):
        return node.attr == "ignore_index"
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    return negative and isinstance(node.operand, ast.Constant) and node.operand.value == 100  # type: ignore[attr-defined]


__all__ = ["Frame", "Interpreter", "Loop"]
