"""What the interpretation writes down: values of expressions, and the places that need an edit.

Places found in one pass change how the next pass evaluates them (a counted integer is global from then on), so the
passes converge on a program in which everything that leaves an iteration is global.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ..dataclass import dataclass, field
from ..findings import Finding, Level, finding
from .joins import join
from .marks import Arrival, Count, Draw, Full, Gathered, Opened, Pad, Reduction, Size, Split
from .replacing import replace
from .values import EMPTY, Value

OTHERS = (
    "One call of this function gives it slices of a batch, another one whole data, and the same line can't do both."
)
OTHERS_HINT = "cut what is whole where it is made: batch = runtime.split(batch); or write two functions"


@dataclass
class Sites:
    """All recorded places.

    Attributes:
        values: joined value of every evaluated expression.
        splits: expressions whose hand-made batch is to be split (kept from pass to pass).
        feeds: loader calls and batches that reach a prepared model.
        computed: names, by function, that at one call hold what was computed from a batch, not its tensors themselves.
        owned: heap cells of models whose parameters an optimizer owns.
        repads: calls that pad packed sequences which are the same on every rank, and have no batch to ask about.
        quiet: a collate function is interpreted.
        ratios: where sums over the batch stop being linear: the divisors of quotients, else `None`.
        asked: loaders whose batches are asked for by `next`.
        ahead: loaders whose batches are kept while the next one is fetched.
        looped: loop -> call of its function -> loaders that it goes over.
        used: keys of the places that the running pass met or made use of.
        met: sources whose rows met in one expression, so that they are the same batch.
        others: place that is reduced or split, and call of its function -> whether there is nothing to do in that call.
    """

    values: dict[ast.AST, Value] = field(default_factory=dict)
    reductions: dict[ast.AST, Reduction] = field(default_factory=dict)
    arrivals: dict[tuple[ast.AST, str], Arrival] = field(default_factory=dict)
    counts: dict[ast.AST, Count] = field(default_factory=dict)
    gathers: dict[ast.AST, Gathered] = field(default_factory=dict)
    draws: dict[ast.AST, Draw] = field(default_factory=dict)
    splits: dict[ast.AST, Split] = field(default_factory=dict)
    fulls: dict[ast.AST, Full] = field(default_factory=dict)
    opened: dict[ast.AST, Opened] = field(default_factory=dict)
    pads: dict[ast.AST, Pad] = field(default_factory=dict)
    sizes: dict[ast.AST, Size] = field(default_factory=dict)
    alike: dict[ast.AST, ast.Call] = field(default_factory=dict)
    apart: set[ast.AST] = field(default_factory=set)
    repads: set[ast.AST] = field(default_factory=set)
    ratios: dict[ast.AST, ast.expr | None] = field(default_factory=dict)
    findings: dict[tuple[str, ast.AST], Finding] = field(default_factory=dict)
    feeds: set[ast.AST] = field(default_factory=set)
    sharded: set[ast.AST] = field(default_factory=set)
    owned: set[int] = field(default_factory=set)
    computed: set[tuple[ast.AST | None, str]] = field(default_factory=set)
    asked: set[ast.AST] = field(default_factory=set)
    ahead: set[ast.AST] = field(default_factory=set)
    looped: dict[ast.AST, dict[ast.Call | None, set[ast.AST]]] = field(default_factory=dict)
    used: set[object] = field(default_factory=set)
    met: set[frozenset[ast.AST]] = field(default_factory=set)
    others: dict[tuple[ast.AST, ast.Call | None], bool] = field(default_factory=dict)
    changed: bool = False
    quiet: bool = False

    @contextmanager
    def hushed(self) -> Iterator[None]:
        """Interpret without writing down places and findings."""
        quiet, self.quiet = self.quiet, True
        try:
            yield
        finally:
            self.quiet = quiet

    def start(self) -> None:
        """A new pass: values and findings are those of the last one only."""
        self.changed = False
        self.values.clear()
        self.findings.clear()
        self.ratios.clear()
        self.apart.clear()
        self.used.clear()
        self.others.clear()

    def prune(self) -> None:
        """Drop places that earlier passes found and the last one had no use for."""
        tables: list[dict[Any, Any]] = [self.reductions, self.arrivals, self.counts, self.gathers]
        for table in [*tables, self.draws, self.splits, self.fulls, self.opened, self.pads, self.sizes, self.alike]:
            for key in [key for key in table if key not in self.used]:
                del table[key]
        for (node, _), differs in self.others.items():
            if differs and (node in self.reductions or node in self.splits):
                self.report("DST102", node, OTHERS, OTHERS_HINT)

    def record(self, node: ast.AST, value: Value) -> None:
        """Join a value into what is known of an expression."""
        old = self.values.get(node, EMPTY)
        if old is not value:
            self.values[node] = join(old, value)

    def keep(self, table: dict[Any, Any], key: object, item: Any) -> None:
        """Write a place down; in this pass it counts. In a function called for several batches, a named one stays.

        A collate function has the whole batch: nothing in it is one.
        """
        if self.quiet:
            return
        self.used.add(key)
        known = table.get(key)
        if known is not None and getattr(known, "of", None) and not item.of and replace(item, of=known.of) == known:
            return
        if known != item:
            table[key] = item
            self.changed = True

    def meet(self, sources: frozenset[ast.AST]) -> None:
        """Rows of these sources meet each other."""
        if len(sources) > 1:
            self.met.add(sources)

    def one_batch(self, sources: frozenset[ast.AST]) -> frozenset[ast.AST]:
        """These sources and all that give the same batch, as far as their rows met."""
        found, before = sources, None
        while found != before:
            before, found = found, found.union(*(group for group in self.met if group & found))
        return found

    def feed(self, sources: Iterable[ast.AST]) -> None:
        """These loaders or batches reach a prepared model."""
        for source in sources:
            if source not in self.feeds:
                self.feeds.add(source)
                self.changed = True

    def own(self, cells: Iterable[int]) -> None:
        """These models' parameters are in an optimizer."""
        for cell in cells:
            if cell not in self.owned:
                self.owned.add(cell)
                self.changed = True

    def report(self, code: str, node: ast.AST, message: str = "", hint: str = "", level: Level | None = None) -> None:
        """Report a finding about a node once; nothing about a collate function, which has the whole batch."""
        if self.quiet:
            return
        self.findings.setdefault((code, node), finding(code, node, message, hint, level))
