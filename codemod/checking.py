"""Plans for `distify check`: what a conversion would do to a plain program, and what is unsafe in one that runs on
several processes already. Of a converted one, all that another conversion would change is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from .budget import Budget
from .changes import span_of
from .checks import Kind
from .dataclass import replace
from .edits import AddImport, Edit
from .findings import Finding, finding
from .kinds import kind_of, may_be_distributed
from .options import Options
from .phrases import plural
from .plan import Plan, apply_to, given_up
from .program import Module, Program
from .rewrite import Result
from .selection import Selection
from .suppress import comments, filtered, ignored
from .suppressed import unused

if TYPE_CHECKING:
    from .facts.model import Facts

ASSUMED = ("DST108", "DST118", "DST121", "DST212")
"""Warnings of a conversion about what it assumed: whoever kept the conversion was told."""

NOT_CONVERTED, NEW = "DST952", "DST953"

UNSAFE: Mapping[str, str] = MappingProxyType(
    {
        "accumulate": NEW,
        "backward": "DST251",
        "batch": "DST154",
        "checkpoint": "DST751",
        "clip": "DST252",
        "count": "DST552",
        "decision": "DST652",
        "download": "DST131",
        "gathered": "DST552",
        "loader": "DST151",
        "output": "DST802",
        "prepare": "DST351",
        "random numbers": "DST154",
        "reduction": "DST552",
        "step": "DST252",
    }
)
"""What it means that an edit of a kind is still to be made in a converted program."""

SAID: Mapping[str, str] = MappingProxyType(
    {"checkpoint": "This saves or loads past the runtime: it is not done once, or not in the form that others load."}
)
"""What is said of an edit where the title of its code is about scripts distributed by hand."""

Selector = Callable[[str], Selection]


def check_plans(program: Program, options: Options, selected: Selector) -> list[tuple[Module, Plan]]:
    """What is to be said about the files of a program, and edits that mend it.

    Args:
        program: its files.
        options: of a conversion.
        selected: the codes that are wanted in a file.
    """
    return given_up(program, options, lambda budget: _plans(program, options, budget, selected))


def check_source(data: bytes, path: str, selection: Selection | None = None) -> Result:
    """Checks one file by itself, without the modules that it imports.

    Raises:
        SourceError: the bytes are no Python source.
        InternalError: a mistake of distify.
    """
    from .rewriter import Rewriter

    wanted = selection or Selection()
    rewriter = Rewriter(None, lambda program, options: check_plans(program, options, lambda _: wanted))
    rewriter.register(path, data)
    for script in rewriter.scripts():
        rewriter.plan(script, Options())
    result = rewriter.results()[0]
    return replace(result, findings=tuple(wanted.of(result.findings, path)))


def _plans(program: Program, options: Options, budget: Budget, selected: Selector) -> list[tuple[Module, Plan]]:
    from .facts import analyse_program

    program.by_hand = may_be_distributed(program)
    files = analyse_program(program, budget)
    kind = kind_of(files)
    modules = [module for module in program.modules if module.path]
    planned = []
    for module, facts in zip(modules, files):
        planned.append((module, _plan(module, facts, kind, options, selected(module.path))))
    return planned


def _plan(module: Module, facts: Facts, kind: Kind, options: Options, selection: Selection) -> Plan:
    from . import checks, rules

    found = checks.run(facts, kind)
    edits: list[Edit] = []
    refused: list[Finding] = []
    if kind is not Kind.BY_HAND:
        edits, refused = rules.run(facts, options)
    codes, wrong = ignored(module.source)
    left, shown = filtered(edits, refused, codes)
    if all(isinstance(edit, AddImport) for edit in left):
        left = []
    told = list(found)
    if kind is Kind.CONVERTED:
        told += of_edits(module.source, edits)
        shown = [replace(item, level="note") if item.code in ASSUMED else item for item in shown]
    elif kind is Kind.PLAIN and facts.is_training:
        told += summary(left, shown)
    if facts.is_training:
        wrong += unused(comments(module.source), [*told, *refused], edits, kind is not Kind.PLAIN)
    told = [item for item in told if item.code not in codes.get(item.span.line, ())]
    told = selection.of([*told, *wrong], module.path)
    if kind is Kind.CONVERTED:
        left = mending(left, told)
    return Plan(left, shown, facts.is_training, facts.entry_statement is not None, told, kept=kind is Kind.BY_HAND)


def summary(edits: list[Edit], refused: list[Finding]) -> list[Finding]:
    """What a conversion would do to a plain file, in one finding where its first edit is."""
    made = [edit for edit in edits if not isinstance(edit, AddImport)]
    if not made:
        return []
    kinds = ", ".join(f"{kind} {count}" for kind, count in Counter(edit.kind for edit in made).items())
    codes = sorted({edit.code for edit in made if edit.code})
    named = f"; see {', '.join(codes)}" if codes else ""
    places = [place for place in map(span_of, made) if place is not None]
    errors = sum(item.level == "error" for item in refused)
    but = f"; it refuses {plural(errors, 'more place')}, so it writes nothing" if errors else ""
    return [
        finding(NOT_CONVERTED, min(places), f"A rewrite would make {plural(len(made), 'edit')}: {kinds}{named}{but}.")
    ]


def of_edits(text: str, edits: list[Edit]) -> list[Finding]:
    """What it means that edits are still to be made in a converted file: one finding for a code and line."""
    found: dict[tuple[int, str], Finding] = {}
    for edit in effective(text, edits):
        place, code = span_of(edit), UNSAFE.get(edit.kind, NEW)
        if place is None:
            continue
        message = f"Something new here was not converted: {edit.kind}." if code == NEW else SAID.get(edit.kind, "")
        if place.end_line != place.line:
            place = replace(place, end_line=place.line, end_column=place.column + 1)
        found.setdefault((place.line, code), finding(code, place, message))
    return list(found.values())


def effective(text: str, edits: list[Edit]) -> list[Edit]:
    """The edits that change a text: some write what is there already."""
    from .apply import EditError, UnsafeSource

    try:
        if not edits or apply_to(text, edits) == text:
            return []
    except UnsafeSource:
        return edits
    found = []
    for edit in edits:
        try:
            changes = apply_to(text, [edit]) != text
        except EditError:
            changes = True
        if changes and not isinstance(edit, AddImport):
            found.append(edit)
    return found


def mending(edits: list[Edit], told: list[Finding]) -> list[Edit]:
    """The edits of a converted file that mend what was told, with the imports that they need."""
    wanted = {(item.span.line, item.code) for item in told}
    found = []
    for edit in edits:
        place = span_of(edit)
        if place is None or (place.line, UNSAFE.get(edit.kind, NEW)) in wanted:
            found.append(edit)
    return found
