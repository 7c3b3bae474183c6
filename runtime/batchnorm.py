"""BatchNorm over slices: the statistics of the whole batch, as the original computes them.

Every rank sends mean, variance and count of its slice, and merges them by the formula of Chan, Golub and LeVeque
(1979), which is exact for slices of any size; a filler counts zero. `_BatchNorm.forward` is replaced for the process,
so classes, instances, copies and pickles stay what they are. It applies in train mode with more than one rank.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from . import meeting
from .collectives import all_reduce, average
from .lost import reach
from .own import own
from .state import state
from .window import newest_batch

_ORIGINAL = _BatchNorm.forward


def install() -> None:
    """Replace `_BatchNorm.forward`, once; it asks for the state of the run at each call."""
    _BatchNorm.forward = forward  # type: ignore[method-assign]


def forward(self: _BatchNorm, input: Tensor) -> Tensor:
    """`_BatchNorm.forward` over all ranks' slices."""
    if state.config is None or state.world_size == 1 or state.extra.get("alone"):
        return _ORIGINAL(self, input)
    if not state.modules and newest_batch() is None:  # nothing is trained, and no loop over slices runs
        return _ORIGINAL(self, input)
    if state.config.batchnorm == "local":
        return _local(self, input)
    if not (self.training or self.running_mean is None):
        return _plain(self, input)
    self._check_input_dim(input)  # type: ignore[no-untyped-call]
    factor = _momentum(self)
    filler = _holds_filler()
    weight, bias = _wide(self.weight), _wide(self.bias)
    result, mean, variance, counts = _Normalize.apply(input, weight, bias, self.eps, filler)  # type: ignore[no-untyped-call]
    if input.numel() <= input.shape[1] and float(counts[0]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {list(input.size())}")
    if self.training and self.track_running_stats and self.running_mean is not None and self.running_var is not None:
        with torch.no_grad():
            distinct = counts[1]
            unbiased = variance * (distinct / (distinct - 1))
            for running, now in ((self.running_mean, mean), (self.running_var, unbiased)):
                running.mul_(1.0 - factor).add_((now * factor).to(running.dtype))
    return result  # type: ignore[no-any-return]


def _plain(self: _BatchNorm, input: Tensor) -> Tensor:
    """The original's forward. Statistics are in fp32, so the kernels want fp32 weights too (deepspeed casts them)."""
    weight, bias = _wide(self.weight), _wide(self.bias)
    if weight is self.weight:
        return _ORIGINAL(self, input)
    self._check_input_dim(input)  # type: ignore[no-untyped-call]
    factor, by_batch = _momentum(self), self.training or self.running_mean is None
    tracked = not self.training or self.track_running_stats
    mean, variance = (self.running_mean, self.running_var) if tracked else (None, None)
    return F.batch_norm(input, mean, variance, weight, bias, by_batch, factor, self.eps)


def _wide(weight: Tensor | None) -> Tensor | None:
    """A weight in at least fp32."""
    half = weight is not None and weight.dtype in (torch.float16, torch.bfloat16)
    return weight.float() if half else weight  # type: ignore[union-attr]


def _momentum(self: _BatchNorm) -> float:
    """Weight of this batch in the running statistics; counts the batch."""
    if self.training and self.track_running_stats and self.num_batches_tracked is not None:
        self.num_batches_tracked.add_(1)
        if self.momentum is None:
            return 1.0 / float(self.num_batches_tracked)
    return 0.0 if self.momentum is None else self.momentum


def _holds_filler() -> bool:
    batch = newest_batch()
    return batch is not None and batch.filler


def _shape(x: Tensor) -> list[int]:
    return [1, x.shape[1]] + [1] * (x.dim() - 2)


def _dims(x: Tensor) -> list[int]:
    return [d for d in range(x.dim()) if d != 1]


def _merge(x: Tensor, filler: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and variance per channel over all ranks, and the counts [rows that were averaged, distinct ones], float64.

    The two counts differ where all ranks normalise the same tensor (a fixed noise vector): the statistics are those of
    one copy, and the unbiased variance must divide by its count.
    """
    if meeting.on() and not torch.compiler.is_compiling():
        meeting.meet("the statistics of a BatchNorm layer", f"{x.shape[1]} channels")
    wide = x.detach().float() if x.dtype in (torch.float16, torch.bfloat16) else x.detach()
    variance, mean = torch.var_mean(wide, _dims(x), correction=0)
    count = mean.new_full((1,), 0 if filler else x.numel() // x.shape[1], dtype=torch.float64)
    mine = torch.cat([mean.double(), variance.double(), count])
    if filler:
        mine.zero_()
    table = [torch.empty_like(mine) for _ in range(state.world_size)]
    reach(dist.all_gather, table, mine, group=state.reduce_group)
    rows = torch.stack(table)
    channels = x.shape[1]
    means, variances, counts = rows[:, :channels], rows[:, channels:-1], rows[:, -1:]
    total = counts.sum()
    mean = (means * counts).sum(0) / total
    variance = ((variances + (means - mean).square()) * counts).sum(0) / total
    most = counts.max()
    first = rows[counts.argmax()]
    copies = ((rows == first) | (counts == 0)).all()
    return mean, variance, torch.stack([total, torch.where(copies, most, total)])


class _Normalize(torch.autograd.Function):
    """Normalisation by the statistics of all ranks' rows; one collective forward, one backward."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, filler: bool
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        mean, variance, counts = _merge(x, filler)
        wide = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
        kind = weight.dtype if weight is not None and x.dtype != weight.dtype else wide
        result = F.batch_norm(x, mean.to(kind), variance.to(kind), weight, bias, False, 0.0, eps)
        ctx.save_for_backward(x, weight, bias, mean.to(wide), (variance + eps).rsqrt().to(wide), counts[0])
        ctx.eps, ctx.filler = eps, filler
        ctx.mark_non_differentiable(mean, variance, counts)
        return result, mean, variance, counts

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        x, weight, bias, mean, scale, total = ctx.saved_tensors
        if torch.is_grad_enabled():
            return (*_twice(x, weight, bias, grad, total, ctx.eps, ctx.filler), None, None)
        if x.is_cuda and not ctx.filler:
            return (*_fused(x, weight, bias, grad, mean, scale, total), None, None)
        wide = mean.dtype
        dims, shape = _dims(x), _shape(x)
        grad, normal = grad.to(wide), (x.to(wide) - mean.view(shape)) * scale.view(shape)
        sums = torch.stack([grad.sum(dims), (grad * normal).sum(dims)])
        summed = torch.zeros_like(sums) if ctx.filler else sums
        d_weight = None if weight is None else sums[1].to(weight.dtype)
        d_bias = None if bias is None else sums[0].to(bias.dtype)
        means = (all_reduce(summed.to(torch.float64, copy=True)) / total).to(wide)
        d_x = grad - means[0].view(shape) - normal * means[1].view(shape)
        if ctx.filler:  # its gradient is zero, unless this is no filler but a tensor that all ranks hold
            d_x = torch.where(grad.any(), d_x, grad)
        factor = scale if weight is None else scale * weight.to(wide)
        return (d_x * factor.view(shape)).to(x.dtype), d_weight, d_bias, None, None


def _fused(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, grad: Tensor, mean: Tensor, scale: Tensor, total: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients by the two kernels of torch's own SyncBatchNorm."""
    layout = torch.channels_last if x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last) else None
    layout = layout or (torch.channels_last_3d if x.dim() == 5 and _is_channels_last_3d(x) else torch.contiguous_format)
    x, grad = x.contiguous(memory_format=layout), grad.to(x.dtype).contiguous(memory_format=layout)
    wide = None if weight is None else weight.to(mean.dtype)  # the kernels take no half-precision weights
    sums, centred, d_weight, d_bias = torch.batch_norm_backward_reduce(
        grad, x, mean, scale, wide, True, weight is not None, bias is not None
    )
    both = torch.cat([sums, centred])
    all_reduce(both)
    sums, centred = both[: mean.numel()], both[mean.numel() :]
    count = total.to(torch.int32).reshape(1)
    d_x = torch.batch_norm_backward_elemt(grad, x, mean, scale, wide, sums, centred, count)
    return d_x, None if weight is None else d_weight.to(weight.dtype), None if bias is None else d_bias.to(bias.dtype)


def _is_channels_last_3d(x: Tensor) -> bool:
    return x.is_contiguous(memory_format=torch.channels_last_3d)


def _twice(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, grad: Tensor, total: Tensor, eps: float, filler: bool
) -> tuple[Tensor | None, ...]:
    """The gradients, with a graph of their own: differentiates a composition of differentiable steps."""
    dims, shape = _dims(x), _shape(x)
    counts = 0.0 if filler else 1.0
    share = state.world_size / total.to(x.dtype)
    with torch.enable_grad():
        mean = average(x.sum(dims) * counts) * share
        centred = x - mean.view(shape)
        variance = average(centred.square().sum(dims) * counts) * share
        result = centred * (variance + eps).rsqrt().view(shape)
        if weight is not None:
            result = result * weight.view(shape)
        if bias is not None:
            result = result + bias.view(shape)
    operands = [x, weight, bias]
    wanted = [t for t in operands if t is not None and t.requires_grad]
    with own():
        found = iter(torch.autograd.grad(result, wanted, grad, create_graph=True))
    return tuple(next(found) if t is not None and t.requires_grad else None for t in operands)


def _local(self: _BatchNorm, input: Tensor) -> Tensor:
    """Statistics of this rank's slice; before they are used in eval mode, all ranks take those of rank 0."""
    if self.training:
        _stale().add(self)
    else:
        share_statistics(self)
    return _plain(self, input)


def _stale() -> WeakSet[nn.Module]:
    """Layers whose running statistics differ by rank."""
    found: WeakSet[nn.Module] = state.extra.setdefault("stale_statistics", WeakSet())
    return found


def share_statistics(module: nn.Module) -> None:
    """Give all ranks rank 0's running statistics of the layers in `module` that have trained on slices since."""
    for layer in module.modules():
        if layer in _stale() and isinstance(layer, _BatchNorm):
            for buffer in layer.buffers(recurse=False):
                reach(dist.broadcast, buffer, 0, group=state.reduce_group)
            _stale().discard(layer)
