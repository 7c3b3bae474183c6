"""Where the documentation is: the one place that knows its address, which is also in pyproject.toml."""

from __future__ import annotations

DOCS = "https://torch-distify.readthedocs.io/en/latest/"


def rule_page(code: str) -> str:
    """The page of a code, made from docs/rules/DSTnnn.md."""
    return f"{DOCS}rules/{code}/"


def kind_page(kind: str) -> str:
    """What docs/changes.md says on a kind of change."""
    return f"{DOCS}changes/#{kind.replace(' ', '-')}"


def change_page(code: str, kind: str) -> str:
    """Where to read on about a change: the page of its code, else that of its kind."""
    return rule_page(code) if code else kind_page(kind)
