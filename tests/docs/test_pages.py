"""The pages of the site: those that follow from the source are up to date, and what the others show is what comes out.

`make docs` builds the site, with its links checked; `python docs/generate.py` makes the pages anew.
"""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BY_HAND = sorted(file for file in DOCS.rglob("*.md") if file.parent.name != "rules")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module


def test_generated_pages_are_up_to_date(module) -> None:
    for name, text in module("generate").generated().items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, f"{name}: run python docs/generate.py"


def test_examples_of_the_pages_are_what_comes_out(module) -> None:
    examples = module("examples")
    shown = 0
    for file in examples.written(DOCS):
        text = file.read_text(encoding="utf-8")
        assert examples.filled(text) == text, f"{file.name}: run python docs/generate.py"
        shown += text.count("```diff")
    assert shown >= 8


def test_a_stale_example_is_seen(module) -> None:
    page = "```python\nimport torch\n```\n\n`distify rewrite train.py`:\n\n```diff\n-old\n```\n"
    assert module("examples").filled(page) == page.replace("-old\n", "")
    other = "```text\ntrain.py: not after a script\n```\n"
    assert module("examples").filled(other) == other


def test_every_name_of_the_runtime_is_in_its_reference(module) -> None:
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    source = (ROOT / "runtime" / "__init__.py").read_text(encoding="utf-8")
    names = ast.literal_eval(source[source.index("__all__ = ") :].removeprefix("__all__ = "))  # without importing torch
    assert sorted(re.findall(r"^### (\w+)$", text, re.MULTILINE)) == sorted(names)
    assert "runtime.mean(x: Any, by: Any = None, of: Any = None) -> Any\n" in text
    assert "- `by`: what the local mean divided by" in text


def test_links_out_of_the_site_keep_their_words(module, caplog: pytest.LogCaptureFixture) -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="rules/DST101.md"))
    config = {"docs_dir": str(DOCS)}
    text = "[a](../limits.md#x) [b](../../codemod/codes.py) [c](../../no/such.py)"
    found = module("links").on_page_markdown(text, page=page, config=config, files=None)
    assert found == "[a](../limits.md#x) b c"
    assert [record.getMessage() for record in caplog.records] == [
        "rules/DST101.md: link to ../../no/such.py, which does not exist"
    ]


def test_every_page_can_be_reached() -> None:
    """The table of contents names all pages but those of single rules; the README leads to pages that exist."""
    contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r"[\w/-]+\.md", contents[contents.index("nav:") : contents.index("exclude_docs:")]))
    assert listed == {str(file.relative_to(DOCS)) for file in BY_HAND} | {"rules/index.md"}
    for target in re.findall(r"\]\((docs/[^)#]+)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target
