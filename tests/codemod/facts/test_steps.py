"""Which calls belong to a training step, which models an optimizer owns, what is drawn and split, where a run starts."""

from __future__ import annotations

import ast

import pytest

from distify.codemod.facts import Facts
from distify.codemod.facts.model import Step

from .snippets import DATA, HEAD, facts_of, script

TWO = """
first, second = Net(), Net()
opt_a = optim.SGD(first.parameters(), lr=0.1)
opt_b = optim.SGD([{"params": second.parameters()}, {"params": first.fc.bias}], lr=0.1)
"""


def texts(facts: Facts, nodes: tuple[ast.expr, ...]) -> list[str]:
    return [facts.text(node) for node in nodes]


def only_step(facts: Facts) -> Step:
    (step,) = facts.steps
    return step


FULL = """
opt.zero_grad()
loss = F.cross_entropy(out, y)
loss.backward()
nn.utils.clip_grad_norm_(model.parameters(), 1.0)
opt.step()
scheduler.step()
"""
SCHEDULER = "scheduler = optim.lr_scheduler.StepLR(opt, 10)"


def test_what_belongs_to_a_step() -> None:
    facts = facts_of(script("", before=SCHEDULER, step=FULL))
    step = only_step(facts)
    assert isinstance(step.loop, ast.For)
    assert step.loop.lineno == facts.source.splitlines().index("for x, y in loader:") + 1
    assert [facts.text(item.call) for item in step.forwards] == ["model(x)"]
    assert texts(facts, step.losses) == ["loss"]
    assert texts(facts, step.backwards) == ["loss.backward()"]
    assert texts(facts, step.clips) == ["nn.utils.clip_grad_norm_(model.parameters(), 1.0)"]
    assert texts(facts, step.optimizer_steps) == ["opt.step()"]
    assert texts(facts, step.zero_grads) == ["opt.zero_grad()"]
    assert texts(facts, step.scheduler_steps) == ["scheduler.step()"]
    (scheduler,) = facts.schedulers
    assert texts(facts, scheduler.per_step) == ["scheduler.step()"]


def test_an_evaluating_loop_is_no_step() -> None:
    after = "with torch.no_grad():\n    for x, y in loader:\n        print(model(x).argmax(1))"
    facts = facts_of(script("", after=after))
    only_step(facts)
    assert [item.training for item in facts.forwards] == [True, False]


def test_a_schedule_per_pass_is_not_per_step() -> None:
    facts = facts_of(script("", before=SCHEDULER, after="scheduler.step()"))
    assert not only_step(facts).scheduler_steps
    assert not facts.schedulers[0].per_step


def test_a_step_in_a_function() -> None:
    """The body is the function's, and the loop stands elsewhere."""
    function = "def fit(x, y):\n    loss = F.cross_entropy(model(x), y)\n    loss.backward()\n    opt.step()\n"
    facts = facts_of(HEAD + DATA + function + "for x, y in loader:\n    fit(x, y)\n")
    step = only_step(facts)
    assert step.loop is None
    assert texts(facts, step.optimizer_steps) == ["opt.step()"]
    assert len(step.body) == 3


def test_two_optimizers_in_one_loop_are_one_step() -> None:
    loop = """
for x, y in loader:
    F.cross_entropy(first(x), y).backward()
    opt_a.step()
    F.cross_entropy(second(x), y).backward()
    opt_b.step()
"""
    facts = facts_of(HEAD + DATA + TWO + loop)
    step = only_step(facts)
    assert texts(facts, step.optimizer_steps) == ["opt_a.step()", "opt_b.step()"]
    assert len(step.backwards) == len(step.forwards) == 2


def test_models_of_optimizers() -> None:
    facts = facts_of(script("F.cross_entropy(first(x), y) + second(x).sum()", before=TWO))
    owned = {item.text: item.models for item in facts.optimizers}
    assert owned == {"opt": ("model",), "opt_a": ("first",), "opt_b": ("first", "second")}


def test_a_frozen_teacher_is_owned_by_none() -> None:
    facts = facts_of(script("z = teacher(x)", before="teacher = Net().requires_grad_(False)"))
    assert [item.text for item in facts.models] == ["model"]
    assert [item.model for item in facts.forwards] == ["model"]


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("torch.randn(x.size(0), 4)", ["torch.randn"]),
        ("torch.rand_like(x)", ["torch.rand_like"]),
        ("torch.randint(0, 9, (len(y),))", ["torch.randint"]),
        ("torch.randn(3, 4)", []),
        ("torch.zeros(len(y), 4)", []),
    ],
)
def test_draws_have_a_batch_dimension(text: str, drawn: list[str]) -> None:
    facts = facts_of(script(f"z = {text}"))
    assert [facts.text(item.call.func) for item in facts.draws] == drawn


def test_numbers_drawn_inside_a_forward_are_the_process_s_own() -> None:
    head = "class Noisy(Net):\n    def forward(self, x):\n        return self.fc(x + torch.randn(x.size(0), 4))\n"
    facts = facts_of(script("", head=head, before="model = Noisy()\nopt = optim.SGD(model.parameters(), lr=0.1)"))
    assert not facts.draws


FUNCTION = """
rows = torch.randn(40, 4)
kinds = torch.zeros(40).long()
def get_batch():
    index = torch.randint(0, 40, (8,))
    return rows[index], kinds[index]
"""


def test_a_function_that_makes_batches_is_split_where_it_is_called() -> None:
    step = "for i in range(3):\n    x, y = get_batch()\n    F.cross_entropy(model(x), y).backward()\n    opt.step()\n"
    facts = facts_of(HEAD + DATA + FUNCTION + step)
    assert [(facts.text(item.node), item.dim) for item in facts.splits] == [("get_batch()", 0)]


def test_rows_of_a_range_are_split_together() -> None:
    step = "for i in range(0, 40, 8):\n    x, y = rows[i:i + 8], kinds[i:i + 8]\n"
    step += "    F.cross_entropy(model(x), y).backward()\n    opt.step()\n"
    facts = facts_of(HEAD + DATA + FUNCTION + step)
    assert [facts.text(item.node) for item in facts.splits] == ["rows[i:i + 8], kinds[i:i + 8]"]


@pytest.mark.parametrize(
    ("loss", "bends"),
    [
        ("F.cross_entropy(out, y)", []),
        ("F.cross_entropy(out, y) * 2 + out.pow(2).mean() / 3", []),
        ("F.cross_entropy(out, y).sqrt()", ["F.cross_entropy(out, y).sqrt()"]),
        ("out.mean() * x.mean()", ["out.mean() * x.mean()"]),
    ],
)
def test_losses_that_are_no_sums_of_means(loss: str, bends: list[str]) -> None:
    facts = facts_of(script("", step=f"loss = {loss}\nloss.backward()\nopt.step()"))
    assert [facts.text(item.node) for item in only_step(facts).bends] == bends


@pytest.mark.parametrize(
    ("sums", "divisor"),
    [("out.sum() / len(x)", None), ("(out[:, 0] * (y > 0)).sum() / (y > 0).sum()", "(y > 0).sum()")],
)
def test_a_sum_divided_by_a_count_is_a_ratio(sums: str, divisor: str | None) -> None:
    facts = facts_of(script("", step=f"loss = {sums}\nloss.backward()\nopt.step()"))
    (bend,) = only_step(facts).bends
    assert bend.ratio
    assert (None if bend.divisor is None else facts.text(bend.divisor)) == divisor


def test_a_run_starts_before_seeds_and_data() -> None:
    facts = facts_of(HEAD + "torch.manual_seed(0)\n" + script("")[len(HEAD) :])
    assert facts.entry_statement is not None
    assert facts.text(facts.entry_statement) == "torch.manual_seed(0)"


def test_a_run_that_starts_in_a_function() -> None:
    body = "".join(f"    {line}\n" for line in script("")[len(HEAD) :].strip().splitlines() if line.strip())
    facts = facts_of(HEAD + "def main():\n    print('hello')\n" + body + "\nif __name__ == '__main__':\n    main()\n")
    assert facts.entry_statement is not None
    assert isinstance(facts.parents[facts.entry_statement], ast.FunctionDef)
