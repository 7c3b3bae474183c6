"""`--format sarif`: SARIF 2.1.0, as code hosts show it in their lists of alerts.

Every finding is a result. A file that `distify rewrite` would change is one more, with its changes as related locations
and the rewrite as its fix; in `distify check` the first finding that it mends has these. Places are below the root of
the repository, in UTF-16 code units, and fingerprints stay the same when lines above come and go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ..changes import lines_of
from ..codes import CODES, Code, family
from ..explained import explained, url
from ..findings import Finding
from ..links import DOCS, rule_page
from ..phrases import plural
from ..rewrite import Result
from ..version import version
from .fingerprints import fingerprints
from .outcome import Outcome
from .roots import Root
from .views import Place, Shown, View, units

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
BASE = "%SRCROOT%"
FINGERPRINT = "distifyStatement/v1"
PLAIN = "DST952"
"""The code that `distify check` has for a script that is not converted."""
REWRITE = Code(
    "not-converted",
    "note",
    "a rewrite would change this file",
    "on several processes it would not perform the run that it performs on one",
    "run distify rewrite on it",
)
PLACEHOLDER = re.compile(r"\{(\d+)\}")

Json = dict[str, Any]


def render(results: Sequence[Result], outcome: Outcome) -> bytes:
    """A SARIF log of one run."""
    root = Root()
    told_of = (result for result in results if result.findings or result.training or result.changed)
    views = [View(result, outcome.written) for result in told_of]
    told = [item for index, view in enumerate(views) for item in results_of(view, index, root, outcome.verb)]
    rules = sorted({item["ruleId"] for item in told})
    for item in told:
        item["ruleIndex"] = rules.index(item["ruleId"])
    driver = {
        "name": "distify",
        "semanticVersion": version(),
        "informationUri": DOCS,
        "rules": [rule(REWRITE if name == REWRITE.code else CODES[name]) for name in rules],
    }
    invocation: Json = {"executionSuccessful": not outcome.failures}
    if outcome.failures:
        invocation["toolExecutionNotifications"] = [
            {"level": "error", "message": {"text": message}} for message in outcome.failures
        ]
    run: Json = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "columnKind": "utf16CodeUnits",
        "newlineSequences": ["\r\n", "\n", "\r"],
        "originalUriBaseIds": {BASE: {"description": {"text": "The root of the repository."}}},
        "artifacts": [
            {"location": located(view, index, root), "sourceLanguage": "python"} for index, view in enumerate(views)
        ],
        "results": told,
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, ensure_ascii=False, indent=2).encode("utf-8", "replace") + b"\n"


def rule(entry: Code) -> Json:
    """What a code means."""
    own = entry is not REWRITE
    page = rule_page(entry.code) if own else DOCS
    sentence = f"{entry.title[:1].upper()}{entry.title[1:]}: {entry.why}."
    remedy = f" What to do: {entry.remedy}." if entry.remedy else ""
    return {
        "id": entry.code,
        "name": "".join(word.capitalize() for word in re.findall(r"[A-Za-z0-9]+", entry.title)),
        "shortDescription": {"text": f"{entry.title[:1].upper()}{entry.title[1:]}."},
        "fullDescription": {"text": sentence},
        "help": {
            "text": f"{sentence}{remedy} See {page}",
            "markdown": told_at_length(entry, page) if own else f"{plain(sentence)}{plain(remedy)}",
        },
        "helpUri": page,
        "defaultConfiguration": {"level": entry.level},
        "properties": {"tags": [family(entry.code) if own else "conversion"]},
    }


def told_at_length(entry: Code, page: str) -> str:
    """What `distify explain` says of a code, but for its example."""
    told = explained(entry.code)
    parts = [told.section(name).words for name in ("Finds", "Why")]
    remedy = told.section("Instead").words or (f"{plain(entry.remedy)}." if entry.remedy else "")
    threads = ", ".join(f"[{thread}]({url(thread)})" for thread in told.threads)
    parts += [f"**What to do:** {remedy}" if remedy else "", threads]
    return "\n\n".join([*filter(None, parts), f"[More about {entry.code}, with an example]({page})"])


def plain(text: str) -> str:
    """A text in which Markdown means nothing."""
    return "".join(f"\\{char}" if char in "\\`*_[]<>#|~" else char for char in text)


def results_of(view: View, index: int, root: Root, verb: str) -> list[Json]:
    """The results on one file."""
    findings = view.result.findings
    marks = fingerprints(view.text.source, [(item.code, item.span) for item in findings])
    found = []
    for item, mark in zip(findings, marks):
        text = f"{message(item.message)} {message(item.hint)}" if item.hint else message(item.message)
        place = region(view.placed(item.span, utf16=True))
        found.append(result(item.code, item.level, text, located(view, index, root), place, mark))
    if view.result.changed and not view.written:
        if verb == "rewrite":
            found.append(not_converted(view, index, root))
        elif mended := [told for told, item in zip(found, findings) if is_mended(view, item)]:
            mended[0].update(rewriting(view, located(view, index, root)))
    return found


def is_mended(view: View, item: Finding) -> bool:
    """Whether a rewrite changes something where a finding is; of a whole script, it changes what is in it."""
    return item.code == PLAIN or any(change.before.line == item.span.line for change in view.result.changes)


def result(code: str, level: str, text: str, where: Json, place: Json, mark: str) -> Json:
    """One result."""
    return {
        "ruleId": code,
        "level": level,
        "message": {"text": text},
        "locations": [{"physicalLocation": {"artifactLocation": where, "region": place}}],
        "partialFingerprints": {FINGERPRINT: mark},
    }


def not_converted(view: View, index: int, root: Root) -> Json:
    """The result on a file that a rewrite would change."""
    text = f"A rewrite would change {plural(len(view.result.changes), 'place')} in this file."
    where = located(view, index, root)
    first = min((item.before.line for item in view.result.changes), default=1)
    told = result(REWRITE.code, REWRITE.level, text, where, {"startLine": first}, REWRITE.code)
    return {**told, **rewriting(view, where)}


def rewriting(view: View, where: Json) -> Json:
    """All that a rewrite changes in a file, as a fix, and the changes with their reasons."""
    related = [
        {
            "id": number,
            "physicalLocation": {"artifactLocation": where, "region": region(view.place(item.before, utf16=True))},
            "message": {"text": f"{item.kind}: {item.reason}"},
        }
        for number, item in enumerate(view.result.changes, 1)
    ]
    fixes = [
        {
            "description": {"text": "What distify rewrite writes."},
            "artifactChanges": [
                {"artifactLocation": where, "replacements": [replacement(view, shown) for shown in view.hunks]}
            ],
        }
    ]
    return {"relatedLocations": related, "fixes": fixes}


def replacement(view: View, shown: Shown) -> Json:
    """The lines of a hunk, from the start of the first to the start of the one behind the last."""
    hunk = shown.hunk
    if hunk.old_end < len(view.old):
        end = {"endLine": hunk.old_end + 1, "endColumn": 1}
    else:
        last = lines_of(view.text.source)[-1] if view.old else ""
        end = {"endLine": max(len(view.old), 1), "endColumn": units(last) + 1}
    start = {"startLine": hunk.old + 1, "startColumn": 1}
    if view.old and hunk.old == len(view.old):  # behind the last line
        start = {"startLine": end["endLine"], "startColumn": end["endColumn"]}
    told: Json = {"deletedRegion": {**start, **end}}
    new = "".join(view.new[hunk.new : hunk.new_end])
    return {**told, "insertedContent": {"text": new}} if new else told


def located(view: View, index: int, root: Root) -> Json:
    """A file: below the root of the repository where it is there."""
    uri, below = root.uri(view.result.path)
    return {"uri": uri, **({"uriBaseId": BASE} if below else {}), "index": index}


def region(place: Place) -> Json:
    """A place."""
    return {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }


def message(text: str) -> str:
    """A sentence; what looks like a placeholder is none, so its braces are doubled."""
    return PLACEHOLDER.sub(r"{{\1}}", text if text.endswith((".", "!", "?", "…")) else f"{text}.")
