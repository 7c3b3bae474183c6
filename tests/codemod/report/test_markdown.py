"""The comment for a pull request: it shows what is in the files and does nothing else, and fits."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from distify.codemod.edits import Span
from distify.codemod.findings import finding
from distify.codemod.report.formats import render
from distify.codemod.report.markdown import LIMIT, escaped
from distify.codemod.report.views import units

from .samples import SOURCE, alone, converted, refused

FENCED = re.compile(r"^(`{3,})diff\n(.*?)\n\1$", re.MULTILINE | re.DOTALL)


def comment(*results, **options):
    return render("markdown", results, "rewrite", **options).decode()


def patched(text, blocks):
    """A text with the blocks of a diff applied."""
    lines, found, at = text.split("\n"), [], 0
    for block in blocks:
        header, *rest = block.split("\n")
        start, count = re.match(r"@@ -(\d+)(?:,(\d+))? \+", header).groups()
        first = int(start) - (count != "0")
        assert first >= at  # no line is shown twice
        old = [line[1:] for line in rest if line[0] != "+"]
        assert lines[first : first + len(old)] == old
        assert int(count or 1) == len(old)
        found += [*lines[at:first], *(line[1:] for line in rest if line[0] != "-")]
        at = first + len(old)
    return "\n".join([*found, *lines[at:]])


def test_the_pieces_of_the_diff_are_the_rewrite():
    text = comment(converted(), alone())
    blocks = [match[2] for match in FENCED.finditer(text)]
    assert len(blocks) > 1
    assert patched(SOURCE, blocks) == converted().data.decode()


def test_each_piece_is_below_its_reasons():
    before = [text.rsplit("\n\n- ", 1)[-1] for text in FENCED.split(comment(converted()))[:-1:3]]
    assert all(
        re.match(r"\*\*[\w() \\]+\*\*, (former )?lines? [\d, -]+: .+ \(\[", text.split("\n\n")[-2]) for text in before
    )
    assert "**loader**, line 10: each process fetches" in comment(converted())


def test_summary_and_sections():
    text = comment(converted(), refused(), alone(), failures=["x*.py: no @file"])
    assert text.startswith("### distify rewrite: 1 file would be rewritten, 1 file refused, 1 file could not be read\n")
    assert "3 files looked at: " in text
    assert "- **error** x\\*.py: no @<!-- -->file\n" in text
    assert text.count("<details>\n<summary><code>") == text.count("\n</details>\n") == 2
    assert "<code>src/train one.py</code>: would be rewritten, " in text
    assert "tool.py" not in text
    assert "nothing to change" in comment(alone())
    assert comment(converted(), written=True).startswith("### distify rewrite: 1 file rewritten\n")


def test_what_is_in_a_file_stays_in_its_fence():
    (fence,) = {match[1] for match in FENCED.finditer(comment(converted())) if "````" in match[2]}
    assert fence == "`" * 5
    outside = FENCED.sub("", comment(converted(), replace(refused(), path="<b>`@x`.py")))
    assert "@torch" not in outside
    assert "&lt;b&gt;`@x`.py" in outside  # in <code>, where nobody is called


def test_words_of_messages_mean_nothing_in_markdown():
    assert escaped("a_b *c* [d](e) <f> `g` | h\n@me #12 # i") == (
        r"a\_b \*c\* \[d\](e) \<f\> \`g\` \| h @<!-- -->me #<!-- -->12 # i"
    )


@pytest.mark.parametrize(("count", "kept"), [(40, "findings"), (600, "names"), (3000, "some")])
def test_a_long_comment_is_cut_with_a_note(count, kept):
    many = [replace(converted(), path=f"😀{number}.py") for number in range(count)]
    text = comment(*many)
    assert LIMIT * 0.9 < units(text) <= LIMIT
    note = re.search(
        r"> \[!NOTE\]\n> A comment holds 65,536 characters: details of (\d+) files are left out here(.*)\.", text
    )
    assert note
    named = len(re.findall(r"😀\d+\.py</code>", text))
    assert named == (count if kept != "some" else count - int(re.search(r"and (\d+) files not named", note[2])[1]))
    if kept == "findings":  # of all files, before the diff of any
        assert len(re.findall("squeeze", FENCED.sub("", text))) >= count
        assert len({match[2] for match in FENCED.finditer(text)}) > 0


def test_failures_and_findings_without_end_fit_too():
    wrong = finding("DST203", Span(1, 0, 1, 5), "x" * 3000)
    long = replace(refused(), findings=(wrong,) * 50)
    text = comment(long, failures=["y" * 2000] * 2000)
    assert units(text) <= LIMIT
    assert "1980 more" in text
