"""Conversions for tests that convert a script more than once: facts are the same under all options, so that each text is
analysed once and kept. What a conversion made is analysed once for all texts that differ in the arguments of `init` alone.
"""

from __future__ import annotations

import re
from functools import lru_cache

from distify.codemod.edits import Argument
from distify.codemod.facts import analyse_program
from distify.codemod.facts.model import Facts
from distify.codemod.options import Options
from distify.codemod.plan import Plan, planned
from distify.codemod.program import Module, Program
from distify.codemod.rewrite import Result
from distify.codemod.rewriter import Rewriter

ANALYSED: dict[tuple[str, str], str] = {}  # by path, and text without the arguments of `init`


def rewrite(data: bytes, path: str, options: Options, again: bool = True) -> Result:
    """What `rewrite_source` gives.

    Args:
        data, path, options: as there.
        again: whether a second conversion is tried, which must change nothing, and what each edit changed is found out;
            a test that only runs what came out leaves that to those of the text.
    """
    planning = [path]

    def planner(program: Program, options: Options) -> list[tuple[Module, Plan]]:
        path, text = program.entry.path, program.entry.source
        if not planning and (not again or left_alone(path, text, options)):
            return []
        planning.clear()
        return planned(*analysed(path, text), options)

    rewriter = Rewriter(None, planner, explained=again)
    rewriter.register(path, data)
    for script in rewriter.scripts():
        rewriter.plan(script, options)
    return rewriter.results()[0]


def left_alone(path: str, text: str, options: Options) -> bool:
    """Whether a second conversion is known to change nothing, by what it does to a text that was analysed before."""
    known = ANALYSED.setdefault((path, bare(text)), text)
    if known == text:
        return False
    edits = [edit for _, plan in planned(*analysed(path, known), options) for edit in plan.edits]
    return all(isinstance(edit, Argument) and edit.kind == "setup" for edit in edits)


def bare(text: str) -> str:
    return re.sub(r"\binit\([^()\n]*\)", "init()", text)


@lru_cache(maxsize=200)
def analysed(path: str, text: str) -> tuple[Program, list[Facts]]:
    """A file by itself, and the facts about it."""
    program = Program.single(path, text)
    return program, analyse_program(program)
