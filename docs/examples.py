"""What the hand-written pages show of conversions: made by the codemod, and kept equal by a test.

A block of Python that is followed by a block "diff" is converted, under the options of the last
`distify rewrite train.py …` before that block; a block "text" that begins with "train.py:" is its report.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

FENCE = re.compile(r"^```(python|diff|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"distify rewrite train\.py((?: --[\w-]+ [\w-]+)*)")
PLACE = "train.py:"


def filled(text: str) -> str:
    """A page whose reports and diffs are what the codemod says and writes."""
    parts, end, source, since = [], 0, "", 0
    for block in FENCE.finditer(text):
        parts.append(text[end : block.start()])
        end = block.end()
        if block[1] == "python":
            source, since = block[2], block.end()
            parts.append(block[0])
        elif source and (block[1] == "diff" or block[2].startswith(PLACE)):
            commands = COMMAND.findall(text[since : block.start()])
            report, diff = converted(source, shlex.split(commands[-1]) if commands else [])
            parts.append(f"```{block[1]}\n{diff if block[1] == 'diff' else report}```")
        else:
            parts.append(block[0])
    return "".join(parts) + text[end:]


def converted(source: str, words: list[str]) -> tuple[str, str]:
    """The report on a script and its change."""
    from distify.codemod.explained.diffs import diff
    from distify.codemod.explained.examples import options
    from distify.codemod.fstrings import Text
    from distify.codemod.report.text import on_finding
    from distify.codemod.rewrite import rewrite_source

    result = rewrite_source(source.encode(), "train.py", options(words))
    text = Text(result.text)
    lines = [
        "".join(piece for piece, _ in line) for found in result.findings for line in on_finding("train.py", found, text)
    ]
    return "".join(f"{line}\n" for line in lines), diff(source, result.data.decode())


def written(folder: Path) -> Iterator[Path]:
    """The pages with such blocks: all but those that are generated as a whole."""
    for file in sorted(folder.rglob("*.md")):
        if file.parent.name != "rules" and file.name not in ("api.md", "cli.md", "pitfalls.md"):
            yield file
