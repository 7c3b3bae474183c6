"""Run a script as `__main__` in processes that start apart, as several do on a machine: with random streams of their own.

A script that sets its seeds does not notice. What a naive conversion leaves to luck differs by rank then, as it would.
"""

from __future__ import annotations

import os
import random
import runpy
import sys
from pathlib import Path


def main() -> None:
    rank = int(os.environ.get("RANK", "0"))
    script = sys.argv[1]
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(script).parent))
    import numpy as np
    import torch

    random.seed(rank)
    np.random.seed(rank)
    torch.manual_seed(rank)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
