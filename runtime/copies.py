"""Copies of a batch's tensors, on another device or of another type, belong to the batch as the tensors do.

`of=` names a batch by one of its tensors, and a script has most often moved it (`labels = labels.to(device)`) by then.
By its rows alone a copy can't always be told from one of another batch that is in use. So the methods of `torch.Tensor`
that copy, and `Variable(x)`, enter what they return beside what they were called on, while a run of several processes
lasts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from torch import Tensor
from torch.autograd.variable import VariableMeta

from .state import state

COPYING = (
    *("to", "cuda", "cpu", "type", "type_as", "clone", "contiguous", "detach", "pin_memory"),
    *("float", "double", "half", "bfloat16", "long", "int", "bool"),
)


def install() -> None:
    """Replace the methods; `uninstall` puts them back."""
    state.extra["copying"] = {name: vars(Tensor).get(name) for name in COPYING}  # most are inherited
    for name in COPYING:
        setattr(Tensor, name, _entering(getattr(Tensor, name)))
    VariableMeta.__call__ = _variable  # type: ignore[method-assign, assignment]


def uninstall() -> None:
    """Put the methods back."""
    for name, own in state.extra.pop("copying", {}).items():
        delattr(Tensor, name) if own is None else setattr(Tensor, name, own)
    if "__call__" in vars(VariableMeta):
        del VariableMeta.__call__


def _entering(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A method whose result belongs to the batch of the tensor that it is called on."""

    @wraps(original)
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        made = original(self, *args, **kwargs)
        if made is not self and state.batches is not None and isinstance(made, Tensor):
            state.batches.copied(self, made)
        return made

    return method


def _variable(cls: type, *args: Any, **kwargs: Any) -> Any:
    """`Variable(x)`, which makes another tensor of the same memory."""
    made = type.__call__(cls, *args, **kwargs)
    if args and state.batches is not None and isinstance(args[0], Tensor) and isinstance(made, Tensor):
        state.batches.copied(args[0], made)
    return made
