"""Packed sequences: what can't be put in order or lengthened is refused with its code."""

from __future__ import annotations

from .snippets import codes, facts_of, script

PACK = "h = nn.utils.rnn.pack_padded_sequence(x, n)\n"


def test_packed_steps_can_not_be_gathered() -> None:
    """Time steps of a slice are in an order of their own."""
    assert "DST114" in codes(facts_of(script(PACK + "print(h.data)", before="n = torch.tensor([4])")))


def test_a_packed_sequence_without_a_name_can_not_be_lengthened() -> None:
    head = "def fix(h):\n    print(3)\n    return h"
    text = PACK + "h, _ = nn.utils.rnn.pad_packed_sequence(fix(h){})"
    source = script(text.format(""), head=head, before="n = torch.tensor([4])")
    assert codes(facts_of(source)) == ["DST122"]
    given = script(text.format(", total_length=x.size(1)"), head=head, before="n = torch.tensor([4])")
    assert "DST122" not in codes(facts_of(given))


def test_a_named_one_is_lengthened() -> None:
    facts = facts_of(script(PACK + "h, _ = nn.utils.rnn.pad_packed_sequence(h)", before="n = torch.tensor([4])"))
    assert [pad.packed for pad in facts.pads] == ["h"]
    assert not codes(facts)
