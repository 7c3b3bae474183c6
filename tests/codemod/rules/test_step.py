"""Backward, clipping and steps become the runtime's functions with the arguments that they had."""

from __future__ import annotations

import pytest

from tests.codemod.rules.checks import check_noop, check_rewritten

TRAIN = """
from torch.nn.utils import clip_grad_norm_, clip_grad_value_ as clip_values
from torch.autograd import grad
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
scheduler = optim.lr_scheduler.StepLR(optimizer, 10)
for i, (x, y) in enumerate(DataLoader(data, batch_size=4)):
    loss = runtime.mean(F.cross_entropy(model(x), y))
    {backward}
    {middle}
    {step}
    {after}
"""


def train(
    backward: str = "runtime.backward(loss)",
    middle: str = "pass",
    step: str = "runtime.step(optimizer)",
    after: str = "pass",
) -> str:
    return TRAIN.format(backward=backward, middle=middle, step=step, after=after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("loss.backward()", "runtime.backward(loss)"),
        ("loss.backward(retain_graph=True)", "runtime.backward(loss, retain_graph=True)"),
        ("(loss * 2).backward()", "runtime.backward(loss * 2)"),
        ("(loss + loss).backward(create_graph=False)", "runtime.backward(loss + loss, create_graph=False)"),
        ("sum([loss, loss]).backward()", "runtime.backward(sum([loss, loss]))"),
        ("loss.backward(torch.tensor(2.0))", "runtime.backward(loss * torch.tensor(2.0))"),
        (
            "loss.backward(gradient=torch.tensor(2.0), retain_graph=True)",
            "runtime.backward(loss * torch.tensor(2.0), retain_graph=True)",
        ),
        ("torch.autograd.backward(loss)", "runtime.backward(loss)"),
        ("torch.autograd.backward([loss, loss * 2])", "runtime.backward(sum([loss, loss * 2]))"),
        ("torch.autograd.backward((loss, loss))", "runtime.backward(sum((loss, loss)))"),
    ],
)
def test_backward(before: str, after: str) -> None:
    check_rewritten("step", train(backward=before), train(backward=after))


@pytest.mark.parametrize(
    "call",
    [
        "torch.autograd.backward([*losses])",
        "torch.autograd.backward([loss, loss], [None, None])",
        "torch.autograd.backward(loss, torch.ones(()))",
        "loss.backward(torch.ones(()), True)",
        "model(x).backward(torch.ones(4, 2))",
    ],
)
def test_backward_in_other_forms_is_refused(call: str) -> None:
    check_noop("step", train(backward=call), ["DST210"])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "runtime.clip_grad_norm_(model.parameters(), 1.0)"),
        ("torch.nn.utils.clip_grad_norm(model.parameters(), 1.0)", "runtime.clip_grad_norm_(model.parameters(), 1.0)"),
        (
            "norm = clip_grad_norm_(model.parameters(), max_norm=1.0)",
            "norm = runtime.clip_grad_norm_(model.parameters(), max_norm=1.0)",
        ),
        ("clip_values(model.parameters(), 0.1)", "runtime.clip_grad_value_(model.parameters(), 0.1)"),
        ("g = torch.autograd.grad(loss, x)", "g = runtime.grad(loss, x)"),
        ("g = grad(loss, x, create_graph=True)[0]", "g = runtime.grad(loss, x, create_graph=True)[0]"),
    ],
)
def test_clipping_and_inner_gradients(before: str, after: str) -> None:
    check_rewritten("step", train(middle=before), train(middle=after))


def test_step() -> None:
    check_rewritten("step", train(step="optimizer.step()"), train())


def test_step_of_a_list() -> None:
    text = train(step="for item in [optimizer]:\n        item.step()")
    check_rewritten("step", text, text.replace("item.step()", "runtime.step(item)"))


def test_scheduler_of_every_step() -> None:
    after = train(after="runtime.step(scheduler)")
    check_rewritten("step", train(after="scheduler.step()"), after)
    check_rewritten("step", train(after="scheduler.step()"), after, precision="fp32")
    check_rewritten(
        "step",
        train(after="if scheduler is not None:\n        scheduler.step()"),
        train(after="if scheduler is not None:\n        runtime.step(scheduler)"),
    )


@pytest.mark.parametrize(
    "after",
    [
        "if i % 10 == 0:\n        scheduler.step()",
        "if i > 3:\n        with torch.no_grad():\n            model(x)\n        scheduler.step()",
        "pass\nscheduler.step()",
        "print(scheduler.get_last_lr())",
        "runtime.step(scheduler)",
        "optimizer.zero_grad()",
        "model.zero_grad(set_to_none=True)",
        "state = optimizer.state_dict()",
    ],
)
def test_noop(after: str) -> None:
    check_noop("step", train(after=after))


@pytest.mark.parametrize(
    "text",
    [
        "class Env:\n    def step(self, a):\n        return a\n\n\nEnv().step(1)",
        "class Chain:\n    def backward(self):\n        return 1\n\n\nChain().backward()",
        "def clip_grad_norm(x):\n    return x\n\n\nclip_grad_norm(1)",
    ],
)
def test_methods_of_the_script_stay(text: str) -> None:
    check_noop("step", text + train())


def test_gradients_inside_a_module_stay() -> None:
    text = """
class Force(nn.Module):
    def forward(self, x):
        x = x.requires_grad_()
        return torch.autograd.grad(x.pow(2).sum(), x, create_graph=True)[0]


"""
    check_noop("step", text + train())
