"""The original's form of anything that is to be written: no parts, no trace of the runtime."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.optim import Optimizer

from .backends.base import group_parameters
from .clone import bare, touched, whole_copy
from .collectives import together
from .prepare import prepared
from .state import state

if TYPE_CHECKING:
    from .backends.base import Backend

PLAIN = (str, bytes, bytearray, int, float, complex, bool, type(None), type)


class Wholes:
    """Makes whole what one `save` writes; what several places share stays shared.

    Args:
        backend: asked for whole tensors and copies; its collectives run in one order on all ranks.
    """

    def __init__(self, backend: Backend | None) -> None:
        self.backend: Any = backend
        self.memo: dict[int, Any] = {}  # for copies of modules: new parameters by the id of the old
        self.roots: list[nn.Module] = []
        self.made: dict[int, tuple[Any, Any]] = {}  # by id: an object that was looked at, and its form

    def of(self, value: Any) -> Any:
        """The original's form of a value; the value itself where there is nothing to change."""
        if isinstance(value, PLAIN):
            return value
        known = self.made.get(id(value))
        if known is not None:
            return known[1]
        self.made[id(value)] = (value, value)  # a cycle ends here
        found = self._form(value)
        self.made[id(value)] = (value, found)
        return found

    def _form(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, nn.Module):
            return self._module(value)
        if isinstance(value, Optimizer):
            return self._optimizer(value)
        if isinstance(value, Mapping):
            items = {key: self.of(item) for key, item in value.items()}
            return value if _same(items.values(), value.values()) else _mapping(value, items)
        if isinstance(value, (list, tuple, set, frozenset)):
            parts = [self.of(item) for item in value]
            if _same(parts, value):
                return value
            return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
        return self._object(value)

    def _module(self, module: nn.Module) -> nn.Module:
        """A module as it was before it was prepared; parts of one that is written too are the same objects there."""
        if id(module) in self.memo:
            found: nn.Module = self.memo[id(module)]
            return found
        if any(self.backend.cuts(p) for p in module.parameters()):
            together("save")
            return whole_copy(module, self.backend, self.memo)
        self.roots += [root for root in (module, *prepared(state)) if touched(root)]
        return module

    @contextmanager
    def bare(self) -> Iterator[None]:
        """While the form is written: modules that are not cut are written themselves, as they were before."""
        with ExitStack() as stack:
            for root in dict.fromkeys(self.roots):
                stack.enter_context(bare(root))
            yield

    def _optimizer(self, optimizer: Optimizer) -> Any:
        """An optimizer over whole parameters: those of the modules that are written with it."""
        if not self.backend.cuts(optimizer):
            return optimizer
        together("save")
        found = self.backend.state_dict(optimizer)
        parameters = [self._tensor(p) for p in group_parameters(optimizer)]
        groups = [{**group, "params": [parameters[k] for k in group["params"]]} for group in found["param_groups"]]
        states = defaultdict(dict, {parameters[k]: held for k, held in found["state"].items()})
        new: Any = type(optimizer).__new__(type(optimizer))
        new.__setstate__({"defaults": optimizer.defaults, "state": states, "param_groups": groups})
        return new

    def _tensor(self, value: Tensor) -> Tensor:
        """A tensor, whole; a parameter that a written module holds too is the same object there."""
        if id(value) in self.memo:
            found: Tensor = self.memo[id(value)]
            return found
        if not self.backend.cuts(value):
            return value
        together("save")
        whole: Tensor = self.backend.whole(value)
        if isinstance(value, nn.Parameter):
            whole = self.memo[id(value)] = nn.Parameter(whole, value.requires_grad)
        elif value.is_leaf:
            whole.requires_grad_(value.requires_grad)
        return whole

    def _object(self, value: Any) -> Any:
        """An object of the script, such as a trainer or a scheduler, with its attributes in their form."""
        attributes = getattr(value, "__dict__", None)
        if not isinstance(attributes, dict) or callable(value) or type(value).__module__ == "builtins":
            return value
        formed = {name: self.of(item) for name, item in attributes.items()}
        if _same(formed.values(), attributes.values()):
            return value
        new = object.__new__(type(value))
        new.__dict__.update(formed)
        return new


def _same(found: Any, given: Any) -> bool:
    return all(a is b for a, b in zip(found, given))


def _mapping(value: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """The items in a mapping of the same kind."""
    if type(value) is dict:
        return items
    new: Any = type(value).__new__(type(value))
    if hasattr(value, "__dict__"):
        new.__dict__.update(value.__dict__)
    if hasattr(value, "default_factory"):
        new.default_factory = value.default_factory
    new.update(items)
    return new
