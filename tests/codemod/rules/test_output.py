"""Calls that write are the main process's; calls whose result is used, and those that only look alike, stay."""

from __future__ import annotations

import pytest

from tests.codemod.rules.checks import HEAD, TRAINING, check_noop, check_rewritten

IMPORTS = """
import shutil
import subprocess
import numpy as np
import pandas as pd
import matplotlib.pyplot as plt
from pathlib import Path
from torchvision.utils import save_image
from torchvision import utils as vutils
"""

INNER = "".join(f"    {line}\n" for line in TRAINING.splitlines())

REWRITES = {
    "array": ('np.save("a.npy", [1])', 'runtime.on_main(np.save, "a.npy", [1])'),
    "figure": ('plt.savefig("a.png", dpi=100)', 'runtime.on_main(plt.savefig, "a.png", dpi=100)'),
    "window": ("plt.show()", "runtime.on_main(plt.show)"),
    "method of a figure": (
        'fig, ax = plt.subplots()\nfig.savefig("a.png")',
        'fig, ax = plt.subplots()\nruntime.on_main(fig.savefig, "a.png")',
    ),
    "table": (
        'frame = pd.DataFrame({"a": [1]})\nframe.to_csv("a.csv", index=False)',
        'frame = pd.DataFrame({"a": [1]})\nruntime.on_main(frame.to_csv, "a.csv", index=False)',
    ),
    "chained": (
        'pd.DataFrame({"a": [1]}).to_csv("a.csv")',
        'runtime.on_main(pd.DataFrame({"a": [1]}).to_csv, "a.csv")',
    ),
    "image": ('save_image(torch.zeros(1), "a.png")', 'runtime.on_main(save_image, torch.zeros(1), "a.png")'),
    "image through a module": (
        'vutils.save_image(torch.zeros(1), "a.png", nrow=2)',
        'runtime.on_main(vutils.save_image, torch.zeros(1), "a.png", nrow=2)',
    ),
    "copy": ('shutil.copyfile("a", "b")', 'runtime.on_main(shutil.copyfile, "a", "b")'),
    "removal": ('os.remove("a")', 'runtime.on_main(os.remove, "a")'),
    "program": ('subprocess.run(["ls"])', 'runtime.on_main(subprocess.run, ["ls"])'),
    "path": ('Path("a").write_text("x")', 'runtime.on_main(Path("a").write_text, "x")'),
    "image of PIL": (
        'from PIL import Image\nimage = Image.fromarray(grid)\nimage.resize((8, 8)).save("a.png")',
        'from PIL import Image\nimage = Image.fromarray(grid)\nruntime.on_main(image.resize((8, 8)).save, "a.png")',
    ),
    "in a condition": (
        'if len(data) > 3:\n    plt.savefig("a.png")',
        'if len(data) > 3:\n    runtime.on_main(plt.savefig, "a.png")',
    ),
    "in a loop on files": (
        'while os.path.exists("a"):\n    os.remove("a")',
        'while os.path.exists("a"):\n    if runtime.is_main():\n        os.remove("a")',
    ),
    "beside training in a condition on files": (
        f'if os.path.exists("a"):\n    os.remove("a")\n{INNER}',
        f'if os.path.exists("a"):\n    if runtime.is_main():\n        os.remove("a")\n{INNER}',
    ),
    "over several lines": (
        'np.savetxt(\n    "a.txt",\n    [1],  # numbers\n)',
        'runtime.on_main(\n    np.savetxt, "a.txt",\n    [1],  # numbers\n)',
    ),
}

NOOPS = {
    "in a condition on files, which all take in turn": 'if os.path.exists("a"):\n    os.remove("a")',
    "reading": 'np.load("a.npy")\nplt.imread("a.png")\npd.read_csv("a.csv")',
    "drawing": "plt.plot([1])\nplt.title('a')\nplt.close()",
    "converted": 'runtime.on_main(plt.savefig, "a.png")',
    "guarded": 'if runtime.is_main():\n    plt.savefig("a.png")',
    "guarded by rank": 'if runtime.rank() == 0:\n    plt.savefig("a.png")',
    "given away": "writer = plt.savefig",
    "a name of the script's own": "def savefig(name):\n    return name\n\n\nsavefig('a')",
    "tracker": """
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter()
writer.add_scalar("a", 1, 2)
writer.close()
""",
    "printed": "print(1)\nimport logging\nlogging.info('a')",
    "folders": 'os.makedirs("a", exist_ok=True)',
    "listing": 'os.listdir(".")\nos.getcwd()',
}


@pytest.mark.parametrize("case", REWRITES)
def test_rewritten(case: str) -> None:
    before, after = REWRITES[case]
    check_rewritten("output", IMPORTS + before, IMPORTS + after)


@pytest.mark.parametrize("case", NOOPS)
def test_noop(case: str) -> None:
    check_noop("output", IMPORTS + NOOPS[case])


@pytest.mark.parametrize("text", ['done = subprocess.run(["ls"])', 'later = lambda: plt.savefig("a.png")'])
def test_results_that_are_used(text: str) -> None:
    check_noop("output", IMPORTS + text, ["DST802"])


def test_methods_need_their_library() -> None:
    text = "class Table:\n    def to_csv(self, name):\n        return name\n\n\nTable().to_csv('a')"
    check_noop("output", text)


def test_after_the_main_function() -> None:
    inner = "    runtime.init()\n" + INNER
    text = HEAD.replace("runtime.init()\n", "") + IMPORTS + "def main():\n" + inner + "\n\nmain()\n{call}\n"
    before, after = text.format(call='plt.savefig("a")'), text.format(call='runtime.on_main(plt.savefig, "a")')
    check_rewritten("output", before, after, whole=True)


def test_before_the_start() -> None:
    check_noop("output", 'import os\nos.remove("a")\n' + HEAD + TRAINING, ["DST802"], whole=True)
