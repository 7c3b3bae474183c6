"""Updates of parameters without an optimizer: what is prepared, and what is refused."""

from __future__ import annotations

import textwrap

import pytest

from distify.codemod.facts import analyse
from distify.codemod.options import Options
from distify.codemod.rewrite import rewrite_source

from .checks import HEAD

LOOP = """\
for x, y in DataLoader(data, batch_size=4):
    model.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
{update}
"""

UPDATES = {
    "data": "for p in model.parameters():\n    p.data.add_(p.grad, alpha=-0.1)",
    "augmented": "with torch.no_grad():\n    for p in model.parameters():\n        p -= 0.1 * p.grad",
    "data assigned": "for p in model.parameters():\n    p.data = p.data - 0.1 * p.grad.data",
    "through a name": "for p in model.parameters():\n    d = p.grad.data\n    d = d + 0.01 * p.data\n    p.data.add_(d)",
    "momentum": "for p, v in zip(model.parameters(), past):\n    v.mul_(0.9).add_(p.grad)\n    p.data.sub_(0.1 * v)",
    "by name": "for name, p in model.named_parameters():\n    if p.grad is not None:\n        p.data.sub_(0.1 * p.grad)",
    "one parameter": "with torch.no_grad():\n    model.fc.weight -= 0.1 * model.fc.weight.grad\n    model.fc.bias -= 0.1 * model.fc.bias.grad",
    "a function": "descend(model.parameters(), 0.1)",
}
FUNCTION = "def descend(parameters, lr):\n    for p in parameters:\n        p.data.add_(p.grad, alpha=-lr)\n"


def script(update: str, build: str = "model = Net()\npast = [torch.zeros_like(p) for p in model.parameters()]") -> str:
    loop = LOOP.format(update=textwrap.indent(update, "    "))
    return f"{HEAD}{FUNCTION}{build}\n{loop}".replace("runtime.init()\n", "").replace(
        "from distify import runtime\n", ""
    )


def converted(text: str, options: Options | None = None) -> tuple[str, list[str]]:
    result = rewrite_source(text.encode(), "train.py", options or Options(backend="ddp"))
    return result.data.decode(), [item.code for item in result.findings if item.level == "error"]


@pytest.mark.parametrize("case", UPDATES)
def test_the_model_is_prepared_and_the_update_stays(case: str) -> None:
    text, errors = converted(script(UPDATES[case]))
    assert not errors
    assert "model = Net()\nruntime.prepare(model)\n" in text
    assert textwrap.indent(UPDATES[case], "    ") in text
    assert "runtime.backward(loss)" in text
    assert "runtime.full" not in text


@pytest.mark.parametrize(
    "options",
    [
        Options(backend="fsdp"),
        Options(backend="deepspeed"),
        Options(backend="ddp", precision="fp16"),
        Options(backend="ddp", accumulate=2),
    ],
)
def test_what_needs_the_step_of_an_optimizer_is_refused(options: Options) -> None:
    text = script(UPDATES["data"])
    data, errors = converted(text, options)
    assert "DST216" in errors
    assert data == text


def test_an_optimizer_in_one_branch() -> None:
    build = "model = Net()\nif os.environ.get('ADAM'):\n    optimizer = optim.Adam(model.parameters())"
    update = "if os.environ.get('ADAM'):\n    optimizer.step()\nelse:\n    for p in model.parameters():\n        p.data.sub_(p.grad)"
    text, errors = converted(script(update, build))
    assert not errors
    assert "model = Net()\nruntime.prepare(model)\n" in text
    assert "    optimizer = optim.Adam(model.parameters())\n    runtime.prepare(model, optimizer)\n" in text


def test_an_optimizer_that_is_always_there() -> None:
    build = "model = Net()\noptimizer = optim.Adam(model.parameters())"
    update = "optimizer.step()\nfor p in model.parameters():\n    p.data.sub_(0.01 * p.grad)"
    text, errors = converted(script(update, build))
    assert not errors
    assert text.count("runtime.prepare(") == 1


def test_each_branch_that_builds_a_model() -> None:
    build = "if os.environ.get('WIDE'):\n    model = nn.Linear(4, 2)\nelse:\n    model = Net()"
    text, errors = converted(script(UPDATES["data"], build))
    assert not errors
    assert "else:\n    model = Net()\nruntime.prepare(model)\n" in text


def test_a_model_from_a_factory() -> None:
    build = "def build():\n    return Net()\nmodel = build()"
    text, errors = converted(script(UPDATES["data"], build))
    assert not errors
    assert "model = build()\nruntime.prepare(model)\n" in text


def test_a_tensor_of_no_model_is_refused() -> None:
    loop = "    loss = F.cross_entropy(x @ weight, y)\n    loss.backward()\n    weight.data -= 0.1 * weight.grad\n"
    build = "weight = nn.Parameter(torch.zeros(4, 2))\n"
    text = f"{HEAD}{build}for x, y in DataLoader(data, batch_size=4):\n{loop}"
    assert converted(text)[1] == ["DST202"]


@pytest.mark.parametrize(
    "update",
    [
        "for p, q in zip(teacher.parameters(), model.parameters()):\n    p.data.mul_(0.9).add_(q.data, alpha=0.1)",
        "for p in model.parameters():\n    p.data.clamp_(-1, 1)",
        "for p in model.parameters():\n    p.grad.data.add_(0.1)",
        "norm = sum(p.grad.norm() for p in model.parameters())\nprint(norm)",
    ],
)
def test_what_is_no_update(update: str) -> None:
    build = "model, teacher = Net(), Net()\noptimizer = optim.Adam(model.parameters())"
    facts = analyse(script(f"{update}\noptimizer.step()", build), "train.py")
    assert facts.updates == []


INNER = """
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
x, y = torch.randn(45, 6), torch.zeros(45).long()
net = nn.Linear(6, 2)
net.weight.data.mul_(0.1)
for a, b in DataLoader(TensorDataset(x, y), batch_size=8):
    loss = F.cross_entropy(net(a), b)
    grads = torch.autograd.grad(loss, {inputs})
    with torch.no_grad():
        for p, g in zip(net.parameters(), grads):
            {update}
"""


@pytest.mark.parametrize(
    "update", ["p -= 0.1 * g", "p.data.sub_(0.1 * g)", "p.data = p.data - g", "p.add_(g, alpha=-1)"]
)
@pytest.mark.parametrize("inputs", ["net.parameters()", "list(net.parameters())"])
def test_gradients_that_torch_returns(inputs: str, update: str) -> None:
    """Nothing tells the model that is trained, so it must not look as if there were nothing to convert."""
    found = rewrite_source(INNER.format(inputs=inputs, update=update).encode(), "train.py", Options()).findings
    assert [(item.code, item.level) for item in found] == [("DST216", "error")]


@pytest.mark.parametrize(("inputs", "update"), [("net.parameters()", "print(g.norm())"), ("a", "p.mul_(0.9)")])
def test_gradients_that_are_only_looked_at(inputs: str, update: str) -> None:
    assert not rewrite_source(INNER.format(inputs=inputs, update=update).encode(), "train.py", Options()).findings
