"""Files that the main process writes and all processes read."""

from __future__ import annotations

import pytest

from .checks import check_noop, check_rewritten

WRITE = 'with open("a.json", "w") as f:\n    f.write("x")\n'
GUARDED = 'if runtime.is_main():\n    with open("a.json", "w") as f:\n        f.write("x")\n'
NULL = 'log = open(args.log if runtime.is_main() else os.devnull, "w")\nlog.close()\n'
READ = 'with open("a.json") as f:\n    print(f.read())'
WAIT = "runtime.barrier()\n"

REWRITES = {
    "a constant path": (WRITE + READ, WRITE + WAIT + READ),
    "guarded by the main process": (GUARDED + READ, GUARDED + WAIT + READ),
    "null device elsewhere": (
        "args = Net()\n" + NULL + "rows = open(args.log).readlines()",
        "args = Net()\n" + NULL + WAIT + "rows = open(args.log).readlines()",
    ),
    "read by a library": (
        WRITE + 'import pandas as pd\nframe = pd.read_csv("a.json")',
        WRITE + 'import pandas as pd\nruntime.barrier()\nframe = pd.read_csv("a.json")',
    ),
    "a path object": (
        'from pathlib import Path\nout = Path("a")\nwith out.open("w") as f:\n    f.write("x")\ntext = out.read_text()',
        'from pathlib import Path\nout = Path("a")\nwith out.open("w") as f:\n    f.write("x")\n'
        "runtime.barrier()\ntext = out.read_text()",
    ),
    "in two functions": (
        'def put():\n    with open("a.json", "w") as f:\n        f.write("x")\n\n\ndef get():\n    return open("a.json").read()\n',
        'def put():\n    with open("a.json", "w") as f:\n        f.write("x")\n\n\n'
        'def get():\n    runtime.barrier()\n    return open("a.json").read()\n',
    ),
}

NOOPS = {
    "another path": WRITE + 'print(open("b.json").read())',
    "nothing is written": READ,
    "waited for": GUARDED + WAIT + READ,
    "read by the main process": GUARDED + 'if runtime.is_main():\n    print(open("a.json").read())',
    "names of other functions": (
        'def put(path):\n    with open(path, "w") as f:\n        f.write("x")\n\n\n'
        "def get(path):\n    return open(path).read()\n"
    ),
    "where it is there": WRITE + 'if os.path.exists("a.json"):\n    print(open("a.json").read())',
}


@pytest.mark.parametrize("case", REWRITES)
def test_rewritten(case: str) -> None:
    before, after = REWRITES[case]
    check_rewritten("readback", before, after)


@pytest.mark.parametrize("case", NOOPS)
def test_noop(case: str) -> None:
    check_noop("readback", NOOPS[case])
