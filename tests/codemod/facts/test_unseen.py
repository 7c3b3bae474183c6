"""What parts of a model do with the batch is seen however they are held and called; else they are looked at alone."""

from __future__ import annotations

import textwrap

import pytest

from tests.codemod.facts.snippets import HEAD, codes, edits, facts_of
from tests.codemod.facts.test_containers import CENTER, LOOP

HOLDER = """
class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
{made}

    def center(self, x):
        return x - x.mean(0)

    def forward(self, x):
        x = self.fc(x)
{run}
        return x


model = Holder()
"""
# How a part is made in `__init__`, and how it is run in the forward.
HELD = {
    "named_children": ("self.c = Center()", "for name, m in self.named_children():\n    x = m(x)"),
    "children": ("self.c = Center()", "for m in self.children():\n    x = m(x)"),
    "modules by name": ("self.c = Center()", "x = self._modules['c'](x)"),
    "names counted": (
        "for i in range(2):\n    setattr(self, f'c{i}', Center())",
        "for i in range(2):\n    x = getattr(self, f'c{i}')(x)",
    ),
    "add_module counted": (
        "for i in range(2):\n    self.add_module(f'c{i}', Center())",
        "for i in range(2):\n    x = getattr(self, f'c{i}')(x)",
    ),
    "index": ("self.l = nn.ModuleList([nn.Linear(4, 4), Center()])", "for i in range(2):\n    x = self.l[i](x)"),
    "slice": ("self.l = nn.Sequential(nn.Linear(4, 4), Center(), nn.ReLU())", "x = self.l[:2](x)"),
    "dict": ("self.l = nn.ModuleDict()\nself.l.update({'a': Center()})", "for k in self.l:\n    x = self.l[k](x)"),
    "extend": ("self.l = nn.ModuleList()\nself.l.extend([Center()])", "for m in self.l:\n    x = m(x)"),
    "sum of lists": (
        "self.l = nn.ModuleList([nn.ReLU()]) + nn.ModuleList([Center()])",
        "for m in self.l:\n    x = m(x)",
    ),
    "zip": (
        "self.a = nn.ModuleList([nn.ReLU()])\nself.b = nn.ModuleList([Center()])",
        "for a, b in zip(self.a, self.b):\n    x = b(a(x))",
    ),
    "reversed": ("self.a = nn.ModuleList([nn.ReLU(), Center()])", "for b in reversed(self.a):\n    x = b(x)"),
    "plain list": ("self.a = [Center()]", "for b in self.a:\n    x = b(x)"),
    "list of results": ("self.c = nn.ModuleList([Center()])", "x = torch.stack([m(x) for m in self.c]).sum(0)"),
    "sum of results": ("self.c = nn.ModuleList([Center(), Center()])", "x = sum(m(x) for m in self.c)"),
    "encoder": ("self.l = nn.TransformerEncoder(Center(), 2)", "x = self.l(x)"),
    "checkpoint": ("self.l = Center()", "x = torch.utils.checkpoint.checkpoint(self.l, x, use_reentrant=False)"),
    "checkpoint_sequential": (
        "self.l = nn.Sequential(nn.Linear(4, 4), Center())",
        "x = torch.utils.checkpoint.checkpoint_sequential(self.l, 2, x, use_reentrant=False)",
    ),
    "layers that grow": (
        "layers = [nn.Linear(4, 4) for _ in range(2)]\nlayers += [Center()]\nself.l = nn.Sequential(*layers)",
        "x = self.l(x)",
    ),
    "method as activation": ("self.act = self.center", "x = self.act(x)"),
    "lambda as activation": ("self.act = lambda v: v - v.mean(0)", "x = self.act(x)"),
    "its forward": ("self.c = Center()", "x = self.c.forward(x)"),
}
WHOLE = {
    "own call": (
        "class Called(nn.Module):\n    def __call__(self, x):\n        return x - x.mean(0)\n\n\n"
        "model = nn.Sequential(nn.Linear(4, 4), Called())\n"
    ),
    "forward of the base": (
        "class Own(nn.Sequential):\n    def __init__(self):\n        super().__init__(nn.Linear(4, 4), Center())\n\n"
        "    def forward(self, x):\n        return super().forward(x) * 2\n\n\nmodel = Own()\n"
    ),
    "two bases up": (
        "class Block(nn.Sequential):\n    def __init__(self, n):\n        layers = [nn.Linear(4, 4)] * n\n"
        "        layers += [Center()]\n        super().__init__(*layers)\n\n\n"
        "class Own(Block):\n    def __init__(self):\n        super().__init__(2)\n\n\nmodel = Own()\n"
    ),
    "head of a library's model": (
        "import torchvision\nmodel = torchvision.models.resnet18()\n"
        "model.fc = nn.Sequential(nn.Linear(512, 4), Center())\n"
    ),
    "residual": (
        "class Residual(nn.Module):\n    def __init__(self, fn):\n        super().__init__()\n        self.fn = fn\n\n"
        "    def forward(self, x, **kw):\n        return self.fn(x, **kw) + x\n\n\n"
        "model = nn.Sequential(nn.Linear(4, 4), Residual(Center()))\n"
    ),
    "function of its own": (
        "class Function(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
        "        return x - x.mean(0)\n\n    @staticmethod\n    def backward(ctx, g):\n        return 2 * g\n\n\n"
        + HOLDER.format(made="        pass", run="        x = Function.apply(x)")
    ),
    "backward of its own": (
        "class Function(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
        "        return 2 * x\n\n    @staticmethod\n    def backward(ctx, g):\n        return g - g.mean(0)\n\n\n"
        + HOLDER.format(made="        pass", run="        x = Function.apply(x)")
    ),
}
MODELS = {
    name: HOLDER.format(made=textwrap.indent(made, " " * 8), run=textwrap.indent(run, " " * 8))
    for name, (made, run) in HELD.items()
} | WHOLE
ROWWISE = [("x - x.mean(0)", "2 * x"), ("v - v.mean(0)", "2 * v"), ("g - g.mean(0)", "2 * g")]


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_rows_that_meet_are_seen(model: str) -> None:
    assert "DST110" in codes(facts_of(HEAD + CENTER + model + LOOP))


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_rows_by_themselves_are_no_trouble(model: str) -> None:
    source = HEAD + CENTER + model + LOOP
    for mixing, plain in ROWWISE:
        source = source.replace(mixing, plain)
    facts = facts_of(source)
    assert not codes(facts)
    assert edits(facts) == ["mean(F.cross_entropy(model(x), y))"]


def test_vmap_over_another_dimension() -> None:
    run = "        x = torch.vmap(self.center, in_dims=1, out_dims=1)(x)"
    assert "DST110" in codes(facts_of(HEAD + HOLDER.format(made="        pass", run=run) + LOOP))
