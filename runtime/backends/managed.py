"""What a module whose parameters are cut into parts must still be: the class it was, copied whole, cleared whole."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..clone import own_class, whole_copy
from ..state import DistifyError
from ..uncompiled import uncompiled


class Keeper(Protocol):
    """What a backend that cuts parameters offers here."""

    name: str

    def cuts(self, item: Tensor | Optimizer) -> bool: ...

    def whole(self, tensor: Tensor) -> Tensor: ...

    def forget(self, parameters: Sequence[Tensor], zero: bool = False) -> None:
        """Drop what was accumulated for these parameters and is not in their `.grad`, or make it `zero`."""


def stand_in(module: nn.Module, name: str, function: Any) -> None:
    """Put a function in the place of a method, for this object; copies of it get back what stood there."""
    function.own = vars(module).get(name)
    module.__dict__[name] = function


class Names:
    """Names of parameters for messages."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self.names: dict[Tensor, str] = {}
        for module in modules:
            for name, p in module.named_parameters():
                self.names.setdefault(p, f"{type(module).__name__}.{name}")

    def of(self, parameter: Tensor) -> str:
        return self.names.get(parameter, "?")


def replaced(name: str, backend: str) -> DistifyError:
    """What to say where a module holds another parameter than the one that was cut."""
    return DistifyError(
        f"parameter {name!r} was replaced or removed after runtime.prepare(), where {backend} manages the parameters: "
        "the change would be passed by. Change values in place, in a runtime.whole() block: "
        "with torch.no_grad(): p.copy_(…). Put other parameters, norms of weights or pruning in before "
        "runtime.prepare(); torch.func.functional_call needs backend='ddp'."
    )


def roots(modules: Sequence[nn.Module]) -> list[nn.Module]:
    """Modules that are part of no other one of them."""
    inside = {id(m) for module in modules for m in module.modules() if m is not module}
    return [m for m in dict.fromkeys(modules) if id(m) not in inside]


def keep_class(module: nn.Module) -> None:
    """Let a class that was put in place of the module's own carry its name: `print(model)` must not change."""
    made, own = type(module), own_class(type(module))
    made.__name__, made.__qualname__, made.__module__ = own.__name__, own.__qualname__, own.__module__


def copies_whole(module: nn.Module, keeper: Keeper) -> None:
    """`copy.deepcopy` of any part of the model returns a whole, unmanaged copy; pickling says what to write."""
    for part in module.modules():
        part.__dict__["__deepcopy__"] = functools.partial(_deepcopy, keeper, part)
        part.__dict__["__reduce_ex__"] = functools.partial(_no_pickle, keeper.name)


def keeps_type(root: nn.Module, name: str) -> None:
    """Let `model.to(…)`, `.double()`, `.cuda()` do nothing where nothing would change, and be refused elsewhere.

    They replace parameters, or what these point to, behind the back of the backend: those of any part of a model too
    (`torch.save(model.encoder.cpu(), f)`).
    """
    for module in root.modules():
        _keeps_type(module, name)


def _keeps_type(root: nn.Module, name: str) -> None:
    original = root._apply

    @functools.wraps(original)
    def apply(fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        probes = {(p.dtype, p.device): torch.empty((), dtype=p.dtype, device=p.device) for p in root.parameters()}
        if any(fn(probe) is not probe for probe in probes.values()):
            raise DistifyError(
                f"{type(root).__name__} was converted or moved after runtime.prepare(), where {name} manages its "
                "parameters: .to(…), .half(), .cuda() and the like stand before it. For a copy on another device or in "
                "another type write runtime.clone(model).to(…)."
            )
        for module in root.modules() if recurse else [root]:
            for key, buffer in module._buffers.items():
                if buffer is not None:
                    module._buffers[key] = fn(buffer)
        return root

    stand_in(root, "_apply", apply)


def _deepcopy(keeper: Keeper, module: nn.Module, memo: dict[int, Any]) -> nn.Module:
    return whole_copy(module, keeper, memo)


def _no_pickle(name: str, protocol: int) -> NoReturn:
    raise DistifyError(
        f"a model that {name} cut into parts can't be pickled: this rank holds a part of it. Write "
        "runtime.save(model, f) in place of torch.save(model, f), or pickle runtime.clone(model); on all ranks."
    )


def clears_all(owner: nn.Module | Optimizer, parameters: Callable[[], Sequence[Tensor]], keeper: Keeper) -> None:
    """Let `zero_grad` of a module or optimizer also drop what was accumulated outside of `.grad`."""
    original = owner.zero_grad

    @uncompiled
    @functools.wraps(original)
    def zero_grad(*args: Any, **kwargs: Any) -> None:
        to_none = kwargs.get("set_to_none", args[0] if args else True)
        keeper.forget(parameters(), zero=not to_none)
        original(*args, **kwargs)

    if isinstance(owner, nn.Module):
        stand_in(owner, "zero_grad", zero_grad)
    else:
        owner.__dict__["zero_grad"] = zero_grad


def clears_parts(root: nn.Module, keeper: Keeper) -> None:
    """The same for a model and each of its modules: `model.head.zero_grad()`."""
    for module in root.modules():
        clears_all(module, functools.partial(_parameters, module), keeper)


def _parameters(module: nn.Module) -> list[Tensor]:
    return list(module.parameters())
