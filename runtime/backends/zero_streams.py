"""Order between a GPU's streams, without a wait of this process."""

from __future__ import annotations

from typing import Any

import torch


def follow(stream: Any) -> None:
    """Let what is launched from now on come after what was launched on a stream; `None` where there are no streams."""
    if stream is not None:
        torch.cuda.current_stream().wait_stream(stream)


def lead(stream: Any) -> None:
    """Let what is launched on a stream from now on come after all that was launched on the current one."""
    if stream is not None:
        stream.wait_stream(torch.cuda.current_stream())
