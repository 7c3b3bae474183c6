"""One DeepSpeed engine: models, their optimizer, and the parts of both on this rank.

The engine's own `backward` and `step` are not called: they scale, clip, and decide when a window is complete. The ZeRO
optimizer inside is driven directly: its hooks reduce gradients, `fold` completes them into one flat buffer for each
of the parameters' flat buffers, there they are unscaled and clipped, and `step` hands them back.

Source: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (2020).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from ..state import DistifyError, state
from .ddp import _hook
from .deepspeed_load import config, connect, equal_parameters, quiet

COUNTS = ("SGD", "RMSprop", "Adadelta", "Rprop")  # a step without a gradient leaves no trace in their state


@dataclass(frozen=True)
class Place:
    """Where a parameter's elements lie.

    Attributes:
        flat: number of the flat buffer.
        pieces: for each rank the first of the parameter's elements that it holds, where that stands in the rank's
            part of the buffer, and how many it holds.
    """

    flat: int
    pieces: tuple[tuple[int, int, int], ...]

    @property
    def mine(self) -> tuple[int, int, int]:
        """This rank's piece."""
        return self.pieces[state.rank]


class Zero:
    """An engine behind a common face; the stages differ in what they override at the end of the class.

    Args:
        deepspeed: the package.
        modules: what the optimizer updates; several are held in a list.
        optimizer: the user's own. It keeps its parameters; DeepSpeed steps a shadow with the same options.
        stage: ZeRO stage, 1 to 3.

    Attributes:
        places: of each parameter that the optimizer holds.
        used: parameters that got a gradient since the gradients were last cleared.
        folded: whether `grads` holds all of it.
    """

    def __init__(self, deepspeed: Any, modules: Sequence[nn.Module], optimizer: Optimizer, stage: int) -> None:
        self.deepspeed, self.modules, self.optimizer, self.stage = deepspeed, list(modules), optimizer, stage
        everything = {p: name for module in modules for name, p in module.named_parameters()}
        self.names = dict(everything)
        self.dtypes = {p: p.dtype for p in everything}
        self.shapes = {p: p.shape for p in everything}
        assert state.precision is not None
        dtype = state.precision.dtype
        originals = {p: p.detach().clone() for p in everything} if dtype is not None else {}
        self.positions: list[int] = []  # of the shadow's groups among the optimizer's
        self.shadow = self._shadow()
        self.used: set[Tensor] = set()
        self.ever: set[Tensor] = set()
        self.folded, self.steps = False, 0
        self.zero = self._build(deepspeed, stage, dtype)
        self.zero.optimizer = self.shadow  # DeepSpeed puts an Adagrad of its own in its place
        self.places = self._places()
        for p in self.places:
            _hook(p, self._note)
        self.kept = {p: x.cpu() for p, x in originals.items() if p not in self.places}
        if originals:  # DeepSpeed would start from the rounded weights
            self.write({p: originals[p] for p in self.places})
        self.load_states(dict(optimizer.state))
        self.shadow.__dict__["step"] = self._step_flats

    def _shadow(self) -> Optimizer:
        """An optimizer of the same class and options, for DeepSpeed to put its flat buffers into."""
        optimizer = self.optimizer
        shadow: Optimizer = type(optimizer).__new__(type(optimizer))
        patched = ("step", "zero_grad")
        shadow.__dict__.update({k: v for k, v in optimizer.__dict__.items() if k not in patched})
        shadow.state, shadow.param_groups = defaultdict(dict), []
        for k, group in enumerate(optimizer.param_groups):
            params = [p for p in dict.fromkeys(group["params"]) if p.is_floating_point()]
            if params:
                shadow.param_groups.append({**group, "params": params})
                self.positions.append(k)
        return shadow

    @property
    def groups(self) -> list[dict[str, Any]]:
        """The optimizer's own groups that the shadow's stand for; loading a state replaces them."""
        return [self.optimizer.param_groups[k] for k in self.positions]

    def _build(self, deepspeed: Any, stage: int, dtype: torch.dtype | None) -> Any:
        """Build the engine. Parameters that are frozen now are cut too: they may be thawed."""
        with quiet():
            from deepspeed.runtime.config import DeepSpeedConfig
            from deepspeed.runtime.engine import ZERO_OPTIMIZATION, DeepSpeedEngine

        class Engine(DeepSpeedEngine):  # type: ignore[misc]
            """Takes the ZeRO optimizer for every precision."""

            def _do_optimizer_sanity_check(self, basic_optimizer: Any) -> Any:
                super()._do_optimizer_sanity_check(basic_optimizer)
                return ZERO_OPTIMIZATION

            def _broadcast_model(self) -> None:
                """`prepare` has done it; DeepSpeed's way fails for scalars."""

        model = self.modules[0] if len(self.modules) == 1 else nn.ModuleList(self.modules)
        frozen = [p for group in self.shadow.param_groups for p in group["params"] if not p.requires_grad]
        options = config(stage, dtype, sum(p.numel() for p in model.parameters()))
        for p in frozen:
            p.requires_grad_(True)
        try:
            with quiet(), equal_parameters():
                connect(deepspeed)
                found = DeepSpeedConfig(options)
                self.engine: Any = Engine(
                    args=None, model=model, optimizer=self.shadow, config=options, config_class=found
                )
        finally:
            for p in frozen:
                p.requires_grad_(False)
        return self.engine.optimizer

    def _note(self, p: Tensor) -> None:
        self.used.add(p)
        self.folded = False

    # --- gradients --------------------------------------------------------------------------------------------------
    def begin(self) -> None:
        """Before a backward that may reach this engine's parameters."""
        self.zero.clear_backward_seen_flag()
        self.zero.enter_backward()
        self.engine._running_engine_backward = True  # DeepSpeed's hooks leave the end of the backward to `end`

    def end(self) -> None:
        """After it: what DeepSpeed's hooks collected is completed, if they ran."""
        if self.zero._hooks_fired_this_backward > 0:
            self.engine._backward_epilogue()
        else:
            self.zero.exit_backward()
        self.engine._running_engine_backward = False

    def hold(self) -> None:
        """Before gradients that will be differentiated again; parameters are whole anyway."""

    def fold(self) -> None:
        """Complete the gradients in `grads`; a collective. Parameters count as used where any rank used them."""
        if self.folded:
            return
        self._agree_on_used()
        self._fold()
        self.folded = True

    def _agree_on_used(self) -> None:
        order = list(self.places)
        for p in order:
            if p.grad is not None:
                self.used.add(p)
        flags = torch.tensor([p in self.used for p in order], dtype=torch.uint8, device=_small())
        dist.all_reduce(flags, dist.ReduceOp.MAX, group=state.reduce_group)
        self.used = {p for p, used in zip(order, flags.tolist(), strict=True) if used}

    def part(self, p: Tensor, flat: Tensor) -> Tensor:
        """This rank's piece of a parameter in one of its flat buffers."""
        _, at, count = self.places[p].mine
        return flat.narrow(0, at, count)

    def grad(self, p: Tensor) -> Tensor | None:
        """This rank's piece of a parameter's gradient, after `fold`; `None` if there is none."""
        return self.part(p, self.grads[self.places[p].flat]) if p in self.used else None

    # --- steps ------------------------------------------------------------------------------------------------------
    def step(self) -> None:
        """One step of the optimizer; the gradients are cleared."""
        self.fold()
        for mine, group in zip(self.shadow.param_groups, self.groups, strict=True):
            mine.update({key: value for key, value in group.items() if key != "params"})
        self._check_used()
        self._hand_back()
        self.zero.step()
        self.ever |= self.used
        self.steps += 1
        self.clear()
        self.optimizer._opt_called = True  # type: ignore[attr-defined]  # schedulers ask whether a step came first

    def _check_used(self) -> None:
        """Refuse where a flat buffer's one step count can't be that of each parameter in it.

        Raises:
            DistifyError: a parameter has no gradient in this step but had one before, or the other way round.
        """
        unlike = (self.ever - self.used) | (self.used - self.ever if self.steps else set())
        dampened = any(group.get("dampening") for group in self.shadow.param_groups)
        if not unlike or (type(self.optimizer).__name__ in COUNTS and not dampened):
            return
        names = sorted(self.names[p] for p in unlike)
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        raise DistifyError(
            f"runtime.step() with backend 'deepspeed': {shown} got a gradient in some steps and not in others. "
            f"DeepSpeed keeps one step count for all parameters, so {type(self.optimizer).__name__} would correct "
            "their moments wrongly. Use backend='fsdp' or 'ddp', or give every parameter a gradient in each step."
        )

    def _step_flats(self) -> None:
        """Called by DeepSpeed for one group after the other: steps, and leaves alone what got no gradient."""
        present = {id(flat): k for k, flat in enumerate(self.masters)}
        flats = [(present[id(p)], p) for group in self.shadow.param_groups for p in group["params"]]
        idle = [(p, flat) for k, flat in flats for p in self.places if self.places[p].flat == k and p not in self.used]
        kept = [(p, flat, self.part(p, flat.detach()).clone(), self._pieces(p, flat)) for p, flat in idle]
        type(self.shadow).step(self.shadow)
        with torch.no_grad():
            for p, flat, values, pieces in kept:
                self.part(p, flat).copy_(values)
                for key, value in self.shadow.state[flat].items():
                    if _flat_state(value, flat):
                        self.part(p, value).copy_(pieces.get(key, _initial(type(self.shadow), key, self._group(p))))

    def _pieces(self, p: Tensor, flat: Tensor) -> dict[str, Tensor]:
        found = self.shadow.state.get(flat, {})
        return {key: self.part(p, value).clone() for key, value in found.items() if _flat_state(value, flat)}

    def _group(self, p: Tensor) -> dict[str, Any]:
        return next(group for group in self.groups if any(p is q for q in group["params"]))

    # --- whole tensors ----------------------------------------------------------------------------------------------
    def gather(self, p: Tensor, flat: Tensor) -> Tensor:
        """The whole of what a flat buffer, or one of its state, holds for a parameter; a collective."""
        pieces = self.places[p].pieces
        room = max(count for _, _, count in pieces)
        _, at, count = self.places[p].mine
        mine = flat.new_zeros(room)
        mine[:count] = flat.detach()[at : at + count]
        table = [torch.empty_like(mine) for _ in pieces]
        dist.all_gather(table, mine, group=state.reduce_group)
        return torch.cat([part[:count] for part, (_, _, count) in zip(table, pieces, strict=True)]).view(self.shapes[p])

    def put(self, p: Tensor, value: Tensor, flat: Tensor) -> None:
        """Write this rank's piece of a whole tensor into a flat buffer."""
        start, at, count = self.places[p].mine
        with torch.no_grad():
            flat[at : at + count].copy_(value.detach().reshape(-1)[start : start + count])

    def whole(self, p: Tensor) -> Tensor:
        """A new whole tensor with the values of a parameter, in its original type, on the device; a collective."""
        if p in self.places:
            return self.gather(p, self.masters[self.places[p].flat]).to(self.dtypes[p])
        if p in self.kept:
            return self.kept[p].to(state.device, copy=True)
        return self._read_other(p)

    def write(self, values: dict[Tensor, Tensor]) -> None:
        """Set parameters to whole values; a collective."""
        for p, value in values.items():
            if p in self.places:
                self.put(p, value, self.masters[self.places[p].flat])
            else:
                self._write_other(p, value)
                if p in self.kept:
                    self.kept[p] = value.detach().to("cpu", self.dtypes[p], copy=True)
        self._publish()

    def states(self) -> dict[Tensor, dict[str, Any]]:
        """The optimizer's state of each parameter that has any, whole, on the CPU; a collective."""
        found: dict[Tensor, dict[str, Any]] = {}
        for p, place in self.places.items():
            flat = self.masters[place.flat]
            held = self.shadow.state.get(flat)
            if held and (p in self.ever or self.eager):
                found[p] = {
                    key: self.gather(p, value).cpu() if _flat_state(value, flat) else _copy(value)
                    for key, value in held.items()
                }
                if p not in self.ever:
                    found[p]["step"] = torch.zeros_like(found[p]["step"])
        return found

    @property
    def eager(self) -> bool:
        """Whether the optimizer has state before its first step."""
        return isinstance(self.shadow, torch.optim.Adagrad)

    def load_states(self, states: dict[Tensor, dict[str, Any]]) -> None:
        """Set the optimizer's state from whole tensors.

        Raises:
            DistifyError: parameters of one group have taken different numbers of steps.
        """
        states = {p: found for p, found in states.items() if found and p in self.places}
        self.shadow.state.clear()
        for k, flat in enumerate(self.masters):
            members = {p: found for p, found in states.items() if self.places[p].flat == k}
            if members:
                self.shadow.state[flat] = self._flat_states(flat, members)
        self.ever = {p for p, found in states.items() if not self.eager or _number(found["step"]) > 0}
        self.steps = len(self.ever)  # zero before the first step

    def _flat_states(self, flat: Tensor, members: dict[Tensor, dict[str, Any]]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        stepped = [p for p, found in members.items() if _number(found.get("step", 1)) > 0] or list(members)
        for key in members[stepped[0]]:
            values = {p: found.get(key) for p, found in members.items()}
            if any(isinstance(v, Tensor) and v.dim() and v.shape == self.shapes[p] for p, v in values.items()):
                made[key] = torch.zeros_like(flat.detach())
                for p, value in values.items():
                    if isinstance(value, Tensor):
                        self.put(p, value.to(flat.device), made[key])
                continue
            first = values[stepped[0]]
            if any(_number(values[p]) != _number(first) for p in stepped):
                raise DistifyError(
                    f"backend 'deepspeed': parameters of one group come with different values of {key!r} in their "
                    f"{type(self.optimizer).__name__} state; DeepSpeed keeps one for all. Use backend='fsdp' or 'ddp'."
                )
            on_device = key == "step" and any(g.get("fused") or g.get("capturable") for g in self.groups)
            made[key] = _copy(first).to(flat.device) if on_device and isinstance(first, Tensor) else _copy(first)
        return made

    # --- what the stages differ in ------------------------------------------------------------------------------------
    masters: list[Tensor]  # this rank's parts of the parameters, in the type of the optimizer's arithmetic
    grads: list[Tensor]  # their gradients, after `fold`

    def _places(self) -> dict[Tensor, Place]:
        raise NotImplementedError

    def _fold(self) -> None:
        raise NotImplementedError

    def _hand_back(self) -> None:
        """Put `grads` where DeepSpeed's `step` takes them from."""
        raise NotImplementedError

    def clear(self, parameters: Iterable[Tensor] | None = None) -> None:
        """Drop the gradients of all, or of some parameters."""
        raise NotImplementedError

    def add(self, p: Tensor, grad: Tensor) -> None:
        """Add a whole gradient, equal on all ranks, after a backward."""
        raise NotImplementedError

    def _publish(self) -> None:
        """Bring what the models compute with to the values of `masters`; a collective."""
        raise NotImplementedError

    def _read_other(self, p: Tensor) -> Tensor:
        return p.detach().clone()

    def _write_other(self, p: Tensor, value: Tensor) -> None:
        with torch.no_grad():
            p.copy_(value)


def _flat_state(value: Any, flat: Tensor) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0 and value.shape == flat.shape


def _initial(kind: type, key: str, group: dict[str, Any]) -> Any:
    """What state holds for elements that were never stepped, where the first step created it."""
    first = group["lr"] if kind is torch.optim.Rprop and key == "step_size" else 0.0
    return torch.as_tensor(first)


def _copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (Tensor, int, float)) else 0.0


def _small() -> torch.device | None:
    """The device of small exchanges."""
    return torch.device("cpu") if "gloo" in dist.get_backend_config(state.reduce_group) else state.device
