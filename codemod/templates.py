"""Renders the Jinja2 templates of `distify.templates` in a sandbox, with no undefined name tolerated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

from jinja2 import StrictUndefined, TemplateError, TemplateNotFound
from jinja2.sandbox import SandboxedEnvironment

from .editing.errors import EditError

NAME = re.compile(r"[a-z][a-z0-9_]*")


def read(name: str) -> str:
    """The text of `templates/code/NAME.j2`."""
    file = resources.files("distify.templates") / "code" / f"{name}.j2"
    if not file.is_file():
        raise TemplateNotFound(name)
    return file.read_text(encoding="utf-8")


@lru_cache(maxsize=None)
def environment() -> SandboxedEnvironment:
    """The one environment: plain text, blocks leave no lines behind."""
    return SandboxedEnvironment(
        undefined=StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )


def render(template: str, params: Mapping[str, Any]) -> str:
    """A rendered template.

    Args:
        template: name of a file in `templates/code` (a lower-case identifier), or the template's own text.
        params: its variables.

    Raises:
        EditError: no such template, or a variable that it names is missing.
    """
    try:
        text = read(template) if NAME.fullmatch(template) else template
        return environment().from_string(text).render(params)
    except TemplateError as error:
        raise EditError(f"template {template!r}: {error!r}") from error
