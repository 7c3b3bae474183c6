"""Collectives of small values in the process group of the reductions, and how gradients pass through them.

Convention (one for all backends): the ranks' parameter gradients are averaged. So the gradient held at a tensor is
N times this rank's part where the tensor is a slice, and averages to the true one where it is equal on all ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .lost import reach
from .own import check_own
from .state import DistifyError, state

SMALL = 4096  # elements up to which values are accumulated in double precision


def all_reduce(x: Tensor, op: Any = None, group: dist.ProcessGroup | None = None) -> Tensor:
    """Reduce a contiguous tensor over all ranks or a group, in place (sum if `op` is not given); returns it."""
    group = state.reduce_group if group is None else group
    reach(dist.all_reduce, x, op=dist.ReduceOp.SUM if op is None else op, group=group)
    return x


def accumulator(x: Tensor) -> torch.dtype:
    """The type in which values like `x` are added up over ranks."""
    if x.is_complex():
        return torch.complex128
    if not x.is_floating_point():
        return torch.int64
    if x.numel() <= SMALL and x.device.type in ("cpu", "cuda"):
        return torch.float64
    return torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype


def together(caller: str) -> None:
    """Refuse what needs all ranks inside of what one of them runs: it would wait forever.

    Raises:
        DistifyError: only this rank is here, inside `on_main` or `main_first`.
    """
    if state.extra.get("alone"):
        raise DistifyError(
            f"runtime.{caller}() needs all ranks, but stands in a function that rank 0 runs alone, by "
            f"runtime.on_main(): it would wait forever. Call runtime.{caller}() before, and pass its result in."
        )
    if state.extra.get("in turn"):
        raise DistifyError(
            f"runtime.{caller}() needs all ranks, but stands in a block of runtime.main_first(), which they run one "
            "after the other: it would wait forever. Move it out of the block."
        )


def average(x: Tensor) -> Tensor:
    """Mean over ranks, differentiable any number of times."""
    return _Average.apply(x)  # type: ignore[no-any-return, no-untyped-call]


class _Average(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.detach().to(accumulator(x), copy=True, memory_format=torch.contiguous_format)
        flat = torch.view_as_real(total) if total.is_complex() else total
        all_reduce(flat)
        return (total / state.world_size).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        # The mean of g_r: each rank's part of its gradient is 1/N of the sum of parts, which are held N-fold.
        return average(grad)


def arriving(grad: Tensor, serial: int) -> Tensor:
    """The gradient at a reduction's output, equal on all ranks.

    It differs by rank only where the output flowed back into slices that were reduced again. Nothing was reduced
    after the newest reduction, so its gradient needs no exchange.

    Args:
        grad: what arrived on this rank.
        serial: number that the reduction got from `enroll`.

    Raises:
        DistifyError: the backward is none of the runtime's.
    """
    check_own()
    state.extra["reduced"] = True  # `grad` asks whether its outputs were global
    state.extra["arrived"] = state.extra.get("arrived", 0) + 1
    return grad if serial == state.recorded or state.world_size == 1 else average(grad)


def enroll() -> int:
    """Number a differentiable reduction; the same on all ranks."""
    state.recorded += 1
    return state.recorded


def attach(x: Tensor, value: Tensor, factor: float | Tensor, used: Callable[[], None] | None = None) -> Tensor:
    """`value`, whose gradient reaches `x` multiplied by N and by `factor` (0 cuts a filler off, NaN or not).

    Args:
        x: this rank's operand, whose type the result gets.
        value: the reduced value, same shape.
        factor: number, or 0-dim tensor.
        used: called by the first backward that passes.
    """
    return _Attach.apply(x, value, factor, used, enroll())  # type: ignore[no-any-return, no-untyped-call]


class _Attach(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, value: Tensor, factor: float | Tensor, used: Any, serial: int) -> Tensor:
        ctx.factor, ctx.serial, ctx.used = factor, serial, used
        return torch.empty_like(value, dtype=x.dtype).copy_(value)  # not a view: users change losses in place

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None, None, None]:
        grad, factor = arriving(grad, ctx.serial), ctx.factor
        if ctx.used is not None:
            ctx.used()
            ctx.used = None
        if isinstance(factor, Tensor):  # waits for a GPU: only a 0 that is known keeps 0/0 of an empty slice out
            factor = factor.item()
        return nothing(grad) if factor == 0.0 else grad * (state.world_size * factor), None, None, None, None


def nothing(like: Tensor) -> Tensor | None:
    """The gradient of what does not count.

    Undefined rather than zeros where the backend takes it (`takes_undefined`): 0/0 in the graph of an empty slice stays
    harmless then, and the graph is walked all the same, so that collectives inside it take place. Backends that
    reduce by hooks of their own need every rank's gradients, as zeros.
    """
    state.extra["void"] = state.extra.get("void", 0) + 1
    return None if getattr(state.backend, "takes_undefined", False) else torch.zeros_like(like)


def void() -> bool:
    """Whether all that this backward met so far on this rank does not count: its gradients are zero, NaN or not."""
    return bool(0 < state.extra.get("void", 0) == state.extra.get("arrived", 0))


def begin_backward() -> None:
    """Forget what the last backward met."""
    state.extra["void"] = state.extra["arrived"] = 0


def wants_gradient(x: Tensor) -> bool:
    """Whether a gradient could flow through a reduction of `x`; known without asking the other ranks."""
    return torch.is_grad_enabled() and (x.is_floating_point() or x.is_complex())


def leaf_if(x: Tensor, others: Tensor | float) -> Tensor | None:
    """`x` if it takes part in differentiation on any rank, else `None`.

    A rank whose value is a constant (no object in its slice) must still take part in the exchange of gradients.

    Args:
        x: this rank's operand.
        others: how many ranks' operands require a gradient; read only where this rank's doesn't.
    """
    if x.requires_grad:
        return x
    return own(x.detach().requires_grad_()) if float(others) > 0 else None


def own(leaf: Tensor) -> Tensor:
    """Mark a leaf that the runtime made: it is none of the script's."""
    leaf._distify_own = True  # type: ignore[attr-defined]
    return leaf


def same_shape(caller: str, x: Tensor) -> None:
    """Check that a tensor that is not 0-dim has one shape on all ranks.

    Raises:
        DistifyError: it has not, on all ranks alike.
    """
    if x.dim() == 0:
        return
    shapes = exchange([x.dim(), *x.shape])
    if any(shape != shapes[0] for shape in shapes):
        listing = ", ".join(str(tuple(shape[1 : 1 + shape[0]])) for shape in shapes)
        raise DistifyError(
            f"runtime.{caller}() combines element by element, but the ranks hold shapes {listing}. Reduce over the "
            f"batch first, as in runtime.{caller}(x.{caller}()), or use runtime.gather(x)."
        )


def exchange(numbers: Sequence[int], room: int = 16) -> list[list[int]]:
    """Every rank's whole numbers, in rank order, padded with -1; at most `room` per rank."""
    device = torch.device("cpu") if _reduces_on_cpu() else state.device
    mine = torch.full((room,), -1, dtype=torch.int64)
    mine[: len(numbers)] = torch.tensor(list(numbers), dtype=torch.int64)
    mine = mine.to(device)
    table = [torch.empty_like(mine) for _ in range(state.world_size)]
    reach(dist.all_gather, table, mine, group=state.reduce_group)
    found: list[list[int]] = torch.stack(table).tolist()
    return found


def gather_objects(mine: Any, group: Any = None) -> list[Any]:
    """What each rank hands over, in rank order; a collective.

    Args:
        mine: anything that can be pickled.
        group: that of the reductions if not given.
    """
    found: list[Any] = [None] * state.world_size
    reach(dist.all_gather_object, found, mine, group=state.reduce_group if group is None else group)
    return found


def from_main(mine: Any) -> Any:
    """What rank 0 hands over, on all ranks; a collective. What the others pass is ignored."""
    box = [mine if state.rank == 0 else None]
    reach(dist.broadcast_object_list, box, src=0, group=state.reduce_group)
    return box[0]


def agreed(conditions: Sequence[bool]) -> list[bool]:
    """Which of these conditions, the same ones on all ranks, hold on every rank."""
    table = exchange([int(held) for held in conditions], room=len(conditions))
    return [all(column) for column in zip(*table)]


def _reduces_on_cpu() -> bool:
    """Whether the group moves CPU tensors: no need to wait for the GPU then."""
    return "gloo" in dist.get_backend_config(state.reduce_group)
