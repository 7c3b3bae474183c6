"""Names whose type a test tells, and arguments that come from a sequence of unknown length."""

from __future__ import annotations

import pytest

from tests.codemod.facts.snippets import inside

TENSOR = "x = (x,)"


@pytest.mark.parametrize(
    "test",
    [
        "not isinstance(x, (tuple, list))",
        "not isinstance(x, list)",
        "type(x) not in (tuple, list)",
        "not type(x) in [tuple, list]",
        "type(x) is not tuple",
        "isinstance(x, torch.Tensor)",
        "torch.is_tensor(x)",
    ],
)
def test_what_is_no_tensor_becomes_a_tuple(test: str) -> None:
    """The count of the first member is that of the batch, whichever it was."""
    assert inside(f"if {test}:\n    x = (x,)\ntotal = 0\ntotal += len(x[0])") == ["sum(len(x[0]))"]


def test_an_expression_with_a_test() -> None:
    body = "first = x[0] if isinstance(x, (list, tuple)) else x\ntotal = 0\ntotal += first.size(0)"
    assert inside(body) == ["sum(first.size(0))"]


def test_a_loss_of_what_a_sequence_holds() -> None:
    head = "crit = nn.NLLLoss()\n"
    body = "given = (out,)\nif epoch:\n    given += (y,)\nother = crit(*given)\nprint(other.item())"
    assert inside(body, head=head, before="epoch = 0") == ["mean(crit(*given))"]


def test_parameters_that_a_sequence_fills() -> None:
    head = (
        "def gap(a, b, averaged=True):\n    d = (a - b).pow(2).sum(1)\n    return d.mean() if averaged else d.sum()\n"
    )
    body = "given = [out]\ngiven += [out]\nprint(gap(*given).item())"
    assert inside(body, head=head) == ["mean(d.mean())", "sum(d.sum())"]
