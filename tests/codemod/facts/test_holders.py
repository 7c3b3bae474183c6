"""Values in fields, properties, namespaces and behind decorators keep what they are."""

from __future__ import annotations

import pytest

from distify.codemod.options import Options
from distify.codemod.rewrite import rewrite_source

HEAD = """
import contextlib
import functools
from collections import namedtuple
from dataclasses import dataclass, field
from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, default_collate

X, Y = torch.randn(29, 5), torch.randint(0, 3, (29,))


def make_loader():
    return DataLoader(TensorDataset(X, Y), 6, shuffle=True)


"""
EPOCH = """
    total = 0.0
    for x, y in h.loader:
        loss = F.cross_entropy(h.model(x), y)
        h.opt.zero_grad()
        loss.backward()
        h.opt.step()
        total += loss.item() * len(x)
    print(total)
"""
TRAIN = "\n\ndef train(h):" + EPOCH + "\n\nmodel = nn.Linear(5, 3)\n"
SGD = "torch.optim.SGD(model.parameters(), lr=0.1)"

HOLDERS = {
    "namespace": f"train(SimpleNamespace(model=model, opt={SGD}, loader=make_loader()))",
    "named tuple": f"Parts = namedtuple('Parts', ['model', 'opt', 'loader'])\ntrain(Parts(model, {SGD}, make_loader()))",
    "keywords set one by one": (
        "class H:\n    def __init__(self, **kept):\n        for name, value in kept.items():\n"
        f"            setattr(self, name, value)\n\n\ntrain(H(model=model, opt={SGD}, loader=make_loader()))"
    ),
    "keywords set together": (
        "class H:\n    def __init__(self, **kept):\n        self.__dict__.update(kept)\n\n\n"
        f"train(H(model=model, opt={SGD}, loader=make_loader()))"
    ),
    "keywords by vars": (
        "class H:\n    def __init__(self, **kept):\n        vars(self).update(kept)\n\n\n"
        f"train(H(model=model, opt={SGD}, loader=make_loader()))"
    ),
    "fields by factories": (
        "def make_model():\n    return nn.Linear(5, 3)\n\n\n@dataclass\nclass H:\n"
        "    model: nn.Module = field(default_factory=make_model)\n    loader: object = field(default_factory=make_loader)"
        "\n\n    def __post_init__(self):\n        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)\n\n\ntrain(H())"
    ),
}


def converted(text: str) -> str:
    result = rewrite_source((HEAD + text + "\n").encode(), "train.py", Options(backend="ddp"))
    assert not [item for item in result.findings if item.level == "error"]
    return result.data.decode()


@pytest.mark.parametrize("name", HOLDERS)
def test_what_is_kept_is_known_where_it_is_used(name: str) -> None:
    text = converted(TRAIN + HOLDERS[name])
    assert "runtime.mean(F.cross_entropy" in text
    assert "runtime.step(h.opt)" in text
    assert "runtime.sum(len(x))" in text
    assert text.count("runtime.prepare(") == 1
    assert text.count("runtime.shard(") == 1


WRAPPERS = {
    "wrapper": (
        "def timed(f):\n    @functools.wraps(f)\n    def inner(*args, **kwargs):\n"
        "        return f(*args, **kwargs)\n\n    return inner",
        "@timed",
    ),
    "wrapper with arguments": (
        "def repeated(times):\n    def wrap(f):\n        def inner(*args):\n            for _ in range(times):\n"
        "                f(*args)\n\n        return inner\n\n    return wrap",
        "@repeated(2)",
    ),
    "context manager": (
        "@contextlib.contextmanager\ndef section(name):\n    print(name)\n    yield",
        "@section('a')",
    ),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_functions_behind_one_wrapper_are_kept_apart(name: str) -> None:
    wrapper, decorator = WRAPPERS[name]
    functions = (
        f"{decorator}\ndef fit(h):{EPOCH}\n\n{decorator}\ndef test(model, x, y):\n    print((model(x) == y).sum())\n"
    )
    calls = (
        f"h = SimpleNamespace(model=nn.Linear(5, 3), loader=make_loader())\nmodel = h.model\nh.opt = {SGD}\nfit(h)\n"
    )
    text = converted(f"{wrapper}\n\n\n{functions}\n\n{calls}test(model, X, Y[:, None])")
    assert "runtime.mean(F.cross_entropy" in text
    assert "runtime.sum(len(x))" in text
    assert "print((model(x) == y).sum())" in text  # whole data


def test_a_method_behind_a_wrapper() -> None:
    text = converted(
        "def kept(method):\n    def inner(self, *args):\n        value = method(self, *args)\n"
        "        self.seen.append(value)\n        print(value)\n        return value\n\n    return inner\n\n\n"
        "class T:\n    def __init__(self):\n        self.seen = []\n        self.model = nn.Linear(5, 3)\n"
        "        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)\n\n"
        "    @kept\n    def rows(self, x):\n        return x.size(0)\n\n"
        "    def fit(self):\n        for x, y in make_loader():\n            loss = F.cross_entropy(self.model(x), y)\n"
        "            loss.backward()\n            self.opt.step()\n            self.rows(x)\n\n\nT().fit()"
    )
    assert "runtime.sum(" in text  # the wrapper prints, and keeps, the rows of the whole batch


def test_the_default_collate_function_by_its_name() -> None:
    loader = "DataLoader(TensorDataset(X, Y), 6, collate_fn=default_collate)"
    text = converted(f"{TRAIN}train(SimpleNamespace(model=model, opt={SGD}, loader={loader}))")
    assert "runtime.sum(len(x))" in text
