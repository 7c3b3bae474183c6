"""Run a script as `__main__` and fail on any rank but the first that writes a file below the working folder."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
written: list[str] = []
active = True


def watch(event: str, args: tuple[Any, ...]) -> None:
    if not active:
        return
    if event == "open":
        path, mode, flags = args
        wrote = isinstance(flags, int) and bool(flags & WRITING)
        wrote = wrote or (isinstance(mode, str) and bool(set(mode) & set("wax+")))
    elif event in ("os.rename", "os.remove", "shutil.copyfile", "shutil.move"):
        path, wrote = args[-1] if event.startswith("shutil") else args[0], True
    else:
        return
    if wrote and isinstance(path, (str, bytes, os.PathLike)):
        full = os.path.abspath(os.fsdecode(path))
        if full.startswith(os.getcwd() + os.sep):
            written.append(f"{event} {full}")


def main() -> None:
    global active
    script = sys.argv[1]
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(script).parent))
    import torch

    save = torch.save

    def recorded_save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(f, (str, os.PathLike)):  # written by C++, which raises no audit event
            written.append(f"torch.save {f}")
        return save(obj, f, *args, **kwargs)

    if int(os.environ.get("RANK", "0")) > 0:
        sys.addaudithook(watch)
        torch.save = recorded_save
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        active = False
        torch.save = save
    if written:
        raise AssertionError(f"rank {os.environ['RANK']} wrote files: {written}")


if __name__ == "__main__":
    main()
