"""Run a script as `__main__` and fail on any rank but the first that writes a file below the working folder."""

from __future__ import annotations

import os
import runpy
import sys
from contextlib import nullcontext
from pathlib import Path

from tests.parity.watching import watching


def main() -> None:
    script = sys.argv[1]
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(script).parent))
    with watching() if int(os.environ.get("RANK", "0")) > 0 else nullcontext([]) as written:
        runpy.run_path(script, run_name="__main__")
    if written:
        raise AssertionError(f"rank {os.environ['RANK']} wrote files: {written}")


if __name__ == "__main__":
    main()
