"""Statements that change parameters by hand, or use their gradients, go into a block in which these are whole."""

from __future__ import annotations

import pytest

from distify.codemod.options import Options
from tests.codemod.rules.checks import check_noop, check_rewritten, outcome, script

LOOP = """\
loader = DataLoader(data, batch_size=4)
model = Net()
other = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
params = list(model.parameters())
average = torch.optim.swa_utils.AveragedModel(model)
{before}
for x, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
{body}
    optimizer.step()
"""


def loop(body: str, before: str = "") -> str:
    return LOOP.format(body="\n".join(f"    {line}" for line in body.splitlines()), before=before)


def block(body: str, models: str, grads: bool = False) -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"with runtime.whole({models}{', grads=True' if grads else ''}):\n{lines}"


CHANGES = {
    "clipped": ("for p in model.parameters():\n    p.data.clamp_(-1, 1)", "model"),
    "without data": ("with torch.no_grad():\n    for p in model.parameters():\n        p.clamp_(-1, 1)", None),
    "named": ("for n, p in model.named_parameters():\n    if 'bias' in n:\n        p.data.zero_()", "model"),
    "assigned": ("for p in model.parameters():\n    p.data = p.data * 0.9", "model"),
    "augmented": ("for p in model.parameters():\n    p.data *= 0.9", "model"),
    "part": ("model.fc.weight.data[0] = 0.0", "model.fc"),
    "layer": ("model.fc.weight.data.mul_(0.5)", "model.fc"),
    "initialised": ("nn.init.normal_(model.fc.weight)", "model.fc"),
    "submodule": ("for p in model.fc.parameters():\n    p.data.add_(1.0)", "model.fc"),
    "vector": ("nn.utils.vector_to_parameters(torch.zeros(10), model.parameters())", "model"),
    "modules": ("for m in model.modules():\n    if isinstance(m, nn.Linear):\n        m.weight.data.mul_(0.9)", None),
    "stored list": ("for p in params:\n    p.data.clamp_(-1, 1)", "model"),
    "average": ("average.update_parameters(model)", "model"),
    "norm of gradients": ("total = sum(p.grad.norm() for p in model.parameters())", "model", True),
    "scaled gradients": ("for p in model.parameters():\n    p.grad.mul_(0.5)", "model", True),
    "gradient set": ("for p in model.parameters():\n    p.grad = p.grad / 2", "model", True),
    "gradient of a layer": ("print(model.fc.weight.grad.norm())", "model.fc", True),
}
INNER = {
    "without data": "with torch.no_grad():\n    with runtime.whole(model):\n        for p in model.parameters():\n            p.clamp_(-1, 1)",
    "modules": (
        "for m in model.modules():\n    if isinstance(m, nn.Linear):\n        with runtime.whole(m):\n"
        "            m.weight.data.mul_(0.9)"
    ),
}


@pytest.mark.parametrize("backend", ["fsdp", "deepspeed", None])
@pytest.mark.parametrize("name", CHANGES)
def test_rewritten(name: str, backend: str | None) -> None:
    body, models, *grads = CHANGES[name]
    after = INNER[name] if models is None else block(body, models, bool(grads))
    check_rewritten("whole", loop(body), loop(after), **({"backend": backend} if backend else {}))


@pytest.mark.parametrize("name", CHANGES)
def test_nothing_to_open_on_ddp(name: str) -> None:
    check_noop("whole", loop(CHANGES[name][0]), backend="ddp")


FUNCTIONS = {
    "in a function": (
        "def clip(parameters):\n    for p in parameters:\n        p.data.clamp_(-1, 1)\n\n",
        "clip(model.parameters())",
        block("clip(model.parameters())", "model"),
    ),
}


@pytest.mark.parametrize(("head", "body", "after"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_around_the_call(head: str, body: str, after: str) -> None:
    check_rewritten("whole", head + loop(body), head + loop(after), backend="fsdp")


def test_in_a_method() -> None:
    head = """\
class Average:
    def __init__(self, model):
        self.model, self.kept = model, {}

    def swap(self):
%s


"""
    change = "for n, p in self.model.named_parameters():\n    self.kept[n] = p.data\n    p.data = self.kept[n]"
    before, after = (
        head % "\n".join(f"        {line}" for line in text.splitlines())
        for text in (change, block(change, "self.model"))
    )
    source = loop("held.swap()", "held = Average(model)")
    check_rewritten("whole", before + source, after + source, backend="deepspeed")


NOOPS = {
    "initialised before": ("", "for p in model.parameters():\n    nn.init.normal_(p)\nmodel.fc.weight.data.zero_()"),
    "frozen": ("", "for p in model.parameters():\n    p.requires_grad_(False)\n    p.requires_grad_(True)"),
    "of another model": ("for p, q in zip(other.parameters(), model.parameters()):\n    p.data.copy_(q.data)", ""),
    "of a copy": ("kept = [p.data.clone() for p in model.parameters()]\nkept[0].zero_()", ""),
    "read": ("print(sum(p.data.norm() for p in model.parameters()))", ""),
    "counted": ("print(sum(p.numel() for p in model.parameters()))", ""),
    "open already": ("with runtime.whole(model):\n    for p in model.parameters():\n        p.data.clamp_(-1, 1)", ""),
}


@pytest.mark.parametrize(("body", "before"), NOOPS.values(), ids=NOOPS)
def test_noop(body: str, before: str) -> None:
    check_noop("whole", loop(body or "pass", before), backend="fsdp")


def test_models_without_a_name() -> None:
    head = "def train(params):\n    for p in params:\n        p.data.zero_()\n\n"
    source = script(head + loop("train([p for p in model.parameters()])"))
    edits, _ = outcome("whole", source, Options(backend="fsdp"))
    assert len(edits) == 1


def test_parameters_read_in_a_block_are_whole_there() -> None:
    body = "for p in model.parameters():\n    p.data.sub_(0.1 * p.data.mean())"
    edits, _ = outcome("reduction", script(loop(body)), Options(backend="fsdp"))
    assert [edit for edit in edits if edit.kind == "parameters"] == []


@pytest.mark.parametrize(
    "body", ["print(model.fc.weight.grad.norm())", "for p in model.parameters():\n    p.grad /= 2"]
)
def test_gradients_that_are_made_whole_need_no_finding(body: str) -> None:
    assert outcome("limits", script(loop(body)), Options(backend="deepspeed"))[1] == []


def test_gradients_beside_a_forward() -> None:
    body = "for p in model.parameters():\n    print(p.grad.norm(), model(x).sum())"
    _, findings = outcome("limits", script(loop(body)), Options(backend="deepspeed"))
    assert [item.code for item in findings] == ["DST206"]
