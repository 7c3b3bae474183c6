"""What is equal up to rounding, what is noise, and what differs: without running anything."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from distify.codemod.verify.losses import Trace, compare_losses, compare_norms, first, joined, read_trace
from distify.codemod.verify.numbers import Tolerance, last_digit, tolerance_of
from distify.codemod.verify.output import compare_output, pairs

STRICT = Tolerance()


@pytest.mark.parametrize(
    ("before", "after", "equal"),
    [
        ("loss 0.500001 lr 3", "loss 0.500001 lr 3", True),
        ("loss 0.500001 lr 3", "loss 0.500003 lr 3", True),
        ("loss 0.500001 lr 3", "loss 0.500101 lr 3", False),
        ("loss 0.5 lr 3", "loss 0.5 lr 4", False),
        ("loss 0.5 lr 3", "loss 0.5 rate 3", False),
        ("loss 0.5", "loss 0.5\nmore", False),
        ("loss 0.5", "loss nan", False),
        ("loss nan", "loss nan", True),
        ("loss  9.9999999", "loss 10.0000001", True),
        ("correct 12/100", "correct 13/100", False),
        ("acc 0.1234", "acc 0.1235", True),  # a unit of the last digit that is printed
        ("acc 0.1234", "acc 0.1236", False),
        ("acc 0.1", "acc 0.2", False),
        ("seen 1000000", "seen 1000001", False),  # whole numbers are exact
        ("seen 10000000000000000001", "seen 10000000000000000002", False),
        ("right 83", "right 83.0", False),
        ("x 83", "x 82.9999999", True),  # as :g prints one value
        ("lr 5e-07", "lr 1e-06", False),
        ("mean 1.2e-09", "mean -3e-10", True),
        ("v -0.0", "v 0.0", True),
        ("resnet50", "resnet18", False),
        ("x inf", "x -inf", False),
        ("# 5", "5 #", False),
    ],
)
def test_lines(before, after, equal):
    assert compare_output(before, after, STRICT).equal is equal


def test_a_missing_and_a_new_line_are_found_where_they_are():
    check = compare_output("a 1\nb 2\nc 3\nd 4", "a 1\nc 3\nd 4\ne 5", STRICT)
    assert [(row.what, row.original, row.rewritten) for row in check.rows] == [
        ("line 2", "b 2", "(nothing)"),
        ("line 4", "(nothing)", "e 5"),
    ]
    assert check.compared == 5


def test_lines_are_paired_by_their_text():
    assert list(pairs("abc", "abc")) == [(0, 0), (1, 1), (2, 2)]
    assert list(pairs("abd", "acd")) == [(0, 0), (1, 1), (2, 2)]
    assert list(pairs("", "a")) == [(None, 0)]


@pytest.mark.parametrize("count", [100, 5000])  # below and above what is matched line with line
def test_missing_lines_of_long_texts_are_found_where_they_are(count):
    lines = [f"{'x' * (k % 7)} {k}" for k in range(count)]
    left = [line for k, line in enumerate(lines) if k != count - 30]
    right = [line for k, line in enumerate(lines) if k not in (10, count - 40)]
    found = compare_output("\n".join(left), "\n".join(right), STRICT)
    assert [(row.what, row.original == "(nothing)") for row in found.rows] == [
        ("line 11", False),
        (f"line {count - 39}", False),
        (f"line {count - 31}", True),
    ]


def test_texts_that_have_nothing_in_common_end():
    assert compare_output("a\n" * 3000, "b\n" * 2000, STRICT).differ == 3000


def test_tolerance_grows_by_line():
    text = "loss 100.000000\n" * 15
    assert compare_output(text, text[:-11] + "100.010000\n", STRICT).equal
    assert not compare_output(text, text[:-11] + "100.010000\n", replace(STRICT, many=STRICT.after(3).many)).equal
    assert not compare_output(text, "loss 100.010000\n" + text[16:], STRICT).equal
    assert tolerance_of("bf16").norm
    assert tolerance_of("fp32", 1e-7).at(100) == 1e-7
    assert tolerance_of("fp32", 0.0).absolute == 0.0


def test_the_last_printed_digit():
    assert last_digit("0.352", "0.353")
    assert not last_digit("0.352", "0.3521")
    assert not last_digit("352", "353")
    assert not last_digit("1e-3", "2e-3")
    assert not last_digit("nan", "0.1")


def trace(*losses, norms=()):
    order = [kind for _ in losses for kind in ("loss", *(["norm"] if norms else []))]
    return Trace(list(losses), list(norms), order)


def test_the_first_step_that_differs():
    a = trace(1.0, 0.5, 0.25, norms=(3.0, 2.0, 1.0))
    b = trace(1.0, 0.5, 0.30, norms=(3.0, 2.5, 1.0))
    checks = [compare_losses(a, b, STRICT), compare_norms(a, b, STRICT)]
    assert [check.differ for check in checks] == [1, 1]
    row = first(a, checks)
    assert row is not None
    assert row.what == "gradient norm of step 2"  # it comes before the third loss
    assert first(a, [compare_losses(a, a, STRICT), compare_norms(a, a, STRICT)]) is None


def test_a_run_that_is_shorter_differs():
    check = compare_losses(trace(1.0, 0.5), trace(1.0), STRICT)
    assert check.rows[0].rewritten == "(nothing)"
    assert check.notes == ["2 backward calls became 1"]


def test_no_number_is_a_difference():
    check = compare_losses(trace(1.0, math.inf, math.nan), trace(1.0, math.nan, math.nan), STRICT)
    assert [row.index for row in check.rows] == [1]


def test_traces_are_read_as_far_as_they_are_written(tmp_path):
    path = tmp_path / "t"
    lines = [
        {"backward": 0, "loss": 2.0},
        {"step": 0, "grad_norm": 1.0, "skipped": True},
        {"step": 1, "grad_norm": None},
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + '\n{"backward": 1, "lo')
    found = read_trace(path)
    assert (found.losses, found.norms, found.order) == ([2.0], [None], ["loss", "norm"])
    assert read_trace(tmp_path / "none").losses == []


def read(tmp_path, *lines):
    (tmp_path / "t").write_text("\n".join(map(json.dumps, lines)))
    return read_trace(tmp_path / "t")


def test_losses_that_nobody_reduced_are_averaged():
    ranks = [trace(1.0, 2.0), trace(3.0, 4.0)]
    found = joined(Trace(), ranks)
    assert (found.losses, found.averaged, found.calls) == ([2.0, 3.0], True, [])
    assert joined(trace(7.0), [Trace(), Trace()]).losses == [7.0]


@pytest.mark.parametrize("ranks", [(2, 3), (3, 2), (2, 1), (2, 0)])
def test_processes_with_other_numbers_of_backward_calls_differ(ranks):
    found = joined(Trace(), [trace(*[1.0] * count) for count in ranks])
    assert len(found.losses) == max(ranks)
    check = compare_losses(trace(1.0, 1.0), found, STRICT)
    row = next(row for row in check.rows if row.what == "backward calls by process")
    assert (row.original, row.rewritten) == ("2", f"{ranks[0]}, {ranks[1]}")


def test_backward_calls_past_the_runtime_are_put_between_those_of_the_runtime(tmp_path):
    ours, passed = {"runtime": "loss"}, {"runtime": "norm"}
    lead = read(tmp_path, {"loss": 1.0}, ours, passed, {"loss": 3.0}, {"grad_norm": 9.0})
    other = read(tmp_path, {"loss": 2.0}, {"loss": 5.0})
    found = joined(trace(7.0, norms=(8.0,)), [lead, other])
    assert found.losses == [1.5, 7.0, 4.0]
    assert (found.norms, found.order, found.averaged) == ([8.0], ["loss", "loss", "norm", "loss"], False)
    assert not compare_losses(trace(7.0), found, STRICT).equal


def test_norms_that_could_not_be_told_are_counted():
    left, right = Trace(norms=[None, None, 1.0]), Trace(norms=[None, 2.0, None])
    check = compare_norms(left, right, STRICT)
    assert (check.compared, check.differ) == (3, 2)
    assert [(row.original, row.rewritten) for row in check.rows] == [("(unknown)", "2"), ("1", "(unknown)")]
    assert check.notes == ["1 of them could be told in neither run"]
    assert compare_norms(left, Trace(norms=[None, None, 1.0, None]), STRICT).rows[0].rewritten == "(unknown)"
