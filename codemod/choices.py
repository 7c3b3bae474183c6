"""The options of a conversion, by name: their values, bounds and defaults. Plain tables, which a hook reads at once."""

from __future__ import annotations

TYPE_CHECKING = False  # as `typing` has it, which takes longer to import than this file
if TYPE_CHECKING:
    from collections.abc import Mapping

CHOICES: Mapping[str, tuple[str, ...]] = {
    "backend": ("ddp", "fsdp", "deepspeed"),
    "precision": ("fp32", "bf16", "fp16"),
    "batch": ("global", "per-device"),
    "batchnorm": ("exact", "local"),
    "offload": ("none", "cpu"),
    "reshard": ("auto", "always", "never"),
}
