"""`distify check`: what a conversion would do, and what has become unsafe in distributed scripts."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..report.names import FORMATS
from .completing import words
from .declared import Jobs, StdinName

EPILOG = """\b
Examples:
  distify check train.py               what is unsafe, or would be refused
  distify check src/ --select DST1,DST651    some codes, or families of codes
  distify check src/ --ignore DST752 --per-file-ignores "examples/*:DST551"
  distify check train.py --fix         convert, or mend what was written since
  distify check src/ --format github   annotations of a pull request
\b
In pyproject.toml:
  [tool.distify.check]
  ignore = ["DST752"]
  per-file-ignores = {"examples/*" = ["DST551"]}
\b
A comment suppresses a finding on its line: # distify: ignore[DST551]
\b
Exit codes: 0 nothing found, or notes only; 1 an error or a warning; 2 usage
error, unreadable input, or a mistake of distify."""


def several(flag: str, metavar: str, text: str) -> Any:
    """An option that may be given more than once."""
    return typer.Option(flag, metavar=metavar, help=text)


def register(app: typer.Typer) -> None:
    """Adds the command to the app."""

    @app.command(epilog=EPILOG, short_help="Report what a conversion would do, and what is unsafe.")
    def check(
        paths: Annotated[
            list[str], typer.Argument(metavar="PATH", help="Scripts, folders (all .py below), or - for standard input.")
        ],
        select: Annotated[list[str] | None, several("--select", "CODES", "Report these codes only.")] = None,
        ignore: Annotated[list[str] | None, several("--ignore", "CODES", "Don't report these.")] = None,
        per_file_ignores: Annotated[
            list[str] | None, several("--per-file-ignores", "PATTERN:CODES", "Don't report these in some files.")
        ] = None,
        fix: Annotated[bool, typer.Option("--fix", help="Write what can be mended by a rewrite.")] = False,
        form: Annotated[
            str,
            typer.Option(
                "--format",
                metavar="FORMAT",
                help="text, json, github, sarif or markdown.",
                autocompletion=words(*FORMATS),
            ),
        ] = "text",
        exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit 0 whatever is found.")] = False,
        follow: Annotated[
            bool, typer.Option("--follow/--no-follow", help="Check the local modules that a script imports with it.")
        ] = True,
        budget: Annotated[
            str | None, typer.Option("--budget", metavar="SECONDS", help="Give up a program that takes longer; 120.")
        ] = None,
        jobs: Jobs = None,
        stdin_filename: StdinName = None,
        quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Errors and warnings only.")] = False,
    ) -> None:
        """Report what a conversion would do, and what is unsafe in distributed scripts."""
        from ..check import check as run
        from .asked import Usage, checking

        try:
            asked = checking(
                paths,
                select=select,
                ignore=ignore,
                per_file_ignores=per_file_ignores,
                fix=fix,
                form=form,
                exit_zero=exit_zero,
                follow=follow,
                budget=budget,
                jobs=jobs,
                stdin_filename=stdin_filename,
                quiet=quiet,
            )
        except Usage as error:
            raise typer.BadParameter(str(error)) from None
        raise typer.Exit(run(asked))
