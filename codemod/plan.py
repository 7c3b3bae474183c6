"""What is to be done in the files of a program, and one file on its way through that."""

from __future__ import annotations

import ast
import os
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from .budget import Budget, Exceeded
from .changes import Change, changes
from .codes import LEVELS
from .dataclass import dataclass, field
from .edits import AddImport, Edit
from .findings import Finding, finding
from .options import Options
from .program import Module, Program
from .rewrite import InternalError, Result
from .source import Source, decode
from .suppress import filtered, ignored

if TYPE_CHECKING:
    from .facts.model import Facts

TOO_LONG = "DST905"


@dataclass(frozen=True)
class Plan:
    """What the rules ask for in one file; `told` are findings that keep nothing from being edited.

    `kept` says that the file must stay as it is, whatever other scripts ask for.
    """

    edits: list[Edit]
    findings: list[Finding]
    training: bool
    entry: bool
    told: list[Finding] = field(default_factory=list)
    kept: bool = False


def make_plans(program: Program, options: Options) -> list[tuple[Module, Plan]]:
    """What is to be done in the files of a program; a program whose analysis takes too long is refused."""
    return given_up(program, options, lambda budget: _plans(program, options, budget))


def given_up(
    program: Program, options: Options, work: Callable[[Budget], list[tuple[Module, Plan]]]
) -> list[tuple[Module, Plan]]:
    """The plans that some work makes; of a program that takes too long, a refusal."""
    budget = Budget(int(options.effective("budget")))
    try:
        return work(budget)
    except Exceeded:
        modules = [module for module in program.modules if module.path]
        others = f" and of the {len(modules) - 1} files that it imports" if len(modules) > 1 else ""
        message = f"The analysis of this script{others} was given up after {budget.seconds} seconds."
        refusal = Plan([], [finding(TOO_LONG, None, message)], False, False)
        return [(module, refusal if index == 0 else Plan([], [], False, False)) for index, module in enumerate(modules)]


def _plans(program: Program, options: Options, budget: Budget) -> list[tuple[Module, Plan]]:
    from .facts import analyse_program

    return planned(program, analyse_program(program, budget), options)


def planned(program: Program, found: list[Facts], options: Options) -> list[tuple[Module, Plan]]:
    """What the rules make of the facts about a program, less what comments in its files suppress.

    Facts are the same under all options.
    """
    from . import rules

    plans = []
    modules = [module for module in program.modules if module.path]
    for module, facts in zip(modules, found):
        edits, findings = rules.run(facts, options)
        codes, wrong = ignored(module.source)
        edits, findings = filtered(edits, [*findings, *(wrong if facts.is_training else [])], codes)
        if all(isinstance(edit, AddImport) for edit in edits):
            edits = []  # nothing in this file of the program needs the runtime
        plans.append((module, Plan(edits, findings, facts.is_training, facts.entry_statement is not None)))
    return plans


@dataclass
class File:
    """One file on its way.

    Attributes:
        path: for messages.
        data: its bytes.
        plans: what is planned in it, by the script that it is a part of.
        text: its converted text, `None` while nothing changed.
        unsafe: a finding that keeps it from being edited.
        changes: what each edit changed in it.
    """

    path: str
    data: bytes
    plans: dict[str, Plan] = field(default_factory=dict)
    text: str | None = None
    unsafe: Finding | None = None
    changes: tuple[Change, ...] = ()
    _source: Source | None = None

    def decoded(self) -> Source:
        """Its text, with what is needed to write it back.

        Raises:
            SourceError: the bytes are no text.
        """
        if self._source is None:
            self._source = decode(self.data, self.path)
        return self._source

    def add(self, script: str, plan: Plan) -> None:
        """Plan what one of its scripts needs."""
        self.plans[script] = plan

    def refused(self, script: str) -> bool:
        """Whether something can't be converted for a script, or must not be."""
        return self.plans[script].kept or any(item.level == "error" for item in self.plans[script].findings)

    def gave_up(self, script: str) -> bool:
        """Whether the analysis of a script that this is a part of took too long."""
        return any(item.code == TOO_LONG for item in self.plans[script].findings)

    def edits(self) -> list[Edit]:
        """What all of its scripts ask for, each change once."""
        first, *others = self.plans.values()
        found = list(first.edits)
        for plan in others:
            found += [edit for edit in plan.edits if edit not in found]
        return found

    def edit(self, explained: bool = True) -> None:
        """Make the changes, checked: the result parses and can be encoded.

        Args:
            explained: what each edit changed is found out too.
        """
        source, edits = self.decoded(), self.edits()
        if not edits:
            return
        from .apply import traced
        from .editing.errors import UnsafeSource

        try:
            text, made = traced(source.text, edits)
        except UnsafeSource as error:
            self.unsafe = finding("DST902", None, f"this source can't be edited safely: {error}")
            return
        source.encode(text)
        try:
            ast.parse(text)
        except SyntaxError as error:
            where = (error.text or "").strip()
            raise InternalError(f"{self.path}: the conversion doesn't parse: {error.msg} in {where!r}") from None
        if text != source.text:
            self.text = text
            self.changes = changes(source.text, text, edits, made()) if explained else ()

    def result(self) -> Result:
        """What came out."""
        if not self.plans:
            return Result(self.path, self.data, self.data)
        findings = [item for plan in self.plans.values() for item in (*plan.findings, *plan.told)]
        findings += [self.unsafe] if self.unsafe is not None else []
        counts = Counter(edit.kind for edit in self.edits() if not isinstance(edit, AddImport)) if self.text else {}
        source = self.decoded()
        return Result(
            self.path,
            self.data,
            self.data if self.text is None else source.encode(self.text),
            source.text,
            tuple(sorted(dict.fromkeys(findings), key=lambda item: (item.span, LEVELS.index(item.level), item.code))),
            dict(counts),
            any(plan.training for plan in self.plans.values()),
            any(plan.entry for plan in self.plans.values()),
            rest=self.unsafe is None and not all(isinstance(edit, AddImport) for edit in self.edits()),
            changes=self.changes,
        )


def apply_to(text: str, edits: list[Edit]) -> str:
    """A text with edits made."""
    from .apply import apply

    return apply(text, edits)


def real(path: str) -> str:
    """What identifies a file."""
    return os.path.realpath(path)
