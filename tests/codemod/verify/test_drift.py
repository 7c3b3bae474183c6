"""Rounding that a training amplifies, told from a difference of the conversion."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from distify.codemod.verify.child.nudge import Nudge
from distify.codemod.verify.drift import EXACT, forgive, may_be_rounding, unsteady
from distify.codemod.verify.found import Check, Row
from distify.codemod.verify.losses import Trace, compare_losses
from distify.codemod.verify.numbers import Tolerance
from distify.codemod.verify.outcome import Outcome
from distify.codemod.verify.output import compare_output

STEPS = 40
GROWS = [1e-8 * 1.5**k for k in range(STEPS)]


def outcome_of(far, text="", tolerance=None):
    """An outcome of losses that are off by these."""
    tolerance = tolerance or Tolerance()
    one, other = Trace([1.0] * STEPS), Trace([1.0 + x for x in far])
    checks = [
        compare_losses(one, other, tolerance),
        compare_output("loss 1.000000", text or "loss 1.000000", tolerance),
    ]
    return Outcome("ddp", checks=checks, first=checks[0].rows[0] if checks[0].rows else None)


def test_what_grows_as_rounding_does_is_rounding():
    outcome = outcome_of([3 * x for x in GROWS], "loss 1.001000")
    assert not outcome.equal
    assert may_be_rounding(outcome)
    drift = outcome_of(GROWS, "loss 1.000200", EXACT)
    assert unsteady(drift) == ""
    forgive(outcome, drift)
    assert outcome.equal
    assert outcome.first is None
    assert outcome.forgiven > 5
    assert "as in the original itself" in outcome.checks[0].notes[0]


def test_what_is_larger_at_its_step_is_not():
    outcome = outcome_of([1e5 * x for x in GROWS])
    forgive(outcome, outcome_of(GROWS, tolerance=EXACT))
    assert outcome.place == "loss of backward 1"
    jump = outcome_of([0.0] * 5 + [1e-3] * (STEPS - 5))  # the drift is as large, but later
    assert may_be_rounding(jump)
    forgive(jump, outcome_of(GROWS, tolerance=EXACT))
    assert jump.place == "loss of backward 6"
    exact = outcome_of([0.0] * 5 + [1e-3] * (STEPS - 5))
    forgive(exact, outcome_of([0.0] * STEPS, tolerance=EXACT))
    assert not exact.equal


def printed(text, other, tolerance=None):
    """An outcome of equal losses and of two texts."""
    same = Trace([1.0] * STEPS)
    checks = [compare_losses(same, same, tolerance or Tolerance())]
    checks.append(compare_output(text, other, tolerance or Tolerance()))
    return Outcome("ddp", checks=checks)


@pytest.mark.parametrize(
    ("text", "other", "nudged", "equal"),
    [
        ("loss 1.00000 acc 0.5000", "loss 1.00000 acc 0.5040", "loss 1.00400 acc 0.5000", False),  # another's drift
        ("loss 1.00000 acc 0.5000", "loss 1.00000 acc 0.5040", "loss 1.00000 acc 0.5010", True),
        ("loss 1.00000 acc 0.5000", "loss 1.00500 acc 0.5040", "loss 1.00400 acc 0.5000", False),  # one of two
        ("a 1.00000\nb 1.00000", "a 1.00000\nb 1.00500", "a 1.00400\nb 1.00000", False),
        ("acc 0.80", "acc 0.75", "acc 0.81", False),  # one unit of the last digit is no drift
        ("acc 0.80", "acc 0.81", "acc 0.79", True),
        ("right 83", "right 80", "right 84", False),
        ("right 83", "right 83.5", "right 84", False),
        ("right 83", "right 83.0", "right 83", False),
        ("right 83", "right 83.0", "right 84", False),
        ("loss 1.00000", "loss 1.50000", "loss 1.04000", False),  # far, and farther than thrice as far
        ("loss 1.00000", "loss 1.10000", "loss 1.04000", True),
        ("lr 5e-07", "lr 1e-06", "lr 5e-07", False),
        ("mean 5e-07", "mean 1e-06", "mean 4e-07", True),
        ("mean 1e-09", "mean 0.5", "mean 4e-09", False),
    ],
)
def test_drift_is_that_of_the_same_number(text, other, nudged, equal):
    start = "start\n"  # what differs from the first line on is no drift
    outcome = printed(start + text, start + other)
    forgive(outcome, printed(start + text, start + nudged, EXACT))
    assert outcome.equal is equal


def test_drift_of_one_tensor_excuses_no_other():
    def files(*far):
        check = Check("files", "value")
        for name, x in zip("ab", far):
            check.add(Row(f"w.pt: {name}", "|1|", "|1|", x, x / 1e-6, apart=x, scale=1.0))
        return Outcome("ddp", checks=[check])

    outcome = files(1e-3, 1e-3)
    forgive(outcome, files(1e-3, 0.0))
    assert [row.what for row in outcome.checks[0].rows] == ["w.pt: b"]


def files_of(a, b):
    check = Check("files", "value")
    check.add(Row("picture.png", f"{a} bytes", f"{b} bytes", 0.0 if a == b else math.inf, 0.0 if a == b else math.inf))
    return Outcome("ddp", checks=[check])


def test_pictures_that_the_original_does_not_repeat_either():
    outcome = files_of(10, 11)
    assert may_be_rounding(outcome)
    forgive(outcome, files_of(10, 10))
    assert not outcome.equal
    forgive(outcome, files_of(10, 12))
    assert outcome.equal


def test_an_unsteady_original_forgives_nothing():
    outcome = outcome_of([1e-3] * STEPS)
    forgive(outcome, outcome_of([0.1] * STEPS, tolerance=EXACT))
    assert not outcome.equal


def test_texts_and_large_differences_are_never_rounding():
    assert not may_be_rounding(outcome_of([0.5] * STEPS))
    text = outcome_of([0.0] * STEPS, "accuracy 1.0")
    assert not may_be_rounding(text)
    forgive(text, outcome_of(GROWS, "other", EXACT))
    assert not text.equal


def test_an_original_that_does_not_repeat_itself():
    assert unsteady(outcome_of([0.1] * STEPS, tolerance=EXACT)) == "loss of backward 1"
    assert unsteady(outcome_of([0.0] * STEPS, "loss 7", EXACT)) == "line 1"


def test_each_weight_is_moved_once_by_its_last_digit_and_no_stream_is():
    layer = nn.Linear(40, 30)
    layer.bias.requires_grad_(False)
    before, bias, state = layer.weight.detach().clone(), layer.bias.clone(), torch.get_rng_state()
    nudge = Nudge(torch)
    nudge.before(layer, ())
    moved = layer.weight.detach().clone()
    nudge.before(layer, ())
    assert torch.equal(layer.weight, moved)
    assert torch.equal(layer.bias, bias)
    assert torch.equal(torch.get_rng_state(), state)
    far = (moved - before).abs() / before.abs()
    assert 0 < far.max() < 3e-7
    assert (far > 0).float().mean() > 0.9
