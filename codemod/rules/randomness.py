"""Say where the converted run is equal in distribution only.

A process fetches its slice of a batch alone, so numbers that `__getitem__` draws for a sample are others than in the
original, as are those drawn inside a forward (dropout, reparametrisation). Everything else is drawn as it was. One note
for each kind in a file is enough.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..findings import finding
from . import Outcome, rule
from ._source import ancestors, class_of, in_module_class, position

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

DRAWS = ("random.", "numpy.random.", "torch.rand", "torch.normal", "torch.bernoulli", "torch.multinomial")
FIXED = ("random.seed", "numpy.random.seed", "random.Random", "numpy.random.RandomState", "numpy.random.default_rng")
AUGMENTATIONS = (
    "torchvision.transforms.Random",
    "torchvision.transforms.v2.Random",
    "torchvision.transforms.ColorJitter",
)
DROPOUTS = ("torch.nn.Dropout", "torch.nn.AlphaDropout", "torch.nn.functional.dropout")
FETCHES = ("__getitem__", "__iter__")


@rule("randomness")
def randomness(facts: Facts, options: Options) -> Iterator[Outcome]:
    """A note at the first random number of a sample, and at the first inside a forward."""
    named = sorted(
        ((call, name) for name, found in facts.calls.items() for call in found), key=lambda c: position(c[0])
    )
    draws = [call for call, name in named if name.startswith(DRAWS) and name not in FIXED]
    samples = [call for call in draws if fetches(facts, call) and not in_method(facts, call, "__init__")]
    samples += [call for call, name in named if name.startswith(AUGMENTATIONS)]
    if samples:
        yield finding("DST113", min(samples, key=position))
    alike = set(facts.alike)
    inside = [call for call in draws if in_module_class(facts, call) and call not in alike]
    inside = [call for call in inside if not in_method(facts, call, "__init__")]
    inside += [call for call, name in named if name.startswith(DROPOUTS)]
    if inside:
        yield finding("DST123", min(inside, key=position))


def fetches(facts: Facts, node: ast.AST) -> bool:
    """Whether a node stands in a class that gives samples, such as a dataset, and is no module."""
    home = class_of(facts, node)
    methods = {item.name for item in home.body if isinstance(item, ast.FunctionDef)} if home is not None else set()
    return bool(methods.intersection(FETCHES)) and not in_module_class(facts, node)


def in_method(facts: Facts, node: ast.AST, *names: str) -> bool:
    """Whether a node stands in a method of one of these names."""
    return any(isinstance(item, ast.FunctionDef) and item.name in names for item in ancestors(facts, node))
