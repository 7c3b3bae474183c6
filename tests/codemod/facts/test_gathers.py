"""Per-sample values that leave the iteration: gathered, in the original order, once."""

from __future__ import annotations

import pytest

from tests.codemod.facts.snippets import STEP_EDIT, edits, facts_of, inside, script

LEAVING = [
    ("preds.append(out)", ["gather(out)"]),
    ("preds.append(out.argmax(1).cpu())", ["gather(out.argmax(1))"]),
    ("preds.append(out.detach().cpu().numpy())", ["gather(out.detach())"]),
    ("preds.extend(out.argmax(1).tolist())", ["gather(out.argmax(1))"]),
    ("preds += out.argmax(1).tolist()", ["gather(out.argmax(1))"]),
    ("preds += list(y.numpy())", ["gather(y)"]),
    ("preds.append((out, y))", ["gather((out, y))"]),
    ("table[y] = out", ["gather(y)", "gather(out)"]),
    ("store['out'] = out", ["gather(out)"]),
    ("array = np.concatenate([array, out.numpy()])", ["gather(out)"]),
    ("array = np.append(array, y.numpy())", ["gather(y)"]),
    ("matrix = np.add(matrix, np.bincount(y.numpy(), minlength=3))", ["gather(y)"]),
    ("every = torch.cat([every, out])", ["gather(out)"]),
    ("every = torch.cat((every, out.detach()), dim=0)", ["gather(out.detach())"]),
    ("print(out)", ["gather(out)"]),
    ("print(f'{y}')", ["gather(y)"]),
    ("print('%s' % y)", ["gather(y)"]),
    ("import json\njson.dumps(y.tolist())", ["gather(y)"]),
    ("import sklearn.metrics as m\nm.f1_score(y.cpu(), out.argmax(1).cpu())", ["gather(y)", "gather(out.argmax(1))"]),
    ("for a, b in zip(y, out):\n    print(a, b)", ["gather(y)", "gather(out)"]),
    ("for a in y:\n    print(a.item())", ["gather(y)"]),
    ("print([v.item() for v in y])", ["gather(y)"]),
    ("print(max(y), min(y))", ["gather(y)", "gather(y)"]),
    ("print(sorted(y))", ["gather(y)"]),
    ("print(dict(zip(y.tolist(), out.tolist())))", ["gather(y)", "gather(out)"]),
    ("print(set(y.tolist()))", ["gather(y)"]),
    ("if (y == 0)[0]:\n    print(1)", ["gather(y == 0)"]),
    ("if y.tolist() == [1]:\n    print(1)", ["gather(y)"]),
    ("hist[int(y[0])] += 1", ["gather(y)"]),
    ("preds.append([out, y])", ["gather([out, y])"]),
]
BEFORE = """
preds = []
store = {}
table = torch.zeros(29, 3)
array = np.zeros(0)
matrix = np.zeros(3)
every = torch.zeros(0, 3)
hist = [0, 0, 0]
"""


@pytest.mark.parametrize(("body", "expected"), LEAVING)
def test_gathered_where_they_leave(body: str, expected: list[str]) -> None:
    assert inside(body, before=BEFORE) == expected


STAYING = [
    "batch = {'x': x, 'y': y}\nz = batch['x'] * 2",
    "pair = (x, y)\na, b = pair",
    "views = [x, x * 2]\nz = torch.stack(views, dim=1)",
    "views = []\nviews.append(x)\nviews.append(x * 2)\nz = torch.cat(views, dim=1)",
    "outs = [model(v) for v in (x, x * 2)]\nz = outs[0] + outs[1]",
    "z = sum([out, out * 2])",
    "holder = {}\nholder['h'] = out\nz = holder['h'] + 1",
    "x, y = x.to('cpu'), y.to('cpu')",
    "x, y = [t.to('cpu') for t in (x, y)]",
    "z = (lambda t: t * 2)(out)",
    "z = out if model.training else out * 2",
    "z = out.detach().clone()",
    "z = y.float().requires_grad_(False)",
    "y = y.long()\nz = y + 1",
]


@pytest.mark.parametrize("body", STAYING)
def test_what_stays_inside_the_iteration(body: str) -> None:
    assert inside(body) == []


EVALUATIONS = {
    "a list of a comprehension": (
        "outs = torch.cat([model(x) for x, _ in val])\nprint(outs.mean())",
        ["gather(model(x))"],
    ),
    "a generator that is summed": (
        "print(sum((model(x).argmax(1) == y).sum().item() for x, y in val))",
        ["sum((model(x).argmax(1) == y).sum())"],
    ),
    "counts in a comprehension": (
        "print(sum([len(y) * model(x).sum().item() for x, y in val]))",
        ["sum(len(y))", "sum(model(x).sum())"],
    ),
    "tuples in a comprehension": (
        "def score(x, y):\n    return F.cross_entropy(model(x), y).item(), len(y)\n"
        "pairs = [score(x, y) for x, y in val]\nprint(pairs)",
        ["mean(F.cross_entropy(model(x), y))", "sum(len(y))"],
    ),
    "a dict of a comprehension": (
        "table = {i: model(x) for i, (x, _) in enumerate(val)}\nprint(table)",
        ["gather(model(x))"],
    ),
    "lists over an epoch": (
        "p, t = [], []\nfor x, y in val:\n    p.append(model(x).argmax(1))\n    t.append(y)\n"
        "p, t = torch.cat(p), torch.cat(t)\nprint((p == t).float().mean(), p.bincount())",
        ["gather(model(x).argmax(1))", "gather(y)"],
    ),
    "the last batch after its loop": (
        "for x, y in val:\n    z = model(x)\nprint(z.mean().item(), len(y))",
        ["mean(z.mean(), of=z)", "sum(len(y), of=y)"],
    ),
    "a function that predicts": (
        "def predict():\n    found = []\n    for x, _ in val:\n        found.append(model(x))\n    return torch.cat(found)\n"
        "print(predict().std())",
        ["gather(model(x))"],
    ),
    "raw batches kept in a list": (
        "kept = [b for b in val]\nfor x, y in kept:\n    print(F.cross_entropy(model(x), y).item())",
        ["mean(F.cross_entropy(model(x), y), of=y)"],
    ),
}


@pytest.mark.parametrize("name", EVALUATIONS)
def test_evaluations(name: str) -> None:
    lines, expected = EVALUATIONS[name]
    after = f"val = DataLoader(data, batch_size=5)\nmodel.eval()\n{lines}"
    found = edits(facts_of(script("", after=after)))
    assert found[found.index(STEP_EDIT) + 1 :] == expected


AFTER_THE_EPOCH = [
    "z = torch.randn(4, 4)\nprint(model(z).mean().item())",
    "print(sum(p.sum().item() for p in model.parameters()) * 0)",
    "noise = torch.randn(16, 4)\nwith torch.no_grad():\n    sample = model(noise)\nprint(sample[0], sample.shape, len(sample))",
    "xs, ys = data.tensors\nprint((model(xs).argmax(1) == ys).float().mean().item())",
    "print(np.mean([1.0, 2.0]), max(history, default=0))",
]


@pytest.mark.parametrize("after", AFTER_THE_EPOCH)
def test_what_all_ranks_compute_after_an_epoch_stays(after: str) -> None:
    found = edits(facts_of(script("", before="history = []", after=after)))
    assert [e for e in found if not e.startswith("full")] == [STEP_EDIT]


NOT_A_MODEL_S = [
    "mean = sum(x.mean() for x, _ in DataLoader(data, batch_size=5)) / 6\nprint(mean)",
    "vocabulary = set()\nfor _, y in DataLoader(data, batch_size=5):\n    vocabulary.update(y.tolist())",
    "for x, y in DataLoader(data, batch_size=29):\n    print(x.mean(0), x.std(0), len(y))",
]


@pytest.mark.parametrize("before", NOT_A_MODEL_S)
def test_loaders_that_feed_no_model_are_left_whole(before: str) -> None:
    facts = facts_of(script("", before=before))
    assert edits(facts) == [STEP_EDIT]
    assert sorted(loader.feeds_model for loader in facts.loaders) == [False, True]


def test_gathered_once_for_a_call_with_several_tensors_of_two_loaders() -> None:
    head = "def kernel(a, b):\n    return torch.cdist(a, b).mean()\n"
    body = "extra = kernel(model(x), model(u))\nprint(extra)"
    source = script(body, head=head).replace(
        "for x, y in loader:", "other = DataLoader(data, batch_size=5)\nfor (x, y), (u, v) in zip(loader, other):"
    )
    found = edits(facts_of(source))
    assert found[:2] == ["gather(model(x), of=x)", "gather(model(u), of=u)"]


@pytest.mark.parametrize("line", ["preds.append(runtime.gather(out))", "print(runtime.gather(out)[0].item())"])
def test_converted_gathers_are_left_alone(line: str) -> None:
    assert inside(line, head="from distify import runtime", before=BEFORE) == []
