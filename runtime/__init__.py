"""The runtime that converted scripts call: the same training run, on more processes."""

from __future__ import annotations

from . import launcher, output

launcher.agree_on_hashes()  # may replace the process: before anything else happens
output.install()

from .process import device, init, is_main, rank, shutdown, world_size  # noqa: E402

__all__ = ["device", "init", "is_main", "rank", "shutdown", "world_size"]
