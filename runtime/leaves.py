"""Leaf tensors of the script's own, such as perturbed images or hand-made weights: their `.grad` is the true one too.

Gradients of prepared parameters are averaged by the backend. Another leaf that a backward reaches holds, by the
convention in `collectives`, N times the gradient of its rows if it is a slice, and a part that averages to the true
gradient if all ranks hold the whole. Which leaves there are, the graph of the loss says. The part of it that a forward
built from inputs without gradient holds no such leaf and is skipped, so an ordinary training step costs microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn

from .backends.averages import averages
from .backends.base import group_parameters
from .backends.outputs import tensors
from .backends.whole_leaves import whole_on_all
from .records import leaves as tensors_of
from .state import State, state

PLAIN = "distify"  # in the metadata of a graph's node: no leaf but parameters of prepared modules is below it


def watch(module: nn.Module) -> None:
    """Let the forwards of a prepared module note where their part of a graph ends."""
    compiled = getattr(module, "_compiled_call_impl", None) is not None  # hooks inside would break fullgraph=True
    if _sought(state) and not compiled:
        nn.Module.register_forward_hook(module, _note, with_kwargs=True)


def _note(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return
    if any(x.requires_grad for x in tensors_of([args, kwargs])):
        return
    for x in tensors(output):
        metadata: Any = x.grad_fn.metadata  # type: ignore[union-attr]
        metadata[PLAIN] = True


def reached(loss: Tensor) -> list[Tensor]:
    """Leaves that a backward will accumulate to, in the order of the graph; not those below a plain forward."""
    root = loss.grad_fn
    if root is None:
        return [loss] if loss.requires_grad else []
    seen, open_nodes, found = {root}, [root], []
    while open_nodes:
        for node, _ in open_nodes.pop().next_functions:
            if node is None or node in seen:
                continue
            seen.add(node)
            leaf = getattr(node, "variable", None)  # of the node that accumulates
            if leaf is not None:
                found.append(leaf)
            elif PLAIN not in cast(Any, node.metadata):
                open_nodes.append(node)
    return found


def strangers(run: State, loss: Tensor, inputs: Any) -> list[Tensor]:
    """Leaves that a backward will accumulate to and that belong to no prepared module."""
    if not _sought(run):
        return []
    if inputs is not None:
        candidates = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    else:
        candidates = reached(loss)
    candidates = [leaf for leaf in candidates if not getattr(leaf, "_distify_own", False)]
    if not candidates:
        return []
    assert run.backend is not None
    held = run.backend.held()
    return [leaf for leaf in candidates if leaf not in held]


def _sought(run: State) -> bool:
    """Whether gradients are held otherwise than torch would leave them: in parts, or scaled."""
    return run.world_size > 1 or (run.precision is not None and run.precision.scaler is not None)


@contextmanager
def settled(run: State, loss: Tensor, scale: float, inputs: Any, create_graph: bool) -> Iterator[None]:
    """Around a backward: what it adds to the `.grad` of strangers is made the true gradient, without loss scale.

    Args:
        run: the initialised state.
        loss: what the backward starts from.
        scale: loss scale that it is multiplied by.
        inputs, create_graph: of the backward.

    Raises:
        DistifyError: the ranks reach different leaves, or it can't be told whether a leaf is a slice.
    """
    leaves = strangers(run, loss, inputs)
    if not leaves:
        yield
        return
    whole = whole_on_all(leaves) if run.world_size > 1 else [False] * len(leaves)
    stepped = {p for optimizer in run.optimizers for p in group_parameters(optimizer)} if scale != 1.0 else set()
    scales = [1.0 if leaf in stepped else scale for leaf in leaves]  # the step unscales its own
    run.extra["reduced"] = False
    hooks = [
        leaf.register_hook(_settle(run, factor, one))  # type: ignore[no-untyped-call]
        for leaf, factor, one in zip(leaves, scales, whole, strict=True)
    ]
    before = [leaf.grad for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        fresh = [leaf.grad for leaf in leaves]
        for leaf, grad in zip(leaves, before, strict=True):
            leaf.grad = grad
    _add(leaves, _complete(leaves, fresh, whole), create_graph)


def _settle(run: State, scale: float, whole: bool) -> Callable[[Tensor | None], Tensor | None]:
    """Hook: the true gradient of a slice, or a whole leaf's part without loss scale."""

    def hook(grad: Tensor | None) -> Tensor | None:
        if grad is None:  # of a filler row
            return None
        held = 1 if whole or not run.extra.get("reduced") else run.world_size
        return grad if held * scale == 1.0 else grad / (held * scale)

    return hook


def _complete(leaves: Sequence[Tensor], grads: Sequence[Tensor | None], whole: Sequence[bool]) -> list[Tensor | None]:
    """Parts of whole leaves averaged; a slice that only holds a filler row has a gradient too: zeros."""
    found = [torch.zeros_like(x) if g is None and not one else g for x, g, one in zip(leaves, grads, whole)]
    ours = [k for k, one in enumerate(whole) if one]
    for k, grad in zip(ours, averages([leaves[k] for k in ours], [found[k] for k in ours]), strict=True):
        found[k] = grad
    return found


def _add(leaves: Sequence[Tensor], grads: Sequence[Tensor | None], create_graph: bool) -> None:
    """Accumulate as torch does."""
    for leaf, grad in zip(leaves, grads, strict=True):
        if grad is None:
            continue
        if leaf.grad is None:
            leaf.grad = grad
        elif create_graph:
            leaf.grad = leaf.grad + grad
        else:
            leaf.grad += grad
