"""DataParallel goes; other wrappers, and attributes called `module`, stay."""

from __future__ import annotations

import pytest

from tests.codemod.rules.checks import check_noop, check_rewritten

TRAIN = """
optimizer = optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(data, batch_size=4):
    loss = F.cross_entropy(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
"""

REWRITES = {
    "statement": ("model = Net()\nmodel = nn.DataParallel(model)", "model = Net()"),
    "condition of its own": (
        "model = Net()\nif torch.cuda.device_count() > 1:\n    model = nn.DataParallel(model)",
        "model = Net()",
    ),
    "condition with a message": (
        'model = Net()\nif torch.cuda.device_count() > 1:\n    print("many")\n    model = nn.DataParallel(model)',
        'model = Net()\nif torch.cuda.device_count() > 1:\n    print("many")',
    ),
    "condition with an effect": (
        "model = Net()\nif input():\n    model = nn.DataParallel(model)",
        "model = Net()\nif input():\n    pass",
    ),
    "with an else": (
        "model = Net()\nif os.environ:\n    model = nn.DataParallel(model)\nelse:\n    model = model.float()",
        "model = Net()\nif os.environ:\n    pass\nelse:\n    model = model.float()",
    ),
    "expression": ("model = torch.nn.DataParallel(Net(), device_ids=[0, 1])", "model = Net()"),
    "moved": ("model = nn.DataParallel(Net()).cpu()", "model = Net().cpu()"),
    "keyword": ("net = Net()\nmodel = nn.DataParallel(module=net, device_ids=None)", "net = Net()\nmodel = net"),
    "module of it": (
        "model = nn.DataParallel(Net())\nstate = model.module.state_dict()",
        "model = Net()\nstate = model.state_dict()",
    ),
    "names": (
        "model = nn.DataParallel(Net())\nfor name, p in model.named_parameters():\n    print(name)",
        'model = Net()\nfor name, p in model.named_parameters(prefix="module"):\n    print(name)',
    ),
    "names of the module": (
        "model = nn.DataParallel(Net())\nprint(dict(model.module.named_parameters()))",
        "model = Net()\nprint(dict(model.named_parameters()))",
    ),
    "names under a condition": (
        "model = Net()\nif torch.cuda.device_count() > 1:\n    model = nn.DataParallel(model)\n"
        "print(dict(model.named_parameters()))",
        "model = Net()\nprint(dict(model.named_parameters()))",
    ),
    "asked for": (
        'model = nn.DataParallel(Net())\nraw = model.module if hasattr(model, "module") else model',
        'model = Net()\nraw = model.module if hasattr(model, "module") else model',
    ),
}

NOOPS = {
    "none": "model = Net()",
    "another function of that name": "def DataParallel(x):\n    return x\n\n\nmodel = DataParallel(Net())",
    "an attribute of that name": "model = Net()\nprint(model.__class__.__module__)",
    "a module's module": """
class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.module = Net()

    def forward(self, x):
        return self.module(x)


model = Outer()
print(model.module)
""",
    "type query": "model = Net()\nprint(isinstance(model, nn.DataParallel))",
}


@pytest.mark.parametrize("case", REWRITES)
def test_rewritten(case: str) -> None:
    before, after = REWRITES[case]
    check_rewritten("parallel", before + TRAIN, after + TRAIN, ["DST305"], again=[])


INPUTS = """
optimizer = optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(data, batch_size=4):
    {move}loss = F.cross_entropy(model({x}), y)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("move", "expected"),
    [("", "x.to(runtime.device())"), ("x, y = x.cuda(), y.cuda()\n    ", "x"), ("x = x.to('cpu')\n    ", "x")],
)
def test_inputs_are_moved_as_the_wrapper_did(move: str, expected: str) -> None:
    before = "model = nn.DataParallel(Net())" + INPUTS.format(move=move, x="x")
    after = "model = Net()" + INPUTS.format(move=move, x=expected)
    check_rewritten("parallel", before, after, ["DST305"], again=[])


@pytest.mark.parametrize("case", NOOPS)
def test_noop(case: str) -> None:
    check_noop("parallel", NOOPS[case] + TRAIN)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("nn.parallel.data_parallel(self.main, x, range(2))", "self.main(x)"),
        ("nn.parallel.data_parallel(self.main, (x, x), range(2))", "self.main(x, x)"),
        ("self.main(x)", "self.main(x)"),
    ],
)
def test_functional_form(before: str, after: str) -> None:
    text = """
class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Linear(4, 2)

    def forward(self, x):
        return {call}


model = Wide()
"""
    check_rewritten("parallel", text.format(call=before) + TRAIN, text.format(call=after) + TRAIN)


def test_a_module_of_the_script_keeps_its_name() -> None:
    text = NOOPS["a module's module"] + "model = {wrapped}\nprint(model.module)"
    before, after = text.format(wrapped="nn.DataParallel(model)"), text.replace("model = {wrapped}\n", "")
    check_rewritten("parallel", before + TRAIN, after + TRAIN, ["DST305"], again=[])


def test_functional_form_with_unknown_arguments_is_refused() -> None:
    check_noop(
        "parallel", "parts = [Net(), 1]\nout = nn.parallel.data_parallel(*parts)\nmodel = Net()" + TRAIN, ["DST301"]
    )


def test_unknown_arguments_are_refused() -> None:
    check_noop("parallel", "parts = [Net()]\nmodel = nn.DataParallel(*parts)" + TRAIN, ["DST301", "DST305"])
