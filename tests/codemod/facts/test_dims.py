"""Dimensions that may be the batch's or not: over the whole batch where that can't be told, never a guess."""

from __future__ import annotations

import pytest

from tests.codemod.facts.snippets import codes, facts_of, inside, script

HEAD = """
import os
AXIS = int(os.environ.get('AXIS', '0'))
"""

DOUBTFUL = [
    ("out.mean(AXIS)", ["gather(out)"]),
    ("out.sum(dim=AXIS)", ["gather(out)"]),
    ("torch.max(out, AXIS)", ["gather(out)"]),
    ("out.softmax(AXIS)", ["gather(out)"]),
    ("out.std(AXIS)", ["gather(out)"]),
    ("out.mean(-2)", ["gather(out)"]),
    ("torch.cat([out, out], dim=AXIS)", ["gather(out)", "gather(out)"]),
    ("out.squeeze(-1).mean(-1)", ["gather(out.squeeze(-1))"]),
    ("out[:, 0].sum(dim=-1)", ["gather(out[:, 0])"]),
    ("(out.argmax(-1) == y).float().mean(-1)", ["gather((out.argmax(-1) == y).float())"]),
]


@pytest.mark.parametrize(("text", "expected"), DOUBTFUL)
def test_gathered_where_it_cannot_be_told(text: str, expected: list[str]) -> None:
    assert inside(f"z = {text}\nprint(1)", head=HEAD) == expected


WITHIN = [
    "x.mean(dim=tuple(range(1, x.dim())))",
    "x.sum(dim=list(range(1, x.ndim)))",
    "x.amax(tuple(range(1, 2)))",
    "x.sum(tuple(range(1, len(x.shape))))",
    "out.mean(-1)",
    "out.softmax(-1)",
    "out.sum(LAST)",
    "keep(out)",
    "keep(out, dim=-1)",
    "Keep()(out)",
    "torch.cat([out, out], dim=-1)",
    "out[torch.arange(len(y)), y] * 2",
    "out[range(len(y)), y] * 2",
    "torch.einsum('...c,c->...', out, torch.ones(3))",
    "torch.einsum('bc,bc->b', out, out)",
]


@pytest.mark.parametrize("text", WITHIN)
def test_left_alone_within_samples(text: str) -> None:
    head = (
        "LAST = -1\n\ndef keep(v, dim=1):\n    return v.sum(dim)\n\n"
        "class Keep:\n    def __init__(self, dim=1):\n        self.dim = dim\n\n"
        "    def __call__(self, v, more=-1):\n        return v.sum(self.dim, keepdim=True).mean(more)\n"
    )
    found = inside(f"z = {text}\nprint(1)", head=head)
    assert [e for e in found if "mean(more)" not in e] == []


OVER_ROWS = [
    ("out[torch.arange(len(y)), y].mean()", ["mean(out[torch.arange(len(y)), y].mean())"]),
    ("out[range(len(y)), y].sum()", ["sum(out[range(len(y)), y].sum())"]),
    ("x.sum(dim=tuple(range(0, 1)))", ["sum(x.sum(dim=tuple(range(0, 1))))"]),
    ("out.max(1).values.mean()", ["mean(out.max(1).values.mean())"]),
    ("out.topk(2, 1).values.sum()", ["sum(out.topk(2, 1).values.sum())"]),
    ("(out.max(dim=1).indices == y).sum()", ["sum((out.max(dim=1).indices == y).sum())"]),
    ("torch.einsum('bc,bc', out, out)", ["sum(torch.einsum('bc,bc', out, out))"]),
    ("torch.einsum('...c,...c->', out, out)", ["gather(out)", "gather(out)"]),
]


@pytest.mark.parametrize(("text", "expected"), OVER_ROWS)
def test_over_the_rows(text: str, expected: list[str]) -> None:
    assert inside(f"z = {text}\nprint(1)") == expected


def test_calls_of_one_function_with_different_dimensions() -> None:
    head = "def spread(values, dim):\n    return values.sum(dim)\n"
    assert inside("a = spread(out, 0)\nb = spread(out, 1)", head=head) == ["gather(values)"]
    assert inside("a = spread(out, 1)\nb = spread(out, 1)", head=head) == []
    assert inside("a = spread(out, 0)\nb = spread(out, 0)", head=head) == ["sum(values.sum(dim))"]


STORED = [
    ("table[0, y] = out[:, 0]", ["gather(y)", "gather(out[:, 0])"]),
    ("table[0, 1] = loss", []),
]


@pytest.mark.parametrize(("line", "expected"), STORED)
def test_rows_written_where_an_index_says(line: str, expected: list[str]) -> None:
    assert inside(f"loss = 0.0\n{line}", before="table = torch.zeros(2, 9)") == expected


@pytest.mark.parametrize(("dim", "expected"), [("dim", ["DST121"]), ("1", []), ("self.dim", [])])
def test_inside_a_forward_it_is_taken_to_be_within_samples(dim: str, expected: list[str]) -> None:
    head = HEAD + (
        "\nclass Pool(nn.Module):\n    def __init__(self, dim=1):\n        super().__init__()\n        self.dim = dim\n"
        f"        self.fc = nn.Linear(4, 3)\n\n    def forward(self, x):\n        dim = AXIS\n"
        f"        return self.fc(x - x.mean({dim}, keepdim=True))\n"
    )
    facts = facts_of(script("", head=head).replace("model = Net()", "model = Pool()"))
    assert codes(facts) == expected
