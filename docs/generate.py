"""Writes the pages that follow from the source (docs/rules/, docs/cli.md, docs/api.md) and the examples of the others.

    python docs/generate.py

A test asks that they are up to date. Nothing here imports torch: the runtime is read as text.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from examples import filled, written

HERE = Path(__file__).parent
RUNTIME = HERE.parent / "runtime"

GROUPS = {
    "Set up": ("init", "device", "rank", "world_size", "is_main", "prepare", "shutdown"),
    "Batches": ("shard", "split", "draw", "cycle", "replicated"),
    "Training step": (
        "autocast",
        "accumulate",
        "backward",
        "grad",
        "frozen",
        "scaler",
        "clip_grad_norm_",
        "clip_grad_value_",
        "step",
    ),
    "Values of the whole batch": ("mean", "sum", "max", "min", "gather", "any", "averaged"),
    "Once, and in turn": ("on_main", "main_first", "barrier"),
    "Files and parameters": ("save", "load", "state_dict", "load_state_dict", "clone", "full", "whole"),
    "A run that can be stopped": ("save_state", "load_state", "latest", "stopping"),
}
INTRODUCTION = (
    "What a converted script calls, after `from distify import runtime`. distify writes these calls, and they may be",
    "written by hand. What is called a *collective* must be called by all processes. On one process each does what the",
    "original did.",
)
DEFAULT = re.compile(r"^(\w+: [^=]+)=")
SECTION = re.compile(r"^(Args|Returns|Yields|Raises):\n((?: +.*\n|\n)+)", re.MULTILINE)


def api() -> str:
    """The reference of `distify.runtime`."""
    found = public()
    listed = [name for names in GROUPS.values() for name in names]
    if sorted(listed) != sorted(found):
        raise ValueError(f"in one of runtime.__all__ and GROUPS only: {sorted(set(listed) ^ set(found))}")
    lines = ["# Runtime", "", *INTRODUCTION, ""]
    for title, names in GROUPS.items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += [*described(*found[name]), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def public() -> dict[str, tuple[ast.FunctionDef | ast.ClassDef, str]]:
    """The public names of the runtime: definition and signature."""
    package = ast.parse((RUNTIME / "__init__.py").read_text(encoding="utf-8"))
    found = {}
    for node in package.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.level:
            module = ast.parse((RUNTIME / f"{node.module}.py").read_text(encoding="utf-8"))
            for alias in node.names:
                (definition,) = (
                    item
                    for item in module.body
                    if isinstance(item, (ast.FunctionDef, ast.ClassDef)) and item.name == alias.name
                )
                found[alias.name] = (definition, signature(definition))
    return found


def signature(node: ast.FunctionDef | ast.ClassDef) -> str:
    """A definition as it is called; what begins with an underscore is nobody's business."""
    if isinstance(node, ast.ClassDef):
        (node,) = (item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__")
        node.args.args = node.args.args[1:]
        node.returns = None
    kept = [(item, default) for item, default in zip(node.args.kwonlyargs, node.args.kw_defaults) if item.arg[0] != "_"]
    node.args.kwonlyargs, node.args.kw_defaults = [item for item, _ in kept], [default for _, default in kept]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"({ast.unparse(node.args)}){returns}"


def described(node: ast.FunctionDef | ast.ClassDef, call: str) -> Iterator[str]:
    """A definition as Markdown."""
    yield f"### {node.name}"
    yield ""
    yield from ("```python", *wrapped(f"runtime.{node.name}", call), "```", "")
    text = (ast.get_docstring(node) or "") + "\n"
    first = SECTION.search(text)
    yield text[: first.start() if first else None].strip()
    for match in SECTION.finditer(text):
        yield ""
        body = "\n".join(line[4:] for line in match[2].rstrip("\n").splitlines())
        yield from (f"**{match[1]}**", "", *(listed(body) if match[1] in ("Args", "Raises") else [body]))


def wrapped(name: str, call: str) -> list[str]:
    """A signature, on several lines if it is a long one."""
    inside, _, returns = call[1:].rpartition(")")
    parts, depth, start = [], 0, 0
    for index, letter in enumerate(inside + ","):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(DEFAULT.sub(r"\1 = ", inside[start:index].strip()))
            start = index + 1
    short = f"{name}({', '.join(parts)}){returns}"
    return [short] if len(short) <= 88 else [f"{name}(", *(f"    {part}," for part in parts), f"){returns}"]


def listed(body: str) -> Iterator[str]:
    """Lines `name: words` as a list."""
    for line in body.splitlines():
        if line[:1] == " ":
            yield f"  {line.strip()}"
        else:
            names, _, words = line.partition(": ")
            code = ", ".join(f"`{name}`" for name in names.split(", "))
            yield f"- {code}: {words}"


def cli() -> str:
    """The reference of the command line."""
    import typer

    from distify.codemod.cli import app

    group: Any = typer.main.get_command(app)
    lines = ["# Command line", "", group.help, "", "```text", "distify VERB …", "```", ""]
    for name, command in group.commands.items():
        lines += [f"## distify {name}", "", *verb(name, command), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def verb(name: str, command: Any) -> Iterator[str]:
    """A verb as Markdown."""
    arguments = [item for item in command.params if item.param_type_name == "argument"]
    options = [item for item in command.params if item.param_type_name == "option" and not item.hidden]
    names = [metavar(item) + ("…" if item.nargs == -1 and "..." not in metavar(item) else "") for item in arguments]
    yield " ".join(command.help.split())
    yield from (
        "",
        "```text",
        " ".join(["distify", name, "[OPTION…]" if options else "", *names]).replace("  ", " "),
        "```",
        "",
    )
    yield from table("argument", ([f"`{cell(metavar(item))}`", item.help] for item in arguments))
    yield from table("option", ([spelled(item), item.help] for item in options))
    if command.epilog:
        yield from ("", "```text", command.epilog.replace("\b\n", "\n").strip(), "```")


def metavar(item: Any) -> str:
    """What an argument is called."""
    return str(item.metavar or item.name.upper())


def spelled(item: Any) -> str:
    """The names of an option and what follows them."""
    metavar = f" {item.metavar}" if item.metavar and not item.is_flag else ""
    return ", ".join(f"`{cell(name + metavar)}`" for name in (*item.opts, *item.secondary_opts))


def table(title: str, rows: Iterable[list[str]]) -> Iterator[str]:
    """A table of two columns; nothing if there are no rows."""
    lines = [f"| {' | '.join(cell(text or '') for text in row)} |" for row in rows]
    if lines:
        yield from (f"| {title} | |", "|---|---|", *lines, "")


def cell(text: str) -> str:
    """A text within a table."""
    return " ".join(text.split()).replace("\\|", "|").replace("|", "\\|")


def generated() -> dict[str, str]:
    """All generated pages by their names below docs/."""
    from distify.codemod.explained.pages import pages

    return {"api.md": api(), "cli.md": cli(), **{f"rules/{name}": text for name, text in pages().items()}}


def main() -> int:
    """Writes them."""
    from distify.codemod.explained.__main__ import main as rules
    from distify.codemod.explained.__main__ import write

    failed = rules(HERE / "rules")
    for name, text in generated().items():
        write(HERE / name, text)
    for file in written(HERE):
        write(file, filled(file.read_text(encoding="utf-8")))
    return failed


if __name__ == "__main__":
    sys.exit(main())
