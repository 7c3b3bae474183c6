"""What a look at the bytes of a file tells, without parsing it: words of training, and what it imports.

A hook is given a thousand files, of which most train nothing. Regular expressions would take as long as reading does,
and importing `re` half as long as starting Python: bytes are searched for words, and lines are cut by hand.
"""

from __future__ import annotations

# What a file that trains names: torch, or a library that runs the training without the script's naming torch.
TRAINING = (b"torch", b"transformers", b"lightning", b"fastai")
SHORT = b"trl"  # which other words hold

# What a program names besides, if there is anything to convert or to refuse in it: gradients (`facts.analysis` asks for
# the same), a trainer of a library (`rules._libraries`), or processes that it starts.
STEPPING = (
    *(b"grad", b"backward", b"Distributed", b"distributed", b"multiprocessing", b"spawn", b"Process", b"xla", b"apex"),
    *(b"Trainer", b"trainer", b"Learner", b"learner", b"NeuralNet", b"Engine", b"Runner", b"LightningCLI"),
    *(b"fine_tune", b"fit_"),
)

BLANKS = b" \t"
FROM = (b"from ", b"from\t")
LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")

Import = tuple[str, tuple[str, ...]]
"""A dotted name as it is written, and what is taken out of it."""


def trains(data: bytes) -> bool:
    """Whether a text names what trains."""
    for word in TRAINING:
        if word in data:
            return True
    return SHORT in data and holds(data, SHORT)


def steps(data: bytes) -> bool:
    """Whether a text names what steps."""
    return any(word in data for word in STEPPING)


def holds(data: bytes, word: bytes) -> bool:
    """Whether a word stands in a text by itself."""
    at = data.find(word)
    while at >= 0:
        end = at + len(word)
        if not ((at and data[at - 1] in LETTERS) or (end < len(data) and data[end] in LETTERS)):
            return True
        at = data.find(word, end)
    return False


def lines(data: bytes) -> list[bytes]:
    """The lines of a text that hold the word `import`; with those that follow up to a bracket that closes."""
    found: list[bytes] = []
    find, at = data.find, data.find(b"import")
    while at >= 0:
        end = find(b"\n", at)
        if end < 0:
            end = len(data)
        start = data.rfind(b"\n", 0, at) + 1
        line = data[start:end]
        if b"(" in line and line.lstrip(BLANKS)[:5] in FROM and b")" not in line.partition(b"#")[0]:
            end = max(end, data.find(b")", end))
            line = b" ".join(part.partition(b"#")[0] for part in data[start:end].split(b"\n"))
        found.append(line)
        at = find(b"import", end)
    return found


def imports(line: bytes) -> list[Import]:
    """What an import statement names, if a line is one."""
    head, _, rest = line.partition(b"import")
    base = head.split()
    if (base and (len(base) != 2 or base[0] != b"from")) or (rest and rest[0] in LETTERS):
        return []
    for mark in (b"#", b";"):
        if mark in rest:
            rest = rest.partition(mark)[0]
    names = rest.decode("utf-8", "replace")
    if not base:
        return [(words[0], ()) for words in (part.split() for part in names.split(",")) if words]
    if "(" in names:
        names = names.replace("(", " ").replace(")", " ")
    return [(base[1].decode("utf-8", "replace"), tuple(names.replace(",", " ").split()))]


def calls(line: bytes) -> bool:
    """Whether a line may import by a call."""
    return b"import_module" in line or b"__import__" in line


def called(data: bytes) -> list[str]:
    """The names, or what they begin with, in calls that import: `import_module("models." + name)`."""
    import re

    call = re.compile(rb"(?:import_module|__import__)\s*\(\s*[fF]?[\"']([.\w]+)")
    return [match[1].decode() for match in call.finditer(data)]
