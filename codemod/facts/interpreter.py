"""Abstract interpretation of a program: its state, and passes over it.

Functions of the program are interpreted at each call with the values they are called with (remembered by argument
values); loops until nothing changes; branches are joined. Nothing of the program is ever run.
"""

from __future__ import annotations

import ast
from functools import cached_property
from typing import Any

from ..budget import UNLIMITED, Budget
from ..findings import Finding
from ..program import Module, Program
from . import calls, ignored, modules, owners, unseen
from .frame import Frame
from .heap import Classes, Heap
from .joins import join
from .made import Made
from .names import Names
from .sites import Sites
from .text import SourceText
from .values import EMPTY, FunctionRef, Role, Value


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
        self.filling: set[int] = set()  # dicts that are becoming batches
        self.called: set[ast.AST] = set()
        self.ran_forwards: set[ast.AST] = set()
        self.closures: dict[ast.AST, Frame] = {}
        self.wrapped: dict[ast.AST, frozenset[FunctionRef]] = {}
        self.frames: dict[Module, Frame] = {}
        self.imported: set[Module] = set()
        self.loop_sources: dict[ast.AST, set[ast.AST]] = {}
        self.batch_sizes: dict[ast.AST, str] = {}
        self.loads: dict[ast.expr, ast.expr] = {}
        self.stores: dict[ast.AST, list[tuple[ast.expr, str]]] = {}  # what the body of a loop assigns to
        self.current: dict[ast.AST, Value] = {}
        self.receivers: dict[ast.AST, Value] = {}
        self.bindings: dict[ast.AST, list[tuple[ast.Name, ast.For | None]]] = {}  # of a scope, in source order
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

    @cached_property
    def uses_minus_100(self) -> bool:
        """Whether something tells of targets that losses leave out unless told otherwise."""
        return any(ignored.tells(node) for module in self.program.modules for node in module.nodes)

    @cached_property
    def options(self) -> frozenset[str]:
        """The options of the command line that the program names, in scripts distributed by hand."""
        nodes = (node for module in self.program.modules for node in module.nodes)
        texts = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
        return frozenset(text for text in texts if text.startswith("--"))

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


__all__ = ["Frame", "Interpreter"]
