"""Positions of loaders in a checkpoint, and back into a run whose loaders may be sharded later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    found = []
    for k, position in enumerate(state.extra.get("positions", [])):
        loader, running = position.loader(), position.running()
        if loader is None:
            continue
        dealt = getattr(loader.__dict__.get("_sharding"), "per_device", False)
        entry = {
            "signature": signature(loader),
            "generators": encode(generator_states(loader), f"loader.{k}", tensors),
            "kept": has_workers(loader) if running is None else running.kept,
            "processes": state.world_size if dealt else None,
            "pass": None,
        }
        if running is not None:
            begun = encode(running.begun, f"loader.{k}.begun", tensors)
            entry["pass"] = {"batches": running.batches, "digest": running.digest, "begun": begun}
        found.append(entry)
    return found


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
    ahead: list[tuple[list[Any], Callable[[Position], None]]] = []
    for entry in saved:
        setting = _setting(entry, new)
        fits = next((one for one in here if signature(one.loader()) == entry["signature"]), None)  # type: ignore[arg-type]
        if fits is None:
            if entry["pass"] is not None:
                _check_alike(entry, here)
            ahead.append((entry["signature"], setting))
            continue
        here.remove(fits)
        if entry["pass"] is not None and any(not one.over for one in fits.passes.values()):
            raise CheckpointError(
                f"it was written in the middle of a pass over {name_of(fits.loader())}, which runs now too. "  # type: ignore[arg-type]
                "Call load_state before that loop begins."
            )
        if entry["pass"] is not None and entry["processes"] not in (None, run.world_size):
            raise CheckpointError(
                f"it was written in the middle of a pass with a batch per device on {entry['processes']} processes, so "
                f"it can't go on with {run.world_size}. Use as many, or a checkpoint from between passes."
            )
        matched.append((fits, setting))

    def apply() -> None:
        for position, setting in matched:
            setting(position)
        run.extra["positions ahead"] = ahead

    return apply


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
    held, saved = decode(entry["generators"], new), entry["pass"]
    resume = (
        None
        if saved is None
        else Progress(decode(saved["begun"], new), saved["batches"], saved["digest"], kept=entry["kept"])
    )

    def apply(position: Position) -> None:
        loader = position.loader()
        assert loader is not None
        set_generators(loader, held)
        position.resume, position.kept = resume, entry["kept"]
        if has_workers(loader) and not position.kept:
            loader._iterator = None

    return apply
