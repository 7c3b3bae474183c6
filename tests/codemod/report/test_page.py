"""The page: well-formed, self-contained, readable without its script, and in colours that can be told apart."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from distify.codemod.report.blocks import Block, Line
from distify.codemod.report.page import page
from distify.codemod.report.sides import rows

from .samples import SOURCE, alone, converted, refused

VOID = {"meta", "br", "hr", "link", "img", "input"}


class Tree(HTMLParser):
    """Checks nesting, and keeps elements with their attributes and text."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open: list[dict] = []
        self.all: list[dict] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), f"an attribute twice in <{tag}>"
        element = {"tag": tag, "text": "", "parents": [item["tag"] for item in self.open], **dict(attrs)}
        self.all.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open[-1]["tag"] == tag, f"</{tag}> in <{self.open[-1]['tag']}>"
        self.open.pop()

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data

    def of(self, tag, **attributes):
        return [
            item
            for item in self.all
            if item["tag"] == tag and all(item.get(name.rstrip("_")) == value for name, value in attributes.items())
        ]


@cache
def text():
    odd = replace(refused(), path="<b>&\"'.py")
    return page([converted(), odd, alone()], "rewrite", failures=["x.py: </li>"]).decode()


@cache
def tree():
    return Tree(text())


def test_ids_are_unique_and_links_inside_lead_somewhere():
    ids = [item["id"] for item in tree().all if "id" in item]
    assert len(set(ids)) == len(ids)
    inside = [item["href"][1:] for item in tree().of("a") if item["href"].startswith("#")]
    assert len(inside) > 10
    assert set(inside) <= set(ids)
    assert {item["aria-labelledby"] for item in tree().all if "aria-labelledby" in item} <= set(ids)


def test_nothing_is_loaded_from_elsewhere():
    assert not [item for item in tree().all if {"src", "srcset", "data", "action", "poster", "style"} & set(item)]
    assert not tree().of("link")
    assert not [name for item in tree().all for name in item if name.startswith("on")]
    style, script = tree().of("style")[0]["text"], tree().of("script")[0]["text"]
    assert not re.search(r"url\(|@import|https?:", style)
    assert not re.search(r"fetch|XMLHttp|import\(|https?:", script)
    (policy,) = (
        item["content"] for item in tree().of("meta") if "Content-Security-Policy" in item.get("http-equiv", "")
    )
    assert policy.startswith("default-src 'none';")
    for element in (style, script):
        assert f"'sha256-{base64.b64encode(hashlib.sha256(element.encode()).digest()).decode()}'" in policy


def test_what_is_in_files_is_text():
    assert not tree().of("b", class_=None) or all("What to do" in item["text"] for item in tree().of("b", class_=None))
    assert len(tree().of("script")) == 1
    assert "<b>&\"'.py" in {item["text"] for item in tree().of("span", class_="path")}
    assert any("</script><b> @torch" in item["text"] for item in tree().of("code"))
    assert "x.py: </li>" in {item["text"] for item in tree().of("li")}


def test_both_texts_are_there_line_by_line():
    for side, source in (("old", SOURCE), ("new", converted().data.decode())):
        cells = {item["id"]: item for item in tree().of("td") if item.get("id", "").startswith(f"file-1-{side}-")}
        codes = [item for item in tree().all if item["tag"] == "td"]
        assert cells
        for name, number in cells.items():
            code = codes[codes.index(number) + 1]["text"]
            expected = source.split("\n")[int(name.rsplit("-", 1)[1]) - 1]
            assert re.sub(r"^.(removed|added): ", "", code) == expected


def test_each_hunk_has_its_reasons_and_links():
    hunks = tree().of("article", class_="hunk")
    assert len(hunks) > 1
    assert all(item["tabindex"] == "-1" for item in hunks)
    reasons = [item for item in tree().of("li") if "article" in item["parents"]]
    assert len(reasons) >= len({(item.rule, item.kind) for item in converted().changes})
    assert any(item["text"].startswith("loader, line 10: each process fetches its slice") for item in reasons)
    links = {item["href"] for item in tree().of("a") if "article" in item["parents"]}
    assert any(link.endswith("/rules/DST101/") for link in links)
    assert any(link.endswith("/changes/#prepare") for link in links)


def test_findings_have_their_line():
    marked = [item["text"] for item in tree().of("mark")]
    assert "out.squeeze()" in marked
    assert "model = " in marked  # of the file that is refused, which has no diff
    assert any("line 16" in item["text"] and item.get("href") == "#file-1-old-16" for item in tree().of("a"))


def test_it_can_be_heard():
    assert tree().of("html")[0]["lang"] == "en"
    assert [item["text"] for item in tree().of("h1")] == ["distify rewrite"]
    levels = [int(item["tag"][1]) for item in tree().all if re.fullmatch("h[1-6]", item["tag"])]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert tree().of("a")[0] | {"text": ""} == {
        "tag": "a",
        "text": "",
        "parents": ["html", "body"],
        "class": "skip",
        "href": "#main",
    }
    for table in tree().of("table"):
        assert table["role"] == "table"  # which narrow screens take from it otherwise
    assert all(item["scope"] == "col" and item["text"].strip() for item in tree().of("th"))
    assert {item["role"] for item in tree().of("td")} == {"cell"}
    words = {item["text"] for item in tree().of("span", class_="hidden")}
    assert {"removed: ", "added: "} <= words
    assert tree().of("ins")
    assert tree().of("del")
    assert all(item["text"].strip() for item in (*tree().of("a"), *tree().of("button")))
    assert all(item["parents"].count("main") or item["parents"].count("header") for item in tree().of("h2"))


def test_without_its_script_it_is_whole():
    hidden = [item for item in tree().all if "hidden" in item]
    assert [item["id"] for item in hidden] == ["steps"]  # buttons that would do nothing


def test_an_empty_report():
    assert "Nothing to change." in page([alone()], "rewrite").decode()


def variables(style):
    """The colours of the light and the dark scheme."""
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part)) for part in re.findall(r":root \{([^}]*)\}", style)
    )
    assert set(light) == set(dark)
    return {"light": light, "dark": dark}


def contrast(one, other):
    """As WCAG has it."""

    def luminance(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


TEXTS = {
    "text": ("page", "panel", "gone", "gone-word", "come", "come-word", "mark"),
    "muted": ("page", "panel", "gone", "come"),
    "link": ("page", "panel"),
    "error": ("page", "panel"),
    "warning": ("panel",),
    "note": ("panel",),
    "good": ("page",),
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_can_be_told_apart(scheme):
    colours = variables(tree().of("style")[0]["text"])[scheme]
    for text, grounds in TEXTS.items():
        for ground in grounds:
            assert contrast(colours[text], colours[ground]) >= 4.5, f"{text} on {ground}"
    for ground in ("page", "panel"):
        assert contrast(colours["focus"], colours[ground]) >= 3


def block(old, new):
    """A block of lines that go and come."""
    lines = [Line("-", number, None, line) for number, line in enumerate(old, 1)]
    lines += [Line("+", None, number, line) for number, line in enumerate(new, 1)]
    return Block((0, 0), tuple(lines), ())


def sides(*texts):
    """The numbers side by side."""
    return [(row.old and row.old.number, row.new and row.new.number) for row in rows(block(*texts))]


def test_lines_that_are_alike_stand_side_by_side():
    old = ["loss = F.mse_loss(out, y)", "loss.backward()", "optimizer.step()"]
    new = [
        "with runtime.autocast():",
        "    loss = runtime.mean(F.mse_loss(out, y))",
        "runtime.backward(loss)",
        "runtime.step(optimizer)",
    ]
    assert sides(old, new) == [(None, 1), (1, 2), (2, 3), (3, 4)]
    assert sides(["a = 1", "# gone"], []) == [(1, None), (2, None)]
    assert sides(["first(x, y)"], ["zzz", "qqq", "first(x, z)", "www"]) == [(None, 1), (None, 2), (1, 3), (None, 4)]
    assert sides(["first(x, y)", "second"], ["first(x, z)"]) == [(1, 1), (2, None)]


def test_each_line_is_there_once_in_its_order():
    old, new = [f"line({number}, a)" for number in range(80)], [f"line({number}, b)" for number in range(70)]
    for count in (5, 60, 80):
        found = sides(old[:count], new[: count - 3])
        assert [one for one, _ in found if one] == list(range(1, count + 1))
        assert [other for _, other in found if other] == list(range(1, count - 2))[: len(new)]


def test_words_that_differ_are_marked():
    (row,) = rows(block(["  a.cuda(x)"], ["    a.to(x)"]))
    assert [part.text for part in row.old.parts if part.new] == ["cuda"]
    assert [part.text for part in row.new.parts if part.new] == ["  ", "to"]
    (row,) = rows(block(["a" + "(b)" * 500], ["a" + "(b)" * 501]))
    assert [len(row.old.parts), len(row.new.parts)] == [1, 1]
