"""What runs without gradients; no check by itself."""

from __future__ import annotations

NO_GRADIENT = ("torch.no_grad", "torch.inference_mode")
