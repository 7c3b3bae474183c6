"""State of modules in the pieces that ZeRO's flat buffers hold of it, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..batchnorm import share_statistics
from .meta import load_through_meta
from .pieces import Piece
from .zero import Zero


def engine_pieces(module: nn.Module, of: Mapping[Tensor, Zero], whole: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    """A module's state with a piece for each parameter that an engine updates.

    Args:
        module: prepared.
        of: the engine of each parameter.
        whole: a copy of a parameter that is in no flat buffer, a collective.
    """
    share_statistics(module)
    found = module.state_dict()
    for key, p in module.named_parameters(remove_duplicate=False):
        if key not in found or p not in of:
            continue
        engine = of[p]
        if p in engine:
            found[key] = engine.flats.piece(p, engine.flats.master(p))
        else:
            found[key] = whole(p)
    return found


def load_engine_pieces(
    module: nn.Module, state: dict[str, Any], of: Mapping[Tensor, Zero], engines: Sequence[Zero]
) -> None:
    """Load what `engine_pieces` returned, whose pieces have been read into the flat buffers; a collective."""
    values: Any = type(state)()
    for key, value in state.items():
        values[key] = torch.empty(value.shape, dtype=value.dtype, device="meta") if isinstance(value, Piece) else value
    if hasattr(state, "_metadata"):
        values._metadata = state._metadata
    owned: dict[Tensor, torch.Size] = {p: of[p].shapes[p] for p in module.parameters() if p in of}
    _, found = load_through_meta(module, values, owned)
    for engine in engines:
        if any(of[p] is engine for p in owned):
            engine.write({p: value for p, value in found.items() if of[p] is engine and not value.is_meta})
