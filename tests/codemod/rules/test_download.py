"""Downloads: the main process first, in one block, entered by all; what downloads nothing stays."""

from __future__ import annotations

import pytest

from tests.codemod.rules.checks import check_noop, check_rewritten

IMPORTS = """
from torchvision import datasets, models, transforms
from urllib.request import urlretrieve
"""

REWRITES = {
    "dataset": (
        'train_set = datasets.MNIST("data", train=True, download=True)',
        'with runtime.main_first():\n    train_set = datasets.MNIST("data", train=True, download=True)',
    ),
    "neighbours share a block": (
        '# the data\na = datasets.MNIST("data", download=True)\n'
        'b = datasets.MNIST("data", train=False, download=True)\nc = 1',
        '# the data\nwith runtime.main_first():\n    a = datasets.MNIST("data", download=True)\n'
        '    b = datasets.MNIST("data", train=False, download=True)\nc = 1',
    ),
    "by position": (
        'a = datasets.CIFAR10("data", True, None, None, True)',
        'with runtime.main_first():\n    a = datasets.CIFAR10("data", True, None, None, True)',
    ),
    "by an option": (
        'flag = bool(os.environ.get("D"))\na = datasets.MNIST("data", download=flag)',
        'flag = bool(os.environ.get("D"))\nwith runtime.main_first():\n    a = datasets.MNIST("data", download=flag)',
    ),
    "inside another call": (
        'shown = DataLoader(datasets.MNIST("data", download=True), batch_size=4)',
        'with runtime.main_first():\n    shown = DataLoader(datasets.MNIST("data", download=True), batch_size=4)',
    ),
    "returned": (
        'def build():\n    return datasets.MNIST("data", download=True)',
        'def build():\n    with runtime.main_first():\n        return datasets.MNIST("data", download=True)',
    ),
    "where it is missing": (
        'if not os.path.exists("a.zip"):\n    print("fetching")\n    urlretrieve("https://x", "a.zip")',
        'with runtime.main_first():\n    if not os.path.exists("a.zip"):\n        print("fetching")\n'
        '        urlretrieve("https://x", "a.zip")',
    ),
    "made where it is missing": (
        'if not os.path.exists("a.txt"):\n    with open("a.txt", "w") as f:\n        f.write("x")\n'
        'else:\n    with open("a.txt") as f:\n        text = f.read()',
        'with runtime.main_first():\n    if not os.path.exists("a.txt"):\n        with open("a.txt", "w") as f:\n'
        '            f.write("x")\n    else:\n        with open("a.txt") as f:\n            text = f.read()',
    ),
    "removed where it is there": (
        'if os.path.exists("a.txt"):\n    os.remove("a.txt")',
        'with runtime.main_first():\n    if os.path.exists("a.txt"):\n        os.remove("a.txt")',
    ),
    "weights": (
        "body = models.resnet18(pretrained=True)",
        "with runtime.main_first():\n    body = models.resnet18(pretrained=True)",
    ),
    "new weights": (
        'body = models.resnet18(weights="DEFAULT")',
        'with runtime.main_first():\n    body = models.resnet18(weights="DEFAULT")',
    ),
    "hub": (
        "from transformers import AutoTokenizer\ntok = AutoTokenizer.from_pretrained('a')",
        "from transformers import AutoTokenizer\n"
        "with runtime.main_first():\n    tok = AutoTokenizer.from_pretrained('a')",
    ),
    "table": (
        "from sklearn.datasets import fetch_openml\nx = fetch_openml('a')",
        "from sklearn.datasets import fetch_openml\nwith runtime.main_first():\n    x = fetch_openml('a')",
    ),
}

NOOPS = {
    "no download": 'a = datasets.MNIST("data", download=False)',
    "not asked for": 'a = datasets.MNIST("data", train=False)',
    "by position, off": 'a = datasets.CIFAR10("data", True, None, None, False)',
    "local images": 'a = datasets.ImageFolder("data", transforms.ToTensor())',
    "guarded": 'with runtime.main_first():\n    a = datasets.MNIST("data", download=True)',
    "by the main process": 'if runtime.is_main():\n    urlretrieve("https://x", "a.zip")',
    "without weights": "a = models.resnet18(pretrained=False)\nb = models.vgg(weights=None)\nc = models.vgg()",
    "a class of the script's own": """
class Cache:
    def __init__(self, download):
        self.download = download


cache = Cache(download=True)
""",
    "a method of the script's own": """
class Body:
    @classmethod
    def from_pretrained(cls, name):
        return cls()


body = Body.from_pretrained("a")
""",
    "transforms": "t = transforms.Compose([transforms.ToTensor()])",
    "read where it is there": 'if os.path.exists("a"):\n    text = open("a").read()',
    "a folder": 'if not os.path.exists("a"):\n    os.makedirs("a")',
    "tables that are there": "from sklearn.datasets import load_iris\nx = load_iris()",
}


@pytest.mark.parametrize("case", REWRITES)
def test_rewritten(case: str) -> None:
    before, after = REWRITES[case]
    check_rewritten("download", IMPORTS + before, IMPORTS + after)


@pytest.mark.parametrize("case", NOOPS)
def test_noop(case: str) -> None:
    check_noop("download", IMPORTS + NOOPS[case])


def test_in_the_head_of_a_loop() -> None:
    check_noop("download", IMPORTS + 'for x in datasets.MNIST("data", download=True):\n    pass', ["DST131"])
