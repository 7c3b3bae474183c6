"""From the bytes of one file to those of the converted one: facts, rules, edits, and the checks on what comes out."""

from __future__ import annotations

import ast
import os
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from .edits import AddImport, Edit
from .findings import Finding, finding
from .options import Options
from .source import Source, SourceError, decode
from .suppress import filtered, ignored

DEPTH = 10_000
LEVELS = {"error": 0, "warning": 1, "note": 2}


class InternalError(Exception):
    """A mistake of distify (DST901), found before anything was written."""


@dataclass(frozen=True)
class Result:
    """What came out for one file.

    Attributes:
        path: for messages.
        before, data: the bytes that were read, and those to be written.
        text: `before` as text, which the findings' positions are about.
        findings: by place in the file.
        counts: edits by kind.
        training: whether the file trains a model; else it is left alone.
        entry: whether a run starts from it.
    """

    path: str
    before: bytes
    data: bytes
    text: str = ""
    findings: tuple[Finding, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    training: bool = False
    entry: bool = False

    @property
    def changed(self) -> bool:
        """Whether the file is to be written."""
        return self.data != self.before

    @property
    def refused(self) -> bool:
        """Whether something could not be converted."""
        return any(item.level == "error" for item in self.findings)


@dataclass(frozen=True)
class Plan:
    """What the rules ask for in one file."""

    edits: list[Edit]
    findings: list[Finding]
    training: bool
    entry: bool


def rewrite_source(data: bytes, path: str, options: Options) -> Result:
    """Converts one file.

    If something is refused, nothing is changed unless `options.partial` is set.

    Args:
        data: the file's bytes.
        path: for messages.
        options: of the conversion.

    Raises:
        SourceError: the bytes are no Python source.
        InternalError: a mistake of distify.
    """
    if b"torch" not in data:
        return Result(path, data, data)
    with warnings.catch_warnings(), deep_recursion():
        warnings.simplefilter("ignore")  # the compiler's own warnings about the source are for its user at run time
        return convert_source(data, path, options)


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Room for long sums and `elif` chains: trees are walked recursively, a few frames for each level."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def convert_source(data: bytes, path: str, options: Options) -> Result:
    """As `rewrite_source`, for a file that names torch."""
    source = decode(data, path)
    check_syntax(source.text, path)
    try:
        plan = make_plan(source.text, path, options)
        findings = list(plan.findings)
        text = source.text
        if options.partial or not any(item.level == "error" for item in findings):
            text = edited(source, plan, findings, path, options)
    except (SourceError, InternalError):
        raise
    except Exception as error:
        if os.environ.get("DISTIFY_DEBUG"):
            raise
        raise InternalError(f"{path}: {described(error)}") from error
    counts = Counter(edit.kind for edit in plan.edits if not isinstance(edit, AddImport)) if text != source.text else {}
    return Result(
        path,
        data,
        source.encode(text),
        source.text,
        tuple(sorted(dict.fromkeys(findings), key=lambda item: (item.span, LEVELS[item.level], item.code))),
        dict(counts),
        plan.training,
        plan.entry,
    )


def make_plan(text: str, path: str, options: Options) -> Plan:
    """Facts and rules over a text that parses, less what its comments suppress."""
    from . import rules
    from .facts import analyse

    facts = analyse(text, path)
    edits, findings = rules.run(facts, options) if facts.is_training else ([], [])
    codes, wrong = ignored(text)
    edits, findings = filtered(edits, [*facts.findings, *findings, *(wrong if facts.is_training else [])], codes)
    return Plan(edits, findings, facts.is_training, facts.entry_statement is not None)


def edited(source: Source, plan: Plan, findings: list[Finding], path: str, options: Options) -> str:
    """The converted text, checked: it parses, it can be encoded, and a second conversion would change nothing."""
    if not plan.edits:
        return source.text
    from .apply import UnsafeSource, apply

    try:
        text = apply(source.text, plan.edits)
    except UnsafeSource as error:
        findings.append(finding("DST902", None, f"this source can't be edited safely: {error}"))
        return source.text
    source.encode(text)
    try:
        ast.parse(text)
    except SyntaxError as error:
        raise InternalError(
            f"{path}: the conversion doesn't parse: {error.msg} in {(error.text or '').strip()!r}"
        ) from None
    again = make_plan(text, path, options)
    if apply(text, again.edits) != text:
        kinds = ", ".join(sorted({edit.kind for edit in again.edits}))
        raise InternalError(f"{path}: a second conversion would change the file again ({kinds})")
    return text


def check_syntax(text: str, path: str) -> None:
    """Raises `SourceError` with the place if a text is no Python."""
    try:
        ast.parse(text)
    except SyntaxError as error:
        raise SourceError(path, f"not valid Python: {error.msg}", error.lineno, error.offset) from None
    except ValueError as error:
        raise SourceError(path, f"not valid Python: {error}") from None
    except (RecursionError, MemoryError):
        raise SourceError(path, "nested too deeply to be parsed") from None


def described(error: BaseException) -> str:
    """An exception, and where in distify it came from, in one line."""
    here = os.path.dirname(os.path.abspath(__file__))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(here)]
    where = f" ({os.path.relpath(frames[-1].filename, here)}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{where}"
