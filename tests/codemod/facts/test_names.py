"""Dotted names through every import style, scopes, aliases, rebinding, and star imports."""

from __future__ import annotations

import ast

import pytest

from distify.codemod.facts import analyse
from distify.codemod.facts.names import Names
from distify.codemod.program import Module


def names_of(source: str) -> tuple[ast.Module, Names]:
    tree = ast.parse(source)
    parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    return tree, Names([Module("train.py", source, tree)], parents)


def resolved(source: str, text: str) -> str | None:
    """Dotted name of the last expression with a text."""
    tree, names = names_of(source)
    nodes = [n for n in ast.walk(tree) if isinstance(n, (ast.Name, ast.Attribute)) and ast.unparse(n) == text]
    return names.qualified(max(nodes, key=lambda n: (n.lineno, n.col_offset)))


IMPORTS = [
    ("import torch", "torch.optim.Adam", "torch.optim.Adam"),
    ("import torch as th", "th.optim.Adam", "torch.optim.Adam"),
    ("import torch.optim", "torch.optim.Adam", "torch.optim.Adam"),
    ("import torch.optim as O", "O.Adam", "torch.optim.Adam"),
    ("import torch.nn.functional as F", "F.cross_entropy", "torch.nn.functional.cross_entropy"),
    ("from torch import optim", "optim.Adam", "torch.optim.Adam"),
    ("from torch import nn, optim", "optim.Adam", "torch.optim.Adam"),
    ("from torch import optim as o", "o.Adam", "torch.optim.Adam"),
    ("from torch.optim import Adam", "Adam", "torch.optim.Adam"),
    ("from torch.optim import Adam as A", "A", "torch.optim.Adam"),
    ("from torch.optim import (SGD,\n    Adam)", "Adam", "torch.optim.Adam"),
    ("from torch.optim import *", "Adam", "torch.optim.Adam"),
    ("from torch.nn import *", "Linear", "torch.nn.Linear"),
    ("from torch.utils.data import *", "DataLoader", "torch.utils.data.DataLoader"),
    ("import torch, numpy as np", "np.mean", "numpy.mean"),
    ("from .models import Net", "Net", ".models.Net"),
    ("from . import models", "models.Net", ".models.Net"),
    ("from ..lib import models as m", "m.Net", "..lib.models.Net"),
    ("import os.path", "os.path.join", "os.path.join"),
    ("from __future__ import annotations\nimport torch", "torch.Tensor", "torch.Tensor"),
    ("", "print", "builtins.print"),
    ("", "len", "builtins.len"),
    ("try:\n    import torch\nexcept ImportError:\n    torch = None", "torch.cat", "torch.cat"),
    ("if True:\n    from torch import nn", "nn.Linear", "torch.nn.Linear"),
]


@pytest.mark.parametrize(("imports", "text", "expected"), IMPORTS)
def test_import_styles(imports: str, text: str, expected: str) -> None:
    assert resolved(f"{imports}\n{text}\n", text) == expected


@pytest.mark.parametrize(("imports", "text", "expected"), IMPORTS)
def test_import_styles_inside_a_function(imports: str, text: str, expected: str) -> None:
    assert resolved(f"{imports}\ndef f():\n    return [{text} for i in range(3)]\n", text) == expected


NOT_IMPORTED = [
    ("Adam = 3\nAdam", "Adam"),
    ("def f(torch):\n    torch.cat", "torch.cat"),
    ("import torch\ndef f():\n    torch = 1\n    torch.cat", "torch.cat"),
    ("def print(x): pass\nprint", "print"),
    ("class DataLoader: pass\nDataLoader", "DataLoader"),
    ("from torch.utils.data import DataLoader\nfor DataLoader in []:\n    pass\nDataLoader", "DataLoader"),
    ("import torch\nlambda torch: torch.cat", "torch.cat"),
    ("import torch\nwith open('x') as torch:\n    torch.cat", "torch.cat"),
    ("x = 1\nx.mean", "x.mean"),
    ("print = print\nprint.x", "print.x"),
]


@pytest.mark.parametrize(("source", "text"), NOT_IMPORTED)
def test_what_is_bound_to_something_else(source: str, text: str) -> None:
    assert resolved(source, text) is None


def test_an_import_holds_until_it_is_rebound() -> None:
    source = "import model\nmodel = model.Net()\nmodel.train"
    tree, names = names_of(source)
    first, second = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute)]
    found = {ast.unparse(n): names.qualified(n) for n in (first, second)}
    assert found == {"model.Net": "model.Net", "model.train": None}


def test_a_class_body_is_no_scope_of_its_methods() -> None:
    source = "from torch.optim import Adam\nclass A:\n    Adam = 1\n    def f(self):\n        return Adam\n"
    assert resolved(source, "Adam") == "torch.optim.Adam"


def test_default_values_and_decorators_belong_outside() -> None:
    source = "import torch\ndef f(torch=torch.float32): pass"
    assert resolved(source, "torch.float32") == "torch.float32"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch", "runtime"),
        ("runtime = 3", "distify_runtime"),
        ("def f(runtime): pass", "distify_runtime"),
        ("import runtime", "distify_runtime"),
        ("from distify import runtime", "runtime"),
        ("from distify import runtime as rt", "rt"),
        ("from x import y as runtime", "distify_runtime"),
    ],
)
def test_the_runtime_gets_a_free_name(source: str, expected: str) -> None:
    facts = analyse(source, "x.py")
    assert facts.runtime_name == expected
    assert facts.runtime_imported == ("distify" in source)


TRAINING = """
{imports}


class Net({Module}):
    def __init__(self):
        super().__init__()
        self.fc = {Linear}(4, 3)

    def forward(self, x):
        return self.fc(x)


loader = {DataLoader}([], batch_size=4)
model = Net()
opt = {Adam}(model.parameters())
for x, y in loader:
    loss = {ce}(model(x), y)
    loss.backward()
    opt.step()
"""
STYLES = [
    (
        "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nimport torch.optim as optim\n"
        "from torch.utils.data import DataLoader",
        ["nn.Module", "nn.Linear", "DataLoader", "optim.Adam", "F.cross_entropy"],
    ),
    (
        "import torch",
        ["torch.nn.Module", "torch.nn.Linear", "torch.utils.data.DataLoader", "torch.optim.Adam",
         "torch.nn.functional.cross_entropy"],
    ),
    (
        "import torch as th\nfrom torch.nn import *\nfrom torch.optim import *\nfrom torch.utils.data import *",
        ["Module", "Linear", "DataLoader", "Adam", "th.nn.functional.cross_entropy"],
    ),
    (
        "from torch import nn, optim, utils\nfrom torch.nn import functional as func",
        ["nn.Module", "nn.Linear", "utils.data.DataLoader", "optim.Adam", "func.cross_entropy"],
    ),
    (
        "from torch.nn import Module as M, Linear as L, functional\nfrom torch.utils import data\n"
        "from torch.optim import Adam as A\nfrom torch.nn.functional import cross_entropy as ce",
        ["M", "L", "data.DataLoader", "A", "ce"],
    ),
    (
        "from torch.utils.data.dataloader import DataLoader as Loader\nimport torch.optim as O, torch.nn as N",
        ["N.Module", "N.Linear", "Loader", "O.Adam", "N.functional.cross_entropy"],
    ),
    (
        "from torch.optim.adam import Adam\nfrom torch.nn.modules import Module, Linear\n"
        "from torch.utils.data import DataLoader\nimport torch.nn.functional as F",
        ["Module", "Linear", "DataLoader", "Adam", "F.cross_entropy"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("imports", "spellings"), STYLES)
def test_a_training_script_in_every_import_style(imports: str, spellings: list[str]) -> None:
    names = dict(zip(["Module", "Linear", "DataLoader", "Adam", "ce"], spellings))
    facts = analyse(TRAINING.format(imports=imports, **names), "train.py")
    assert facts.is_training
    assert [(loader.feeds_model, loader.sharded) for loader in facts.loaders] == [(True, False)]
    assert [(o.text, o.models) for o in facts.optimizers] == [("opt", ("model",))]
    assert [r.kind for r in facts.reductions] == ["mean"]
