"""From the bytes of files to those of the converted ones: facts, rules, edits, and the checks on what comes out."""

from __future__ import annotations

import ast
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from .changes import Change
from .dataclass import dataclass, field
from .findings import Finding
from .options import OptionError, Options
from .source import SourceError

DEPTH = 10_000


class InternalError(Exception):
    """A mistake of distify, found before anything was written."""


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
        followed: whether it is a module that a script imports, and was not given itself.
        rest: whether there is anything to convert in it besides what is refused.
        changes: what each edit changed, by place.
    """

    path: str
    before: bytes
    data: bytes
    text: str = ""
    findings: tuple[Finding, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    training: bool = False
    entry: bool = False
    followed: bool = False
    rest: bool = False
    changes: tuple[Change, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the file is to be written."""
        return self.data != self.before

    @property
    def refused(self) -> bool:
        """Whether something could not be converted."""
        return any(item.level == "error" for item in self.findings)


def rewrite_source(data: bytes, path: str, options: Options) -> Result:
    """Converts one file by itself, without the modules that it imports.

    If something is refused, nothing is changed unless `options.partial` is set.

    Args:
        data: the file's bytes.
        path: for messages.
        options: of the conversion.

    Raises:
        SourceError: the bytes are no Python source.
        InternalError: a mistake of distify.
    """
    from .rewriter import Rewriter

    rewriter = Rewriter(None)
    rewriter.register(path, data)
    for script in rewriter.scripts():
        rewriter.plan(script, options)
    return rewriter.results()[0]


@contextmanager
def careful(path: str) -> Iterator[None]:
    """What goes wrong in here, but for what is wrong with the source, is a mistake of distify."""
    with warnings.catch_warnings(), deep_recursion():
        warnings.simplefilter("ignore")  # the compiler's own warnings about the source are for its user at run time
        try:
            yield
        except (SourceError, InternalError, OptionError):
            raise
        except (RecursionError, MemoryError) as error:
            if os.environ.get("DISTIFY_DEBUG"):
                raise
            what = "nested too deeply" if isinstance(error, RecursionError) else "too large for the memory there is"
            reason = f"{what} to be analysed; split its longest expression or elif chain ({described(error)})"
            raise SourceError(path, reason) from error
        except Exception as error:
            if os.environ.get("DISTIFY_DEBUG"):
                raise
            raise InternalError(f"{path}: {described(error)}") from error


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Room for long sums and `elif` chains: trees are walked recursively, a few frames for each level."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


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
    import traceback

    here = os.path.dirname(os.path.abspath(__file__))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(here)]
    where = f" ({os.path.relpath(frames[-1].filename, here)}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{where}"
