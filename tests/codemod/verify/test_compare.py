"""What is equal up to rounding, what is noise, and what differs: without running anything."""

from __future__ import annotations

import json
import math

import pytest

from distify.codemod.verify.losses import Trace, compare_losses, compare_norms, first, joined, read_trace
from distify.codemod.verify.noise import without_noise
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
    ],
)
def test_lines(before, after, equal):
    assert compare_output(before, after, STRICT).equal is equal


@pytest.mark.parametrize(
    "line",
    [
        "epoch 1 took {:.2f}s",
        "epoch 1 time: {:.3f} loss 1.0",
        "elapsed {:.1f}",
        "{:.1f} samples/sec",
        "{:.2f} s/epoch, done",
        "{:.0f}ms per step",
        "max memory {:.1f} MB",
        "batch_time={:.4f}",
        "2024-05-{:02.0f} 10:22:31 loss 1.0",
        "| ms/batch {:.2f} | loss 1.0",
        "at 0x7f00{:04.0f}",
    ],
)
def test_times_and_the_like_are_no_difference(line):
    check = compare_output(line.format(3.5), line.format(17.0), STRICT)
    assert check.equal
    assert "times" in check.notes[0]


@pytest.mark.parametrize(
    "line",
    [
        "timestep {:.0f}",
        "loss {:.2f} min 3",
        "step {:.0f} of 20",
        "score {:.1f} s.d. 3",
        "times_seen {:.0f}",
        "v {:.1f} h",
    ],
)
def test_other_numbers_are(line):
    assert not compare_output(line.format(3.5), line.format(17.0), STRICT).equal


def test_noise_hides_no_number_beside_it():
    check = compare_output("loss 0.5 in 3.2s", "loss 0.6 in 9.9s", STRICT)
    (row,) = check.rows
    assert (row.original, row.rewritten) == ("0.5", "0.6")
    assert without_noise("loss 0.5 in 3.2s") == "loss 0.5 in ~"


def test_progress_bars_are_left_out():
    bar = "\r 50%|#####     | 1/2 [00:01<00:01, 1.0it/s]\r100%|##########| 2/2 [00:02<00:00, 1.1it/s]"
    assert compare_output(f"{bar}\nloss 1.0\n", "loss 1.0\n", STRICT).equal


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


def test_tolerance_grows_by_line():
    text = "loss 100.000000\n" * 15
    assert compare_output(text, text[:-11] + "100.010000\n", STRICT).equal
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


def test_losses_that_nobody_reduced_are_averaged():
    ranks = [trace(1.0, 2.0), trace(3.0, 4.0)]
    assert joined(Trace(), ranks).losses == [2.0, 3.0]
    assert joined(trace(7.0), ranks).losses == [7.0]
