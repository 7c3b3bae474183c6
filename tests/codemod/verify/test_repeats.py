"""What the original repeats exactly is no noise, what it does not repeat is."""

from __future__ import annotations

import pytest

from distify.codemod.verify.drift import EXACT, forgive
from distify.codemod.verify.found import Check, Row
from distify.codemod.verify.losses import Trace, compare_losses, compare_norms
from distify.codemod.verify.numbers import Tolerance
from distify.codemod.verify.outcome import Outcome
from distify.codemod.verify.output import compare_output
from distify.codemod.verify.repeats import doubt_noise, doubt_rounding, excuse, may_be_noise, saves_numbers


def outcome_of(text, other, tolerance=None, far=0.0, files=()):
    tolerance = tolerance or Tolerance()
    one, two = Trace([1.0], [2.0]), Trace([1.0 + far], [2.0])
    checks = [compare_losses(one, two, tolerance), compare_norms(one, two, tolerance)]
    checks.append(compare_output(text, other, tolerance))
    checks.append(Check("files", "value"))
    for row in files:
        checks[-1].add(row)
    return Outcome("ddp", checks=checks)


@pytest.mark.parametrize(
    ("text", "other", "again", "equal"),
    [
        ("epoch time 12.50", "epoch time 25.00", "epoch time 12.50", False),
        ("epoch time 12.50", "epoch time 25.00", "epoch time 12.61", True),
        ("took 0.1s\ntook 0.1s", "took 0.2s\ntook 0.3s", "took 0.1s\ntook 0.1s", True),  # few digits, by chance
        ("took 1.21s\ntook 2.22s", "took 4.21s\ntook 6.22s", "took 1.21s\ntook 2.22s", False),
        ("took 1.21s\ntook 2.22s", "took 4.21s\ntook 6.22s", "took 1.21s\ntook 2.32s", True),
        ("loss 0.5000 took 1.521s", "loss 0.5000 took 3.521s", "loss 0.6000 took 1.621s", True),
        ("at 10:22:31", "at 10:22:39", "at 10:22:31", True),
        ("2024-05-03 a", "2024-05-04 a", "2024-05-03 a", True),  # at midnight
        ("peak memory 1234.5 MB", "peak memory 2234.5 MB", "peak memory 1234.5 MB", True),
    ],
)
def test_a_time_that_is_repeated_exactly_is_none(text, other, again, equal):
    outcome = outcome_of(text, other)
    assert outcome.equal
    doubt_noise(outcome, outcome_of(text, again, EXACT))
    assert outcome.equal is equal


@pytest.mark.parametrize(
    ("text", "other", "again", "equal"),
    [
        ("done 1.312", "done 3.201", "done 1.408", True),
        ("done 1.312", "done 3.201", "done 1.312", False),
        ("acc 0.7 done 1.312", "acc 0.6 done 3.201", "acc 0.7 done 1.408", False),
        ("done 1.312\nacc 0.71", "done 3.201\nacc 0.55", "done 1.408\nacc 0.71", False),
    ],
)
def test_a_number_that_is_not_repeated_is_noise(text, other, again, equal):
    outcome = outcome_of(text, other)
    assert may_be_noise(outcome)
    excuse(outcome, outcome_of(text, again, EXACT))
    assert outcome.equal is equal


def test_what_is_no_matter_of_noise():
    assert not may_be_noise(outcome_of("a 1", "a 1"))
    assert not may_be_noise(outcome_of("a 1", "b 1"))
    assert not may_be_noise(outcome_of("a 1", "a 2", far=0.1))
    outcome = outcome_of("a 1", "a 2")
    excuse(outcome, outcome_of("a 1", "a 3", EXACT, far=1e-7))  # what it computes is not repeated either
    assert not outcome.equal


def test_a_weight_that_goes_any_way_is_asked_for():
    def bias(far):
        return [Row("w.pt: 0.bias", "|1|", "|1|", far, far / 1e-4, apart=far, scale=1.0)]

    outcome = outcome_of("", "", files=bias(0.8))
    assert may_be_noise(outcome)
    assert saves_numbers(outcome)
    forgive(outcome, outcome_of("", "", files=bias(0.5)))
    assert outcome.equal
    outcome = outcome_of("", "", files=bias(0.8))
    forgive(outcome, outcome_of("", "", files=bias(1e-6)))
    assert not outcome.equal
    assert not saves_numbers(outcome_of("a 1", "a 2"))


def test_files_and_names_that_are_not_repeated():
    def named(a, b, left="10 bytes", right="11 bytes"):
        return [Row(a, a, b, like="name of run_#"), Row("picture", left, right)] if a != b else []

    outcome = outcome_of("", "", files=named("run_7", "run_9"))
    assert may_be_noise(outcome)
    excuse(outcome, outcome_of("", "", files=named("run_7", "run_8")))
    assert outcome.equal
    outcome = outcome_of("", "", files=named("run_7", "run_9"))
    excuse(outcome, outcome_of("", "", files=named("run_7", "run_7")))
    assert not outcome.equal


@pytest.mark.parametrize(
    ("text", "other", "far", "equal"),
    [
        ("acc 0.831", "acc 0.832", 1e-7, False),
        ("acc 0.831", "acc 0.832", 1e-5, True),
        ("x 0.83112345", "x 0.83112346", 0.0, True),
        ("acc 0.831\n" * 400, "acc 0.831\n" * 399 + "acc 0.832", 1e-7, True),
        ("acc 0.831\n" * 400, "acc 0.832\n" * 20 + "acc 0.831\n" * 380, 1e-7, False),
        ("loss 0.83112345 acc 0.831", "loss 0.83112345 acc 0.832", 1e-7, False),
    ],
)
def test_last_digits_differ_as_often_as_rounding_makes_them(text, other, far, equal):
    outcome = outcome_of(text, other, far=far)
    assert outcome.equal
    doubt_rounding(outcome)
    assert outcome.equal is equal
