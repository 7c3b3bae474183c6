"""How the help of a verb is laid out, alike in all versions of typer: words, no brackets or types to be read aloud."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

WIDTH = 80


class Verb(TyperCommand):
    """A verb of the command line."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """`[OPTIONS] PATH... [ARGS]...`, without the braces that some versions put around what is required."""
        pieces = ["[OPTIONS]"]
        for item in arguments(self, ctx):
            dots = "..." if item.nargs != 1 else ""
            pieces.append(f"{item.metavar}{dots}" if item.required else f"[{item.metavar}]{dots}")
        return pieces

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The arguments, then the options, each with its help."""
        found = [(str(item.metavar), item.help or "") for item in arguments(self, ctx)]
        if found:
            with formatter.section("Arguments"):
                formatter.write_dl(found)
        records = [item.get_help_record(ctx) for item in self.get_params(ctx) if item.param_type_name == "option"]
        with formatter.section("Options"):
            formatter.write_dl([record for record in records if record is not None])


def arguments(command: TyperCommand, ctx: Any) -> list[Any]:
    """The arguments of a verb, in their order."""
    return [item for item in command.get_params(ctx) if item.param_type_name == "argument"]
