"""Which calls make up one training step, from where backward and the optimizer's step run."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ..trees import walk
from .made import Made
from .model import Forward, Step
from .places import FUNCTIONS

_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def position(node: ast.AST) -> tuple[int, int]:
    """Sort key: source order."""
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


class Region:
    """Where a node stands: its function and the loops around it there, innermost first."""

    def __init__(self, node: ast.AST, parents: dict[ast.AST, ast.AST]) -> None:
        self.loops: list[ast.AST] = []
        current = parents.get(node)
        while current is not None and not isinstance(current, FUNCTIONS):
            if isinstance(current, _LOOPS):
                self.loops.append(current)
            current = parents.get(current)
        self.function = current


def find_steps(made: Made, forwards: list[Forward], parents: dict[ast.AST, ast.AST], tree: ast.Module) -> list[Step]:
    """Group backwards, optimizer steps and what belongs to them by the iteration that holds them."""
    homes: dict[ast.AST, None] = {}
    inside = _inside(tree)
    for call in sorted((call for call in (*made.steps, *made.by_hand) if call in inside), key=position):
        home = _home(call, made, parents, tree)
        homes.setdefault(home, None)
    steps = [_step(home, made, forwards, parents) for home in homes]
    return [step for step in steps if step.backwards or step.optimizer_steps]


def _home(call: ast.AST, made: Made, parents: dict[ast.AST, ast.AST], tree: ast.Module) -> ast.AST:
    """The innermost loop around a step of an optimizer, or by hand, that also holds a backward, else the function."""
    region = Region(call, parents)
    for loop in region.loops:
        inside = _inside(loop)
        if any(backward in inside for backward in made.backwards):
            return loop
    if region.loops and not any(Region(b, parents).function is region.function for b in made.backwards):
        return region.loops[0]
    return region.function or tree


def _inside(node: ast.AST) -> set[ast.AST]:
    return set(walk(node))


def _step(home: ast.AST, made: Made, forwards: list[Forward], parents: dict[ast.AST, ast.AST]) -> Step:
    body = getattr(home, "body", [])
    inside = _inside(home)

    def held(calls: Iterable[ast.Call]) -> tuple[ast.Call, ...]:
        return tuple(sorted((c for c in calls if c in inside), key=position))

    backwards = held(made.backwards)
    return Step(
        loop=home if isinstance(home, _LOOPS) else None,
        body=body if isinstance(body, list) else [],
        forwards=tuple(f for f in forwards if f.call in inside),
        losses=tuple(loss_of(b) for b in backwards),
        backwards=backwards,
        clips=held(made.clips),
        optimizer_steps=held(made.steps),
        zero_grads=held(made.zero_grads),
        scheduler_steps=held(made.scheduler_steps),
    )


def loss_of(backward: ast.Call) -> ast.expr:
    """The expression that a backward call starts from."""
    function = backward.func
    if isinstance(function, ast.Attribute) and not (
        backward.args and function.attr == "backward" and _is_module(function)
    ):
        return function.value
    return backward.args[0]


def _is_module(function: ast.Attribute) -> bool:
    """`runtime.backward(loss)`, `torch.autograd.backward(loss)`: the loss is the argument."""
    base = function.value
    return isinstance(base, (ast.Name, ast.Attribute)) and ast.unparse(base) in (
        "runtime",
        "distify_runtime",
        "torch.autograd",
        "autograd",
    )
