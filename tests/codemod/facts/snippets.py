"""Small training scripts around a few lines, and what the facts say about those lines, as text."""

from __future__ import annotations

import ast
import textwrap

from distify.codemod.facts import Facts, analyse
from distify.codemod.facts.values import Role, Value

NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(x)


"""
HEAD = (
    """\
import copy
import math
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.utils.data import DataLoader, Dataset, TensorDataset


"""
    + NET
)

DATA = """\
data = TensorDataset(torch.randn(29, 4), torch.randint(0, 3, (29,)))
loader = DataLoader(data, batch_size=7)
model = Net()
opt = optim.SGD(model.parameters(), lr=0.1)
"""

STEP = """\
loss = F.cross_entropy(out, y)
loss.backward()
opt.step()
"""
STEP_EDIT = "mean(F.cross_entropy(out, y))"


def facts_of(source: str) -> Facts:
    """Facts about a whole source, which must be that of a training script."""
    facts = analyse(textwrap.dedent(source), "train.py")
    assert facts.is_training, "no training script"
    return facts


def script(body: str, *, head: str = "", before: str = "", after: str = "", step: str = STEP) -> str:
    """A training script.

    Args:
        body: lines of the training loop, after `out = model(x)`.
        head: definitions before the data.
        before, after: lines before and after the loop.
        step: the training step that ends the loop's body.
    """
    body, head, before, after, step = (textwrap.dedent(text).strip("\n") for text in (body, head, before, after, step))
    loop = textwrap.indent(f"out = model(x)\n{body}\n{step}\n", "    ")
    return f"{HEAD}{head}\n\n\n{DATA}{before}\nfor x, y in loader:\n{loop}{after}\n"


def edits(facts: Facts) -> list[str]:
    """Every place that needs an edit, in source order, as the call of the runtime that goes around it."""
    found: list[tuple[ast.AST, str]] = []
    for item in facts.reductions:
        if not item.converted:
            found.append((item.node, call(item.kind, facts.text(item.node), by=item.by, of=item.of)))
    found += [(c.node, call("sum", facts.text(c.node), of=c.of)) for c in facts.counts]
    found += [
        (g.node, call("gather", facts.text(g.node), dim=str(g.dim) if g.dim else None, of=g.of)) for g in facts.gathers
    ]
    found += [(d.call, call("draw", facts.text(d.call.func), of=d.of)) for d in facts.draws]
    found += [(s.node, call("split", facts.text(s.node), dim=str(s.dim) if s.dim else None)) for s in facts.splits]
    found += [(s.node, f"{facts.text(s.node)} -> {s.text}") for s in facts.sizes]
    found += [(f.node, call("full", facts.text(f.node))) for f in facts.fulls]
    found += [(a.statement, f"{a.target} = {call(a.kind, a.target, by=a.by, of=a.of)}") for a in facts.arrivals]
    found.sort(key=lambda pair: (pair[0].lineno, pair[0].col_offset, -(pair[0].end_col_offset or 0)))  # type: ignore[attr-defined]
    return [text for _, text in found]


def call(name: str, text: str, **options: str | None) -> str:
    """A call of the runtime as text."""
    given = "".join(f", {key}={value}" for key, value in options.items() if value is not None)
    return f"{name}({' '.join(text.split())}{given})"


def inside(body: str, *, head: str = "", before: str = "") -> list[str]:
    """The edits of a few lines in a training loop, without that of the loop's own loss."""
    found = edits(facts_of(script(body, head=head, before=before)))
    assert STEP_EDIT in found, f"the loop's own loss is gone: {found}"
    found.remove(STEP_EDIT)
    return found


def codes(facts: Facts) -> list[str]:
    """Codes of the findings, sorted."""
    return sorted(f.code for f in facts.findings)


def value_of(facts: Facts, name: str) -> Value:
    """Value of the last occurrence of a name (or expression) in source order."""
    nodes = [n for n in ast.walk(facts.tree) if isinstance(n, ast.expr) and facts.text(n) == name]
    assert nodes, f"{name} is not in the source"
    return facts.value(max(nodes, key=lambda n: (n.lineno, n.col_offset)))


def roles(facts: Facts, name: str) -> set[str]:
    """Roles of the last occurrence of a name."""
    return {role.value for role in Role if value_of(facts, name).has(role)}
