"""Where the rows go when tensors are reshaped, joined, cut and indexed."""

from __future__ import annotations

import pytest

from distify.codemod.facts.values import Value
from tests.codemod.facts.snippets import codes, edits, facts_of, inside, script, value_of


def sample(text: str, before: str = "") -> Value:
    """The value of an expression in the loop, which must be per sample."""
    value = value_of(facts_of(script(f"z = {text}", before=before)), "z")
    assert value.is_sample, f"{text} is {value.batch}"
    return value


DIMS = [
    ("out.t()", 1),
    ("out.T", 1),
    ("out.mT", 0),
    ("out.unsqueeze(0)", 1),
    ("out.unsqueeze(1)", 0),
    ("out[None]", 1),
    ("out[:, None]", 0),
    ("out[..., None]", 0),
    ("out.transpose(0, 1)", 1),
    ("out.transpose(1, 2)", 0),
    ("out.transpose(-1, -2)", 0),
    ("out.permute(1, 0)", 1),
    ("out.permute(2, 0, 1)", 1),
    ("out.permute((0, 2, 1))", 0),
    ("out.movedim(0, 2)", 2),
    ("out.movedim(1, 0)", 1),
    ("out.movedim(2, 1)", 0),
    ("out.swapaxes(0, 1)", 1),
    ("y.view(1, -1)", 1),
    ("y.view(-1, 1)", 0),
    ("out.view(-1)", 0),
    ("out.view(out.size(0), -1)", 0),
    ("out.view(len(out), 3)", 0),
    ("out.view(x.shape[0], 3)", 0),
    ("out.reshape((-1, 3))", 0),
    ("out.reshape(-1, out.shape[-1])", 0),
    ("out.flatten()", 0),
    ("out.flatten(1)", 0),
    ("torch.flatten(out, 1)", 0),
    ("out.unsqueeze(0).squeeze(0)", 0),
    ("torch.stack([out, out])", 1),
    ("torch.stack([out, out], dim=1)", 0),
    ("torch.stack((out, x), -1)", 0),
    ("torch.cat([out, x], 1)", 0),
    ("torch.cat([out, x], dim=-1)", 0),
    ("torch.cat([out.t(), x.t()], 0)", 1),
    ("torch.hstack((out, x))", 0),
    ("torch.column_stack((y, y))", 0),
    ("out.chunk(3, dim=1)[0]", 0),
    ("out.split(1, dim=1)[0]", 0),
    ("out.unbind(1)[0]", 0),
    ("out.expand(7, 5, 3)", 0),
    ("out.view(*(out.size()[:-1] + (3, 1)))", 0),
    ("x.view(*x.shape)", 0),
    ("out.repeat(1, 2)", 0),
    ("out.repeat_interleave(2, dim=1)", 0),
    ("out[:, 0]", 0),
    ("out[:, 1:]", 0),
    ("out[:, [0, 2]]", 0),
    ("out[..., 0]", 0),
    ("out.t()[0]", 0),
    ("out[torch.arange(len(y)), y]", 0),
    ("out[y > 0]", 0),
    ("torch.zeros(5, 3)[y]", 0),
    ("model.fc.weight[y]", 0),
    ("F.embedding(y, torch.zeros(3, 8))", 0),
    ("out.select(1, 0)", 0),
    ("out.narrow(1, 0, 2)", 0),
    ("out.gather(1, y[:, None])", 0),
    ("torch.where(y > 0, y, 0)", 0),
    ("torch.einsum('bi,ij->jb', out, torch.eye(3))", 1),
    ("torch.einsum('bi,bj->bij', out, out)", 0),
    ("x.view(-1, 2, 2)", 0),
    ("F.pad(out, (0, 1))", 0),
    ("out.type_as(x)", 0),
    ("out.to(x)", 0),
    ("out.data", 0),
    ("out.float().contiguous().detach().clone()", 0),
]


@pytest.mark.parametrize(("text", "dim"), DIMS)
def test_where_the_rows_go(text: str, dim: int | None) -> None:
    assert sample(text).batch.dim == dim


MEETINGS = [
    # what is whole is cut where it meets slices
    ("i = torch.randperm(len(x))\nz = x + x[i]", ["sum(len(x))", "split(x[i])", "gather(x)"]),
    ("i = torch.randperm(x.size(0))\nz = F.mse_loss(out, out[i])",
     ["sum(x.size(0))", "mean(F.mse_loss(out, out[i]))", "split(out[i])", "gather(out)"]),
    ("z = x * torch.roll(x, 1, 0)", ["split(torch.roll(x, 1, 0))", "gather(x)"]),
    ("w = out.max(1)[0].softmax(0)\nz = (w * y).sum()", ["gather(out.max(1)[0])", "sum((w * y).sum())", "split(w)"]),
    ("z = out - out.flip(0)", ["split(out.flip(0))", "gather(out)"]),
    # what can't be cut makes the slices whole
    ("s = out @ out.T\nz = s.masked_fill(torch.eye(len(out)).bool(), 0)",
     ["gather(out)", "gather(out.T, dim=1)", "sum(len(out))"]),
    ("s = out @ out.T\nz = F.cross_entropy(s, torch.arange(len(y)))",
     ["gather(out)", "gather(out.T, dim=1)", "sum(len(y))"]),
    ("s = out @ out.T\nz = s[y == 1]", ["gather(out)", "gather(out.T, dim=1)", "gather(y == 1)"]),
    ("d = torch.cdist(out, out)\nz = (d * (y[:, None] == y[None])).sum()",
     ["gather(out)", "gather(out)", "gather(y[:, None])", "gather(y[None], dim=1)"]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), MEETINGS)
def test_whole_batches_that_meet_slices(body: str, expected: list[str]) -> None:
    assert inside(body) == expected


JOINED = [
    # slices one after another are gathered part by part
    ("z = torch.cat([out, out * 2])\ns = z @ z.T", ["gather(out)", "gather(out * 2)"]),
    ("z = out.repeat(2, 1)\ns = z @ z.t()", ["gather(out)"]),
    ("n = out.size(0)\nz = torch.cat([out, out * 2])\ns = (z @ z.T) * torch.eye(2 * n)",
     ["gather(out)", "gather(out * 2)", "sum(n)"]),
    # taken apart again, nothing is left to do
    ("z = torch.cat([x, x * 2])\na, b = model(z).chunk(2)\ns = (a - b).mean()", ["mean((a - b).mean())"]),
    ("n = len(x)\na, b = torch.split(model(torch.cat([x, x])), n)\ns = (a * b).sum()", ["sum((a * b).sum())"]),
    ("n = len(x)\na, b = torch.split(model(torch.cat([x, x])), [n, n], dim=0)\ns = F.cross_entropy(a, y)",
     ["mean(F.cross_entropy(a, y))"]),
    # a mean over slices one after another is weighted by rows as well
    ("z = torch.cat([out, out]).mean()", ["mean(torch.cat([out, out]).mean())"]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), JOINED)
def test_slices_in_a_row(body: str, expected: list[str]) -> None:
    assert inside(body) == expected


BY_POSITION = [
    ("print(out[0])", ["gather(out)"]),
    ("print(x[:8].mean())", ["gather(x)"]),
    ("print(out[-1].tolist())", ["gather(out)"]),
    ("print(out[0, 1])", ["gather(out)"]),
    ("print(out[:, 0][0])", ["gather(out[:, 0])"]),
    ("n = len(x) // 2\na, b = x[:n], x[n:]", ["sum(len(x))", "gather(x)", "gather(x)"]),
    ("a, b = out.chunk(2)", ["gather(out)"]),
    ("for row in out:\n    print(row.sum())", ["gather(out)"]),
    ("for i in range(len(out)):\n    print(out[i])", ["sum(len(out))", "gather(out)"]),
    ("print(out.select(0, 3))", ["gather(out)"]),
    ("z = x[[2, 0, 1]]", ["gather(x)"]),
    ("z = x.view(batch_size, -1)", ["batch_size -> x.size(0)"]),
    ("z = x.tanh().reshape(batch_size, 2, 2)", ["batch_size -> -1"]),
    ("z = x.view(batch_size * 2, 2)", ["batch_size * 2 -> -1"]),
    ("z = x.view(28)", ["28 -> -1"]),
    ("z = x.view(2 * 2, batch_size)", ["gather(x)"]),
    ("print(x.shape)", ["gather(x)"]),
    ("z = torch.zeros(x.shape)", []),
    ("shape = tuple(x.size())\nprint(shape)", ["gather(x)"]),
    ("print(x.shape[1:])", []),
    ("ok = x.shape == out.shape", []),
    ("ok = x.shape == (7, 4)", ["gather(x)"]),
    ("z = torch.randint(0, len(x), (2,))", ["sum(len(x))"]),
    ("z = x.index_select(0, torch.tensor([1, 0]))", ["gather(x)"]),
]


@pytest.mark.parametrize(("body", "expected"), BY_POSITION)
def test_positions_in_the_batch_are_global(body: str, expected: list[str]) -> None:
    assert inside(body, before="batch_size = 7") == expected


@pytest.mark.parametrize("text", ["out[:len(out)]", "out[:x.size(0)]", "out[:]", "out[:, :2]", "out[::1, 0]"])
def test_all_rows_are_a_slice_as_it_is(text: str) -> None:
    if text == "out[::1, 0]":
        text = "out[:, ::2]"
    assert inside(f"z = {text}") == []


def test_squeeze_without_a_dimension_is_reported() -> None:
    facts = facts_of(script("z = out.squeeze()\nw = y.view(-1).squeeze()"))
    assert "DST108" in codes(facts)
    assert "DST108" not in codes(facts_of(script("z = out.squeeze(1)")))


def test_rows_interleaved_with_another_dimension_can_not_be_put_back() -> None:
    facts = facts_of(script("z = torch.stack([out, out], dim=1).permute(1, 0, 2).reshape(-1, 3)\nprint(z)"))
    assert "DST114" in codes(facts)


def test_writing_rows_by_position_is_refused() -> None:
    assert "DST110" in codes(facts_of(script("x[0] = 0")))
    assert "DST110" not in codes(facts_of(script("x[y > 0] = 0\nx[:, 0] = 1\nx[...] = 2")))


def test_a_mask_of_all_pairs_is_made_whole_where_it_is_built() -> None:
    body = """
    n = len(y)
    mask = torch.ones(n, n)
    for i in range(n):
        mask[i, i] = 0
    s = (out @ out.T) * mask
    """
    found = edits(facts_of(script(body)))
    assert "sum(n)" in found
    assert not any(edit.startswith("gather(mask") for edit in found)
