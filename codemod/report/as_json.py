"""`--format json`: all that is known, for programs; docs/formats.md says what each member means."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ..links import change_page, rule_page
from ..rewrite import Result
from ..version import version
from .diff import unified
from .outcome import Outcome
from .views import View, edits, entry, levels, states

VERSION = 1
"""Of the format: raised when a member changes its meaning or goes; new members may come at any time."""


def render(results: Sequence[Result], outcome: Outcome) -> bytes:
    """A JSON document."""
    views = [View(result) for result in results]
    document = {
        "version": VERSION,
        "tool": {"name": "distify", "version": version()},
        "verb": outcome.verb,
        "written": outcome.written,
        "summary": {
            "files": len(views),
            **states(views),
            **{f"{level}s": count for level, count in levels(results).items()},
            "changes": edits(results),
        },
        "failures": list(outcome.failures),
        "files": [on_file(view) for view in views],
    }
    return json.dumps(document, ensure_ascii=False, indent=2).encode("utf-8", "replace") + b"\n"


def on_file(view: View) -> dict[str, Any]:
    """One file."""
    result = view.result
    before, after = ("".join(lines).encode("utf-8", "replace") for lines in (view.old, view.new))
    diff = b"".join(unified(result.path, before, after)) if result.changed else b""
    return {
        "path": view.path,
        "state": view.state,
        "entry": result.entry,
        "imported": result.followed,
        "findings": [
            {
                **entry(item),
                **asdict(view.place(item.span)),
                "url": rule_page(item.code),
            }
            for item in result.findings
        ],
        "changes": [
            {
                "rule": item.rule,
                "kind": item.kind,
                "code": item.code or None,
                "reason": item.reason,
                "before": asdict(view.place(item.before)),
                "after": [{"line": first, "end_line": last} for first, last in item.after],
                "url": change_page(item.code, item.kind),
            }
            for item in result.changes
        ],
        "diff": diff.decode("utf-8", "replace"),
    }
