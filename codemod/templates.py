"""Renders the Jinja2 templates of `distify.templates` in a sandbox, with no undefined name tolerated.

Most templates of code only name variables, and are filled here: importing Jinja2 and compiling a dozen templates takes
longer than editing a script does.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .editing.errors import EditError

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.sandbox import SandboxedEnvironment

PACKAGE = "distify.templates"
NAME = re.compile(r"[a-z][a-z0-9_]*")
PLACE = re.compile(r"\{\{ (\w+)(?: \| (\w+))? \}\}")
OTHERWISE = re.compile(r"\{\{|\{%|\{#")


def listed(values: Iterable[object]) -> str:
    """`a, b`"""
    return ", ".join(map(str, values))


def arguments(values: Mapping[str, object]) -> str:
    """`a=1, b=2`"""
    return ", ".join(f"{name}={value}" for name, value in values.items())


def keywords(values: Mapping[str, object]) -> str:
    """`, a=1, b=2`, after another argument."""
    return "".join(f", {name}={value}" for name, value in values.items())


FILTERS: Mapping[str, Callable[[Any], str]] = {"listed": listed, "arguments": arguments, "keywords": keywords}


@lru_cache(maxsize=None)
def read(template: str) -> str:
    """The text of `templates/code/NAME.j2`, or the template itself if it is no name.

    Raises:
        EditError: there is no such file.
    """
    if not NAME.fullmatch(template):
        return template
    try:
        data = pkgutil.get_data(PACKAGE, f"code/{template}.j2")
    except OSError:
        data = None
    if data is None:
        raise EditError(f"template {template!r}: there is none")
    return data.decode("utf-8")


@lru_cache(maxsize=None)
def environment(escape: bool = False) -> SandboxedEnvironment:
    """The environment: of plain text, or of a page in which values are escaped; blocks leave no lines behind."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    made = SandboxedEnvironment(
        undefined=StrictUndefined, autoescape=escape, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    made.filters.update(FILTERS)
    return made


def report(name: str, params: Mapping[str, Any]) -> str:
    """A page of `templates/report`: each value is escaped, but for the style sheet and the script beside it.

    Args:
        name: of the files: NAME.html.j2, NAME.css, NAME.js.
        params: its variables.
    """
    from importlib import resources

    from markupsafe import Markup

    folder = resources.files(PACKAGE) / "report"
    page, style, script = ((folder / f"{name}.{end}").read_text(encoding="utf-8") for end in ("html.j2", "css", "js"))
    own = {"style": Markup(style), "script": Markup(script), "style_hash": hashed(style), "script_hash": hashed(script)}
    return environment(escape=True).from_string(page).render({**params, **own})


def launch(name: str, quote: Callable[[Any], str], params: Mapping[str, Any]) -> str:
    """A job file of `templates/launch`: every value that it names goes through `quote`.

    Args:
        name: of the file, without `.j2`.
        quote: makes a word of that file's language, whatever the value holds.
        params: its variables.
    """
    from importlib import resources

    text = (resources.files(PACKAGE) / "launch" / f"{name}.j2").read_text(encoding="utf-8")
    own = environment().overlay(finalize=quote)
    return own.from_string(text).render(params)


def hashed(text: str) -> str:
    """What a content security policy calls the text of an element."""
    import base64
    import hashlib

    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@lru_cache(maxsize=None)
def compiled(template: str) -> Template:
    """A template by its name or its own text; there are few, and each is used for many edits."""
    return environment().from_string(read(template))


@lru_cache(maxsize=None)
def pieces(template: str) -> tuple[str, ...] | None:
    """A template that only names variables as text, name, filter or nothing, text, …; `None` if it does more."""
    found = tuple(piece or "" for piece in PLACE.split(read(template)))
    return None if any(OTHERWISE.search(text) for text in found[::3]) or not {*found[2::3]} <= {"", *FILTERS} else found


def render(template: str, params: Mapping[str, Any]) -> str:
    """A rendered template.

    Args:
        template: name of a file in `templates/code` (a lower-case identifier), or the template's own text.
        params: its variables.

    Raises:
        EditError: no such template, or a variable that it names is missing.
    """
    found = pieces(template)
    if found is not None and all(name in params for name in found[1::3]):
        names = zip(found[1::3], found[2::3], found[3::3])
        return found[0] + "".join(f"{FILTERS.get(kind, str)(params[name])}{text}" for name, kind, text in names)
    return rendered(template, params)


def rendered(template: str, params: Mapping[str, Any]) -> str:
    """The same by Jinja2."""
    from jinja2 import TemplateError

    try:
        return compiled(template).render(params)
    except TemplateError as error:
        raise EditError(f"template {template!r}: {error!r}") from error
