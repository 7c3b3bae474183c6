"""Run one rule alone over a small training script, apply its edits, and run it again on what came out."""

from __future__ import annotations

import ast
import difflib
import textwrap
from collections.abc import Sequence

from distify.codemod.apply import apply
from distify.codemod.edits import Edit
from distify.codemod.facts import analyse
from distify.codemod.findings import Finding
from distify.codemod.options import Options
from distify.codemod.rules import rules

HEAD = """\
import os
import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset
from distify import runtime


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x)


runtime.init()
data = TensorDataset(torch.randn(10, 4), torch.zeros(10, dtype=torch.long))
"""

TRAINING = """\
loader = DataLoader(data, batch_size=4)
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""


def script(text: str) -> str:
    """A whole script: imports, a model, the text, and a training loop unless the text has one."""
    text = textwrap.dedent(text).strip("\n") + "\n"
    return HEAD + text + ("" if "backward" in text else TRAINING)


def outcome(rule: str, source: str, options: Options) -> tuple[list[Edit], list[Finding]]:
    """What one rule asks for."""
    (found,) = [item for item in rules() if item.name == rule]
    facts = analyse(source, "train.py")
    assert facts.is_training, "the test's source is no training script"
    results = list(found(facts, options))
    return (
        [item for item in results if isinstance(item, Edit)],
        [item for item in results if isinstance(item, Finding)],
    )


def difference(expected: str, actual: str) -> str:
    """A unified diff, for the message of a failed assertion."""
    return "\n".join(
        difflib.unified_diff(expected.splitlines(), actual.splitlines(), "expected", "actual", lineterm="")
    )


def check_rewritten(
    rule: str,
    before: str,
    after: str,
    findings: Sequence[str] = (),
    *,
    whole: bool = False,
    again: Sequence[str] | None = None,
    **options: str | int,
) -> None:
    """Asserts what a rule makes of a text, and that it leaves its own output alone.

    Args:
        rule: its name.
        before, after: indented texts, completed by `script` unless `whole`.
        findings: codes that it reports, in its order.
        again: codes that it reports on its own output; the same if not given.
        options: of the conversion.
    """
    complete = textwrap.dedent if whole else script
    chosen = Options(**options)  # type: ignore[arg-type]
    edits, found = outcome(rule, complete(before), chosen)
    text = apply(complete(before), edits)
    ast.parse(text)
    assert text == complete(after), difference(complete(after), text)
    assert [item.code for item in found] == list(findings)
    edits, found = outcome(rule, text, chosen)
    assert apply(text, edits) == text, "a second conversion changes:\n" + difference(text, apply(text, edits))
    assert [item.code for item in found] == list(findings if again is None else again)


def check_noop(
    rule: str, text: str, findings: Sequence[str] = (), *, whole: bool = False, **options: str | int
) -> None:
    """Asserts that a rule leaves a text alone, with these finding codes."""
    source = textwrap.dedent(text) if whole else script(text)
    edits, found = outcome(rule, source, Options(**options))  # type: ignore[arg-type]
    assert not edits, difference(source, apply(source, edits))
    assert [item.code for item in found] == list(findings)
