"""Hooks that notice a backward of torch on a model whose gradients the backend manages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor

from ..state import DistifyError, state


def hook(param: Tensor, function: Callable[[Tensor], None]) -> None:
    """Call a function whenever a gradient was accumulated; a frozen parameter may be thawed later."""
    trains = param.requires_grad
    param.requires_grad_(True)
    param.register_post_accumulate_grad_hook(function)  # type: ignore[no-untyped-call]
    param.requires_grad_(trains)


class Watch:
    """Tells the runtime's own backwards from others.

    Args:
        name: of the backend, for the message.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.running = False

    @contextmanager
    def own(self) -> Iterator[None]:
        """Around a backward of the runtime."""
        self.running = True
        try:
            yield
        finally:
            self.running = False

    def __call__(self, param: Tensor) -> None:
        """Hook of a parameter.

        Raises:
            DistifyError: the backward is none of the runtime's.
        """
        if not self.running and getattr(state.backend, "watch", None) is self:
            raise DistifyError(
                f"backward() of torch ran on a prepared module, but its gradients are managed by {self.name}. "
                "Write runtime.backward(loss) in place of loss.backward()."
            )
