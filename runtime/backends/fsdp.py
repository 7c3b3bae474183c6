"""Parameters, gradients and optimizer state cut into parts, one per rank: FSDP2's `fully_shard`, in place.

Source: Zhao et al., "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel" (2023); torch's fully_shard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from .. import spilled
from ..collectives import begin_backward
from ..state import DistifyError, state
from . import meshes
from .base import group_parameters
from .buckets import sparse_parameters
from .elementwise import refusal, state_like
from .fsdp_build import check, cut
from .fsdp_entry import open_entries
from .fsdp_state import PartedState
from .fsdp_tree import Tree
from .gathered import Pending, gathered
from .inner import inner_grad
from .local_step import LocalStep
from .managed import Names, clears_all, clears_parts, copies_whole, keep_class, keeps_type, roots
from .news import plain_news
from .opened import opened_shards
from .parts import Part, PartedGradients
from .replicas import Replicas
from .sharded import ShardedParameter, add_whole, local, replace, shard_like, whole
from .watch import Watch, hook


class FSDP(PartedGradients, PartedState):
    """FSDP2 behind the protocol.

    Attributes:
        trees: prepared models.
        shards: FSDP's record of each sharded parameter.
        replicas: parameters that stay whole on each rank; their gradients are averaged as ddp does.
        pending: gradients of parameters that were gathered outside of a forward.
    """

    name = "fsdp"

    def __init__(self) -> None:
        meshes.check(self.width)
        self.trees: list[Tree] = []
        self.shards: dict[Tensor, Any] = {}
        self.watch = Watch(self.name)
        self.replicas = Replicas(self.watch)
        self.pending = Pending()
        self.steps: dict[Optimizer, LocalStep] = {}
        self.behind = False  # whether a backward without sync ran since gradients were reduced
        self._mesh: DeviceMesh | None = None

    @property
    def mesh(self) -> DeviceMesh:
        """All ranks in one dimension, or groups of those that share the parts of a model."""
        if self._mesh is None:
            self._mesh = meshes.of_ranks(self.width)
        return self._mesh

    @property
    def width(self) -> int:
        """How many ranks share the parts of a model; other such groups hold the same."""
        assert state.config is not None
        return state.config.shard_size or state.world_size

    def holders(self) -> ProcessGroup | None:
        """The ranks that share the parts with this one."""
        return self.mesh.get_group(1) if self.mesh.ndim > 1 else None

    def prepare(self, modules: Sequence[nn.Module], optimizers: Sequence[Optimizer]) -> None:
        """Cut the modules into parts; point the optimizers at the parts, with the parts of their state.

        Raises:
            DistifyError: an optimizer can't work on parts, or a model can't be cut.
        """
        for optimizer in optimizers:
            reason = refusal(optimizer, self.name)
            if reason is not None:
                raise DistifyError(f"runtime.prepare() with backend 'fsdp': {reason}")
        names, moved = Names(modules), dict[Tensor, Tensor]()
        parts = [part for module in roots(modules) for part in self._callable(module)]
        owners = Counter(p for part in parts for p in part.parameters())
        shared = {p for p, count in owners.items() if count > 1}  # cut by none of those that own them
        for part in parts:
            if any(p.requires_grad and p not in shared for p in part.parameters()):
                moved.update(self._shard(part, shared))
            else:
                self.replicas.add((p for p in part.parameters() if p in shared), sparse_parameters(part))
        for optimizer in optimizers:
            self._point(optimizer, moved)
        plain_news()
        spill = spilled.current()
        for old in moved:
            if spill is not None:
                spill.release(old)
            replace(old, names.of(old))

    def _callable(self, module: nn.Module) -> list[nn.Module]:
        """The module, or if it only holds others the modules that it holds; parameters of its own stay whole."""
        if type(module).forward is not nn.Module.forward or "forward" in vars(module):
            return [module]
        found = [part for child in module.children() for part in self._callable(child)]
        owners = Counter(p for part in found for p in part.parameters())
        clears_all(module, lambda: list(module.parameters()), self)
        if any(count > 1 for count in owners.values()):  # cut by none of them
            self.replicas.add(module.parameters(), sparse_parameters(module))
            return []
        self.replicas.add(p for p in module.parameters(recurse=False))
        return found

    def _shard(self, root: nn.Module, shared: set[nn.Parameter]) -> dict[Tensor, Tensor]:
        """Cut one module, but for what it shares with others; returns the new parameters by the old ones."""
        before = dict(root.named_parameters())
        check(before)
        assert state.precision is not None
        units, kept = cut(root, self.mesh, state.precision.dtype, shared)
        tree = Tree(units[-1], units)
        open_entries(tree)
        copies_whole(root, self)
        keeps_type(root, self.name)
        clears_parts(root, self)
        for unit in units:
            keep_class(unit)  # type: ignore[arg-type]
        self.trees.append(tree)
        for shard in tree.shards:
            shard.sharded_param.__class__ = ShardedParameter
            self.shards[shard.sharded_param] = shard
            hook(shard._unsharded_param, self.watch)
        self.replicas.add(kept, sparse_parameters(root))
        after = dict(root.named_parameters())
        return {old: after[name] for name, old in before.items() if after[name] is not old}

    def _point(self, optimizer: Optimizer, moved: dict[Tensor, Tensor]) -> None:
        """Put the parts in the place of the whole parameters, in the optimizer's groups and state."""
        for group in optimizer.param_groups:
            group["params"] = [moved.get(p, p) for p in group["params"]]
        held = list(optimizer.state.items())
        optimizer.state.clear()
        for p, found in held:
            new = moved.get(p, p)
            if isinstance(new, DTensor):
                found = {k: shard_like(v, new) if state_like(v, new.shape) else v for k, v in found.items()}
            optimizer.state[new] = found
        owned = {p for tree in self.trees for p in tree.root.parameters()}  # type: ignore[attr-defined]
        self.replicas.add([p for p in group_parameters(optimizer) if p not in owned and not isinstance(p, DTensor)])
        self.steps[optimizer] = LocalStep(optimizer)
        clears_all(optimizer, lambda: group_parameters(optimizer), self)

    def backward(self, loss: Tensor, *, sync: bool, **options: Any) -> None:
        """Accumulate gradients; reduce them to the parts if `sync`."""
        if options.get("create_graph"):
            raise DistifyError(
                "runtime.backward(create_graph=True) can't be differentiated again under fsdp, where gradients are "
                "reduced to parts. Write runtime.grad(outputs, inputs, create_graph=True), or use backend='ddp'."
            )
        inputs = options.pop("inputs", None)
        wanted = None if inputs is None else [inputs] if isinstance(inputs, Tensor) else list(inputs)
        for tree in self.trees:
            tree.reduces(sync)
            tree.gather()
        begin_backward()
        self.replicas.begin(wanted)
        leaves = None if wanted is None else [self._leaf(p) for p in wanted]
        try:
            with self.watch.own():
                torch.autograd.backward(loss, inputs=leaves, **options)
        finally:
            for tree in self.trees:
                tree.release()
        begin_backward()  # torch.autograd.grad after it begins afresh
        if sync:
            self._reduce()
        self.behind = not sync or (self.behind and inputs is not None)

    def complete(self) -> None:
        """Reduce what backwards without sync left in the gathered parameters."""
        if self.behind:
            self.behind = False
            for tree in self.trees:
                tree.reduces(True)
            self.replicas.begin(None)
            self._reduce()

    def _reduce(self) -> None:
        """Reduce what the hooks of a backward have not."""
        for tree in self.trees:
            if tree.pending():
                tree.finish()
        self.pending.reduce(add_whole)
        self.replicas.average()

    def _leaf(self, parameter: Tensor) -> Tensor:
        """What a graph holds in the place of a sharded parameter."""
        shard = self.shards.get(parameter)
        found: Tensor = parameter if shard is None else getattr(shard, "_unsharded_param", parameter)
        return found

    def grad(self, outputs: Any, inputs: Any, **options: Any) -> tuple[Tensor | None, ...]:
        """`torch.autograd.grad`; gathered parameters stay until the next backward if the gradients have a graph.

        Raises:
            DistifyError: gradients of sharded parameters are to be differentiated again.
        """
        wanted = [inputs] if isinstance(inputs, Tensor) else list(inputs)
        create = bool(options.get("create_graph"))
        if create and any(p in self.shards for p in wanted):
            raise DistifyError(
                "runtime.grad(…, create_graph=True) with respect to parameters (second-order methods such as MAML) is "
                "not supported under fsdp, where parameters lie in parts. Use backend='ddp'."
            )
        leaves = [self._leaf(p) for p in wanted]
        trained = {p for p, given in zip(leaves, wanted, strict=True) if given in self.shards or given in self.replicas}
        with self._held(create):
            found = inner_grad(outputs, leaves, lambda x: x in trained, **options)
        return tuple(
            shard_like(g, p) if isinstance(g, Tensor) and isinstance(p, DTensor) else g for g, p in zip(found, wanted)
        )

    @contextmanager
    def _held(self, create: bool) -> Any:
        """Hold shards and reductions while an inner backward runs: it accumulates nothing, and may be run through."""
        for tree in self.trees:
            tree.hold()
            tree.gather()
        try:
            yield
        finally:
            for tree in self.trees:
                tree.unhold(create)

    def forget(self, parameters: Sequence[Tensor], zero: bool = False) -> None:
        """Drop what was accumulated for these parameters and is not in their `.grad`, or make it zero there."""
        if zero:
            self.complete()
        for p in parameters:
            self.pending.drop(p)
            shard = self.shards.get(p)
            if shard is not None:
                shard.unsharded_accumulated_grad = None
                if hasattr(shard, "_unsharded_param"):
                    shard._unsharded_param.grad = None

    def parts(self, parameters: Iterable[Tensor]) -> list[Part]:
        """This rank's parts of the gradients of these parameters."""
        found: list[Part] = []
        for k, p in enumerate(parameters):
            grad = p.grad
            if grad is not None:
                mine = grad._values() if grad.is_sparse else local(grad)
                found.append(Part(mine, k, isinstance(grad, DTensor) or state.rank % self.width == 0))
        return found

    def step(self, optimizer: Optimizer, closure: Any = None) -> Any:
        """Step on this rank's parts."""
        result = self.steps[optimizer].step(closure)
        changed = set(group_parameters(optimizer))
        for tree in self.trees:
            tree.changed(changed)
        return result

    def full(self, parameter: Tensor) -> Tensor:
        """The whole parameter; its gradient is averaged over ranks when the backward is over."""
        if not isinstance(parameter, DTensor):
            return parameter
        return gathered(parameter, whole(parameter), self.pending)

    def open(self, modules: Sequence[nn.Module], grads: bool) -> AbstractContextManager[None]:
        """Whole parameters in the place of the parts, for as long as the context lasts."""
        return opened_shards(self, modules, grads)

    def knows(self, param: Tensor) -> bool:
        """Whether the gradient of a parameter is reduced; that of one in no prepared model is, by the backward."""
        if param in self.shards or param in self.replicas:
            return True
        return not any(param is p for tree in self.trees for p in tree.root.parameters())  # type: ignore[attr-defined]

    def held(self) -> Container[Tensor]:
        """Parts, whole parameters that FSDP gathers, and those that stay whole."""
        return {*self.shards, *map(self._leaf, self.shards), *self.replicas.known}

    def cuts(self, item: Tensor | Optimizer) -> bool:
        """Whether a tensor, or what an optimizer holds, lies in parts."""
        return item in self.steps if isinstance(item, Optimizer) else isinstance(item, DTensor)
