"""What the analysis tells the rules: plain records over `ast` nodes, read-only."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from ..budget import UNLIMITED, Budget
from ..dataclass import dataclass, field
from .marks import Arrival, Bend, Count, Draw, Full, Gathered, Opened, Pad, Reduction, Size, Split
from .places import dotted, stands_in, statement_of
from .text import SourceText

if TYPE_CHECKING:
    from ..findings import Finding
    from .names import Names
    from .values import Value

T = TypeVar("T")


@dataclass(frozen=True)
class ModelFact:
    """A module whose parameters an optimizer owns.

    Attributes:
        creations: the calls that construct it.
        text: source text of the name it has where its optimizer is built (`model`, `self.net`).
    """

    creations: tuple[ast.Call, ...]
    text: str


@dataclass(frozen=True)
class OptimizerFact:
    """An optimizer construction.

    Attributes:
        call: the constructor call.
        statement: the statement that holds it.
        text: source text of its target (`optimizer`, `self.opt`), `None` where it has no name there.
        models: source texts, valid right after `statement`, of the models whose parameters it owns.
        qualified: dotted class name.
        in_place: it has no name, and `models` are valid where the call stands.
        late: it is built in a loop, after a model that it trains has run.
    """

    call: ast.Call
    statement: ast.stmt
    text: str | None
    models: tuple[str, ...]
    qualified: str
    in_place: bool = False
    late: bool = False


@dataclass(frozen=True)
class HandUpdate:
    """A statement that updates parameters from their gradients, without an optimizer.

    Attributes:
        statement: the statement.
        models: for each model that it trains, the statement that gives it its name and that name; one per branch.
    """

    statement: ast.stmt
    models: tuple[tuple[ast.stmt, str], ...]


@dataclass(frozen=True)
class SchedulerFact:
    """A learning-rate scheduler construction, and the `.step()` calls on it that run once per training step."""

    call: ast.Call
    text: str | None
    per_step: tuple[ast.Call, ...]


@dataclass(frozen=True)
class LoaderFact:
    """A DataLoader (or subclass) construction.

    Attributes:
        call: the constructor call.
        feeds_model: whether a batch of it reaches a prepared model.
        sharded: already inside `runtime.shard(…)`.
        apart: it gives each process batches of its own, in a script distributed by hand, or
        unclear: that can't be told.
    """

    call: ast.Call
    feeds_model: bool
    sharded: bool
    apart: bool = False
    unclear: bool = False


@dataclass(frozen=True)
class Forward:
    """A call that runs a prepared model (itself, or a method that runs it), outside model classes.

    Attributes:
        call: the call.
        model: source text of the model expression.
        method: name of a method other than `__call__`, else `None`.
        training: the result reaches a `backward`.
    """

    call: ast.Call
    model: str
    method: str | None
    training: bool


@dataclass(frozen=True)
class Step:
    """One training step: what belongs to a single iteration of the loop that trains.

    All calls are in source order. `loop` is the loop statement whose body is one iteration (of the caller if the
    step is a helper function; then `body` is the helper's body).
    """

    loop: ast.stmt | None
    body: list[ast.stmt]
    forwards: tuple[Forward, ...]
    losses: tuple[ast.expr, ...]
    backwards: tuple[ast.Call, ...]
    clips: tuple[ast.Call, ...]
    optimizer_steps: tuple[ast.Call, ...]
    zero_grads: tuple[ast.Call, ...]
    scheduler_steps: tuple[ast.Call, ...]
    bends: tuple[Bend, ...] = ()


@dataclass
class Facts:
    """Facts about one file of a program.

    Attributes:
        path: as given, for messages.
        source: decoded text.
        tree: its `ast`.
        nodes: all that is in it, as `ast.walk` gives it: rules ask for it again and again.
        parents: child node -> parent node.
        names: resolves names (`names.qualified(node) -> "torch.optim.Adam" | None`).
        value: abstract value of an expression, joined over all its evaluations (roles and batch type).
        calls: every call by qualified name.
        runtime_name: how the file names the runtime (`runtime`, an alias, or "runtime" to be imported).
        runtime_imported: whether the import is already there.
        together: calls of libraries that all processes must make, in scripts distributed by one.
        grads: `.grad` of parameters, read or set outside of the program's own optimizers.
        entry_statement: the first statement that matters when the program runs (seed, device, model, data): the init
            call goes right before it; `None` in a file that no run starts from.
        program: the facts of all files of the program, this one's among them, the script's first.
        shared: what rules have worked out for the whole program, by what makes it; one for all its files.
        is_training: whether the file trains a model at all (else it is left alone).
        budget: the time that all this may take.
    """

    path: str
    source: str
    tree: ast.Module
    nodes: list[ast.AST] = field(repr=False)
    parents: dict[ast.AST, ast.AST]
    names: Names
    value: Callable[[ast.expr], Value]
    calls: dict[str, list[ast.Call]]
    runtime_name: str = "runtime"
    runtime_imported: bool = False
    entry_statement: ast.stmt | None = None
    is_training: bool = False
    models: list[ModelFact] = field(default_factory=list)
    optimizers: list[OptimizerFact] = field(default_factory=list)
    updates: list[HandUpdate] = field(default_factory=list)
    schedulers: list[SchedulerFact] = field(default_factory=list)
    loaders: list[LoaderFact] = field(default_factory=list)
    forwards: list[Forward] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    reductions: list[Reduction] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)
    counts: list[Count] = field(default_factory=list)
    gathers: list[Gathered] = field(default_factory=list)
    draws: list[Draw] = field(default_factory=list)
    alike: list[ast.Call] = field(default_factory=list)
    splits: list[Split] = field(default_factory=list)
    fulls: list[Full] = field(default_factory=list)
    opened: list[Opened] = field(default_factory=list)
    pads: list[Pad] = field(default_factory=list)
    sizes: list[Size] = field(default_factory=list)
    grads: list[ast.Attribute] = field(default_factory=list)
    together: dict[ast.Call, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    budget: Budget = UNLIMITED
    program: list[Facts] = field(default_factory=list, repr=False)
    shared: dict[Callable[[Facts], Any], Any] = field(default_factory=dict, repr=False)
    _text: SourceText | None = None

    @cached_property
    def methods(self) -> dict[str, list[tuple[ast.Call, ast.Attribute]]]:
        """Calls `x.name(…)`, each with its callee, by that name."""
        found: dict[str, list[tuple[ast.Call, ast.Attribute]]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                found.setdefault(node.func.attr, []).append((node, node.func))
        return found

    @cached_property
    def assigned(self) -> dict[str, list[ast.expr]]:
        """What is assigned to names, and to attributes of names (`self.context`), anywhere in the file."""
        found: dict[str, list[ast.expr]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Assign):
                for name in map(dotted, node.targets):
                    if name is not None:
                        found.setdefault(name, []).append(node.value)
        return found

    @cached_property
    def packages(self) -> frozenset[str]:
        """Top-level packages that the file imports."""
        found: set[str] = set()
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                found.add(node.module.split(".")[0])
        return frozenset(found)

    def worked_out(self, make: Callable[[Facts], T]) -> T:
        """What is worked out once for the whole program, by the first of its files that asks."""
        if make not in self.shared:
            self.shared[make] = make(self)
        found: T = self.shared[make]
        return found

    def holds(self, node: ast.AST) -> bool:
        """Whether a node stands in this file."""
        return stands_in(self.parents, node, self.tree)

    def text(self, node: ast.AST) -> str:
        """Source text of a node."""
        if self._text is None:
            self._text = SourceText(self.source)
        return self._text.of(node)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that holds a node."""
        return statement_of(self.parents, node)

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of statements in which a statement stands."""
        parent = self.parents[statement]
        for _, value in ast.iter_fields(parent):
            if isinstance(value, list) and any(item is statement for item in value):
                return value
        raise LookupError("statement has no block")

    def enclosing(self, node: ast.AST, *kinds: type[ast.AST]) -> ast.AST | None:
        """The nearest ancestor of one of the given kinds, or `None`."""
        found = self.parents.get(node)
        while found is not None and not isinstance(found, kinds):
            found = self.parents.get(found)
        return found
