"""What a sharded backend can't take is refused at the line that asks for it, and nothing else is."""

from __future__ import annotations

import pytest

from tests.codemod.rules.checks import check_noop

TRAINING = """\
model = Net()
{before}
optimizer = {optimizer}
{after}
for epoch in range(2):
{epoch}
    for x, y in DataLoader(data, batch_size=4):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
{end}
"""
SGD = "optim.SGD(model.parameters(), lr=0.1)"


def training(before: str = "", optimizer: str = SGD, after: str = "", epoch: str = "    pass", end: str = "") -> str:
    return TRAINING.format(before=before, optimizer=optimizer, after=after, epoch=epoch, end=end)


OPTIMIZERS = {
    "sparse": ("optim.SparseAdam(model.parameters(), lr=0.1)", True),
    "adafactor": ("optim.Adafactor(model.parameters())", True),
    "adam": ("optim.Adam(model.parameters())", False),
    "rprop": ("torch.optim.Rprop(model.parameters())", False),
    "chosen": ("getattr(optim, os.environ['X'])(model.parameters())", False),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("backend", ["ddp", "fsdp", "deepspeed"])
def test_optimizers(backend: str, name: str) -> None:
    text, refused = OPTIMIZERS[name]
    found = ["DST203"] if refused and backend != "ddp" else []
    check_noop("unfit", training(optimizer=text), found, backend=backend)


CLASS = "class Own(optim.SGD):\n    {body}\n"


@pytest.mark.parametrize("body", ["pass", "elementwise = True"])
@pytest.mark.parametrize("backend", ["ddp", "fsdp", "deepspeed"])
def test_optimizers_of_the_program_and_of_libraries(backend: str, body: str) -> None:
    found = ["DST203"] if body == "pass" and backend != "ddp" else []
    own = training(CLASS.format(body=body), "Own(model.parameters(), lr=0.1)")
    check_noop("unfit", own, found, backend=backend)
    theirs = training(CLASS.format(body=body) + "from lion_pytorch import Lion", "Lion(model.parameters())")
    check_noop("unfit", theirs, found, backend=backend)


COMPILED = {
    "script": ("model = torch.jit.script(model)", True),
    "trace": ("model = torch.jit.trace(model, torch.ones(1, 4))", True),
    "function": ("step = torch.jit.script(abs)", False),
    "compile": ("model = torch.compile(model)", False),
}


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize("backend", ["ddp", "fsdp", "deepspeed"])
def test_compiled(backend: str, name: str) -> None:
    text, refused = COMPILED[name]
    check_noop("unfit", training(before=text), ["DST903"] if refused and backend != "ddp" else [], backend=backend)


def test_compiled_for_export() -> None:
    check_noop("unfit", training(end="torch.jit.script(model).save('f')"), backend="fsdp")


TYPES = {
    "double": ("model = model.double()", True),
    "bfloat16": ("model.bfloat16()", True),
    "half": ("model.half()", True),
    "to": ("model.to(torch.float64)", True),
    "keyword": ("model.to('cpu', dtype=torch.bfloat16)", True),
    "device": ("model.to('cpu')", False),
    "float": ("model.float()", False),
    "data": ("z = torch.zeros(2).double()", False),
}


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("backend", ["ddp", "fsdp", "deepspeed"])
def test_types(backend: str, name: str) -> None:
    text, refused = TYPES[name]
    found = ["DST903"] if refused and backend == "deepspeed" else []
    check_noop("unfit", training(before=text), found, backend=backend)


def test_type_of_a_trained_model() -> None:
    check_noop("unfit", training(end="model.half()"), backend="deepspeed")


ADDED = "optimizer.add_param_group({'params': model.fc.parameters()})"


@pytest.mark.parametrize("backend", ["ddp", "fsdp", "deepspeed"])
def test_parameters_added(backend: str) -> None:
    found = ["DST203"] if backend == "deepspeed" else []
    check_noop("unfit", training(epoch=f"    if epoch == 1:\n        {ADDED}"), found, backend=backend)
    check_noop("unfit", training(optimizer="optim.SGD([model.fc.bias], lr=0.1)", after=ADDED), backend=backend)


SECOND = {
    "of its own": ("head = Net()\nother = optim.SGD(head.parameters(), lr=0.1)", False),
    "of the same": ("other = optim.SGD([model.fc.bias], lr=0.1)", True),
    "again": (f"optimizer = {SGD}", True),
    "branches": (f"if len(data) > 3:\n    other = {SGD}\nelse:\n    other = optim.Adam(model.parameters())", True),
}


@pytest.mark.parametrize("name", SECOND)
@pytest.mark.parametrize("backend", ["fsdp", "deepspeed"])
def test_second_optimizer(backend: str, name: str) -> None:
    text, refused = SECOND[name]
    found = ["DST203"] * (2 if name == "branches" else 1) if refused and backend == "deepspeed" else []
    check_noop("unfit", training(after=text), found, backend=backend)


def test_one_optimizer_of_two_branches() -> None:
    text = training().replace(
        f"optimizer = {SGD}",
        f"if len(data) > 3:\n    optimizer = {SGD}\nelse:\n    optimizer = optim.Adam(model.parameters())",
    )
    check_noop("unfit", text, backend="deepspeed")
