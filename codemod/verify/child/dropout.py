"""Dropout: noted where a model has it, or switched off."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .settings import Facts

FUNCTIONS = ("dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout")


def note_dropout(torch: Any, facts: Facts) -> None:
    """Note layers of dropout that have an effect."""
    layers = torch.nn.modules.dropout._DropoutNd, torch.nn.RNNBase, torch.nn.MultiheadAttention

    def note(layer: Any) -> None:
        if getattr(layer, "p", 0) or getattr(layer, "dropout", 0):
            facts.note("dropout")

    for kind in layers:
        after_making(kind, note)


def without_dropout(torch: Any) -> None:
    """Let dropout of any kind return what it is given; no random number is drawn for it."""
    functional = torch.nn.functional
    for name in FUNCTIONS:
        function = getattr(functional, name, None)
        if function is not None:
            setattr(functional, name, never_training(function))
    attention = functional.scaled_dot_product_attention

    @functools.wraps(attention)
    def attend(
        query: Any, key: Any, value: Any, mask: Any = None, dropout_p: float = 0.0, *args: Any, **kw: Any
    ) -> Any:
        given = kw.pop("attn_mask", mask)
        return attention(query, key, value, given, 0.0, *args, **kw)

    functional.scaled_dot_product_attention = attend
    after_making(torch.nn.RNNBase, lambda layer: setattr(layer, "dropout", 0.0))


def never_training(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of dropout whose `training` is always false."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def passed(*args: Any, **options: Any) -> Any:
        bound = signature.bind(*args, **options)
        bound.arguments["training"] = False
        return function(*bound.args, **bound.kwargs)

    return passed


def after_making(kind: Any, work: Callable[[Any], object]) -> None:
    """Do something with every object of a class when it has been made."""
    make = kind.__init__

    @functools.wraps(make)
    def made(self: Any, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        work(self)

    kind.__init__ = made
