"""Which nodes of the new tree each edit made, so that its lines in the written text can be told."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import libcst as cst

from ..edits import Edit
from .locate import MARKED, Writing, line_starts

SHOWN = (cst.BaseExpression, cst.BaseSmallStatement, cst.BaseCompoundStatement, cst.IndentedBlock)
"""What counts as made: whitespace and commas are no reason to name a line."""


class Traces:
    """The nodes that edits made. Nodes are told apart by identity, so copies must be told: `copied`."""

    def __init__(self) -> None:
        self._made: dict[cst.CSTNode, list[Edit]] = {}
        self._running: list[Edit] = []

    @contextmanager
    def of(self, edit: Edit) -> Iterator[None]:
        """Nodes noted in here are made by an edit; the innermost one counts."""
        self._running.append(edit)
        try:
            yield
        finally:
            self._running.pop()

    def note(self, node: cst.CSTNode) -> None:
        """A node is made by the edit that runs."""
        if self._running and isinstance(node, SHOWN):
            self._made[node] = [self._running[-1]]

    def note_all(self, node: cst.CSTNode) -> None:
        """A node and all below it are made by the edit that runs."""
        self.note(node)
        for child in node.children:
            self.note_all(child)

    def copied(self, old: cst.CSTNode, new: cst.CSTNode) -> None:
        """A tree of the same shape takes the place of another one."""
        if old is new:
            return
        if old in self._made:
            self._made[new] = self._made[old]
        for one, other in zip(old.children, new.children):
            self.copied(one, other)

    def lines(self, module: cst.Module, edits: Sequence[Edit]) -> list[frozenset[int]]:
        """The lines, from 1, on which the nodes made by each edit begin or end in the finished text of a module.

        Args:
            module: as it is written, form feeds still being comments (`Guard`).
            edits: whose lines are wanted.
        """
        found: dict[int, set[int]] = {id(edit): set() for edit in edits}
        written = Writing(module)
        starts = line_starts(written.code)
        marks = _marked_lines(written.code, starts) if MARKED.search(written.code) else []
        for node, makers in self._made.items():
            place = written.places.get(id(node))
            if place is None:
                continue  # it didn't stay in the tree
            ends = (bisect_right(starts, place[0]), bisect_right(starts, place[1]))
            lines = range(ends[0], ends[1] + 1) if isinstance(node, cst.IndentedBlock) else ends
            for edit in makers:
                found[id(edit)].update(line - sum(mark < line for mark in marks) for line in lines)
        return [frozenset(found[id(edit)]) for edit in edits]


def _marked_lines(code: str, starts: Sequence[int]) -> list[int]:
    """The lines that stand for form feeds, which are gone in the finished text."""
    numbers = {start: number for number, start in enumerate(starts, 1)}
    return [numbers[match.start()] for match in MARKED.finditer(code) if match.start() in numbers]
