"""A checkpoint given back to a run that was built like the one that wrote it."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from . import generators, saved_positions, saved_streams
from .backends.base import group_parameters
from .backends.pieces import Piece
from .checkpoint import load_state_dict
from .prepare import prepared
from .saved_files import CheckpointError
from .saved_run import Record, state_of
from .saved_tree import decode
from .state import State
from .words import some


class Loading:
    """A checkpoint on its way into a run: where its tensors go, and what is to be set when they are there.

    Args:
        run: the run, with everything prepared.
        record: of the checkpoint.
        index: size and type of its tensors.
        objects: of the script, by name.
    """

    def __init__(self, run: State, record: Record, index: dict[str, Any], objects: dict[str, Any]) -> None:
        self.run, self.record, self.index, self.objects = run, record, index, objects
        self.targets: dict[str, Any] = {}  # by key: tensors and pieces that are read
        self.copies: list[tuple[Any, Any]] = []  # of one that is read to others that have its key too
        self.models: list[tuple[nn.Module, dict[str, Any]]] = []
        self.optimizers: list[tuple[Optimizer, dict[str, Any]]] = []
        self.states: dict[str, Any] = {}

    def plan(self) -> None:
        """Check that the checkpoint fits the run, and find where each tensor goes; a collective.

        Raises:
            CheckpointError: it does not.
        """
        models, optimizers = prepared(self.run), self.run.optimizers
        self._count("model", self.record["models"], models)
        self._count("optimizer", self.record["optimizers"], optimizers)
        for model, saved in zip(models, self.record["models"]):
            self.models.append((model, self._model(model, saved)))
        for optimizer, saved in zip(optimizers, self.record["optimizers"]):
            self.optimizers.append((optimizer, self._optimizer(optimizer, saved)))
        self._objects()
        self.values = {name: decode(node, self._new) for name, node in self.record["values"].items()}
        self.positions = saved_positions.plan(self.run, self.record["loaders"], self._new)
        self.streams = saved_streams.plan(self.run, self.record["streams"], self._new)

    def _count(self, kind: str, saved: list[Record], here: list[Any]) -> None:
        if len(saved) == len(here):
            return
        names = ", ".join(one["name"] for one in saved) or "none"
        classes = ", ".join(type(one).__name__ for one in here) or "none"
        raise CheckpointError(
            f"the checkpoint holds {len(saved)} {kind}s ({names}), the run has {len(here)} ({classes}). Call "
            "load_state after all models and optimizers went through runtime.prepare(), as in the run that wrote it."
        )

    def _model(self, model: nn.Module, saved: Record) -> dict[str, Any]:
        assert self.run.backend is not None
        here, nodes = self.run.backend.in_parts(model), saved["state"]["ordered"]
        missing, extra = [n for n in here if n not in nodes], [n for n in nodes if n not in here]
        if missing or extra:
            told = [
                f"{some(names, 4)} {where}"
                for names, where in ((extra, "only in the checkpoint"), (missing, "only here"))
                if names
            ]
            raise CheckpointError(
                f"the checkpoint is of another model than {type(model).__name__}: {', '.join(told)}. Build the model "
                "that wrote it, or load its weights from a file of runtime.save() with strict=False."
            )
        kind, found = type(model).__name__, OrderedDict[str, Any]()
        found.update((name, self._value(node, here[name], f"{name} of {kind}")) for name, node in nodes.items())
        if "versions" in saved:
            found._metadata = decode(saved["versions"], self._new)  # type: ignore[attr-defined]
        return found

    def _value(self, node: Any, now: Any, what: str) -> Any:
        """What stands in the place of a module's tensor once it is read: itself, if it can be read into."""
        if not isinstance(now, (Tensor, Piece)) or "tensor" not in (node if isinstance(node, dict) else ()):
            return decode(node, self._new, now)
        saved = self._saved(node["tensor"]).size
        if saved != now.shape:
            raise CheckpointError(
                f"{what} has shape {tuple(saved)} in the checkpoint and {tuple(now.shape)} here. Build the model that "
                "wrote it, with the same options."
            )
        return self._target(node["tensor"], now)

    def _saved(self, key: str) -> Any:
        if key not in self.index:
            raise CheckpointError(f"the checkpoint is damaged: {key} is missing. Load another one of that folder.")
        return self.index[key]

    def _target(self, key: str, now: Any) -> Any:
        """Read an entry into `now`; one that has a target already is copied from there."""
        if key in self.targets:
            if self.targets[key] is not now:
                self.copies.append((self.targets[key], now))
        else:
            self.targets[key] = now
        return now

    def _new(self, key: str) -> Any:
        """A new whole tensor for an entry, on the CPU."""
        saved = self._saved(key)
        return self._target(key, torch.empty(saved.size, dtype=saved.properties.dtype))

    def _optimizer(self, optimizer: Optimizer, saved: Record) -> dict[str, Any]:
        assert self.run.backend is not None
        backend, kind = self.run.backend, type(optimizer).__name__
        if saved["class"] != kind:
            raise CheckpointError(
                f"the checkpoint holds the state of {saved['class']}, the run has {kind} in its place. Build the "
                "optimizers that wrote it, in the same order."
            )
        node = saved["state"]["dict"]
        groups = decode(node["param_groups"], self._new, optimizer.param_groups)
        sizes = [[len(group["params"]) for group in found] for found in (groups, optimizer.param_groups)]
        if sizes[0] != sizes[1]:
            raise CheckpointError(
                f"{kind} has groups of {sizes[0]} parameters in the checkpoint and of {sizes[1]} here. Give it the "
                "same parameters in the same groups."
            )
        parameters = group_parameters(optimizer)

        def room(k: Any, key: str) -> Any:
            entry = self._saved(key)
            if not isinstance(k, int) or k >= len(parameters):
                return self._new(key)
            part = backend.room(optimizer, parameters[k], entry.size, entry.properties.dtype)
            return self._new(key) if part is None else self._target(key, part)

        states = {k: decode(held, partial(room, k)) for k, held in _items(node["state"])}
        rest = {name: decode(held, self._new) for name, held in node.items() if name not in ("state", "param_groups")}
        return {**rest, "state": states, "param_groups": groups}

    def _objects(self) -> None:
        here = {name: item for name, item in self.objects.items() if not self._is_prepared(item)}
        saved = self.record["objects"]
        for name in sorted(saved.keys() ^ here.keys()):
            where = "it holds its state, load_state was not given it" if name in saved else "it does not hold its state"
            raise CheckpointError(
                f"the checkpoint does not fit at object {name!r}: {where}. Pass load_state the objects that save_state "
                "was given, by the same names; plain values are returned and need not be passed."
            )
        for name, item in here.items():
            now = state_of(item)
            if now is None:
                raise CheckpointError(
                    f"{name!r} is a {type(item).__name__}, whose state can't be set. Pass what save_state was given; "
                    "plain values are returned."
                )
            self.states[name] = decode(saved[name], self._new, now)

    def _is_prepared(self, item: Any) -> bool:
        return any(item is one for one in (*prepared(self.run), *self.run.optimizers))

    def apply(self) -> dict[str, Any]:
        """Hand everything over, now that the tensors have been read; a collective. Returns the plain values."""
        run = self.run
        assert run.backend is not None
        for source, target in self.copies:
            _copy(source, target)
        for model, found in self.models:
            run.backend.load_parts(model, found)
        for optimizer, found in self.optimizers:
            run.backend.load_parts(optimizer, found)
        for name, found in self.states.items():
            item = self.objects[name]
            if hasattr(item, "load_state_dict"):
                load_state_dict(item, found)
            else:
                generators.set_state(item, found)
        if run.precision is not None and run.precision.scaler is not None and self.record["scaler"] is not None:
            run.precision.scaler.load_state_dict(self.record["scaler"])
        self.positions()
        self.streams()
        return self.values


def _items(node: Any) -> list[tuple[Any, Any]]:
    """Keys and nodes of a mapping that was encoded."""
    ((tag, held),) = node.items()
    return list(held.items()) if tag in ("dict", "ordered") else [(k, item) for k, item in held]


def _copy(source: Any, target: Any) -> None:
    with torch.no_grad():
        if isinstance(source, Piece):
            for (_, values), (_, into) in zip(source.boxes, target.boxes):
                into.copy_(values)
        else:
            target.copy_(source)
