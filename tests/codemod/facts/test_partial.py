"""`functools.partial`: the arguments that it keeps are the function's, before those of the call."""

from __future__ import annotations

from tests.codemod.facts.snippets import codes, edits, facts_of, script

KEPT = "from functools import partial\n"


def test_a_kept_reduction_is_the_calls() -> None:
    facts = facts_of(
        script("total = summed(out, y)", head=KEPT, before='summed = partial(F.cross_entropy, reduction="sum")')
    )
    assert "sum(summed(out, y))" in str(edits(facts))


def test_the_reduction_of_a_call_wins() -> None:
    line = 'total = summed(out, y, reduction="mean")'
    facts = facts_of(script(line, head=KEPT, before='summed = partial(F.cross_entropy, reduction="sum")'))
    assert "mean(summed(out, y" in str(edits(facts))


def test_kept_positions_come_first() -> None:
    head = KEPT + "def error(scale, a, b):\n    return scale * F.cross_entropy(a, b)\n\n\n"
    facts = facts_of(script("total = half(out, y)", head=head, before="half = partial(error, 0.5)"))
    assert "mean(F.cross_entropy(a, b))" in str(edits(facts))


def test_a_divisor_without_a_name_at_the_call_is_refused() -> None:
    head = KEPT + "def weighted(w):\n    return partial(F.cross_entropy, weight=w * 2)\n\n\n"
    facts = facts_of(script("total = loss_fn(out, y)", head=head, before="loss_fn = weighted(torch.ones(3))"))
    assert "DST110" in codes(facts)
