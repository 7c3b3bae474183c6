"""The explanation of each code: one Markdown file beside this one, read here; the catalogue has the rest.

A file holds `key: value` lines and sections:

    threads: pytorch/pytorch#38174, huggingface/accelerate#654
    options: --accumulate 2

    # Finds        what it looks for
    # Why          why it matters
    # Before       a script that gives the finding
    # Report       the finding on that script; none where the code only stands for a change
    # After        what changes in the script
    # Instead      what to do, and the script without the finding

"Report" and "After" are written by `python -m distify.codemod.explained docs/rules`, by converting the example.
`threads` are public reports of what goes wrong, each in docs/pitfalls.md. `options` are those of the conversion.
`name` is that of the script, train.py if not given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources

from ..codes import CODES, Code, family
from ..dataclass import dataclass, field

__all__ = ["Explained", "Section", "explained", "url"]

KEYS = ("threads", "options", "name")
SECTIONS = ("Finds", "Why", "Before", "Report", "After", "Instead")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n?", re.MULTILINE | re.DOTALL)
WRAPPED = re.compile(r"(?<!\n)\n(?!\n|[-*|] )")
THREAD = re.compile(r"^([\w.-]+/[\w.-]+)#(\d+)$")


@dataclass(frozen=True)
class Section:
    """Words, then a block of code (without its fences; `language` is what the fence names)."""

    words: str = ""
    block: str = ""
    language: str = ""


@dataclass(frozen=True)
class Explained:
    """A code and all that is said about it.

    Attributes:
        entry: that of the catalogue.
        threads: public reports, as `owner/repository#number`.
        options: of the conversion of the example.
        name: of the example's file.
        sections: by name; the catalogue's words alone where there is no file.
        written: whether there is a file.
    """

    entry: Code
    threads: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    name: str = "train.py"
    sections: Mapping[str, Section] = field(default_factory=dict)
    written: bool = False

    @property
    def family(self) -> str:
        """What the code is about: "data", "optimizer" and so on."""
        return family(self.entry.code)

    @property
    def example(self) -> str:
        """A script that gives the finding, "" if there is none."""
        return self.section("Before").block

    def section(self, name: str) -> Section:
        """A section, an empty one if it isn't there."""
        return self.sections.get(name, Section())


def explained(code: str) -> Explained:
    """All that is said about a code of the catalogue, else `KeyError`."""
    entry = CODES[code]
    file = resources.files(__package__).joinpath(f"{code}.md")
    if not file.is_file():
        return Explained(entry, sections={"Finds": Section(sentence(entry.title)), "Why": Section(sentence(entry.why))})
    return parsed(entry, file.read_text(encoding="utf-8"))


def parsed(entry: Code, text: str) -> Explained:
    """The explanation that a file holds.

    Raises:
        ValueError: the file has an unknown key or section.
    """
    head, *parts = re.split(r"^# ", text, flags=re.MULTILINE)
    keys: dict[str, str] = {}
    for line in filter(None, head.splitlines()):
        key, _, value = line.partition(": ")
        if key not in KEYS:
            raise ValueError(f"{entry.code}: unknown key {key!r}")
        keys[key] = value
    sections = {}
    for part in whole(parts):
        title, _, body = part.partition("\n")
        if title not in SECTIONS:
            raise ValueError(f"{entry.code}: unknown section {title!r}")
        block = FENCE.search(body)
        words = WRAPPED.sub(" ", FENCE.sub("", body).strip())
        sections[title] = Section(words, block[2], block[1]) if block else Section(words)
    threads = tuple(keys["threads"].split(", ")) if "threads" in keys else ()
    options = tuple(keys.get("options", "").split())
    return Explained(entry, threads, options, keys.get("name", "train.py"), sections, True)


def whole(parts: list[str], separator: str = "# ") -> list[str]:
    """The parts of a file between headings; a comment in a block of code is no heading."""
    joined: list[str] = []
    for part in parts:
        if joined and len(re.findall(r"^```", joined[-1], re.MULTILINE)) % 2:
            joined[-1] += separator + part
        else:
            joined.append(part)
    return joined


def sentence(text: str) -> str:
    """A phrase of the catalogue as a sentence; one that begins with code keeps its first letter."""
    first = text.split(" ")[0]
    if first == "distify" or re.search(r"[._(=]", first):
        return f"{text}."
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def url(thread: str) -> str:
    """The address of a public thread."""
    match = THREAD.match(thread)
    if match is None:
        raise ValueError(f"{thread!r} is no thread")
    return f"https://github.com/{match[1]}/issues/{match[2]}"
