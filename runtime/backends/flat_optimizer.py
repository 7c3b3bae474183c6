"""The user's optimizer over flat buffers: a shadow of it steps them, and its state is the original's in another form.

A flat buffer has one step count, and every element of it gets a gradient, if only zero. Where that would differ from
the original, elements are set back after the step, or the step is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from ..state import DistifyError
from ..words import some
from .base import group_parameters
from .flats import Flats
from .hidden_state import HiddenState
from .pieces import Piece

State = dict[str, Any]
COUNTLESS = (torch.optim.SGD, torch.optim.RMSprop, torch.optim.Adadelta, torch.optim.Rprop)  # don't use a step count


class FlatOptimizer:
    """Steps flat buffers with the options and the class of the user's optimizer.

    Args:
        optimizer: the user's own; it keeps its parameters and groups, which schedulers change.

    Attributes:
        shadow: of the same class, for DeepSpeed to put its flat buffers into.
        stepped: parameters that have been stepped.
    """

    flats: Flats

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.members: list[list[Tensor]] = []  # of the shadow's groups
        self.hidden = HiddenState(type(optimizer).__name__)
        self.stepped: set[Tensor] = set()
        self.used: set[Tensor] = set()
        self.shadow: Optimizer = type(optimizer).__new__(type(optimizer))
        patched = ("step", "zero_grad")
        self.shadow.__dict__.update({k: v for k, v in optimizer.__dict__.items() if k not in patched})
        self.shadow.state, self.shadow.param_groups = defaultdict(dict), []
        for group in optimizer.param_groups:
            params = [p for p in dict.fromkeys(group["params"]) if p.is_floating_point()]
            if params:
                self.shadow.param_groups.append({**group, "params": params})
                self.members.append(params)

    def attach(self, flats: Flats) -> None:
        """The shadow's groups hold flat buffers now; the optimizer's state moves into them."""
        self.flats = flats
        self.load(self.optimizer.state)

    def current_groups(self) -> list[dict[str, Any]]:
        """Give the shadow's groups the options that the optimizer's own have now, and return them.

        Raises:
            DistifyError: parameters of one group have come into different groups.
        """
        groups = self.optimizer.param_groups  # loading a state replaces them
        home = {p: k for k, group in enumerate(groups) for p in group["params"]}
        for mine, members in zip(self.shadow.param_groups, self.members, strict=True):
            places = {home[p] for p in members if p in home}
            if len(places) > 1:
                raise DistifyError(
                    f"backend 'deepspeed': parameters of one param group of {self.name} came into different groups "
                    "after runtime.prepare(), when each group had been put into a flat buffer. Make the groups before "
                    "it, or use backend='fsdp'."
                )
            for place in places:
                mine.update({key: value for key, value in groups[place].items() if key != "params"})
        return self.shadow.param_groups

    def _follow(self) -> None:
        """Take over a state that the script put in the place of the hidden one, or that it is to begin afresh."""
        if self.optimizer.state is not self.hidden or self.hidden.cleared:
            self.load(self.optimizer.state)

    @property
    def name(self) -> str:
        return type(self.optimizer).__name__

    def begin(self, used: set[Tensor], names: Mapping[Tensor, str]) -> bool:
        """Before a step that has gradients of these parameters; takes over what schedulers changed.

        Returns:
            Whether there is anything to step.

        Raises:
            DistifyError: a parameter has a gradient in this step but had none before, or the other way round, and the
                optimizer's arithmetic depends on the number of steps; or a parameter was added to the optimizer.
        """
        self._follow()
        parameters = group_parameters(self.optimizer)
        self.used = used = used.intersection(parameters)  # others have left the optimizer
        fresh = [p for p in parameters if p.is_floating_point() and p not in self.flats.places]
        if fresh:
            raise DistifyError(
                f"runtime.step() with backend 'deepspeed': {', '.join(names.get(p, '?') for p in fresh[:4])} came into "
                f"{self.name} after runtime.prepare(), when its parameters had been cut into parts, so nothing would "
                "update it. Give the optimizer all parameters before (frozen ones may be thawed later), or use "
                "backend='fsdp'."
            )
        groups = self.current_groups()
        unlike = (self.stepped - used) | (used - self.stepped if self.stepped else set())
        countless = type(self.optimizer) in COUNTLESS and not any(g.get("dampening") for g in groups)
        self.optimizer._opt_called = True  # type: ignore[attr-defined]  # schedulers ask whether a step came first
        if not unlike or countless or not used:
            return bool(used)
        found = sorted(names[p] for p in unlike)
        raise DistifyError(
            f"runtime.step() with backend 'deepspeed': {some(found, 4)} got a gradient in some steps and not in "
            f"others. DeepSpeed keeps one step count for all parameters, so {self.name} would correct their moments "
            "wrongly. Use backend='fsdp' or 'ddp', or give every parameter a gradient in each step."
        )

    def end(self) -> None:
        """After it."""
        self.stepped |= self.used

    def run(self) -> None:
        """Step all flat buffers, and leave alone what got no gradient."""
        flats, shadow = self.flats, self.shadow
        idle = [p for p in flats.places if p not in self.used]
        kept = [(p, flats.part(p, flats.master(p)).clone(), self._pieces(p)) for p in idle]
        type(shadow).step(shadow)
        for p, values, pieces in kept:
            flats.part(p, flats.master(p)).copy_(values)
            for key, piece in self._views(p).items():
                piece.copy_(pieces[key]) if key in pieces else piece.fill_(self._initial(p, key))

    def _views(self, p: Tensor) -> dict[str, Tensor]:
        """This rank's pieces of the state of a parameter."""
        flat = self.flats.master(p)
        found = self.shadow.state.get(flat, {})
        return {key: self.flats.part(p, value) for key, value in found.items() if _like(value, flat)}

    def _pieces(self, p: Tensor) -> dict[str, Tensor]:
        return {key: piece.clone() for key, piece in self._views(p).items()}

    def _initial(self, p: Tensor, key: str) -> float:
        """What state holds for elements that were never stepped, where this step created it."""
        if isinstance(self.shadow, torch.optim.Rprop) and key == "step_size":
            groups = zip(self.shadow.param_groups, self.members, strict=True)
            return float(next(group["lr"] for group, members in groups if any(p is q for q in members)))
        return 0.0

    @property
    def eager(self) -> bool:
        """Whether the optimizer has state before its first step."""
        return isinstance(self.shadow, torch.optim.Adagrad)

    def states(self) -> dict[Tensor, State]:
        """The state of each parameter that has any, whole, on the CPU; a collective."""
        return self._states(lambda p, value: self.flats.gather(p, value).cpu())

    def pieces(self) -> dict[Tensor, State]:
        """The state of each parameter that has any, in pieces that share its memory."""
        return self._states(self.flats.piece)

    def _states(self, form: Callable[[Tensor, Tensor], Any]) -> dict[Tensor, State]:
        self._follow()
        found: dict[Tensor, State] = {}
        for p in self.flats.places:
            flat = self.flats.master(p)
            held = self.shadow.state.get(flat)
            if held and (p in self.stepped or self.eager):
                found[p] = {key: form(p, value) if _like(value, flat) else _copy(value) for key, value in held.items()}
                if p not in self.stepped:
                    found[p]["step"] = torch.zeros_like(found[p]["step"])
        return found

    def load(self, states: Mapping[Tensor, State]) -> None:
        """Set the state from whole tensors, or pieces.

        Raises:
            DistifyError: parameters of one group have taken different numbers of steps.
        """
        found = {p: held for p, held in states.items() if held and p in self.flats.places}
        self.shadow.state.clear()
        for k, flat in enumerate(self.flats.masters):
            members = {p: held for p, held in found.items() if self.flats.places[p].flat == k}
            if members:
                self.shadow.state[flat] = self._joined(flat, members)
        self.stepped = {p for p, held in found.items() if not self.eager or _number(held["step"]) > 0}
        self.optimizer.state = self.hidden = HiddenState(self.name)

    def _joined(self, flat: Tensor, members: Mapping[Tensor, State]) -> State:
        """One state of a flat buffer from those of its parameters."""
        made: State = {}
        stepped = [p for p, held in members.items() if _number(held.get("step", 1)) > 0] or list(members)
        for key in members[stepped[0]]:
            values = {p: held.get(key) for p, held in members.items()}
            if any(_shaped(value, self.flats.shapes[p]) for p, value in values.items()):
                made[key] = torch.zeros_like(flat.detach())
                for p, value in values.items():
                    if isinstance(value, (Tensor, Piece)):
                        self.flats.put(p, value, made[key])
                continue
            first = values[stepped[0]]
            if any(_number(values[p]) != _number(first) for p in stepped):
                raise DistifyError(
                    f"backend 'deepspeed': parameters of one group come with different values of {key!r} in their "
                    f"{self.name} state; DeepSpeed keeps one for all. Use backend='fsdp' or 'ddp'."
                )
            made[key] = _copy(first)
            if (
                key == "step"
                and isinstance(first, Tensor)
                and any(g.get("fused") or g.get("capturable") for g in self.current_groups())
            ):
                made[key] = made[key].to(flat.device)
        return made


def _like(value: Any, flat: Tensor) -> bool:
    return _shaped(value, flat.shape)


def _shaped(value: Any, shape: torch.Size) -> bool:
    return isinstance(value, (Tensor, Piece)) and len(value.shape) > 0 and value.shape == shape


def _copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (Tensor, int, float)) else 0.0
