"""Abstract interpretation: what a running function knows."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..dataclass import dataclass, field
from .joins import join
from .values import EMPTY, Value


@dataclass
class Frame:
    """One running function (or the module).

    Attributes:
        env: values of local names.
        node: the function, `None` for the module.
        outer: frame that the function was defined in.
        caller: frame that called it, and the call.
        forward: inside the forward of a prepared model.
        loops: running loop statements, callers' included, outermost first.
        alive: for each loop, the groups of sources whose batches one iteration holds.
        fetching: the loop (or comprehension) whose next element is being made.
        statement: the statement that runs.
        self_cell: the object whose method it is.
        free: the variables around it that are its own.
        swayed: what decides whether the running statement runs at all, in scripts distributed by hand (see `ranks`).
    """

    env: dict[str, Value]
    node: ast.AST | None = None
    outer: Frame | None = None
    caller: Frame | None = None
    call: ast.Call | None = None
    forward: bool = False
    loops: tuple[ast.AST, ...] = ()
    statement: ast.stmt | None = None
    self_cell: int | None = None
    free: tuple[tuple[str, Value], ...] = ()
    swayed: frozenset[object] = frozenset()
    returned: Value = EMPTY
    yielded: Value | None = None
    global_names: set[str] = field(default_factory=set)
    nonlocal_names: set[str] = field(default_factory=set)
    alive: dict[ast.AST | None, set[frozenset[ast.AST]]] = field(default_factory=dict)
    fetching: ast.AST | None = None

    @property
    def root(self) -> Frame:
        """The frame of the module that it belongs to."""
        frame = self
        while frame.outer is not None:
            frame = frame.outer
        return frame

    def chain(self) -> Iterator[Frame]:
        """The frame, the one that called it, and so on."""
        frame: Frame | None = self
        while frame is not None:
            yield frame
            frame = frame.caller

    @property
    def depth(self) -> int:
        """Length of the call chain."""
        return sum(1 for _ in self.chain()) - 1


def join_env(environments: list[dict[str, Value]]) -> dict[str, Value]:
    """Join environments; a name that one lacks keeps what the others say."""
    joined: dict[str, Value] = dict(environments[0])
    for environment in environments[1:]:
        for name, value in environment.items():
            joined[name] = join(joined[name], value) if name in joined else value
    return joined
