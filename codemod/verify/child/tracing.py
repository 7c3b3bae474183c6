"""Records the loss of every backward and the norm of the gradients at every step, and ends a run early."""

from __future__ import annotations

import functools
import importlib
import json
import math
from collections.abc import Callable
from typing import Any

from .settings import Facts, Settings


class Tracer:
    """Watches one process; the runtime of the rewritten script writes a trace of its own besides.

    Args:
        torch: the module.
        settings: where the trace goes, and when to stop.
        facts: is told where the run computes.
    """

    def __init__(self, torch: Any, settings: Settings, facts: Facts) -> None:
        self.torch = torch
        self.settings = settings
        self.facts = facts
        self.file = open(settings.notes, "w", encoding="utf-8")  # noqa: SIM115 (open as long as the run)
        self.backwards = self.steps = 0
        self.optimizers = False
        self.inside = False

    def install(self) -> None:
        """Watch torch."""
        torch = self.torch
        torch.autograd.backward = self.around_backward(torch.autograd.backward)  # `Tensor.backward` calls it as well
        optimizer = torch.optim.Optimizer
        optimizer.__init__ = self.around_making(optimizer.__init__)
        hooks = importlib.import_module("torch.optim.optimizer")  # torch.optim hides it
        hooks.register_optimizer_step_pre_hook(lambda optimizer, *_: self.before_step(optimizer))
        hooks.register_optimizer_step_post_hook(lambda *_: self.after_step())
        for scaler in {torch.amp.GradScaler, torch.cuda.amp.GradScaler}:
            if "scale" in vars(scaler):
                scaler.scale = around_scale(scaler.scale)

    def install_on_runtime(self, runtime: Any) -> None:
        """Count the steps of the runtime, whichever optimizer the backend makes them with."""
        runtime.step = self.around_runtime_step(runtime.step)
        runtime.backward = self.around_runtime_backward(runtime.backward)

    def around_backward(self, backward: Callable[..., Any]) -> Callable[..., Any]:
        """`torch.autograd.backward` that records what it starts from."""

        @functools.wraps(backward)
        def recorded(tensors: Any, *args: Any, **options: Any) -> Any:
            given = [tensors] if isinstance(tensors, self.torch.Tensor) else list(tensors)
            result = backward(tensors if isinstance(tensors, self.torch.Tensor) else given, *args, **options)
            if not (self.inside or self.inside_engine()):
                self.record(given)
                self.count_backward()
            return result

        return recorded

    def inside_engine(self) -> bool:
        """Whether a backward runs inside another one, as checkpointed layers do."""
        return bool(self.torch._C._current_graph_task_id() != -1)

    def record(self, tensors: list[Any]) -> None:
        """Write down the sum of what a backward started from."""
        losses = [getattr(tensor, "_distify_unscaled", tensor) for tensor in tensors]
        self.facts.note("device", losses[0].device.type if losses else "cpu")
        self.write({"backward": self.backwards, "loss": sum(float(x.detach().double().sum()) for x in losses)})

    def around_making(self, make: Callable[..., Any]) -> Callable[..., Any]:
        """An optimizer's `__init__` that tells that there is one."""

        @functools.wraps(make)
        def made(*args: Any, **options: Any) -> Any:
            self.optimizers = True
            return make(*args, **options)

        return made

    def before_step(self, optimizer: Any) -> None:
        """Write down the norm of the gradients that an optimizer gets."""
        if self.inside:  # the runtime writes it
            return
        try:
            grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
            squares = [float(self.dense(grad).double().square().sum()) for grad in grads]
            norm: float | None = math.sqrt(sum(squares))
        except Exception:  # a kind of gradient that can't be summed up
            norm = None
        self.write({"step": self.steps, "grad_norm": norm})

    def dense(self, grad: Any) -> Any:
        """A gradient's values, as real numbers."""
        values = grad.detach().coalesce().values() if grad.is_sparse else grad.detach()
        return self.torch.view_as_real(values.resolve_conj()) if values.is_complex() else values

    def after_step(self) -> None:
        """Count a step that was made."""
        if not self.inside:
            self.steps += 1
            self.stop_at(self.steps)

    def around_runtime_step(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """`runtime.step` that counts the steps that are taken."""
        steps = importlib.import_module("distify.runtime.optim").steps  # that of the script's environment

        @functools.wraps(step)
        def counted(what: Any, *args: Any, **options: Any) -> Any:
            if not isinstance(what, self.torch.optim.Optimizer):
                return step(what, *args, **options)
            before, outer, self.inside = steps().taken.get(what, 0), self.inside, True
            try:
                result = step(what, *args, **options)
            finally:
                self.inside = outer
            if steps().taken.get(what, 0) > before:
                self.write({"runtime": "norm"})
                self.steps += 1
                self.stop_at(self.steps)
            return result

        return counted

    def around_runtime_backward(self, backward: Callable[..., Any]) -> Callable[..., Any]:
        """`runtime.backward`, which writes its own trace."""

        @functools.wraps(backward)
        def counted(*args: Any, **options: Any) -> Any:
            outer, self.inside = self.inside, True  # a step may call a closure with a backward
            try:
                result = backward(*args, **options)
            finally:
                self.inside = outer
            self.write({"runtime": "loss"})
            self.count_backward()
            return result

        return counted

    def count_backward(self) -> None:
        """Count one; a script without an optimizer is ended by its backward calls."""
        self.backwards += 1
        if not self.optimizers:
            self.stop_at(self.backwards)

    def stop_at(self, count: int) -> None:
        """End the script when it has made the steps that were asked for."""
        if self.settings.steps is not None and count >= self.settings.steps:
            self.facts.note("stopped")
            raise SystemExit(0)

    def write(self, line: dict[str, Any]) -> None:
        """One line of the trace."""
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()


def around_scale(scale: Callable[..., Any]) -> Callable[..., Any]:
    """A scaler's `scale` whose result knows what it was before."""

    @functools.wraps(scale)
    def scaled(self: Any, outputs: Any) -> Any:
        result = scale(self, outputs)
        if hasattr(result, "grad_fn") and result is not outputs:
            result._distify_unscaled = outputs.detach()
        return result

    return scaled
