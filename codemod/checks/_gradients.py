"""What runs without gradients, and what clips them; no check by itself."""

from __future__ import annotations

CLIPS = tuple(f"torch.nn.utils.{space}clip_grad_{what}_" for space in ("", "clip_grad.") for what in ("norm", "value"))
NO_GRADIENT = ("torch.no_grad", "torch.inference_mode")
