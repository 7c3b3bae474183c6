"""Numbers of Python for a GPU, without a wait.

`torch.tensor(…, device="cuda")` returns when the GPU has come there: it then has nothing to do until Python, which had
been ahead, has launched more. Numbers in pinned memory are fetched when the GPU needs them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def sent(numbers: Sequence[int], device: torch.device) -> Tensor:
    """A tensor of whole numbers, one-dimensional."""
    return torch.tensor(numbers, dtype=torch.int64, pin_memory=device.type == "cuda").to(device, non_blocking=True)
