"""`distify consolidate`: the part of it that needs no torch, which the runtime's program for it does."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence

from .report.stream import complain
from .spawned import unlaunched

PROGRAM = "distify.runtime.consolidate"
FAILED = 2


def consolidate(arguments: Sequence[str]) -> int:
    """Run the program with these arguments, in a process of its own; returns its exit status."""
    if importlib.util.find_spec("torch") is None:
        complain("consolidate reads tensors, and torch is not installed here: pip install torch")
        return FAILED
    environment = unlaunched(os.environ)  # it runs alone, wherever it is called
    return subprocess.run([sys.executable, "-m", PROGRAM, *arguments], env=environment, check=False).returncode
