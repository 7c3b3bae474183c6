"""Backward passes: `backward`, `grad`, and `frozen`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from . import digest
from .leaves import settled
from .meeting import meet
from .own import own
from .state import DistifyError, require
from .trace import trace
from .uncompiled import uncompiled


@uncompiled
def backward(
    loss: Tensor,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
    sync: bool = True,
) -> None:
    """Accumulate the gradients of a global loss, in place of `loss.backward(…)`.

    When it returns, `.grad` of the parameters of prepared modules is the gradient of the original's whole batch, times
    the loss scale under fp16; inside `accumulate`, this holds at `window.ends` (deepspeed: in `clip` and `step`). Other
    leaf tensors, such as images that require gradients, get the gradient of the global loss, never scaled.

    Args:
        loss: one element, reduced over the batch by `runtime.mean`, `runtime.sum` or the like.
        retain_graph, create_graph, inputs: as in `torch.Tensor.backward`.
        sync: whether gradients are needed after it. A script that adds up gradients over several batches passes the
            condition of its step: until it holds, each process keeps its own part in `.grad`, and nothing is sent.
            Clipping and `step` complete what is left over, so that a window cut short is exact too. Ignored inside
            `accumulate`, which knows by itself.

    Raises:
        NotInitialized: `init` has not run.
        DistifyError: `loss` is not a tensor.
    """
    run = require("backward")
    if not isinstance(loss, Tensor):
        raise DistifyError(f"runtime.backward() takes the loss, a tensor, not a {type(loss).__name__}.")
    assert run.windows is not None
    assert run.precision is not None
    assert run.backend is not None
    options = {"retain_graph": retain_graph, "create_graph": create_graph, "inputs": inputs}
    options = {name: value for name, value in options.items() if value is not None and value is not False}
    notes = trace()
    if notes is not None:
        notes.backward(loss)
    if run.world_size > 1:
        meet("runtime.backward()", f"a loss after {run.recorded} reductions")
    window = run.windows.active()
    sync = bool(sync) if window is None else window.ends
    if window is not None and window.corrected != 1.0:  # an earlier backward of this block put the window right
        run.backend.scale_grads(run.optimizers, 1.0 / window.corrected)
        window.corrected = 1.0
    factor = 1.0 if window is None else 1.0 / window.size
    if run.precision.scaler is not None:
        run.precision.scaler.before_backward(run.backend)
        factor *= run.precision.scaler.applied
        loss = loss.float() if loss.dtype in (torch.float16, torch.bfloat16) else loss
    scale = 1.0 if run.precision.scaler is None else run.precision.scaler.applied
    digest.note(loss)
    with own(), settled(run, loss, scale, inputs, create_graph):
        run.backend.backward(loss if factor == 1.0 else loss * factor, sync=sync, **options)
    if window is not None:
        window.ran = True
        correction = window.correction() if sync else 1.0
        if correction != 1.0:
            run.backend.scale_grads(run.optimizers, correction)
            window.corrected = correction


@uncompiled
def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """`torch.autograd.grad`: gradients of global values, or of this rank's slice with respect to its own rows.

    Gradients of parameters are those of the whole batch. Not scaled, also under fp16.

    Args:
        outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, is_grads_batched, materialize_grads:
            as in torch.
        only_inputs: ignored, as in torch.

    Returns:
        A tuple with the gradient of each input.

    Raises:
        NotInitialized: `init` has not run.
    """
    backend = require("grad").backend
    assert backend is not None
    meet("runtime.grad()")
    given = {
        "grad_outputs": grad_outputs,
        "retain_graph": retain_graph,
        "create_graph": create_graph,
        "allow_unused": allow_unused,
        "is_grads_batched": is_grads_batched,
        "materialize_grads": materialize_grads,
    }
    options: dict[str, Any] = {k: v for k, v in given.items() if v is not None and v is not False}
    with own():
        return backend.grad(outputs, inputs, **options)


@contextmanager
def frozen(*modules: nn.Module) -> Iterator[None]:
    """Context in which the modules' parameters get no gradients, as the discriminator in a generator's step.

    Args:
        modules: any modules; gradients flow through them, and parameters that are frozen already stay so.
    """
    trained = [p for module in modules for p in module.parameters() if p.requires_grad]
    for p in trained:
        p.requires_grad_(False)
    try:
        yield
    finally:
        for p in trained:
            p.requires_grad_(True)
