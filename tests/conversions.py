"""Conversions for tests that convert a script more than once: facts are the same under all options, so that each text is
analysed once and kept."""

from __future__ import annotations

from functools import lru_cache

from distify.codemod.facts import analyse_program
from distify.codemod.facts.model import Facts
from distify.codemod.options import Options
from distify.codemod.plan import Plan, planned
from distify.codemod.program import Module, Program
from distify.codemod.rewrite import Result
from distify.codemod.rewriter import Rewriter


def rewrite(data: bytes, path: str, options: Options, again: bool = True) -> Result:
    """What `rewrite_source` gives.

    Args:
        data, path, options: as there.
        again: whether a second conversion is tried, which must change nothing; a test that only runs what came out
            leaves that to those of the text.
    """
    planning = [path]

    def planner(program: Program, options: Options) -> list[tuple[Module, Plan]]:
        if not (again or planning):
            return []
        planning.clear()
        return planned(*analysed(program.entry.path, program.entry.source), options)

    rewriter = Rewriter(None, planner)
    rewriter.register(path, data)
    for script in rewriter.scripts():
        rewriter.plan(script, options)
    return rewriter.results()[0]


@lru_cache(maxsize=200)
def analysed(path: str, text: str) -> tuple[Program, list[Facts]]:
    """A file by itself, and the facts about it."""
    program = Program.single(path, text)
    return program, analyse_program(program)
