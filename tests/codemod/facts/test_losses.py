"""The table of losses against torch itself: every loss is in it, and its divisor is the right one, by numbers."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from distify.codemod.facts import losses
from distify.codemod.facts.losstable import CLASSES, DIVISORS, FUNCTIONS
from tests.codemod.facts.snippets import codes, edits, facts_of, inside, script

ROWS = 7
CUT = 4  # rows of the first rank


def functional_losses() -> list[str]:
    """Names of the losses in torch.nn.functional: those that take a `reduction`."""
    found = []
    for name in dir(F):
        function = getattr(F, name)
        if name.startswith("_") or not callable(function) or inspect.isclass(function):
            continue
        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError):
            parameters = {}
        if "reduction" in parameters or name.endswith("_loss"):
            found.append(name)
    return found


def loss_modules() -> list[str]:
    """Names of the loss classes of torch.nn."""
    return [
        name
        for name in dir(nn)
        if inspect.isclass(getattr(nn, name))
        and issubclass(getattr(nn, name), nn.Module)
        and "Loss" in name
        and name != "AdaptiveLogSoftmaxWithLoss"  # gives its loss in a tuple: see test_reductions.py
    ]


def test_the_functions_are_found() -> None:
    assert {"cross_entropy", "mse_loss", "kl_div", "ctc_loss"} <= set(functional_losses())
    assert len(functional_losses()) >= 20
    assert len(loss_modules()) >= 20


@pytest.mark.parametrize("name", functional_losses())
def test_every_function_is_in_the_table(name: str) -> None:
    assert losses.function_loss(f"torch.nn.functional.{name}") == name


@pytest.mark.parametrize("name", loss_modules())
def test_every_class_is_in_the_table(name: str) -> None:
    function = losses.module_loss(f"torch.nn.{name}")
    assert function in DIVISORS
    assert function in functional_losses()


def positional(function: Callable[..., object]) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "self"]


@pytest.mark.parametrize("name", functional_losses())
def test_positional_parameters_of_functions(name: str) -> None:
    found = positional(getattr(F, name))
    assert found == FUNCTIONS[name][: len(found)]


@pytest.mark.parametrize("name", loss_modules())
def test_positional_parameters_of_classes(name: str) -> None:
    assert positional(getattr(nn, name).__init__) == CLASSES[name][1]


def probabilities(*shape: int) -> Tensor:
    return torch.rand(*shape).clamp(0.05, 0.95)


def signs(*shape: int) -> Tensor:
    return torch.randint(0, 2, shape) * 2.0 - 1


def classes(*shape: int) -> Tensor:
    return torch.randint(0, 3, shape)


def log_probabilities(*shape: int) -> Tensor:
    return F.log_softmax(torch.randn(*shape), dim=1)


Make = Callable[[], tuple[Tensor, ...]]

# name -> inputs with the rows first (for ctc_loss: see below)
INPUTS: dict[str, Make] = {
    "binary_cross_entropy": lambda: (probabilities(ROWS, 3), probabilities(ROWS, 3)),
    "binary_cross_entropy_with_logits": lambda: (torch.randn(ROWS, 3), probabilities(ROWS, 3)),
    "cosine_embedding_loss": lambda: (torch.randn(ROWS, 3), torch.randn(ROWS, 3), signs(ROWS)),
    "cross_entropy": lambda: (torch.randn(ROWS, 3), classes(ROWS)),
    "gaussian_nll_loss": lambda: (torch.randn(ROWS, 3), torch.randn(ROWS, 3), probabilities(ROWS, 3)),
    "hinge_embedding_loss": lambda: (torch.randn(ROWS, 3), signs(ROWS, 3)),
    "huber_loss": lambda: (3 * torch.randn(ROWS, 3), torch.randn(ROWS, 3)),
    "kl_div": lambda: (log_probabilities(ROWS, 3), probabilities(ROWS, 3)),
    "l1_loss": lambda: (torch.randn(ROWS, 3), torch.randn(ROWS, 3)),
    "linear_cross_entropy": lambda: (torch.randn(ROWS, 3), torch.randn(3, 3), classes(ROWS)),
    "margin_ranking_loss": lambda: (torch.randn(ROWS), torch.randn(ROWS), signs(ROWS)),
    "mse_loss": lambda: (torch.randn(ROWS, 3), torch.randn(ROWS, 3)),
    "multi_margin_loss": lambda: (torch.randn(ROWS, 3), classes(ROWS)),
    "multilabel_margin_loss": lambda: (torch.randn(ROWS, 3), torch.tensor([[1, -1, 0]] * ROWS)),
    "multilabel_soft_margin_loss": lambda: (torch.randn(ROWS, 3), torch.randint(0, 2, (ROWS, 3)).float()),
    "nll_loss": lambda: (log_probabilities(ROWS, 3), classes(ROWS)),
    "poisson_nll_loss": lambda: (torch.randn(ROWS, 3), probabilities(ROWS, 3)),
    "smooth_l1_loss": lambda: (3 * torch.randn(ROWS, 3), torch.randn(ROWS, 3)),
    "soft_margin_loss": lambda: (torch.randn(ROWS, 3), signs(ROWS, 3)),
    "triplet_margin_loss": lambda: (torch.randn(ROWS, 3), torch.randn(ROWS, 3), torch.randn(ROWS, 3)),
    "triplet_margin_with_distance_loss": lambda: (torch.randn(ROWS, 3), torch.randn(ROWS, 3), torch.randn(ROWS, 3)),
}


def cut(name: str, inputs: tuple[Tensor, ...], first: bool) -> tuple[Tensor, ...]:
    """One rank's rows of every input that has rows."""
    rows = slice(None, CUT) if first else slice(CUT, None)
    return tuple(t[rows] if t.dim() and t.shape[0] == ROWS else t for t in inputs)


def combined(values: list[Tensor], divisors: list[float]) -> float:
    """The mean over both ranks of what each divided by its divisor: what `runtime.mean` computes."""
    return sum(float(v) * d for v, d in zip(values, divisors) if d) / sum(divisors)


@pytest.mark.parametrize("name", sorted(set(DIVISORS) - {"ctc_loss"}))  # whose rows are second: below
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_the_divisor_is_rows(name: str, reduction: str) -> None:
    torch.manual_seed(0)
    inputs, function = INPUTS[name](), getattr(F, name)
    parts = [cut(name, inputs, first) for first in (True, False)]
    whole = function(*inputs, reduction=reduction)
    values = [function(*part, reduction=reduction) for part in parts]
    if reduction == "mean":
        assert combined(values, [CUT, ROWS - CUT]) == pytest.approx(whole.item(), rel=1e-5)
    elif reduction == "sum":
        assert sum(v.item() for v in values) == pytest.approx(whole.item(), rel=1e-5)
    else:
        assert torch.allclose(torch.cat(values), whole, atol=1e-6)


def test_kl_div_batchmean_divides_by_rows() -> None:
    inputs = INPUTS["kl_div"]()
    values = [F.kl_div(*cut("", inputs, first), reduction="batchmean") for first in (True, False)]
    whole = F.kl_div(*inputs, reduction="batchmean").item()
    assert combined(values, [CUT, ROWS - CUT]) == pytest.approx(whole, rel=1e-5)


def test_ctc_loss_divides_by_rows() -> None:
    torch.manual_seed(0)
    logs, targets = torch.randn(9, ROWS, 4).log_softmax(2), torch.randint(1, 4, (ROWS, 3))
    lengths = torch.tensor([9, 8, 9, 7, 9, 6, 9]), torch.tensor([3, 2, 1, 3, 2, 3, 1])

    def loss(rows: slice) -> Tensor:
        return F.ctc_loss(logs[:, rows], targets[rows], lengths[0][rows], lengths[1][rows])

    values = [loss(slice(None, CUT)), loss(slice(CUT, None))]
    assert combined(values, [CUT, ROWS - CUT]) == pytest.approx(loss(slice(None)).item(), rel=1e-5)


# ---- divisors that are no rows: the text that the facts write down, evaluated ------------------------------------------

weight = torch.tensor([1.0, 2.0, 0.5])
padded = torch.tensor([0, 1, -100, 2, -100, 1, 0])

TARGETS = [
    pytest.param("F.cross_entropy(logits, t)", classes(ROWS), "None", id="plain"),
    pytest.param("F.cross_entropy(logits, t, weight=weight)", classes(ROWS), "weight[t].sum()", id="weight"),
    pytest.param("F.cross_entropy(logits, t, weight)", classes(ROWS), "weight[t].sum()", id="weight by position"),
    pytest.param("F.cross_entropy(logits, t, ignore_index=1)", classes(ROWS), "(t != 1).sum()", id="ignore_index"),
    pytest.param(
        "F.cross_entropy(logits, t, weight, ignore_index=1)", classes(ROWS), "weight[t[t != 1]].sum()", id="both"
    ),
    pytest.param("F.cross_entropy(logits, t, weight, None, 1)", classes(ROWS), "weight[t[t != 1]].sum()", id="legacy"),
    pytest.param(
        "F.cross_entropy(logits, t, weight, label_smoothing=0.1)",
        classes(ROWS),
        "weight[t].sum()",
        id="smoothed weight",
    ),
    pytest.param("F.mse_loss(logits, z, weight=w)", classes(ROWS), "w.sum()", id="weights of elements"),
    pytest.param("F.l1_loss(logits, z, weight=w)", classes(ROWS), "w.sum()", id="weights of absolute errors"),
    pytest.param("F.huber_loss(logits, z, weight=w)", classes(ROWS), "None", id="huber divides by elements"),
    pytest.param("F.multi_margin_loss(logits, t, weight=weight)", classes(ROWS), "None", id="margins divide by rows"),
    pytest.param("F.binary_cross_entropy_with_logits(logits, z.sigmoid(), w)", classes(ROWS), "None", id="bce weight"),
    pytest.param("F.nll_loss(logits.log_softmax(1), t, weight)", classes(ROWS), "weight[t].sum()", id="nll"),
    pytest.param("F.cross_entropy(logits, t, label_smoothing=0.1)", classes(ROWS), "None", id="smoothing"),
    pytest.param("nn.CrossEntropyLoss()(logits, t)", classes(ROWS), "None", id="module"),
    pytest.param(
        "criterion(logits, t)", classes(ROWS), "(t != criterion.ignore_index).sum()", id="module ignore_index"
    ),
    pytest.param("weighted(logits, t)", classes(ROWS), "weighted.weight[t].sum()", id="module weight"),
    pytest.param(
        "both(logits, t)", classes(ROWS), "both.weight[t[t != both.ignore_index]].sum()", id="module weight and ignore"
    ),
]
BEFORE = """
weight = torch.tensor([1.0, 2.0, 0.5])
criterion = nn.CrossEntropyLoss(ignore_index=1)
weighted = nn.CrossEntropyLoss(weight)
both = nn.CrossEntropyLoss(weight=weight, ignore_index=1)
"""


@pytest.mark.parametrize(("text", "targets", "expected"), TARGETS)
def test_divisors_of_targets(text: str, targets: Tensor, expected: str) -> None:
    """The text is the expected one, and with it the means of two slices make the mean of the whole."""
    lines = f"t, logits, z, w = y, out, torch.tanh(out), torch.sigmoid(out)\nprint({text})"
    (edit,) = inside(lines, before=BEFORE)
    by = edit.partition(", by=")[2].removesuffix(")") or "None"
    assert edit.startswith(f"mean({text}")
    assert by == expected
    torch.manual_seed(1)
    space: dict[str, Any] = {"F": F, "nn": nn, "torch": torch}
    exec(BEFORE, space)
    whole = {"logits": torch.randn(ROWS, 3), "t": targets, "z": torch.randn(ROWS, 3), "w": torch.rand(ROWS, 3)}
    parts = [{k: v[rows] for k, v in whole.items()} for rows in (slice(None, CUT), slice(CUT, None))]
    values = [eval(text, {**space, **part}) for part in parts]
    divisors = [float(len(p["t"]) if by == "None" else eval(by, {**space, **p})) for p in parts]
    assert combined(values, divisors) == pytest.approx(eval(text, {**space, **whole}).item(), rel=1e-5)


@pytest.mark.parametrize(
    "line",
    [
        "from transformers import DataCollatorForLanguageModeling",
        "import transformers.data",
        "ignored = int(options.get('ignored', '-100'))",
        "ignored = nn.CrossEntropyLoss().ignore_index",
    ],
)
def test_what_tells_of_minus_100_counts_targets(line: str) -> None:
    """Labels that a library or an option fills with it; in other scripts the rows are counted."""
    found = edits(facts_of(script(f"print(F.cross_entropy(out, y))\n{line}")))
    assert "mean(F.cross_entropy(out, y), by=(y != -100).sum())" in found
    assert not any("by=" in edit for edit in edits(facts_of(script("print(F.cross_entropy(out, y))"))))


def test_minus_100_in_the_script_counts_targets() -> None:
    found = edits(facts_of(script("t = torch.where(y > 1, -100, y)\nprint(F.cross_entropy(out, t))")))
    assert found == [
        "mean(F.cross_entropy(out, t), by=(t != -100).sum())",
        "mean(F.cross_entropy(out, y), by=(y != -100).sum())",
    ]
    whole, parts = F.cross_entropy(LOGITS, padded), []
    for rows in (slice(None, CUT), slice(CUT, None)):
        parts.append((F.cross_entropy(LOGITS[rows], padded[rows]), float((padded[rows] != -100).sum())))
    assert combined([v for v, _ in parts], [d for _, d in parts]) == pytest.approx(whole.item())


LOGITS = torch.randn(ROWS, 3, generator=torch.Generator().manual_seed(3))


def test_class_probabilities_as_targets_divide_by_rows() -> None:
    targets = torch.softmax(torch.randn(ROWS, 3), 1)
    values = [F.cross_entropy(LOGITS[r], targets[r], weight) for r in (slice(None, CUT), slice(CUT, None))]
    whole = F.cross_entropy(LOGITS, targets, weight).item()
    assert combined(values, [CUT, ROWS - CUT]) == pytest.approx(whole, rel=1e-5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("F.cross_entropy(out, y, reduction='sum')", "sum(F.cross_entropy(out, y, reduction='sum'))"),
        ("nn.MSELoss(reduction='sum')(out, x)", "sum(nn.MSELoss(reduction='sum')(out, x))"),
        ("F.mse_loss(out, x, reduction='none').mean()", "mean(F.mse_loss(out, x, reduction='none').mean())"),
        ("F.mse_loss(out, x, reduction='none').sum()", "sum(F.mse_loss(out, x, reduction='none').sum())"),
        ("F.mse_loss(out, x, size_average=False)", "sum(F.mse_loss(out, x, size_average=False))"),
        ("F.mse_loss(out, x, reduce=False).mean()", "mean(F.mse_loss(out, x, reduce=False).mean())"),
        ("nn.KLDivLoss(reduction='batchmean')(out, x)", "mean(nn.KLDivLoss(reduction='batchmean')(out, x))"),
        ("torch.nn.functional.l1_loss(out, x)", "mean(torch.nn.functional.l1_loss(out, x))"),
        ("nn.MSELoss(False)(out, x)", "sum(nn.MSELoss(False)(out, x))"),
        ("F.mse_loss(out, x, None, None, 'sum')", "sum(F.mse_loss(out, x, None, None, 'sum'))"),
        ("nn.HuberLoss('sum')(out, x)", "sum(nn.HuberLoss('sum')(out, x))"),
        ("F.mse_loss(input=out, target=x)", "mean(F.mse_loss(input=out, target=x))"),
        ("kind(out, y)", "sum(kind(out, y))"),
    ],
)
def test_reductions_of_losses(text: str, expected: str) -> None:
    before = "REDUCTION = 'sum'\nkind = nn.CrossEntropyLoss(reduction=REDUCTION)"
    assert inside(f"print({text})", before=before) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "F.mse_loss(torch.ones(2), torch.zeros(2))",
        "F.cross_entropy(torch.zeros(2, 3), torch.zeros(2, dtype=torch.long))",
        "nn.L1Loss()(model.fc.bias.detach() * 0, torch.zeros(3))",
    ],
)
def test_losses_of_what_all_ranks_hold_stay(text: str) -> None:
    assert [e for e in inside(f"print({text})") if not e.startswith("full")] == []


@pytest.mark.parametrize("given", ["reduction=kind", "**options"])
def test_a_reduction_that_is_no_literal_is_refused(given: str) -> None:
    before = "import sys\nkind = sys.argv[1]\noptions = dict(reduction=kind)"
    facts = facts_of(script(f"extra = F.mse_loss(out, x, {given})\nprint(extra)", before=before))
    assert "DST110" in codes(facts)
    assert math.isfinite(len(edits(facts)))
