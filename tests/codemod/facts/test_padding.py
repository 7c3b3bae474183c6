"""Sequences are padded to the longest of the whole batch, wherever they are padded."""

from __future__ import annotations

from distify.codemod.options import Options
from distify.codemod.rewrite import rewrite_source
from tests.codemod.facts.snippets import edits, facts_of

SCRIPT = """
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 3, batch_first=True)

    def forward(self, seqs, firsts):
        {forward}


def collate(samples):
    seqs, labels = zip(*samples)
    return list(seqs), torch.tensor(labels), torch.stack([s[0] for s in seqs])


loader = DataLoader(torch.load("data.pt"), 6, collate_fn=collate)
model = Net()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for seqs, labels, firsts in loader:
    loss = F.cross_entropy(model({given}, firsts), labels)
    loss.backward()
    opt.step()
"""
RUN = "return self.rnn(seqs)[0][:, -1] + firsts"


def test_outside_a_forward_it_is_padded_whole() -> None:
    facts = facts_of(SCRIPT.format(forward=RUN, given="pad_sequence(seqs, batch_first=True)"))
    assert not facts.findings
    assert "gather(seqs)" in edits(facts)
    assert any(edit.startswith("split(pad_sequence(seqs, batch_first=True)") for edit in edits(facts))


def test_in_a_forward_it_is_refused() -> None:
    forward = "x = pad_sequence(seqs, batch_first=True)\n        return self.rnn(x)[0].mean(1) + firsts"
    facts = facts_of(SCRIPT.format(forward=forward, given="seqs"))
    assert [item.code for item in facts.findings] == ["DST122"]


def test_what_is_packed_next_may_be_padded_to_any_length() -> None:
    forward = (
        "x = pad_sequence(seqs, batch_first=True)\n"
        "        n = torch.tensor([len(s) for s in seqs])\n"
        "        _, h = self.rnn(pack_padded_sequence(x, n, batch_first=True, enforce_sorted=False))\n"
        "        return h[-1] + firsts"
    )
    assert not facts_of(SCRIPT.format(forward=forward, given="seqs")).findings


def test_what_is_gathered_already_is_not_gathered_again() -> None:
    """Of a batch of unknown structure, which a function of another file collates, too."""
    given = "pad_sequence(seqs, batch_first=True)"
    unknown = SCRIPT.replace("collate_fn=collate", "collate_fn=elsewhere.collate").replace(
        "import torch\n", "import elsewhere\nimport torch\n", 1
    )
    for source in (SCRIPT, unknown):
        result = rewrite_source(source.format(forward=RUN, given=given).encode(), "train.py", Options())
        assert result.data.decode().count("runtime.gather(") == 1
