"""What FSDP2 cuts into parts, and in which groups: chosen from the model's structure and the sizes of its parameters.

Each repeated block that is large enough becomes a group of its own, so that its parameters are gathered while the
block before it computes; small ones that one `nn.Sequential` runs are one group together; the root takes the rest, tied
weights too. Small models have the root only: one collective is then cheaper.

Gathered parameters are kept from a forward to its backward where memory allows: that saves a third of the traffic. Then
blocks that stand side by side are gathered together, a few groups for the whole model: each group costs the host more
than a millisecond in every step, which is what bounds models of some hundred million parameters.

In reduced precision a group is gathered in the autocast type where autocast would cast its parameters anyway: that is
the same arithmetic for half of the traffic. Parameters that autocast leaves alone (of norms, raw ones) must stay what
they are; small ones are kept whole on each rank, and a group in which they weigh much is gathered in full precision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from .buckets import sparse_parameters

BLOCK = 1_000_000  # elements from which a repeated block is gathered by itself
TOGETHER = 64_000_000  # elements that neighbouring blocks have at most when they are gathered together
PARTS = (
    4  # groups of blocks that a model has at least, if it has as many blocks: one is gathered while another computes
)
KEEP = 2**31  # bytes of gathered parameters up to which they are kept for the backward where memory isn't known
ROOM = 0.5  # part of the free memory that a model may take; the rest is for activations
HELD = 4  # a part's bytes: the parameters, their gradients, and two values of optimizer state for each
SHARE = 0.1  # part of a group's elements that may be kept whole so that the rest travels in the autocast type
CAST = (nn.Linear, _ConvNd, nn.MultiheadAttention)  # modules of torch whose parameters autocast casts


@dataclass
class Group:
    """Parameters that are gathered together.

    Attributes:
        modules: the root, or blocks that stand side by side.
        cast: whether they are gathered in the autocast type.
    """

    modules: tuple[nn.Module, ...]
    cast: bool = False

    def parameters(self) -> Iterable[nn.Parameter]:
        """Those of its modules."""
        return (p for module in self.modules for p in module.parameters())


@dataclass
class Plan:
    """How one model is cut.

    Attributes:
        groups: blocks first, the root last.
        whole: parameters that stay whole on each rank.
        keep: whether gathered blocks are kept from forward to backward.
    """

    groups: list[Group]
    whole: list[nn.Parameter] = field(default_factory=list)
    keep: bool = True


def plan(
    root: nn.Module,
    reduced: bool,
    can_keep_whole: bool = True,
    block: int = BLOCK,
    shared: Collection[nn.Parameter] = (),
    free: int | None = None,
    ranks: int = 1,
    reshard: str = "auto",
    together: int = 0,
) -> Plan:
    """Decide how to cut a model.

    Args:
        root: a model with parameters.
        reduced: whether the run computes in bf16 or fp16 under autocast.
        can_keep_whole: whether torch's `fully_shard` can leave parameters out.
        block: elements from which a repeated block is a group.
        shared: parameters that other models own too.
        free: bytes of device memory for the model and what it computes, the least of all ranks; `None`: not known.
        ranks: how many share the parts.
        reshard: "always" or "never" drop gathered parameters after a forward; "auto": as memory wants.
        together: elements that blocks side by side have at most when they are one group, where gathered ones are kept;
            0: each is a group.
    """
    made = Plan([Group((m,)) for m in [*_large(root, block), root]])
    made.keep = reshard == "never" or (reshard == "auto" and _fits(root, reduced, free, ranks))
    if not can_keep_whole:
        for group in made.groups:
            group.cast = reduced
        return _merged(made, root, block, together)
    kept = (
        {p for p in root.parameters() if not _can_shard(p) or p in shared} | _odd(root) | set(sparse_parameters(root))
    )
    if reduced:
        casts = _cast_parameters(root)
        taken: set[Tensor] = set()
        for group in made.groups:
            mine = [p for p in group.parameters() if p not in taken and p not in kept]
            taken.update(mine)
            others = [p for p in mine if p not in casts]
            group.cast = bool(mine) and _numel(others) <= SHARE * _numel(mine) and _numel(others) < _numel(mine)
            if group.cast:
                kept.update(others)
    made.whole = [p for p in root.parameters() if p in kept]
    made.groups = [g for g in made.groups if root in g.modules or any(p not in kept for p in g.parameters())]
    return _merged(made, root, block, together)


def _merged(made: Plan, root: nn.Module, block: int, together: int) -> Plan:
    """Make one group of blocks that stand side by side in a list, as many as the limits allow."""
    most = min(together, max(_numel(root.parameters()) // PARTS, PARTS * block))
    if not made.keep or not most:
        return made
    after = {a: b for m in root.modules() for a, b in pairwise(m.children())}
    groups: list[Group] = []
    for group in made.groups:
        last = groups[-1] if groups else None
        side_by_side = last is not None and after.get(last.modules[-1]) is group.modules[0]
        if (
            last
            and side_by_side
            and last.cast == group.cast
            and _numel((*last.parameters(), *group.parameters())) <= most
        ):
            last.modules += group.modules
        else:
            groups.append(group)
    made.groups = groups
    return made


def _fits(root: nn.Module, reduced: bool, free: int | None, ranks: int) -> bool:
    """Whether memory allows to keep all gathered parameters until the backward."""
    size = sum(p.numel() * p.element_size() for p in root.parameters())
    gathered = size // 2 if reduced else size
    if free is None:
        return size <= KEEP
    return HELD * size / ranks + gathered <= ROOM * free


def _large(root: nn.Module, block: int) -> list[nn.Module]:
    """Blocks that are gathered by themselves, and sequences of small ones that are gathered together."""
    blocks = repeated_blocks(root)
    found = {m for m in blocks if _numel(m.parameters()) >= block}
    small = set(blocks) - found
    owners = _owners(root)
    for module in root.modules():
        if module is root or type(module).forward is not nn.Sequential.forward:
            continue
        inside = set(module.modules())
        mine = small & inside
        if len(mine) > 1 and not found & inside and _numel(module.parameters()) >= block and _alone(module, owners):
            found.add(module)
            small -= inside
    return [m for m in root.modules() if m in found]


def repeated_blocks(root: nn.Module) -> list[nn.Module]:
    """Modules of one class that stand side by side in a list, outermost ones, that share no parameter with others."""
    found: list[nn.Module] = []
    for module in root.modules():
        if not isinstance(module, (nn.ModuleList, nn.Sequential)):
            continue
        children = list(module.children())
        kinds = Counter(type(child) for child in children)
        for child in children:
            if kinds[type(child)] > 1 and type(child).forward is not nn.Module.forward and any(child.children()):
                found.append(child)
    inside = {m for block in found for m in block.modules() if m is not block}
    owners = _owners(root)
    return [m for m in dict.fromkeys(found) if m not in inside and _alone(m, owners)]


def _owners(root: nn.Module) -> Counter[Tensor]:
    """How many modules own each parameter."""
    return Counter(p for m in root.modules() for p in m._parameters.values() if p is not None)


def _alone(block: nn.Module, owners: Counter[Tensor]) -> bool:
    return all(owners[p] == count for p, count in _owners(block).items())


def _can_shard(p: Tensor) -> bool:
    return p.dim() > 0 and p.numel() > 0 and p.is_floating_point()


def _odd(root: nn.Module) -> set[nn.Parameter]:
    """Trainable parameters that are not of the model's main type: a group must have one type."""
    sizes: Counter[torch.dtype] = Counter()
    for p in root.parameters():
        if p.requires_grad and _can_shard(p):
            sizes[p.dtype] += p.numel()
    main = sizes.most_common(1)[0][0] if sizes else None
    return {p for p in root.parameters() if p.requires_grad and p.dtype != main}


def _cast_parameters(root: nn.Module) -> set[Tensor]:
    """Parameters that only such modules own as autocast casts for."""
    owned: dict[Tensor, bool] = {}
    for module in root.modules():
        for p in module._parameters.values():
            if p is not None:
                plain = isinstance(module, CAST) and type(module).forward.__module__.startswith("torch.nn.")
                owned[p] = owned.get(p, True) and plain
    return {p for p, cast in owned.items() if cast}


def _numel(parameters: Iterable[Tensor]) -> int:
    return sum(p.numel() for p in parameters)
