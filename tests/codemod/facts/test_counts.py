"""Host integers of this rank's rows: local while they shape tensors, global where they leave the iteration."""

from __future__ import annotations

import pytest

from tests.codemod.facts.snippets import codes, facts_of, inside, script

METER = """
class AverageMeter:
    def __init__(self):
        self.sum = 0
        self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count
"""

COUNTED = [
    ("total += y.size(0)", ["sum(y.size(0))"]),
    ("total += len(x)", ["sum(len(x))"]),
    ("total += x.shape[0]", ["sum(x.shape[0])"]),
    ("total += y.numel()", ["sum(y.numel())"]),
    ("total += x.size()[0]", ["sum(x.size()[0])"]),
    ("total += len(out.argmax(1))", ["sum(len(out.argmax(1)))"]),
    ("n = y.size(0)\ntotal += n", ["sum(n)"]),
    ("n = x.size(0)\ntotal = total + n", ["sum(n)"]),
    ("n, d = x.shape\ntotal += n", ["sum(n)"]),
    ("(n, d), k = x.size(), 3\ntotal += n", ["sum(n)"]),
    ("print(len(y))", ["sum(len(y))"]),
    ("print(f'{len(y)} rows')", ["sum(len(y))"]),
    ("print('%d rows' % len(y))", ["sum(len(y))"]),
    ("print('{} rows'.format(len(y)))", ["sum(len(y))"]),
    ("seen.append(len(y))", ["sum(len(y))"]),
    ("sizes['n'] = x.size(0)", ["sum(x.size(0))"]),
    ("stats = {'n': len(y)}", ["sum(len(y))"]),
    ("total += loss_value * x.size(0)", ["sum(x.size(0))"]),
    ("weighted = out.mean().item() * len(x)", ["mean(out.mean())", "sum(len(x))"]),
    ("share = (out.argmax(1) == y).sum().item() / y.size(0)", ["sum((out.argmax(1) == y).sum())", "sum(y.size(0))"]),
    ("share = 100.0 * (out.argmax(1) == y).sum() / len(y)", ["sum((out.argmax(1) == y).sum())", "sum(len(y))"]),
    ("if len(y) < 7:\n    continue", ["sum(len(y))"]),
    ("if len(y) < 2:\n    total = 0", ["sum(len(y))"]),
    ("half = len(x) // 2", ["sum(len(x))"]),
    ("k = int(0.3 * len(x))", ["sum(len(x))"]),
    ("k = max(1, len(x))", ["sum(len(x))"]),
    ("k = round(len(x) / 3)", ["sum(len(x))"]),
    ("losses += [0.5] * len(x)", ["sum(len(x))"]),
    ("for i in range(len(y)):\n    total += i", ["sum(len(y))"]),
    ("while total < len(y):\n    total += 1", ["sum(len(y))"]),
    ("assert len(y) == 7", ["sum(len(y))"]),
    ("np.full(len(y), 0.5)", ["sum(len(y))"]),
    ("z = np.arange(x.shape[0])", ["sum(x.shape[0])"]),
    ("meter.update(out.mean().item(), y.size(0))", ["mean(out.mean())", "sum(y.size(0))"]),
    ("n = y.size(0)\nmeter.update(0.5, n)", ["sum(n)"]),
    ("meter.update(0.5, n=len(x))", ["sum(len(x))"]),
    ("seen.extend([len(x), 1])", ["sum(len(x))"]),
    ("total += len(y) if total else 0", ["sum(len(y))"]),
    ("total += 2 * len(y) + len(x)", ["sum(len(y))", "sum(len(x))"]),
    ("total -= -len(y)", ["sum(len(y))"]),
    ("total += (n := len(y))", ["sum(len(y))"]),
]
BEFORE = "total = 0\nseen = []\nsizes = {}\nlosses = []\nloss_value = 0.5\nmeter = AverageMeter()"


@pytest.mark.parametrize(("body", "expected"), COUNTED)
def test_counts_that_leave_the_iteration(body: str, expected: list[str]) -> None:
    assert inside(body, head=METER, before=BEFORE) == expected


LOCAL = [
    "z = x.view(x.size(0), -1)",
    "n = x.shape[0]\nz = x.reshape(n, -1)",
    "z = torch.zeros(len(x), 3) + out",
    "n = len(x)\nz = torch.ones(n, 3).to(x.device) * out",
    "z = torch.full((y.size(0),), 0.9) * y",
    "z = x.new_zeros(x.size(0), 3) - out",
    "z = out[torch.arange(y.size(0)), y]",
    "z = torch.arange(3).expand(len(x), 3) * out",
    "z = torch.arange(3).repeat(len(x), 1) * out",
    "b, d = x.shape\nz = x.view(b, d, 1).expand(b, d, 2)",
    "assert x.size(0) == y.size(0)",
    "if x.shape[0] == out.shape[0]:\n    z = 1",
    "z = x.size(1)",
    "z = x.shape[-1] + x.shape[1]",
    "z = x.dim() + x.ndim",
    "d = x.shape[1]\nprint(d)",
    "print(x.shape[1:], x.ndim, x.dtype)",
    "print(len(loader), len(data), len(loader.dataset))",
    "print(loader.batch_size)",
    "z = F.interpolate(x[:, None], size=x.shape[1])",
]


@pytest.mark.parametrize("body", LOCAL)
def test_counts_that_shape_tensors_stay(body: str) -> None:
    assert inside(body) == []


@pytest.mark.parametrize(
    "size", ["fixed.shape[-1]", "fixed.size(-1)", "fixed.shape[0]", "len(fixed)", "model.fc.weight.shape[-1]"]
)
def test_sizes_of_what_is_the_same_everywhere(size: str) -> None:
    assert inside(f"z = out + torch.ones(1, 3) * {size}", before="fixed = torch.randn(2, 3)") == []


def test_a_count_inside_a_function_is_made_global_where_it_is_passed() -> None:
    head = "def log(name, n):\n    print(name, n)\n"
    assert inside("log('rows', len(y))", head=head) == ["sum(len(y))"]


def test_a_count_that_a_function_returns() -> None:
    head = "def rows(t):\n    return t.size(0)\n"
    assert inside("total = 0\ntotal += rows(x)", head=head) == ["sum(rows(x))"]


def test_a_count_that_is_printed_and_shapes_a_tensor() -> None:
    assert inside("n = x.size(0)\nz = x.view(n, -1)\nprint(n)") == ["sum(n)"]


def test_a_count_among_other_numbers_is_made_global_where_it_is_taken() -> None:
    """In a dict of metrics the loop over its values can't tell the count from the rest."""
    head = """
    def metrics(out, y):
        return {'acc': (out.argmax(1) == y).float().mean().item(), 'n': y.size(0)}
    """
    body = "for k, v in metrics(out, y).items():\n    logs[k] = logs.get(k, 0) + v"
    found = inside(body, head=head, before="logs = {}")
    assert found == ["mean((out.argmax(1) == y).float().mean())", "sum(y.size(0))"]


def test_keyword_counts_of_functions_that_take_any() -> None:
    head = "def show(**values):\n    for k, v in values.items():\n        print(k, v)\n"
    assert inside("show(n=len(y), epoch=3)", head=head) == ["sum(len(y))"]


@pytest.mark.parametrize("line", ["n = runtime.sum(len(y))\nprint(n)", "print(runtime.sum(x.size(0)))"])
def test_converted_counts_are_left_alone(line: str) -> None:
    assert inside(line, head="from distify import runtime") == []


def test_positions_that_are_compared_are_those_in_the_whole_batch() -> None:
    """A range over the rows of a slice begins anew on each rank; as an index into them it is right."""
    assert inside("z = torch.arange(len(x)) % 2 == 0") == ["draw(torch.arange)"]
    assert inside("z = x * (torch.arange(x.size(0), device=x.device)[:, None] > 0)") == ["draw(torch.arange)"]
    assert inside("z = torch.arange(len(x))[:, None] == torch.arange(len(x))[None]") == ["sum(len(x))"] * 2
    assert inside("z = out[torch.arange(len(x)), y] > 0") == []
    assert "DST110" in codes(facts_of(script("rows = torch.arange(len(x))\nz = out[rows, y] * (rows < 4)")))
