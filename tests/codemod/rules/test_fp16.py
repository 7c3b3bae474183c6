"""What half precision can't hold is told where fp16 is asked for, and nowhere else."""

from __future__ import annotations

import pytest

from tests.codemod.rules.checks import check_noop

STEP = """\
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(data, batch_size=4):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
{after}
    optimizer.step()
"""


TOO_LARGE = [
    "x.masked_fill(x == 0, -1e9)",
    "x.masked_fill_(x == 0, value=1e20)",
    "x.masked_fill(x == 0, LOW)",
    "x.fill_(70000)",
    "torch.full_like(x, -65505.0)",
]
FITS = [
    "x.masked_fill(x == 0, -1e4)",
    "x.masked_fill(x == 0, float('-inf'))",
    "x.masked_fill(x == 0, torch.finfo(x.dtype).min)",
    "x.fill_(0)",
    "torch.full_like(x, 65504)",
    "torch.full((3,), -1e9)",
]


@pytest.mark.parametrize("text", TOO_LARGE)
def test_numbers_beyond_the_range(text: str) -> None:
    source = f"LOW = -1e12\nx = torch.ones(3)\ny = {text}"
    check_noop("fp16", source, ["DST405"], precision="fp16")
    check_noop("fp16", source, precision="bf16")


@pytest.mark.parametrize("text", FITS)
def test_numbers_within_it(text: str) -> None:
    check_noop("fp16", f"x = torch.ones(3)\ny = {text}", precision="fp16")


ENDS = [
    "    if not torch.isfinite(norm):\n        break",
    "    if norm > 1e4:\n        raise SystemExit",
    "    if norm.isnan():\n        print('bad')\n        exit(1)",
]
GOES_ON = [
    "    if not torch.isfinite(norm):\n        continue",
    "    if norm > 3:\n        print(norm)",
    "    if loss > 9:\n        break",
]


@pytest.mark.parametrize("after", ENDS)
def test_the_end_at_an_infinite_norm(after: str) -> None:
    check_noop("fp16", STEP.format(after=after), ["DST406"], precision="fp16")
    check_noop("fp16", STEP.format(after=after))


@pytest.mark.parametrize("after", GOES_ON)
def test_other_branches(after: str) -> None:
    check_noop("fp16", STEP.format(after=after), precision="fp16")
