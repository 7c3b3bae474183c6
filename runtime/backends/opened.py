"""Whole parameters of models that lie in parts, to be read and changed by the script; changes go back to the parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from ..collectives import exchange
from ..state import DistifyError
from .fsdp_tree import groups_of
from .managed import replaced
from .sharded import local, shard_like, whole

if TYPE_CHECKING:
    from .deepspeed import DeepSpeed
    from .fsdp import FSDP
    from .fsdp_tree import Tree


@contextmanager
def opened_shards(backend: FSDP, modules: Sequence[nn.Module], grads: bool) -> Iterator[None]:
    """Under fsdp, plain parameters stand in the place of the sharded ones, in the modules and in the optimizers."""
    gathered = _put_down(backend, modules)
    made: dict[DTensor, nn.Parameter] = {}
    places: list[tuple[dict[str, Any], str, DTensor]] = []
    for inner in dict.fromkeys(inner for module in modules for inner in module.modules()):
        for name, p in inner._parameters.items():
            if isinstance(p, DTensor):
                if p not in made:
                    made[p] = nn.Parameter(whole(p).clone(), p.requires_grad)
                    if grads and p.grad is not None:
                        made[p].grad = whole(p.grad)
                places.append((inner._parameters, name, p))
    before = {p: local(p).detach().clone() for p in made}
    for held, name, part in places:
        held[name] = made[part]
    _swap(backend, dict(made))
    try:
        yield
    finally:
        others = [part for held, name, part in places if held.get(name) is not made[part]]
        _swap(backend, {new: p for p, new in made.items()})
        for held, name, part in places:
            held[name] = part
    if others:
        names: dict[Tensor, str] = {p: name for module in modules for name, p in module.named_parameters()}
        raise replaced(names[others[0]], backend.name)
    for part, new in made.items():
        _check(part, new)
        values = local(shard_like(new, part))
        if not _equal(values, before[part]):  # else it may have been changed through a reference to the part
            with torch.no_grad():
                local(part).copy_(values)
        if part.requires_grad != new.requires_grad:
            part.requires_grad_(new.requires_grad)
        if grads:
            part.grad = None if new.grad is None else shard_like(new.grad, part)
    for tree, units in gathered:
        for unit in units:
            unit.unshard()
        tree.show()


def _put_down(backend: FSDP, modules: Sequence[nn.Module]) -> list[tuple[Tree, list[Any]]]:
    """A method of a model may open it: what was gathered for the method is put down, to be gathered anew."""
    inside = {inner for module in modules for inner in module.modules()}
    found: list[tuple[Tree, list[Any]]] = []
    for tree in backend.trees:
        root: Any = tree.root
        if inside.intersection(root.modules()) and not tree.idle():
            states = zip(tree.units, tree.states, strict=True)
            units: list[Any] = [unit for unit, held in states if any(g.is_unsharded for g in groups_of(held))]
            tree.refresh()
            found.append((tree, units))
    return found


def _swap(backend: FSDP, others: dict[Any, Any]) -> None:
    """Put other parameters in the place of some in the optimizers' groups."""
    for optimizer in backend.steps:
        for group in optimizer.param_groups:
            group["params"] = [others.get(p, p) for p in group["params"]]


@contextmanager
def opened_engines(backend: DeepSpeed, modules: Sequence[nn.Module], grads: bool) -> Iterator[None]:
    """Under deepspeed, the parameters hold their whole values, and the whole gradients if these are asked for."""
    opened = backend.opened
    every: list[Tensor] = [p for module in modules for p in module.parameters()]
    mine = [p for p in dict.fromkeys(every) if p in backend.of and p not in opened]
    held = {p: p.data for p in mine}
    wholes = {p: backend.of[p].whole(p) for p in mine}
    pieces = {p: _piece(backend, p, value).clone() for p, value in wholes.items()}
    slopes = _gradients(backend, mine) if grads else {}
    kept = {p: None if g is None else g.clone() for p, g in slopes.items()}
    for p in mine:
        p.data = wholes[p]
        if grads:
            p.grad = slopes[p]
    opened.update(mine)
    try:
        yield
    finally:
        opened.difference_update(mine)
        found, now = {p: p.data for p in mine}, {p: p.grad for p in mine}
        for p in mine:
            p.data = held[p]
            if grads:
                p.grad = None
    for p, value in found.items():
        _check(wholes[p], value)
    _write(backend, {p: x for p, x in found.items() if not _equal(_piece(backend, p, x), pieces[p])})
    if grads:
        _put_gradients(backend, kept, now)


def _gradients(backend: DeepSpeed, parameters: Sequence[Tensor]) -> dict[Tensor, Tensor | None]:
    """Whole gradients; a collective."""
    engines = dict.fromkeys(backend.of[p] for p in parameters)
    if any(engine.left.intersection(parameters) for engine in engines):
        raise DistifyError(
            "gradients were read after runtime.step(): DeepSpeed drops them with each step. Read them between "
            "runtime.backward() and runtime.step(), or use backend='fsdp'."
        )
    for engine in engines:
        engine.fold()
    return {p: backend.of[p].whole_grad(p) for p in parameters}


def _put_gradients(backend: DeepSpeed, before: dict[Tensor, Tensor | None], now: dict[Tensor, Tensor | None]) -> None:
    """Write changed gradients back, to this rank's parts."""
    dropped = [p for p, grad in now.items() if grad is None and before[p] is not None]
    if dropped:
        backend.forget(dropped)
    for p, grad in now.items():
        old = before[p]
        if grad is not None and (old is None or not _equal(grad, old)):
            backend.of[p].put_grad(p, grad)


def _write(backend: DeepSpeed, changed: dict[Tensor, Tensor]) -> None:
    """Write back what changed in this rank's parts, if anything did on any rank; a collective."""
    counts = [sum(backend.of[p] is engine for p in changed) for engine in backend.engines]
    for k, engine in enumerate(backend.engines):
        if any(line[0] > 0 for line in exchange(counts[k : k + 1], room=1)):
            engine.write({p: value for p, value in changed.items() if backend.of[p] is engine})


def _piece(backend: DeepSpeed, p: Tensor, value: Tensor) -> Tensor:
    """What tells whether a parameter was changed: this rank's part of it, or all of one that is not cut."""
    owner = backend.of[p]
    return (owner.flats.cut(p, value) if p in owner else value).detach()


def _equal(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors hold the same values, NaN included."""
    return torch.allclose(a, b, rtol=0.0, atol=0.0, equal_nan=True)


def _check(before: Tensor, now: Tensor) -> None:
    if now.shape != before.shape or now.dtype != before.dtype:
        raise DistifyError(
            f"a parameter of shape {tuple(before.shape)} and type {before.dtype} became one of {tuple(now.shape)} and "
            f"{now.dtype} in a runtime.whole() block. Parameters that lie in parts keep both: change them before "
            "runtime.prepare()."
        )
