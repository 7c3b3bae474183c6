"""What a program makes and does, by call: models, optimizers, schedulers, loaders, forwards, backwards, steps."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..dataclass import dataclass, field

if TYPE_CHECKING:
    from .arguments import Arguments


@dataclass(frozen=True)
class InPlace:
    """What an optimizer trains, as the call that builds it can name it."""

    statement: ast.stmt
    models: tuple[str, ...]
    cells: frozenset[int]


@dataclass(frozen=True)
class MadeOptimizer:
    """Where an optimizer is built, seen from the function that names it; and, in case none does, from the call."""

    call: ast.Call
    statement: ast.stmt
    text: str | None
    names: frozenset[tuple[int, str]]
    cells: frozenset[int]
    qualified: str
    made: frozenset[int]
    loose: frozenset[str] = frozenset()
    in_place: InPlace | None = None
    late: bool = False

    @property
    def models(self) -> tuple[str, ...]:
        """Source texts of the models, and of parameters of no model, that it owns."""
        return tuple(sorted({text for _, text in self.names} | self.loose))


@dataclass
class Made:
    """Calls by what they do.

    Attributes:
        optimizers: constructor call -> facts about it.
        schedulers: constructor calls.
        loaders: constructor calls.
        forwards: call of a prepared model outside a forward -> (source text of the model, method or `None`).
        backwards, steps, zero_grads, scheduler_steps, clips: calls (`runtime.*` forms included).
        gradients: calls of `grad` with respect to parameters of a model.
        grads: `.grad` of a parameter, read or set outside of optimizers.
        by_hand: statement that updates parameters from their gradients -> their models.
        saved: call that saves something -> the heap cells that it is, if that is a whole model.
        training_defs: functions in which a backward runs or a loader is iterated.
        running_defs: functions in which a module runs.
        making_defs: functions in which a module, an optimizer or a loader is built.
        step_defs: methods of modules that compute a loss, and
        inner_defs: those that a forward calls.
        training_loops: loops in which a backward runs.
        buffers: heap cells of modules with the names of their buffers.
        foreign_models: calls of code outside the program whose result has parameters.
        over_parameters: calls of code outside the program that are given parameters or a model, and
        stepped: of these, with each method, `step` or `zero_grad`, of what they made that runs.
        averages: heap cells of averaged models.
        hooked: heap cells of modules with hooks that are called themselves.
        partials: heap cell of a `functools.partial` -> the arguments that it keeps.
        written: call of such an object -> the same call with all arguments, `None` if they have no names there.
        batch_functions: functions whose result was split in a training loop.
        apart: loaders that give each process batches of its own, in scripts distributed by hand, and
        unclear: those of which that isn't known.
        together: calls of libraries that all processes must make, by what they do.
        agreed: functions with the parameters that they give to a collective.
        numbered: expressions of forwards that number the rows of a slice.
        filled: hand-made batches into which rows are written after they were made.
    """

    optimizers: dict[ast.Call, MadeOptimizer] = field(default_factory=dict)
    schedulers: dict[ast.Call, None] = field(default_factory=dict)
    loaders: dict[ast.Call, None] = field(default_factory=dict)
    forwards: dict[ast.Call, tuple[str, str | None]] = field(default_factory=dict)
    backwards: dict[ast.Call, None] = field(default_factory=dict)
    steps: dict[ast.Call, None] = field(default_factory=dict)
    zero_grads: dict[ast.Call, None] = field(default_factory=dict)
    scheduler_steps: dict[ast.Call, None] = field(default_factory=dict)
    clips: dict[ast.Call, None] = field(default_factory=dict)
    gradients: dict[ast.Call, None] = field(default_factory=dict)
    grads: set[ast.Attribute] = field(default_factory=set)
    by_hand: dict[ast.stmt, frozenset[int]] = field(default_factory=dict)
    saved: dict[ast.Call, frozenset[int]] = field(default_factory=dict)
    training_defs: set[ast.AST] = field(default_factory=set)
    running_defs: set[ast.AST] = field(default_factory=set)
    making_defs: set[ast.AST] = field(default_factory=set)
    step_defs: set[ast.AST] = field(default_factory=set)
    inner_defs: set[ast.AST] = field(default_factory=set)
    training_loops: set[ast.AST] = field(default_factory=set)
    buffers: set[tuple[int, str]] = field(default_factory=set)
    foreign_models: set[ast.Call] = field(default_factory=set)
    over_parameters: set[ast.AST | None] = field(default_factory=set)
    stepped: set[tuple[ast.AST | None, str]] = field(default_factory=set)
    averages: set[int] = field(default_factory=set)
    hooked: set[int] = field(default_factory=set)
    partials: dict[int, Arguments] = field(default_factory=dict)
    written: dict[ast.Call, ast.Call | None] = field(default_factory=dict)
    batch_functions: set[ast.AST] = field(default_factory=set)
    numbered: set[ast.AST] = field(default_factory=set)
    filled: set[ast.AST] = field(default_factory=set)
    apart: set[ast.AST] = field(default_factory=set)
    unclear: set[ast.AST] = field(default_factory=set)
    together: dict[ast.Call, str] = field(default_factory=dict)
    agreed: dict[ast.AST, set[str]] = field(default_factory=dict)
