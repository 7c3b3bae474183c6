"""`python -m distify.codemod.explained docs/rules`: writes what follows from the examples, then the pages."""

from __future__ import annotations

import sys
from pathlib import Path

from ..codes import CODES
from . import explained, whole
from .examples import outcome
from .pages import pages

HERE = Path(__file__).parent
GENERATED = ("Report", "After")


def main(folder: Path) -> int:
    """Writes the files beside this one, then the pages in a folder; returns the exit code."""
    wrong = [error for code in sorted(CODES) if (error := refresh(code))]
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong:
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        write(folder / name, text)
    for stale in {file.name for file in folder.glob("*.md")} - set(pages()):
        (folder / stale).unlink()
    return 0


def refresh(code: str) -> str:
    """Writes the generated sections of a code's file; returns what is wrong with its example."""
    item = explained(code)
    if not item.example:
        return ""
    try:
        result = outcome(item)
    except Exception as error:
        return f"{code}: {error}"
    file = HERE / f"{code}.md"
    write(file, with_sections(file.read_text(encoding="utf-8"), result.report, result.diff))
    return ""


def with_sections(text: str, report: str, diff: str) -> str:
    """The text of a file with the sections "Report" and "After" as they should be."""
    kept: list[str] = []
    instead: list[str] = []
    for part in whole(text.split("\n# "), "\n# "):
        title = part.split("\n", 1)[0]
        if title not in GENERATED:
            (instead if title == "Instead" else kept).append(part.rstrip("\n"))
    kept.append(f"Report\n\n```text\n{report}```")
    if diff:
        kept.append(f"After\n\n```diff\n{diff}```")
    return "\n\n# ".join([*kept, *instead]) + "\n"


def write(file: Path, text: str) -> None:
    """Writes a file, if it has another text."""
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
