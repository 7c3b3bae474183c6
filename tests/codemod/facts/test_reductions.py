"""Where the batch dimension disappears: every method and function of torch, by numbers, and the idioms of scripts."""

from __future__ import annotations

import ast
from itertools import islice

import pytest
import torch
from torch import Tensor

from distify.codemod.facts.model import Facts
from tests.codemod.facts.snippets import codes, edits, facts_of, inside, script, value_of
from tests.codemod.facts.torch_walk import CUT, ROWS, Probe, probes

# Calls on a matrix whose meaning the source doesn't show: `out` may as well have more dimensions.
AMBIGUOUS = {
    "out.adjoint()": "swaps the last two dimensions",
    "torch.adjoint(out)": "swaps the last two dimensions",
    "out.reshape_as(out.t())": "rows become columns",
    "out.view_as(out.t())": "rows become columns",
    "F.adaptive_avg_pool2d(out, 1)": "an image without a batch dimension",
}


@pytest.mark.parametrize("space", ["Tensor", "torch", "F", "torch.linalg", "torch.special"])
def test_everything_that_torch_does_to_rows(space: str) -> None:
    """What slices compute apart stays per sample, along the right dimension; all else is reduced or gathered."""
    found = iter(probes(space))
    checked = 0
    while chunk := list(islice(found, 60)):
        lines = [f"z{index} = {item.text}" for index, item in enumerate(chunk)]
        facts = facts_of(script("\n".join(lines)))
        for index, item in enumerate(chunk):
            if item.text not in AMBIGUOUS:
                check(facts, f"z{index}", item)
                checked += 1
    assert checked > 30


def check(facts: Facts, name: str, item: Probe) -> None:
    assigned = next(n for n in ast.walk(facts.tree) if isinstance(n, ast.Assign) and facts.text(n.targets[0]) == name)
    value = facts.value(assigned.value)
    held = [value, *(value.items or ()), *([value.element] if value.element is not None else [])]
    samples = [v for v in held if v.is_sample]
    if samples:
        assert item.dims or all(v.batch.reason.startswith("cat") for v in samples), f"{item.text} mixes samples"
        assert {v.batch.dim for v in samples} <= {*item.dims, None} or not item.dims, f"{item.text}: wrong dimension"
    for reduction in facts.reductions:
        if reduction.node is assigned.value:
            assert reduction.by is None
            mine, whole = combined(reduction.kind, item)
            assert mine.shape == whole.shape, f"{item.text} keeps rows"
            assert torch.allclose(mine, whole, atol=1e-5), f"{item.text}: no {reduction.kind}"


def combined(kind: str, item: Probe) -> tuple[Tensor, Tensor]:
    """What the runtime makes of two slices' results, and the result of the whole."""
    first, second, whole = (torch.as_tensor(v).double() for v in item.values)
    assert first.shape == second.shape, f"{item.text} keeps rows"
    if kind == "mean":
        return (first * CUT + second * (ROWS - CUT)) / ROWS, whole
    if kind == "sum":
        return first + second, whole
    return (torch.maximum if kind == "max" else torch.minimum)(first, second), whole


# ---- idioms ---------------------------------------------------------------------------------------------------------

OVER_THE_BATCH = [
    ("out.mean()", "mean(out.mean())"),
    ("out.mean(0)", "mean(out.mean(0))"),
    ("out.mean(dim=(0, 1))", "mean(out.mean(dim=(0, 1)))"),
    ("torch.mean(out, 0, keepdim=True)", "mean(torch.mean(out, 0, keepdim=True))"),
    ("out.sum()", "sum(out.sum())"),
    ("out.sum(1).sum()", "sum(out.sum(1).sum())"),
    ("(out ** 2).sum(dim=1).mean()", "mean((out ** 2).sum(dim=1).mean())"),
    ("out.max()", "max(out.max())"),
    ("out.min()", "min(out.min())"),
    ("out.amax(0)", "max(out.amax(0))"),
    ("torch.isnan(out).any()", "max(torch.isnan(out).any())"),
    ("(y == 0).all()", "min((y == 0).all())"),
    ("torch.count_nonzero(y)", "sum(torch.count_nonzero(y))"),
    ("x.t() @ out", "sum(x.t() @ out)"),
    ("torch.mm(x.T, out)", "sum(torch.mm(x.T, out))"),
    ("torch.einsum('bi,bj->ij', x, out)", "sum(torch.einsum('bi,bj->ij', x, out))"),
    ("torch.dot(out.view(-1), x.view(-1))", "sum(torch.dot(out.view(-1), x.view(-1)))"),
    ("sum(y)", "sum(sum(y))"),
]


@pytest.mark.parametrize(("text", "expected"), OVER_THE_BATCH)
def test_reduced_where_the_batch_dimension_disappears(text: str, expected: str) -> None:
    assert inside(f"z = {text}\nprint(z)") == [expected]


GATHERED = [
    ("out.std(0)", ["gather(out)"]),
    ("out.var()", ["gather(out)"]),
    ("torch.median(out)", ["gather(out)"]),
    ("out.norm()", ["gather(out)"]),
    ("torch.quantile(out, 0.5)", ["gather(out)"]),
    ("out.argmax(0)", ["gather(out)"]),
    ("out.max(0)", ["gather(out)"]),
    ("out.softmax(0)", ["gather(out)"]),
    ("torch.sort(y, descending=True, dim=0)", ["gather(y)"]),
    ("torch.unique(y)", ["gather(y)"]),
    ("torch.bincount(y, minlength=3)", ["gather(y)"]),
    ("torch.cumsum(y, 0)", ["gather(y)"]),
    ("out @ out.T", ["gather(out)", "gather(out.T, dim=1)"]),
    ("torch.cdist(out, out)", ["gather(out)", "gather(out)"]),
    ("torch.pdist(out)", ["gather(out)"]),
    ("torch.einsum('ik,jk->ij', out, out)", ["gather(out)", "gather(out)"]),
    ("out.unsqueeze(1) - out.unsqueeze(0)", ["gather(out.unsqueeze(1))", "gather(out.unsqueeze(0), dim=1)"]),
    ("F.normalize(out, dim=0)", ["gather(out)"]),
]


@pytest.mark.parametrize(("text", "expected"), GATHERED)
def test_gathered_where_samples_meet(text: str, expected: list[str]) -> None:
    assert inside(f"z = {text}\nprint(z)") == expected


WITHIN_SAMPLES = [
    "out.mean(1)",
    "out.sum(dim=1)",
    "out.mean(-1)",
    "out.sum((1, 2))",
    "out.max(1)",
    "out.argmax(dim=1)",
    "out.softmax(1)",
    "F.log_softmax(out, dim=-1)",
    "out.topk(2, 1)",
    "out.norm(dim=1)",
    "out.norm(2, 1)",
    "torch.norm(out, p=2, dim=1)",
    "torch.linalg.vector_norm(out, dim=1)",
    "out.std(1)",
    "out.cumsum(1)",
    "out.sort(1)",
    "F.normalize(out)",
    "F.cosine_similarity(out, out * 2)",
    "F.pairwise_distance(out, out * 2)",
    "(out == out.max(1, keepdim=True)[0]).float()",
    "out @ model.fc.weight.detach()",
    "torch.cdist(out, torch.zeros(5, 3))",
    "torch.isin(y, torch.tensor([0, 2]))",
    "torch.einsum('bi,bi->b', out, out)",
    "torch.bmm(out.unsqueeze(1), out.unsqueeze(2))",
    "out.unsqueeze(1).transpose(1, 2).flatten(1)",
    "torch.where(out > 0, out, torch.zeros_like(out))",
    "F.one_hot(y, 3).float()",
    "out.gather(1, y.view(-1, 1)).squeeze(1)",
    "torch.zeros_like(out).scatter_(1, y.unsqueeze(1), 1.0)",
    "out[torch.arange(len(y)), y]",
    "out[range(y.shape[0]), y]",
    "F.cross_entropy(out, y, reduction='none')",
    "torch.stack([out, out]).mean(0)",
    "torch.cat([out, x], dim=1).sum(1)",
    "torch.hstack([out, x])",
    "out.repeat_interleave(2, dim=1)",
    "torch.maximum(out, out * 2)",
    "torch.max(out, out * 2)",
    "out.view(out.size(0), -1)",
    "out.reshape(len(out), 1, -1).squeeze(1)",
    "out.permute(1, 0).permute(1, 0)",
]


@pytest.mark.parametrize("text", WITHIN_SAMPLES)
def test_reductions_within_samples_stay(text: str) -> None:
    facts = facts_of(script(f"z = {text}"))
    value = value_of(facts, "z")
    samples = [value, *(value.items or ())]
    assert [e for e in edits(facts) if "cross_entropy(out, y)" not in e and not e.startswith("full")] == []
    assert any(v.is_sample and v.batch.dim in (0, None) for v in samples)
    assert codes(facts) == []


REPLICATED = [
    "torch.randn(4, 4).mean()",
    "torch.arange(10).sum()",
    "loss_weight.sum()",
    "torch.stack(history).mean() if history else 0",
    "sum(history) / max(len(history), 1)",
    "torch.eye(3).norm()",
    "torch.softmax(loss_weight, 0)",
    "np.mean([1.0, 2.0])",
    "torch.tensor([1.0, 2.0]).std()",
    "data.tensors[0].mean(0)",
    "data.tensors[1].bincount()",
    "len(data)",
    "len(loader)",
    "len(loader.dataset)",
]


@pytest.mark.parametrize("text", REPLICATED)
def test_values_that_all_ranks_hold_stay(text: str) -> None:
    before = "loss_weight = torch.ones(3)\nhistory = []"
    assert inside(f"z = {text}\nprint(z)", before=before) == []


RAGGED = [
    ("out[y > 0].mean()", "mean(out[y > 0].mean(), by=out[y > 0].numel())"),
    ("keep = y > 0\nz = out[keep].pow(2).mean()", "mean(out[keep].pow(2).mean(), by=out[keep].shape[0])"),
    (
        "keep = y > 0\nz = F.cross_entropy(out[keep], y[keep])",
        "mean(F.cross_entropy(out[keep], y[keep]), by=y[keep].numel())",
    ),
    (
        "z = F.mse_loss(out[y > 0], x[y > 0, :3])",
        "mean(F.mse_loss(out[y > 0], x[y > 0, :3]), by=x[y > 0, :3].numel())",
    ),
    ("out[y > 0].sum()", "sum(out[y > 0].sum())"),
    ("(out[y > 0] > 0).float().sum()", "sum((out[y > 0] > 0).float().sum())"),
]


@pytest.mark.parametrize(("text", "expected"), RAGGED)
def test_masked_rows_are_counted(text: str, expected: str) -> None:
    body = text if "\n" in text or text.startswith("z") else f"z = {text}"
    assert inside(f"{body}\nprint(z)") == [expected]


NONLINEAR = [
    ("torch.sqrt(F.mse_loss(out, x[:, :3]))", ["mean(F.mse_loss(out, x[:, :3]))"]),
    ("1 - (2 * (out * x[:, :3]).sum() + 1) / (out.sum() + x.sum() + 1)",
     ["sum((out * x[:, :3]).sum())", "sum(out.sum())", "sum(x.sum())"]),
    ("(out.mean() - x.mean()).abs()", ["mean(out.mean())", "mean(x.mean())"]),
    ("torch.exp(out.mean())", ["mean(out.mean())"]),
    ("(out - out.mean(0)).pow(2).sum()", ["sum((out - out.mean(0)).pow(2).sum())", "mean(out.mean(0))"]),
    ("(out * y.unsqueeze(1)).sum() / y.sum()", ["sum((out * y.unsqueeze(1)).sum())", "sum(y.sum())"]),
    ("(out * y.unsqueeze(1)).sum() / len(y)", ["sum((out * y.unsqueeze(1)).sum())", "sum(len(y))"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), NONLINEAR)
def test_each_mean_of_a_formula_by_itself(text: str, expected: list[str]) -> None:
    assert inside(f"z = {text}\nprint(z)") == expected


@pytest.mark.parametrize(
    "line",
    [
        "loss = runtime.mean(F.cross_entropy(out, y))",
        "n = runtime.sum(len(y))",
        "n = runtime.sum((out.argmax(1) == y).sum()).item()",
        "z = runtime.gather(out).std(0)",
        "z = runtime.mean(out[y > 0].mean(), by=out[y > 0].numel())",
        "z = runtime.max(out.max())",
        "z = runtime.mean(out.mean(), of=x)",
    ],
)
def test_converted_reductions_are_left_alone(line: str) -> None:
    assert inside(f"{line}\nprint(1)", head="from distify import runtime") == []


def test_the_loss_of_an_adaptive_softmax_is_reduced_where_it_arrives() -> None:
    head = "adaptive = nn.AdaptiveLogSoftmaxWithLoss(3, 9, [2, 5])\nopt2 = optim.SGD(adaptive.parameters(), lr=0.1)"
    found = inside("scores, extra = adaptive(out, y)\nprint(extra)", head=head)
    assert found == ["extra = mean(extra)"]
