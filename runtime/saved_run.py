"""What a checkpoint holds of a run: collected from it, and given back to one that was built alike."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn

from . import generators, saved_positions, saved_streams
from .backends.pieces import Piece
from .checkpoint import state_dict
from .prepare import prepared
from .saved_tree import Tensors, encode
from .state import DistifyError, State

Record = dict[str, Any]


def collect(run: State, given: dict[str, Any]) -> tuple[Record, Tensors]:
    """All that a run needs, as JSON and tensors; a collective.

    Args:
        run: the run.
        given: objects and values of the script, by name.
    """
    assert run.backend is not None
    _refuse_open_window(run)
    tensors: Tensors = {}
    models, optimizers = prepared(run), run.optimizers
    record = {
        "run": _describe(run),
        "models": [
            {"name": name, "class": type(model).__name__, **_model(run, model, f"model.{k}", tensors)}
            for k, (name, model) in enumerate(zip(_names(models, given), models))
        ],
        "optimizers": [
            {
                "name": name,
                "class": type(optimizer).__name__,
                "state": encode(run.backend.in_parts(optimizer), f"optimizer.{k}", tensors, code=True),
            }
            for k, (name, optimizer) in enumerate(zip(_names(optimizers, given), optimizers))
        ],
        "scaler": _scaler(run),
        **_given(run, given, tensors),
        "loaders": saved_positions.collect(tensors),
        "streams": saved_streams.collect(run, tensors),
    }
    return record, tensors


def _describe(run: State) -> Record:
    assert run.config is not None
    assert run.backend is not None
    return {
        "backend": run.backend.name,
        "processes": run.world_size,
        "precision": run.config.precision,
        "torch": torch.__version__,
    }


def _refuse_open_window(run: State) -> None:
    if run.windows is not None and run.windows.open():
        raise DistifyError(
            "runtime.save_state() stands inside an accumulation window: the gradients that it has accumulated would be "
            "lost. Call it where a step has been made: if window.ends: …"
        )


def _names(items: list[Any], given: dict[str, Any]) -> list[str]:
    """A name for each: that under which the script passes it, else its class, numbered where several have one."""
    chosen = [next((name for name, item in given.items() if item is one), None) for one in items]
    classes = Counter(type(one).__name__ for one, name in zip(items, chosen) if name is None)
    seen: Counter[str] = Counter()
    found = []
    for one, name in zip(items, chosen):
        if name is None:
            name = type(one).__name__
            seen[name] += 1
            name = f"{name}-{seen[name]}" if classes[name] > 1 else name
        found.append(name)
    return found


def _model(run: State, model: nn.Module, key: str, tensors: Tensors) -> Record:
    """The state of a module; names of one parameter share its entry."""
    assert run.backend is not None
    found = run.backend.in_parts(model)
    first = _first_names(model)
    nodes: dict[str, Any] = {}
    for name, value in found.items():
        held = first.get(name, name)
        if isinstance(value, (Tensor, Piece)) and held != name and held in nodes:
            nodes[name] = nodes[held]
        else:
            nodes[name] = encode(value, f"{key}.{name}", tensors, code=True)
    versions = getattr(found, "_metadata", None)
    made = {} if versions is None else {"versions": encode(dict(versions), key, {}, code=True)}
    return {"state": {"ordered": nodes}, **made}


def _first_names(model: nn.Module) -> dict[str, str]:
    """For each name of a parameter or buffer the first one that it has."""
    first: dict[int, str] = {}
    found: dict[str, str] = {}
    for named in (model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False)):
        for name, tensor in named:
            found[name] = first.setdefault(id(tensor), name)
    return found


def _scaler(run: State) -> Any:
    scaler = None if run.precision is None else run.precision.scaler
    return None if scaler is None else scaler.state_dict()


def _given(run: State, given: dict[str, Any], tensors: Tensors) -> Record:
    """What the script passes: states of objects, and values."""
    objects, values = {}, {}
    for name, item in given.items():
        if any(item is one for one in (*prepared(run), *run.optimizers)):
            continue
        found = state_of(item)
        if found is None:
            values[name] = encode(item, name, tensors)
        else:
            objects[name] = encode(found, name, tensors, code=True)
    return {"objects": objects, "values": values}


def state_of(item: Any) -> Any:
    """The state of an object of the script that has one, `None` for values."""
    if isinstance(item, type):
        return None
    if hasattr(item, "state_dict") and hasattr(item, "load_state_dict"):
        return state_dict(item)
    return generators.get_state(item)
