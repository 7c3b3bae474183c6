"""The state of a sharded model between its forwards and backwards: which parameters are gathered, and which are shown.

Between a forward and its backward the gathered parameters are kept where the plan says so, but the model shows the
shards: `model.parameters()`, `zero_grad`, `requires_grad_` and hand-written updates always meet the parameters that
the optimizer holds.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.fsdp._fully_shard._fsdp_state import FSDPState

from ..state import refuse_opened
from ..uncompiled import uncompiled
from .managed import replaced


class Tree:
    """A sharded model: its groups, and what they show.

    Args:
        root: `fully_shard` has been applied to it, last.
        units: all modules that it was applied to, the root the last; neighbours can share a group.
    """

    def __init__(self, root: FSDPModule, units: list[FSDPModule]) -> None:
        self.root = root
        self.units = units
        self.states: list[Any] = [*dict.fromkeys(unit._get_fsdp_state() for unit in units)]  # blocks can share one
        self.entered: FSDPModule | None = None  # the block that was entered from outside
        root._get_fsdp_state()._lazy_init()  # fixes the root: blocks may run before it
        self.groups = [group for found in self.states for group in groups_of(found)]
        self.shards = [shard for group in self.groups for shard in group.fsdp_params]
        self.places = [place for shard in self.shards for place in _places(shard)]
        self.held = False
        self._sync = True
        for unit in units:  # buffers that are made in a forward under inference_mode can't be trained with
            with torch.inference_mode(False):
                unit.unshard()
                self.refresh()

    @uncompiled
    def enter(self) -> None:
        """Before an outermost entry: what is gathered may be older than the shards.

        Raises:
            DistifyError: the script has put another parameter in the place of one of them.
        """
        refuse_opened("a part of a prepared module")
        for held, name, shard in self.places:
            now = held.get(name)
            if now is not shard.sharded_param and now is not getattr(shard, "_unsharded_param", None):
                raise replaced(shard._param_fqn or name, "fsdp")
        self.refresh()

    @uncompiled
    def refresh(self) -> None:
        """Drop gathered parameters."""
        for found in self.states:
            blocks_to_run(found).clear()  # of blocks that a backward has recomputed
        for group in self.groups:
            if group.is_unsharded:
                group._to_sharded()

    @uncompiled
    def hide(self) -> None:
        """After an outermost entry: show the shards again, or drop what no backward will need."""
        if not torch.is_grad_enabled():
            self.refresh()
            return
        for group in self.groups:
            if group.is_unsharded:
                for shard in group.fsdp_params:
                    shard._setattr_on_modules(shard.sharded_param)

    @uncompiled
    def show(self) -> None:
        """In a backward: recomputed forwards need the gathered parameters in place."""
        for group in self.groups:
            if group.is_unsharded:
                for shard in group.fsdp_params:
                    shard._setattr_on_modules(shard._unsharded_param)

    def gather(self) -> None:
        """Gather all groups until the end of a backward through gradients that were computed with a graph.

        No group tells when such a graph comes through it: it may after the group's own backward, and more than once.
        """
        if self.held:
            self.root.set_reshard_after_backward(False)
            for unit in self.units:
                unit.unshard()
            self.show()

    def hold(self) -> None:
        """Before an inner backward: nothing is reduced in it, and gathered parameters stay."""
        self.root.set_reshard_after_backward(False)
        self.root.set_requires_gradient_sync(False)
        self.root.set_is_last_backward(False)

    def unhold(self, graph: bool) -> None:
        """After it: every backward is one through its gradients if they have a `graph`, until the parameters change."""
        self.root.set_reshard_after_backward(True)
        self.root.set_requires_gradient_sync(self._sync)
        self.root.set_is_last_backward(True)
        self.held = self.held or (graph and any(group.is_unsharded for group in self.groups))
        if self.held:
            self.hide()
        else:
            self.refresh()

    def release(self) -> None:
        """After a backward that may have gone through such gradients; another one can follow."""
        if self.held:
            self.root.set_reshard_after_backward(True)
            self.refresh()

    def changed(self, parameters: Set[Tensor]) -> None:
        """These were changed, so a graph that used them is of no use any more."""
        if self.held and any(shard.sharded_param in parameters for shard in self.shards):
            self.held = False

    def reduces(self, sync: bool) -> None:
        """Whether the next backward reduces gradients."""
        if sync != self._sync:
            self._sync = sync
            self.root.set_requires_gradient_sync(sync)
        for group in self.groups:
            if group._orig_dtype is None and any(s.sharded_param.requires_grad for s in group.fsdp_params):
                group._init_mp_dtypes()  # all of it was frozen when the model was prepared

    @uncompiled
    def complete(self, outputs: list[Tensor]) -> None:
        """At the end of an outermost entry: end the forwards of groups of which only some blocks have run.

        FSDP ends the forward of a group when all its blocks have run; what it leaves open would pass for a forward that
        still runs, and with it for parameters that are up to date.
        """
        for found in self.states:
            if blocks_to_run(found):
                blocks_to_run(found).clear()
                found._post_forward(self.root, (), outputs)  # the backward of the outputs gathers the group again

    @uncompiled
    def idle(self) -> bool:
        """Whether no forward and no backward of the model is running."""
        return self.states[-1]._state_ctx.iter_forward_root is None and torch._C._current_graph_task_id() == -1

    def pending(self) -> bool:
        """Whether gradients were not reduced: a backward came in past the outputs of the forward, or did not sync."""
        found = (getattr(shard, "_unsharded_param", None) for shard in self.shards)
        kept = any(getattr(shard, "unsharded_accumulated_grad", None) is not None for shard in self.shards)
        return kept or any(p is not None and p.grad is not None for p in found)

    def finish(self) -> None:
        """Reduce such gradients."""
        self.root._get_fsdp_state()._root_post_backward_final_callback()


def _places(shard: Any) -> list[tuple[dict[str, Any], str, Any]]:
    """Where the modules hold a parameter: several times if it is shared."""
    info = shard._module_info
    owners = [(info.module, info.param_name), *zip(info.shared_modules, info.shared_param_names, strict=True)]
    return [(module._parameters, name, shard) for module, name in owners]


def can_share() -> bool:
    """Whether FSDP tells which blocks of a group still have to run: since torch 2.8."""
    return hasattr(FSDPState(), "_modules_to_run_forward")


def blocks_to_run(found: Any) -> set[nn.Module]:
    """Blocks of an FSDP state that have not run in the forward that has begun."""
    left: set[nn.Module] = getattr(found, "_modules_to_run_forward", set())
    return left


def groups_of(found: Any) -> list[Any]:
    """The parameter groups of an FSDP state; one before torch 2.12, a list since."""
    many = getattr(found, "_fsdp_param_groups", None)
    if many is not None:
        return list(many)
    one = found._fsdp_param_group
    return [] if one is None else [one]
