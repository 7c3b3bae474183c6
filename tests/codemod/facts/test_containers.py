"""Modules of the program that run inside `nn.Sequential` and its like: their forward is looked into all the same."""

from __future__ import annotations

import pytest

from tests.codemod.facts.snippets import HEAD, codes, facts_of

CENTER = """
class Center(nn.Module):
    def forward(self, x):
        return x - x.mean(0)
"""
OTHER = """
class Twice(nn.Module):
    def forward(self, x):
        return 2 * x
"""
LOOP = """
data = TensorDataset(torch.randn(29, 4), torch.randint(0, 4, (29,)))
loader = DataLoader(data, batch_size=7)
opt = optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = F.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
OWN = """
class Own(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, 4), Center())


model = Own()
"""
LISTED = """
class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), Center()) for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


model = Holder()
"""
GROWN = """
model = nn.Sequential(nn.Linear(4, 4))
model.append(Center())
"""
FORMS = {
    "one by one": "model = nn.Sequential(nn.Linear(4, 4), Center())\n",
    "unpacked list": "model = nn.Sequential(*[nn.Linear(4, 4), Center()])\n",
    "unpacked comprehension": "model = nn.Sequential(nn.Linear(4, 4), *[Center() for _ in range(2)])\n",
    "unpacked generator": "model = nn.Sequential(nn.Linear(4, 4), *(Center() for _ in range(2)))\n",
    "list that grows": "layers = [nn.Linear(4, 4)]\nlayers.append(Center())\nmodel = nn.Sequential(*layers)\n",
    "ordered dict": (
        "from collections import OrderedDict\n"
        "model = nn.Sequential(OrderedDict([('a', nn.Linear(4, 4)), ('b', Center())]))\n"
    ),
    "nested": "model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Sequential(Center())))\n",
    "appended": GROWN,
    "subclass": OWN,
    "list of them": LISTED,
}


@pytest.mark.parametrize("made", FORMS.values(), ids=FORMS)
def test_what_a_member_does_with_the_batch_is_seen(made: str) -> None:
    assert "DST110" in codes(facts_of(HEAD + CENTER + made + LOOP))


@pytest.mark.parametrize("made", FORMS.values(), ids=FORMS)
def test_members_that_leave_rows_alone_are_no_trouble(made: str) -> None:
    facts = facts_of(HEAD + OTHER + made.replace("Center", "Twice") + LOOP)
    assert not codes(facts)
    assert [item.kind for item in facts.reductions] == ["mean"]


def test_members_run_in_their_order() -> None:
    pooled = "\nclass Pooled(nn.Module):\n    def forward(self, x):\n        return x.mean(1, keepdim=True)\n"
    turned = "\nclass Turned(nn.Module):\n    def forward(self, x):\n        return x.t()\n"
    there_and_back = "model = nn.Sequential(nn.Linear(4, 4), Turned(), Turned(), Pooled())\n"
    assert not codes(facts_of(HEAD + pooled + turned + there_and_back + LOOP))
    across = "model = nn.Sequential(nn.Linear(4, 4), Turned(), Pooled(), Turned())\n"
    assert codes(facts_of(HEAD + pooled + turned + across + LOOP))
