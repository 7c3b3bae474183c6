"""Parameters that every rank holds a part of: what stands in their place, and the way to and from whole tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

from ..state import DistifyError
from .meshes import seat

_DATA: Any = Tensor.data


class ReplacedParameter(DistifyError):
    """A parameter that sharding has replaced is used."""


class ShardedParameter(DTensor):
    """A sharded parameter whose `.data` can be assigned, as hand-written optimizers do; torch's drops the new value."""

    __slots__ = ()

    @property
    def data(self) -> Any:
        """The sharded values without graph; changes of them are changes of the parameter."""
        return _DATA.__get__(self)

    @data.setter
    def data(self, value: Tensor) -> None:
        if value.dtype != self.dtype or value.shape != self.shape:
            raise DistifyError(
                f"parameter.data = … under fsdp: a sharded parameter keeps its shape and type, {tuple(self.shape)} "
                f"{self.dtype}; got {tuple(value.shape)} {value.dtype}. Change them before runtime.prepare()."
            )
        with torch.no_grad():
            local(self).copy_(local(value if isinstance(value, DTensor) else shard_like(value, self)))


class Replaced(nn.Parameter):
    """What a parameter becomes when a shard takes its place: any use of it says so."""

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = [x.__dict__.get("replaced", "?") for x in _flat([args, kwargs or {}]) if type(x) is Replaced]
        raise ReplacedParameter(
            f"parameter {', '.join(map(repr, named))} was used through a reference from before runtime.prepare(): "
            "under fsdp a shard has taken its place, so this tensor is dead. Collect parameters after "
            "runtime.prepare() (params = list(model.parameters()), EMA copies, optimizers), or pass the optimizer that "
            "holds them to the same runtime.prepare() call."
        )


def replace(old: Tensor, name: str) -> None:
    """Free the memory of a parameter whose shard has taken its place, and make every further use of it an error."""
    old.grad = None
    old.data = torch.empty(0, dtype=old.dtype, device=old.device)
    old.__class__ = Replaced
    old.__dict__["replaced"] = name


def _flat(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _flat(item)
    else:
        yield value


def local(x: Tensor) -> Tensor:
    """This rank's part of a sharded tensor, sharing its memory; any other tensor itself."""
    return x._local_tensor if isinstance(x, DTensor) else x


def whole(x: Tensor) -> Tensor:
    """The whole of a sharded tensor, without graph; a collective. Any other tensor itself, detached."""
    if not isinstance(x, DTensor):
        return x.detach()
    with torch.no_grad():
        if x._local_tensor.device.type != x.device_mesh.device_type:  # offloaded: ranks are connected by devices
            part = x._local_tensor.detach().to(x.device_mesh.device_type)
            x = DTensor.from_local(part, x.device_mesh, x.placements, run_check=False, shape=x.shape, stride=x.stride())
        return x.full_tensor()


def shard_like(value: Tensor, like: DTensor) -> DTensor:
    """This rank's part of a whole tensor, laid out as `like`; no communication, `value` is equal on all ranks."""
    part = cut_of(value, like)
    part = part.to(local(like).device, copy=True).contiguous()
    return wrap_like(part, like)


def cut_of(value: Tensor, like: DTensor) -> Tensor:
    """This rank's rows of a whole tensor, sharing its memory."""
    place, count = seat(like)
    parts = torch.chunk(value.detach(), count, 0)
    return parts[place] if place < len(parts) else value.detach()[:0]


def wrap_like(part: Tensor, like: DTensor) -> DTensor:
    """This rank's part as a sharded tensor with the layout of `like`; shares memory with the part."""
    if part.device.type != like.device_mesh.device_type:  # offloaded, where `from_local` would move it
        meta = TensorMeta(like.shape, like.stride(), part.dtype)
        spec = DTensorSpec(like.device_mesh, like.placements, tensor_meta=meta)
        return DTensor(part, spec, requires_grad=False)  # type: ignore[no-untyped-call]
    return DTensor.from_local(
        part, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
    )


def add_whole(parameter: Tensor, grad: Tensor) -> None:
    """Add a whole gradient to that of a sharded parameter."""
    assert isinstance(parameter, DTensor)
    part = shard_like(grad, parameter)
    if parameter.grad is None:
        parameter.grad = part
    else:
        local(parameter.grad).add_(local(part))
