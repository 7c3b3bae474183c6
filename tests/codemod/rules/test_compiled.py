"""`fullgraph=True` goes where a graph has to end, and nowhere else."""

from __future__ import annotations

import pytest

from tests.codemod.rules.checks import check_noop, check_rewritten

HEAD = """
model = Net()
{}
optimizer = optim.SGD(model.parameters(), lr=0.1)
{}
"""
LOOP = """
for x, y in DataLoader(data, batch_size=4):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""
STEP = """
@torch.compile({}dynamic=False)
def loss_of(x, y):
    return F.cross_entropy(model(x), y)
for x, y in DataLoader(data, batch_size=4):
    loss = loss_of(x, y)
    loss.backward()
    optimizer.step()
"""
CUT = [{"backend": "fsdp"}, {"backend": "deepspeed", "zero_stage": 3}]
WHOLE: list[dict[str, str | int]] = [{"backend": "ddp"}, {"backend": "deepspeed", "zero_stage": 2}]
IN_PLACE = [
    "model.compile({})",
    "model = torch.compile(model{})",
    "for part in model.children():\n    part.compile({})",
]


def filled(line: str, option: str) -> str:
    return line.format(option if "({}" in line else option and f", {option}")


@pytest.mark.parametrize("options", CUT, ids=str)
@pytest.mark.parametrize("line", IN_PLACE)
def test_parameters_in_parts(line: str, options: dict[str, str | int]) -> None:
    before, after = (HEAD.format(filled(line, option), "") + LOOP for option in ("fullgraph=True", ""))
    check_rewritten("compiled", before, after, ["DST309"], again=[], **options)


@pytest.mark.parametrize("options", WHOLE, ids=str)
@pytest.mark.parametrize("line", IN_PLACE)
def test_a_model_that_stays_whole_keeps_it(line: str, options: dict[str, str | int]) -> None:
    check_noop("compiled", HEAD.format(filled(line, "fullgraph=True"), "") + LOOP, **options)


@pytest.mark.parametrize("options", [*CUT, *WHOLE], ids=str)
def test_beside_the_model_and_around_it(options: dict[str, str | int]) -> None:
    before = HEAD.format("", "fast = torch.compile(model, fullgraph=True)") + LOOP
    check_rewritten("compiled", before, before.replace(", fullgraph=True", ""), ["DST309"], again=[], **options)
    before = HEAD.format("", "") + STEP.format("fullgraph=True, ")
    check_rewritten("compiled", before, before.replace("fullgraph=True, ", ""), ["DST309"], again=[], **options)


@pytest.mark.parametrize("options", CUT, ids=str)
def test_functions_without_a_model_and_graphs_that_may_end(options: dict[str, str | int]) -> None:
    helper = "@torch.compile(fullgraph=True)\ndef twice(x):\n    return 2 * x"
    check_noop("compiled", HEAD.format("", helper) + LOOP, **options)
    check_noop("compiled", HEAD.format("model.compile(fullgraph=False)", "") + LOOP, **options)
