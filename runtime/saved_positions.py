"""Positions of loaders in a checkpoint, and back into a run whose loaders may be sharded later."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from . import samplers
from .positions import Position, Progress, generator_states, has_workers, name_of, set_generators, signature
from .saved_files import CheckpointError
from .saved_tree import Tensors, decode, encode
from .state import DistifyError, State, state


def collect(tensors: Tensors) -> list[Any]:
    """The positions of all loaders that are alive, as JSON; tensors go into `tensors`.

    Raises:
        DistifyError: one can't be told.
    """
    if any(cycle() is not None for cycle in state.extra.get("cycles", [])):
        raise DistifyError(
            "runtime.save_state(): a loader goes round in runtime.cycle(), which keeps the batches of its first round; "
            "a run that goes on from here would lack them. Save after that loop, or write it as "
            "`while True: for batch in loader: …`, which draws each round anew."
        )
    _say_left_over()
    found = []
    for k, position in enumerate(state.extra.get("positions", [])):
        loader, running = position.loader(), position.running()
        if loader is None:
            continue
        dealt = getattr(loader.__dict__.get("_sharding"), "per_device", False)
        entry = {
            "signature": signature(loader),
            "generators": encode(generator_states(loader), f"loader.{k}", tensors),
            "samplers": encode(samplers.changed(loader, position.noted), f"loader.{k}", tensors),
            "kept": has_workers(loader) if running is None else running.kept,
            "processes": state.world_size if dealt else None,
            "pass": None,
        }
        if running is not None:
            running.saved = running.batches
            begun = encode(running.begun, f"loader.{k}.begun", tensors)
            first = encode(running.first, f"loader.{k}.first", tensors)
            entry["pass"] = {"batches": running.batches, "digest": running.digest, "begun": begun, "first": first}
        found.append(entry)
    return found


def _say_left_over() -> None:
    """Once: of a pass that this run was to go on with, but did not."""
    pending: list[tuple[dict[str, Any], Any]] = state.extra.get("positions ahead", [])
    for k, (entry, setting) in enumerate(pending):
        if entry["pass"] is not None:
            pending[k] = {**entry, "pass": None}, setting
            kind, size, rows = entry["signature"]
            if state.rank == 0:
                warnings.warn(
                    f"runtime.load_state() read a checkpoint from the middle of a pass over {kind} with {size} samples "
                    f"in batches of {rows}, but no such loader has been sharded since: that pass was not gone on with.",
                    stacklevel=5,
                )


def plan(run: State, saved: list[Any], new: Callable[[str], Any]) -> Callable[[], None]:
    """Where positions are read to; what is returned sets them, also of loaders that are still to be sharded.

    Args:
        run: the run.
        saved: what `collect` returned.
        new: a tensor that an entry is read into.

    Raises:
        CheckpointError: a loader is not the one that was saved, or runs at the moment.
    """
    here: list[Position] = [one for one in run.extra.get("positions", []) if one.loader() is not None]
    matched: list[tuple[Position, Callable[[Position], None]]] = []
    ahead: list[tuple[dict[str, Any], Callable[[Position], None]]] = []
    for entry in saved:
        setting = _setting(entry, new)
        fits = next((one for one in here if signature(one.loader()) == entry["signature"]), None)  # type: ignore[arg-type]
        if fits is None:
            ahead.append((entry, setting))
            continue
        here.remove(fits)
        _check_resumable(run, entry, fits)
        matched.append((fits, setting))
    for entry, _ in ahead:
        if entry["pass"] is not None:
            _check_alike(entry, here)

    def apply() -> None:
        for position, setting in matched:
            setting(position)
        run.extra["positions ahead"] = ahead

    return apply


def _check_resumable(run: State, entry: dict[str, Any], position: Position) -> None:
    if entry["pass"] is None:
        return
    if any(not one.over for one in position.passes.values()):
        raise CheckpointError(
            f"it was written in the middle of a pass over {name_of(position.loader())}, which runs now too. "  # type: ignore[arg-type]
            "Call load_state before that loop begins. If it is no loop, but an iterator that is left over, as of "
            "next(iter(loader)), delete it: before load_state, and before save_state in the run that saves."
        )
    if entry["processes"] not in (None, run.world_size):
        raise CheckpointError(
            f"it was written in the middle of a pass with a batch per device on {entry['processes']} processes, so "
            f"it can't go on with {run.world_size}. Use as many, or a checkpoint from between passes."
        )


def _check_alike(entry: dict[str, Any], here: list[Position]) -> None:
    kind, size, rows = entry["signature"]
    for position in here:
        loader = position.loader()
        if loader is not None and type(loader.dataset).__name__ == kind:
            _, now, rows_now = signature(loader)
            raise CheckpointError(
                f"it was written in the middle of a pass over {kind} with {size} samples in batches of {rows}; here "
                f"are {now} in batches of {rows_now}. Use the same data and batch size, or a checkpoint from between "
                "two passes."
            )


def _setting(entry: dict[str, Any], new: Callable[[str], Any]) -> Callable[[Position], None]:
    held, kept, saved = (
        decode(entry["generators"], new),
        decode(entry.get("samplers", {"dict": {}}), new),
        entry["pass"],
    )
    resume = None
    if saved is not None:
        begun, first = (decode(saved.get(name), new) for name in ("begun", "first"))
        resume = Progress(begun, first, None, saved["batches"], saved["digest"], kept=entry["kept"], after=kept)

    def apply(position: Position) -> None:
        loader = position.loader()
        assert loader is not None
        set_generators(loader, held)
        if resume is None:  # else its pass begins with what they were then
            samplers.put_back(loader, kept, position.noted)
        position.resume, position.kept = resume, entry["kept"]
        if has_workers(loader) and not position.kept:
            loader._iterator = None

    return apply
