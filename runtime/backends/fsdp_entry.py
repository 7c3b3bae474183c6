"""Gathered parameters for every way into a model: its forward, other methods, and submodules called from outside.

`fully_shard` gathers around `__call__` of the modules that it was applied to, and nowhere else. Here each module of the
tree has an entry, in its instance's attributes: `forward` and the methods that touch submodules or parameters. Entered
from outside it gathers the group that its parameters belong to; entered from inside it does nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from ..collectives import void
from ..state import DistifyError, state
from .entries import entries
from .fsdp_tree import Tree
from .managed import stand_in
from .outputs import tensors

API = frozenset(dir(nn.Module))

# Something for FSDP to move to the device: on CUDA it takes an empty tuple apart without looking.
NO_ARGUMENTS = (None,)


class Gate:
    """The entry to the parameters of one group, for modules that `fully_shard` was not applied to by themselves.

    Args:
        unit: the module of the group.
        tree: the model.
    """

    def __init__(self, unit: FSDPModule, tree: Tree) -> None:
        self.module: Any = unit
        self.tree = tree
        self.state = unit._get_fsdp_state()

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of the model with the group's parameters gathered."""
        phase = self.state._training_state.name
        if phase == "FORWARD":
            return function(*args, **kwargs)
        if phase == "PRE_BACKWARD":  # recomputed by activation checkpointing
            self.state._pre_forward(self.module, NO_ARGUMENTS, {})
            self.tree.show()
            return function(*args, **kwargs)
        refuse_alone()
        outermost = self.tree.idle()
        if outermost:
            self.tree.enter()
        self.state._pre_forward(self.module, NO_ARGUMENTS, {})  # arguments stay where the user put them
        outputs: list[Tensor] = []
        before = state.recorded
        try:
            result = function(*args, **kwargs)
            outputs = list(tensors(result))
        finally:
            if outermost:
                self.tree.complete(outputs)
            self.state._post_forward(self.module, (), [])
            if outermost:
                self.tree.hide()
        if torch.is_grad_enabled():
            for x in outputs:
                self._watch(x, state.recorded == before)
        return self.tree_shards(result) if not outputs else result

    def tree_shards(self, result: Any) -> Any:
        """Give out shards in place of gathered parameters, for methods that return parameters."""
        named = {id(s._unsharded_param): s.sharded_param for s in self.tree.shards if hasattr(s, "_unsharded_param")}

        def swap(value: Any) -> Any:
            if isinstance(value, nn.Parameter):
                return named.get(id(value), value)
            if type(value) in (list, tuple):
                return type(value)(swap(item) for item in value)
            if type(value) is dict:
                return {key: swap(item) for key, item in value.items()}
            return value

        return swap(result)

    def _watch(self, x: Tensor, sliced: bool) -> None:
        """Gather the parameters when a backward reaches this output.

        `sliced`: nothing was reduced in the call. The gradient of a reduced value is exchanged between ranks, so it
        counts on those too whose rows do not.
        """
        if x.grad_fn is None:
            return

        def begin(grad: Any) -> Any:
            self.state._pre_backward(None)  # type: ignore[arg-type]
            self.tree.show()
            return torch.zeros_like(grad) if sliced and isinstance(grad, Tensor) and void() else None

        x.register_hook(begin)  # type: ignore[no-untyped-call]
        if x._base is not None and x._base.grad_fn is not None:  # in-place changes of a view cut its own history off
            x._base.grad_fn.register_prehook(begin)


def refuse_alone() -> None:
    """Refuse a forward on one rank only: the others hold the rest of the parameters."""
    if state.extra.get("alone"):
        raise DistifyError(
            "a sharded model was called in a function that runtime.on_main() runs on rank 0 only; the other ranks hold "
            "the rest of its parameters, so it would wait forever. Call the model on all ranks and pass the result in, "
            "or use model = runtime.clone(model) before."
        )


def open_entries(tree: Tree) -> None:
    """Give each module of a model its entry."""
    root = tree.root
    root_state = root._get_fsdp_state()
    for handle in (root_state._pre_forward_hook_handle, root_state._post_forward_hook_handle):
        handle.remove()  # the root's entry does their work, and leaves the arguments on their device
    for unit in tree.units:
        if unit is not root:
            _around_block(unit, tree)
    gates = {id(unit): Gate(unit, tree) for unit in tree.units}
    _descend(root, gates[id(root)], gates, set())


def _around_block(unit: Any, tree: Tree) -> None:
    """A block's own hooks gather it; when it is called from outside, the tree must be refreshed and hidden too."""

    def before(module: nn.Module, args: Any) -> None:
        if tree.idle():
            refuse_alone()
            tree.enter()
            tree.entered = unit

    def after(module: nn.Module, args: Any, output: Any) -> None:
        if tree.entered is unit:  # not for blocks within: a group runs until the outermost entry ends
            tree.complete(list(tensors(output)))
        if tree.idle():
            tree.entered = None
            tree.hide()

    unit.register_forward_pre_hook(before, prepend=True)
    unit.register_forward_hook(after, always_call=True)


def _descend(module: Any, gate: Gate, gates: dict[int, Gate], seen: set[int]) -> None:
    if id(module) in seen:
        return
    seen.add(id(module))
    gate = gates.get(id(module), gate)
    if any(isinstance(p, DTensor) for p in module.parameters()):  # of what is whole there is nothing to gather
        for name in entries(module):
            _install(module, name, gate)
        for child in module.children():
            _descend(child, gate, gates, seen)


def _install(module: nn.Module, name: str, gate: Gate) -> None:
    original = getattr(module, name)

    @functools.wraps(original)
    def entry(*args: Any, **kwargs: Any) -> Any:
        return gate.call(original, args, kwargs)

    stand_in(module, name, entry)
