"""Files opened for writing: the main process writes, and no guard encloses what needs the others."""

from __future__ import annotations

import pytest

from distify.codemod.options import Options
from distify.codemod.rewrite import rewrite_source
from tests.codemod.rules.checks import HEAD, TRAINING, check_noop, check_rewritten

NULL = '"log.csv" if runtime.is_main() else os.devnull'

REWRITES = {
    "block": (
        'with open("a.json", "w") as f:\n    f.write("x")',
        'if runtime.is_main():\n    with open("a.json", "w") as f:\n        f.write("x")',
    ),
    "append": (
        'import csv\nwith open("log.csv", mode="a", newline="") as f:\n    csv.writer(f).writerow([1])',
        "import csv\nif runtime.is_main():\n"
        '    with open("log.csv", mode="a", newline="") as f:\n        csv.writer(f).writerow([1])',
    ),
    "compressed": (
        'import gzip\nwith gzip.open("a.gz", "wb") as f:\n    f.write(b"x")',
        'import gzip\nif runtime.is_main():\n    with gzip.open("a.gz", "wb") as f:\n        f.write(b"x")',
    ),
    "two blocks with one name": (
        'with open("a", "w") as f:\n    f.write("x")\nwith open("b") as f:\n    f.read()',
        'if runtime.is_main():\n    with open("a", "w") as f:\n        f.write("x")\n'
        'with open("b") as f:\n    f.read()',
    ),
    "handle": ('log = open("log.csv", "w")\nlog.write("x")', f'log = open({NULL}, "w")\nlog.write("x")'),
    "argument": (
        'import json\njson.dump([], open("log.csv", "w"))',
        f'import json\njson.dump([], open({NULL}, "w"))',
    ),
    "method of a path": (
        'from pathlib import Path\nlog = Path("out").open("a")',
        'from pathlib import Path\nlog = (Path("out") if runtime.is_main() else Path(os.devnull)).open("a")',
    ),
    "method of a path in a block": (
        'import pathlib\nwith pathlib.Path("a").open(mode="w") as f:\n    f.write("x")',
        'import pathlib\nif runtime.is_main():\n    with pathlib.Path("a").open(mode="w") as f:\n        f.write("x")',
    ),
    "a choice of modes": ('log = open("log.csv", "w" if data else "a")', f'log = open({NULL}, "w" if data else "a")'),
    "computed name": (
        'log = open("a" + "b", "w")',
        'log = open(("a" + "b") if runtime.is_main() else os.devnull, "w")',
    ),
    "what it leaves behind": (
        'with open("log.csv", "w") as f:\n    lines = f.write("x")\nprint(lines)',
        f'with open({NULL}, "w") as f:\n    lines = f.write("x")\nprint(lines)',
    ),
    "what it changes": (
        'rows = [1]\nwith open("log.csv", "w") as f:\n    f.write(str(rows.pop()))',
        f'rows = [1]\nwith open({NULL}, "w") as f:\n    f.write(str(rows.pop()))',
    ),
    "what it draws": (
        'import random\nwith open("log.csv", "w") as f:\n    f.write(str(random.random()))',
        f'import random\nwith open({NULL}, "w") as f:\n    f.write(str(random.random()))',
    ),
    "a state inside": (
        'model = Net()\nwith open("log.csv", "wb") as f:\n    torch.save(model.state_dict(), f)',
        f'model = Net()\nwith open({NULL}, "wb") as f:\n    torch.save(model.state_dict(), f)',
    ),
    "a function inside": (
        'def dump(f):\n    f.write("x")\n\n\nwith open("log.csv", "w") as f:\n    dump(f)',
        f'def dump(f):\n    f.write("x")\n\n\nwith open({NULL}, "w") as f:\n    dump(f)',
    ),
}

NOOPS = {
    "reading": 'with open("a.txt") as f:\n    text = f.read()',
    "reading bytes": 'with open("a.txt", "rb") as f:\n    text = f.read()',
    "a mode of its own": 'mode = os.environ["M"]\nf = open("a.txt", mode)',
    "exclusive": 'f = open("a.txt", "x")',
    "guarded": 'if runtime.is_main():\n    with open("a.json", "w") as f:\n        f.write("x")',
    "null device": 'log = open("a.txt" if runtime.is_main() else os.devnull, "w")',
    "one for each process": 'log = open(f"log.{runtime.rank()}", "w")',
    "another function of that name": "def open(a, b):\n    return a\n\n\nopen(1, 'w')",
    "in what the main process calls": 'runtime.on_main(lambda: open("a", "w"))',
    "a method of that name": 'import webbrowser\nwebbrowser.open("w", "w")',
    "standard output": 'import sys\nsys.stdout.write("w")',
}


@pytest.mark.parametrize("case", REWRITES)
def test_rewritten(case: str) -> None:
    before, after = REWRITES[case]
    check_rewritten("handles", before, after)


@pytest.mark.parametrize("case", NOOPS)
def test_noop(case: str) -> None:
    check_noop("handles", NOOPS[case])


def test_training_inside() -> None:
    inner = "".join(f"    {line}\n" for line in TRAINING.splitlines())
    check_rewritten("handles", f'with open("log.csv", "w") as f:\n{inner}', f'with open({NULL}, "w") as f:\n{inner}')


def test_import_of_os() -> None:
    head = HEAD.replace("import os\n", "")
    after = HEAD.replace("import os\n", "").replace("import runtime\n", "import runtime\nimport os\n")
    call = 'log = open("log.csv", "w")\n'
    check_rewritten("handles", head + call + TRAINING, after + f'log = open({NULL}, "w")\n' + TRAINING, whole=True)


def test_before_the_start() -> None:
    check_noop("handles", 'log = open("a", "w")\n' + HEAD + TRAINING, ["DST802"], whole=True)


PATHS = """\
class Folder:
    def rename(self, name):
        self.name = name

    def fill(self, path):
        path.open("wb").close()
        self.rename("b")
        try:
            path.rename("c")
        except OSError:
            pass


"""


def test_paths_are_the_same_ones_in_the_next_run() -> None:
    result = rewrite_source((HEAD + PATHS + TRAINING).encode(), "train.py", Options())  # it compares both runs
    text = result.data.decode()
    assert "import pathlib" in text
    assert 'runtime.on_main(path.rename, "c")' in text
    assert '        self.rename("b")\n' in text
