"""Parameters that stay whole on each rank beside a sharded model: their gradients are averaged after each backward."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from .averages import average_sparse
from .buckets import Unit
from .watch import Watch, hook


class Replicas:
    """Whole parameters, by the call that added them.

    Args:
        watch: hook of each parameter.
    """

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.units: list[Unit] = []
        self.known: set[Tensor] = set()

    def __contains__(self, parameter: Tensor) -> bool:
        return parameter in self.known

    def add(self, parameters: Iterable[Tensor], sparse: Iterable[Tensor] = ()) -> None:
        """Let parameters stay whole; those whose gradients are sparse are averaged as such."""
        fresh = [p for p in parameters if p not in self.known and (p.is_floating_point() or p.is_complex())]
        if fresh:
            self.known.update(fresh)
            self.units.append(Unit(fresh, sparse))
            for p in fresh:
                hook(p, self.watch)

    def begin(self, wanted: Sequence[Tensor] | None) -> None:
        """Before a backward that reaches the trainable ones, or those of them that are wanted."""
        for unit in self.units:
            unit.begin(None if wanted is None else set(wanted))

    def average(self) -> None:
        """After it, on all ranks: gradients that were averaged before stay what they are."""
        buckets = [bucket for unit in self.units for bucket in unit.buckets]
        for bucket in buckets:
            bucket.send()
        for bucket in buckets:
            bucket.finish()
        for unit in self.units:
            for p in unit.sparse:
                if p.requires_grad:
                    average_sparse(p)
