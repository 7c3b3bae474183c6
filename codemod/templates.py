"""Renders the Jinja2 templates of `distify.templates` in a sandbox, with no undefined name tolerated."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, TemplateNotFound
from jinja2.sandbox import SandboxedEnvironment
from markupsafe import Markup

from .editing.errors import EditError

NAME = re.compile(r"[a-z][a-z0-9_]*")


def read(name: str) -> str:
    """The text of `templates/code/NAME.j2`."""
    file = resources.files("distify.templates") / "code" / f"{name}.j2"
    if not file.is_file():
        raise TemplateNotFound(name)
    return file.read_text(encoding="utf-8")


@lru_cache(maxsize=None)
def environment(escape: bool = False) -> SandboxedEnvironment:
    """The environment: of plain text, or of a page in which values are escaped; blocks leave no lines behind."""
    return SandboxedEnvironment(
        undefined=StrictUndefined, autoescape=escape, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )


def report(name: str, params: Mapping[str, Any]) -> str:
    """A page of `templates/report`: each value is escaped, but for the style sheet and the script beside it.

    Args:
        name: of the files: NAME.html.j2, NAME.css, NAME.js.
        params: its variables.
    """
    folder = resources.files("distify.templates") / "report"
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
    text = (resources.files("distify.templates") / "launch" / f"{name}.j2").read_text(encoding="utf-8")
    own = environment().overlay(finalize=quote)
    return own.from_string(text).render(params)


def hashed(text: str) -> str:
    """What a content security policy calls the text of an element."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@lru_cache(maxsize=None)
def compiled(template: str) -> Template:
    """A template by its name or its own text; there are few, and each is used for many edits."""
    return environment().from_string(read(template) if NAME.fullmatch(template) else template)


def render(template: str, params: Mapping[str, Any]) -> str:
    """A rendered template.

    Args:
        template: name of a file in `templates/code` (a lower-case identifier), or the template's own text.
        params: its variables.

    Raises:
        EditError: no such template, or a variable that it names is missing.
    """
    try:
        return compiled(template).render(params)
    except TemplateError as error:
        raise EditError(f"template {template!r}: {error!r}") from error
