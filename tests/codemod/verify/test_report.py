"""Causes, tables, JSON, pages: from what was found to what is said."""

from __future__ import annotations

import json
import math
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from distify.codemod.cli import app
from distify.codemod.verify.asjson import as_json
from distify.codemod.verify.causes import causes
from distify.codemod.verify.curves import difference_chart, loss_chart
from distify.codemod.verify.evidence import Evidence
from distify.codemod.verify.found import Check, Row
from distify.codemod.verify.losses import Trace, compare_losses, compare_norms, first
from distify.codemod.verify.main import code_of
from distify.codemod.verify.numbers import Tolerance
from distify.codemod.verify.outcome import Outcome
from distify.codemod.verify.output import compare_output
from distify.codemod.verify.page import page
from distify.codemod.verify.plot import can_plot
from distify.codemod.verify.table import columns, report

T = Tolerance()


def outcome_of(a, b, expected="", actual="", norms=((), ()), **known):
    """An outcome, with its causes, of two series of losses and two texts."""
    order = [kind for _ in a for kind in (("loss", "norm") if norms[0] else ("loss",))]
    left, right = Trace(list(a), list(norms[0]), order), Trace(list(b), list(norms[1]))
    checks = [compare_losses(left, right, T), compare_norms(left, right, T), compare_output(expected, actual, T)]
    outcome = Outcome("ddp", " on 2 processes", checks, first=first(left, checks), losses=(a, b))
    seen = Evidence(outcome.first, {check.name: check for check in checks}, 2, (a, b), **{"itself": "", **known})
    outcome.causes = [] if outcome.equal else causes(seen)
    return outcome


@pytest.mark.parametrize(
    ("losses", "texts", "known", "words"),
    [
        (([1, 2], [1, 3]), ("", ""), {}, "state of the optimizer"),
        (([1, 2], [2, 4]), ("", ""), {}, "2 times the original"),
        (([1, 2], [1.2, 2]), ("", ""), {}, "the first loss differs"),
        (([1, 2], [1, 2]), ("n 8", "n 4"), {}, "1/2 of the original"),
        (([1, 2], [1, 2]), ("a", "a\na"), {}, "another process prints"),
        (([1, 2], [1, 2]), ("a\nb", "a"), {}, "lines are missing"),
        (([1, 2], [1, 2, 3]), ("", ""), {}, "number of backward calls"),
        (([1, 2], [1.1, 2]), ("", ""), {"facts": {"dropout": True}}, "--no-dropout"),
        (([1, 2], [1.1, 2]), ("", ""), {"itself": "loss of backward 1"}, "differs from itself"),
        (([1, 2], [1.1, 2]), ("", ""), {"precision": "bf16"}, "bf16 rounds"),
        (([1, 2], [1.1, 2]), ("", ""), {"batch": "per-device"}, "per-device"),
        (([1, 2], [1.1, 2]), ("", ""), {"batchnorm": "local", "source": "BatchNorm1d(3)"}, "--batchnorm local"),
        (([1, 2], [1.1, 2]), ("", ""), {"accumulate": 4}, "accumulate=4"),
    ],
)
def test_the_likeliest_cause(losses, texts, known, words):
    assert words in outcome_of(*losses, *texts, **known).causes[0]


def test_processes_that_make_other_numbers_of_calls():
    outcome = outcome_of([1, 2], [1, 2])
    outcome.checks[0].add(Row("backward calls by process", "2", "2, 1", index=1))
    seen = Evidence(None, {check.name: check for check in outcome.checks}, 2, ([1, 2], [1, 2]), itself="")
    assert "number of backward calls" in causes(seen)[0]


def test_gradients_that_differ_while_losses_do_not():
    outcome = outcome_of([1, 1.5], [1, 1.7], norms=([3.0, 2.0], [6.0, 2.0]))
    assert outcome.place == "gradient norm of step 1"
    assert "2 times the original" in outcome.causes[0]
    assert "not averaged" in outcome.causes[0]


def test_losses_that_differ_while_gradients_do_not():
    outcome = outcome_of([1, 1.5], [1.1, 1.7], norms=([3.0, 2.0], [3.0, 2.0]))
    assert outcome.causes[0].startswith("all gradients are equal")


def test_rounding_that_grows_is_told_from_a_jump():
    far = [1e-8 * 8**k for k in range(8)]
    grows = outcome_of([1.0] * 8, [1 + x for x in far])
    assert "amplifies" in grows.causes[0]
    assert "amplifies" not in "".join(outcome_of([1.0] * 8, [1.0] * 7 + [1.1]).causes)


def test_repeating_the_original_is_offered_until_it_was_done():
    assert "--twice" in outcome_of([1, 2], [1, 3], itself=None).causes[-1]
    assert "--twice" not in "".join(outcome_of([1, 2], [1, 3]).causes)


def text_of(*outcomes):
    return "\n".join("".join(piece for piece, _ in line) for line in report("train.py", outcomes))


def test_the_table_fits_80_columns():
    differs = outcome_of([1.0, 2.0] * 9, [1.0, 3.0] * 9, "x" * 300 + " 1", "y" * 300 + " 1")
    text = text_of(differs)
    assert max(map(len, text.splitlines())) < 80
    assert columns("loss of backward 2", "2", "3", "3.3e-01") in text
    assert "… and 4 more values of losses" in text
    assert "DIFFERS, first at loss of backward 2" in text
    assert "EQUAL" in text_of(outcome_of([1.0], [1.0 + 1e-7]))


def test_a_matrix_has_one_line_for_each_backend():
    equal, differs = outcome_of([1.0], [1.0 + 1e-7]), outcome_of([1.0], [2.0])
    differs.name = "fsdp"
    missing = Outcome("deepspeed", unable=["deepspeed is not installed here"], skipped=True)
    text = text_of(equal, differs, missing)
    lines = text.splitlines()
    assert lines[1].split() == ["ddp", "1.0e-07", "-", "-", "-", "none:", "equal"]
    assert lines[2].endswith("loss of backward 1")
    assert lines[3].endswith("not installed")
    assert max(map(len, lines)) < 80


def test_exit_codes():
    equal, differs = outcome_of([1.0], [1.0]), outcome_of([1.0], [2.0])
    failed, missing = Outcome("fsdp", unable=["failed"]), Outcome("deepspeed", unable=["no"], skipped=True)
    assert code_of([equal, missing]) == 0
    assert code_of([equal, failed, differs]) == 1
    assert code_of([equal, failed]) == 2
    assert code_of([missing]) == 2


def test_json_holds_no_number_that_json_does_not_know():
    outcome = outcome_of([1.0, math.nan], [1.0, math.inf])
    body = json.loads(as_json("train.py", [outcome], 1), parse_constant=pytest.fail)
    (run,) = body["runs"]
    assert (run["result"], run["first"], body["exit"]) == ("differs", "loss of backward 2", 1)
    assert run["losses"]["rewritten"] == [1.0, None]
    assert run["checks"]["losses"]["rows"][0]["difference"] is None


def test_the_page_stands_alone_and_escapes():
    text = page("<b>.py", [outcome_of([1.0, 2.0, 3.0], [1.0, 2.5, 3.0], "<script>1", "<script>2")])
    assert "<b>.py" not in text
    assert "<script" not in text
    assert "http" not in text
    for start in text.split("<svg")[1:]:
        ElementTree.fromstring("<svg" + start.partition("</svg>")[0] + "</svg>")
    assert text.count("<svg") == 2
    assert "prefers-color-scheme: dark" in text


def test_curves_stay_inside_their_picture_and_break_where_there_is_no_number():
    values = [math.sin(k / 50) for k in range(5000)]
    values[2500] = math.nan
    chart = loss_chart(values, values[:100])
    (_, long), (_, short) = chart.curves
    assert len(long) == 2
    assert len(short) == 1
    points = [tuple(map(float, point.split(","))) for line in long for point in line.split()]
    assert len(points) <= 1300
    assert all(chart.left <= x <= chart.right and chart.top - 0.1 <= y <= chart.bottom + 0.1 for x, y in points)
    for odd in ([], [1.0], [math.nan], [5.0, 5.0]):
        loss_chart(odd, odd)
        difference_chart(odd, odd, [1e-5] * len(odd))


def test_rows_of_files_that_one_run_wrote_alone():
    check = Check("files", "value")
    check.add(Row("model.pt", "written", "not written"))
    outcome = Outcome("ddp", checks=[check])
    assert outcome.place == "model.pt"
    assert "written" in text_of(outcome)


def test_without_matplotlib_a_line_says_so(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not can_plot()
    told = capsys.readouterr().err
    assert "matplotlib is not installed" in told
    assert "--html" in told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--backend", "dpd"], "did you mean 'ddp'"),
        (["--matrix", "--backend", "ddp"], "leave --backend out"),
        (["--format", "xml"], "valid: text, json"),
        (["--device", "tpu"], "valid: auto, cpu, cuda"),
        (["--ignore", "("], "no regular expression"),
        (["--steps", "0"], "--steps"),
        (["--nproc", "0"], "--nproc"),
    ],
)
def test_usage_errors(arguments, words):
    found = CliRunner().invoke(app, ["verify", "train.py", *arguments])
    assert found.exit_code == 2
    assert words in " ".join(found.output.replace("│", " ").split())
