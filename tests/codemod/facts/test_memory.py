"""What a module keeps from one forward to the next: state with a row for each sample stays with its rows."""

from __future__ import annotations

import pytest

from tests.codemod.facts.snippets import codes, facts_of, script

MODULE = """\
class Keeps(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.rnn = nn.Linear(4, 3), nn.LSTM(4, 3, batch_first=True)
        self.state = None
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        z = self.fc(x)
        {line}
        return z
"""

LINES = {
    "recurrent": ("_, self.state = self.rnn(x[:, None], self.state)", []),
    "detached": ("self.state = z if self.state is None else 0.5 * self.state.detach() + z", []),
    "pair": ("self.state = tuple(s.detach() for s in (self.state or (z, z)))", []),
    "kept": ("self.state = z.detach()", []),
    "statistics": ("self.state = 0.9 * self.state + 0.1 * z.detach().mean(0)", ["DST119"]),
    "buffer": ("self.mean = 0.9 * self.mean + 0.1 * z.detach().mean(0)", ["DST119"]),
    "rows in a buffer": ("self.mean = z.detach()", ["DST119"]),
    "queue": ("self.state = torch.cat([self.state, z.detach()])", ["DST119"]),
}


@pytest.mark.parametrize(("line", "found"), LINES.values(), ids=LINES)
def test_kept(line: str, found: list[str]) -> None:
    facts = facts_of(script("", head=MODULE.format(line=line)).replace("model = Net()", "model = Keeps()"))
    assert [code for code in codes(facts) if code == "DST119"] == found
