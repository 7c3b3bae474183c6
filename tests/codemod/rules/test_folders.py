"""Folders are made without a race, and without waiting where processes may disagree."""

from __future__ import annotations

import pytest

from tests.codemod.rules.checks import HEAD, TRAINING, check_noop, check_rewritten

REWRITES = {
    "looked first": (
        'if not os.path.exists("a"):\n    os.makedirs("a")',
        'if not os.path.exists("a"):\n    os.makedirs("a", exist_ok=True)',
    ),
    "one level, looked first": (
        'if not os.path.isdir("a"):\n    os.mkdir("a")',
        'if not os.path.isdir("a"):\n    os.makedirs("a", exist_ok=True)',
    ),
    "in one line": (
        'if not os.path.exists("a"): os.makedirs("a")',
        'if not os.path.exists("a"): os.makedirs("a", exist_ok=True)',
    ),
    "failure ignored": (
        'try:\n    os.mkdir("a")\nexcept OSError:\n    pass',
        'try:\n    os.makedirs("a", exist_ok=True)\nexcept OSError:\n    pass',
    ),
    "path, looked first": (
        'from pathlib import Path\nout = Path("a")\nif not out.exists():\n    out.mkdir(parents=True)',
        'from pathlib import Path\nout = Path("a")\nif not out.exists():\n    out.mkdir(parents=True, exist_ok=True)',
    ),
    "not looked": ('os.makedirs("a")', 'runtime.on_main(os.makedirs, "a")'),
    "path, not looked": (
        'from pathlib import Path\nPath("a").mkdir()',
        'from pathlib import Path\nruntime.on_main(Path("a").mkdir)',
    ),
}

NOOPS = {
    "may exist": 'os.makedirs("a", exist_ok=True)',
    "path may exist": 'from pathlib import Path\nPath("a").mkdir(parents=True, exist_ok=True)',
    "guarded": 'if runtime.is_main():\n    os.makedirs("a")',
    "converted": 'runtime.on_main(os.makedirs, "a")',
    "another method": "class Disk:\n    def mkdir(self):\n        return 1\n\n\nDisk().mkdir()",
    "result used": 'made = os.makedirs("a")',
    "temporary": "import tempfile\nwith tempfile.NamedTemporaryFile() as f:\n    pass",
    "removed": 'os.path.isdir("a")',
}


@pytest.mark.parametrize("case", REWRITES)
def test_rewritten(case: str) -> None:
    before, after = REWRITES[case]
    check_rewritten("folders", before, after)


@pytest.mark.parametrize("case", NOOPS)
def test_noop(case: str) -> None:
    check_noop("folders", NOOPS[case])


def test_before_the_start() -> None:
    check_noop("folders", 'import os\nos.makedirs("a")\n' + HEAD + TRAINING, ["DST802"], whole=True)


def test_imported_function() -> None:
    text = 'from os import mkdir\nif not os.path.exists("a"):\n    mkdir("a")'
    check_noop("folders", text, ["DST802"])
