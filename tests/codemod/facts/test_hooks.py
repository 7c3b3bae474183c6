"""Hooks: what a module's hooks keep of a forward is per sample; hooks on gradients are refused."""

from __future__ import annotations

import pytest

from tests.codemod.facts.snippets import codes, facts_of, inside, script

KEPT = {
    "closure": (
        "kept = {}\n\ndef save(name):\n    def hook(module, inputs, output):\n        kept[name] = output\n    return hook\n",
        "model.fc.register_forward_hook(save('fc'))",
        "kept['fc'].abs().mean()",
    ),
    "lambda": ("kept = []\n", "model.fc.register_forward_hook(lambda m, i, o: kept.append(o))", "kept[0].abs().mean()"),
    "method": (
        "class Keep:\n    def __call__(self, module, inputs, output):\n        self.out = output\n\n\nkept = Keep()\n",
        "model.fc.register_forward_hook(kept)",
        "kept.out.abs().mean()",
    ),
    "bound method": (
        "class Keep:\n    def __init__(self, layer):\n        layer.register_forward_hook(self.save)\n\n"
        "    def save(self, module, inputs, output):\n        self.out = output\n",
        "kept = Keep(model.fc)",
        "kept.out.abs().mean()",
    ),
    "before": (
        "kept = {}\n\ndef save(module, inputs):\n    kept['in'] = inputs[0]\n",
        "model.fc.register_forward_pre_hook(save)",
        "kept['in'].abs().mean()",
    ),
    "keywords": (
        "kept = {}\n\ndef save(module, args, kwargs, output):\n    kept['out'] = output\n",
        "model.fc.register_forward_hook(save, with_kwargs=True)",
        "kept['out'].abs().mean()",
    ),
}


@pytest.mark.parametrize(("head", "before", "value"), KEPT.values(), ids=KEPT)
def test_kept_of_a_forward(head: str, before: str, value: str) -> None:
    assert inside(f"print({value})", head=head, before=before) == [f"mean({value})"]


def test_layer_of_a_container() -> None:
    before = "model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))\nopt = optim.SGD(model.parameters(), lr=0.1)\nkept = []\nmodel[1].register_forward_hook(lambda m, i, o: kept.append(o))"
    assert inside("print(kept[-1].max())", before=before) == ["max(kept[-1].max())"]


def test_layer_of_a_library() -> None:
    head = "from torchvision.models import resnet18\n"
    before = "model = resnet18()\nopt = optim.SGD(model.parameters(), lr=0.1)\nkept = []\nmodel.layer4[1].register_forward_hook(lambda m, i, o: kept.append(o))"
    assert inside("print(kept[-1].mean())", head=head, before=before) == ["mean(kept[-1].mean())"]


def test_what_a_hook_returns_takes_the_place_of_the_output() -> None:
    head = "def total(module, inputs, output):\n    return output.sum(0)\n"
    facts = facts_of(
        script(
            "",
            head=head,
            before="model.fc.register_forward_hook(total)",
            step="loss = out.mean()\nloss.backward()\nopt.step()",
        )
    )
    assert [(r.kind, facts.text(r.node)) for r in facts.reductions] == [("sum", "model(x)")]


@pytest.mark.parametrize(
    "line",
    [
        "model.fc.weight.register_hook(lambda g: g.clamp(-1, 1))",
        "for p in model.parameters():\n    p.register_hook(lambda g: g * 0.5)",
        "model.register_full_backward_hook(lambda m, i, o: None)",
        "model.fc.register_full_backward_pre_hook(lambda m, o: o)",
    ],
)
def test_hooks_on_gradients(line: str) -> None:
    assert "DST307" in codes(facts_of(script("", before=line)))


def test_hooks_on_gradients_of_others() -> None:
    before = "mask = torch.ones(3, requires_grad=True)\nmask.register_hook(print)\nteacher = nn.Linear(4, 3)\nteacher.register_full_backward_hook(print)"
    assert codes(facts_of(script("", before=before))) == []
