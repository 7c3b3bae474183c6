"""Every way to name a CUDA device becomes this process's device; what only looks like one stays."""

from __future__ import annotations

import pytest

from distify.codemod.options import Options
from distify.codemod.rewrite import rewrite_source
from tests.codemod.rules.checks import check_noop, check_rewritten, script

CHOICE = 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'

REWRITES = {
    "choice": (f"device = {CHOICE}", "device = runtime.device()"),
    "choice with a number": (
        "device = torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')",
        "device = runtime.device()",
    ),
    "choice the other way round": (
        'device = torch.device("cpu" if not torch.cuda.is_available() else "cuda")',
        "device = runtime.device()",
    ),
    "choice of devices": (
        'device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")',
        "device = runtime.device()",
    ),
    "choice by a name": (
        """
        use_cuda = torch.cuda.is_available()
        device = torch.device("cuda" if use_cuda else "cpu")
        """,
        """
        use_cuda = torch.cuda.is_available()
        device = runtime.device()
        """,
    ),
    "string": (
        """
        device = "cuda" if torch.cuda.is_available() else "cpu"
        z = torch.zeros(2, device=device).to(device)
        """,
        """
        device = runtime.device()
        z = torch.zeros(2, device=device).to(device)
        """,
    ),
    "plain device": ('device = torch.device("cuda")', "device = runtime.device()"),
    "device with an index": ('device = torch.device("cuda", 1)', "device = runtime.device()"),
    "device by keywords": ('device = torch.device(type="cuda", index=1)', "device = runtime.device()"),
    "device by number": ("device = torch.device(0)", "device = runtime.device()"),
    "f-string": ('gpu = 0\ndevice = torch.device(f"cuda:{gpu}")', "gpu = 0\ndevice = runtime.device()"),
    "percent": ('gpu = 0\ndevice = torch.device("cuda:%d" % gpu)', "gpu = 0\ndevice = runtime.device()"),
    "format": ('gpu = 0\ndevice = torch.device("cuda:{}".format(gpu))', "gpu = 0\ndevice = runtime.device()"),
    "sum": ('gpu = 0\ndevice = torch.device("cuda:" + str(gpu))', "gpu = 0\ndevice = runtime.device()"),
    "own condition, number dropped": (
        'flag = os.environ.get("GPU")\ndevice = torch.device("cuda:1" if flag else "cpu")',
        'flag = os.environ.get("GPU")\ndevice = torch.device("cuda" if flag else "cpu")',
    ),
    "own condition, devices": (
        'flag = os.environ.get("GPU")\ndevice = torch.device("cuda:1") if flag else torch.device("cpu")',
        'flag = os.environ.get("GPU")\ndevice = runtime.device() if flag else torch.device("cpu")',
    ),
    "string with a number keeps its quotes": ("device = 'cuda:0'", "device = 'cuda'"),
    "default of an option": (
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--device", default="cuda:0", help="such as cuda:0")
        """,
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--device", default="cuda", help="such as cuda:0")
        """,
    ),
    "cuda()": ("z = torch.zeros(2).cuda()", "z = torch.zeros(2).to(runtime.device())"),
    "cuda(0)": ("z = torch.zeros(2).cuda(0)", "z = torch.zeros(2).to(runtime.device())"),
    "cuda(gpu)": ("gpu = 1\nz = torch.zeros(2).cuda(gpu)", "gpu = 1\nz = torch.zeros(2).to(runtime.device())"),
    "cuda(device=)": ("z = torch.zeros(2).cuda(device=0)", "z = torch.zeros(2).to(device=runtime.device())"),
    "cuda(non_blocking=)": (
        "z = torch.zeros(2).cuda(non_blocking=True)",
        "z = torch.zeros(2).to(runtime.device(), non_blocking=True)",
    ),
    "cuda(0, True)": (
        "z = torch.zeros(2).cuda(0, non_blocking=True)",
        "z = torch.zeros(2).to(runtime.device(), non_blocking=True)",
    ),
    "cuda of cuda": (
        "z = (torch.zeros(2).cuda() + 1).cuda(0)",
        "z = (torch.zeros(2).to(runtime.device()) + 1).to(runtime.device())",
    ),
    "to": ('z = torch.zeros(2).to("cuda")', "z = torch.zeros(2).to(runtime.device())"),
    "to with a number": ("z = torch.zeros(2).to('cuda:1')", "z = torch.zeros(2).to(runtime.device())"),
    "to(0)": ("z = torch.zeros(2).to(0)", "z = torch.zeros(2).to(runtime.device())"),
    "to of a constant name": (
        "gpu = 0\nz = torch.zeros(2).to(gpu)",
        "gpu = 0\nz = torch.zeros(2).to(runtime.device())",
    ),
    "to keeps other arguments": (
        'z = torch.zeros(2).to("cuda", torch.float64, non_blocking=True)',
        "z = torch.zeros(2).to(runtime.device(), torch.float64, non_blocking=True)",
    ),
    "keyword": ('z = torch.zeros(2, device="cuda:0")', "z = torch.zeros(2, device=runtime.device())"),
    "keyword of to": ('z = torch.zeros(2).to(device="cuda")', "z = torch.zeros(2).to(device=runtime.device())"),
    "tensor types": (
        "z = torch.cuda.FloatTensor(2, 3).fill_(1.0)",
        "z = torch.FloatTensor(2, 3).to(runtime.device()).fill_(1.0)",
    ),
    "set_device": ("torch.cuda.set_device(0)\nz = 1", "z = 1"),
    "set_device alone": ("if os.environ:\n    torch.cuda.set_device(0)", "if os.environ:\n    pass"),
    "device context": ("with torch.cuda.device(1):\n    z = 1", "with torch.cuda.device(runtime.device()):\n    z = 1"),
    "map_location": (
        'state = torch.load("a.pt", map_location="cuda:0")',
        'state = torch.load("a.pt", map_location=runtime.device())',
    ),
    "map_location by position": (
        "state = torch.load('a.pt', 'cuda')",
        "state = torch.load('a.pt', runtime.device())",
    ),
    "map_location as a function": (
        'state = torch.load("a.pt", map_location=lambda storage, loc: storage.cuda(0))',
        'state = torch.load("a.pt", map_location=runtime.device())',
    ),
    "map_location as a mapping": (
        'state = torch.load("a.pt", map_location={"cuda:1": "cuda:0"})',
        'state = torch.load("a.pt", map_location=runtime.device())',
    ),
}

NOOPS = {
    "CPU": 'device = torch.device("cpu")',
    "own condition": 'flag = os.environ.get("GPU")\ndevice = torch.device("cuda" if flag else "cpu")',
    "own condition in a name": """
        no_cuda = bool(os.environ.get("NO_CUDA"))
        use_cuda = not no_cuda and torch.cuda.is_available()
        device = torch.device("cuda" if use_cuda else "cpu")
        """,
    "name set twice": """
        use_cuda = torch.cuda.is_available()
        use_cuda = False
        device = torch.device("cuda" if use_cuda else "cpu")
        """,
    "a string without number": 'device = "cuda"',
    "a string that is compared": """
        device = "cuda" if torch.cuda.is_available() else "cpu"
        if device == "cuda":
            torch.backends.cudnn.benchmark = True
        """,
    "a string that is shown": """
        device = "cuda" if torch.cuda.is_available() else "cpu"
        print(f"running on {device}")
        """,
    "a string that is searched": """
        device = "cuda" if torch.cuda.is_available() else "cpu"
        kind = "gpu" if "cuda" in device else "host"
        """,
    "device of a variable": 'name = os.environ["DEVICE"]\ndevice = torch.device(name)',
    "to of a variable": "place = torch.zeros(1).device\nz = torch.zeros(2).to(place)",
    "to of a dtype": "z = torch.zeros(2).to(torch.float64)",
    "to cpu": 'z = torch.zeros(2).to("cpu")',
    "printed": 'print("cuda:0")',
    "documented": '"""cuda:0"""',
    "compared": 'name = os.environ["DEVICE"]\nsecond = name == "cuda:1"',
    "in a sentence": 'text = "on cuda:0 or cuda:1"',
    "formatted into a message": 'gpu = 0\nprint(f"cuda:{gpu}")',
    "queries": "count = torch.cuda.device_count()\nready = torch.cuda.is_available()",
    "type as a choice": "Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor",
    "map_location to the CPU": 'state = torch.load("a.pt", map_location=lambda storage, loc: storage)',
    "map_location cpu": 'state = torch.load("a.pt", map_location="cpu")',
    "a method of the script's own": """
        class Words:
            def cuda(self):
                return self

        words = Words().cuda()
        """,
    "a string in a message": 'device = "cuda" if torch.cuda.is_available() else "cpu"\nprint("on", device)',
    "a string in a format": 'device = "cuda" if torch.cuda.is_available() else "cpu"\ntext = "on {}".format(device)',
    "a string for a type": """
        device = "cuda" if torch.cuda.is_available() else "cpu"
        with torch.autocast(device_type=device, enabled=False):
            z = torch.zeros(2)
        """,
    "a default of the script's own": 'def place(device="cuda" if torch.cuda.is_available() else "cpu"):\n    return device',
    "arguments in a list": "names = ['cuda']\ndevice = torch.device(*names)",
    "another variable": 'os.environ["OMP_NUM_THREADS"] = "1"\nos.environ.update(A="1")',
    "another device": 'z = torch.zeros(2, device="mps")',
    "converted": "device = runtime.device()\nz = torch.zeros(2).to(runtime.device(), non_blocking=True)",
    "several devices visible": 'os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"',
    "no device visible": 'os.environ["CUDA_VISIBLE_DEVICES"] = "-1"',
}


@pytest.mark.parametrize("case", REWRITES)
def test_rewritten(case: str) -> None:
    before, after = REWRITES[case]
    check_rewritten("device", before, after)


@pytest.mark.parametrize("case", NOOPS)
def test_noop(case: str) -> None:
    check_noop("device", NOOPS[case])


@pytest.mark.parametrize(
    ("first", "second", "codes"),
    [
        ('.to("cuda:0")', '.to("cuda:1")', ["DST306"]),
        (".cuda(0)", '.to(torch.device("cuda:1"))', ["DST306"]),
        (".to(0)", ".cuda(1)", ["DST306"]),
        ('.to("cuda:1")', '.to("cuda:1")', []),
        ('.to("cuda:0" if os.environ["G"] == "0" else "cuda:1")', "", []),
        ('.to("cuda:0")', ".to({'a': torch.device('cuda:1')}['a'])", []),
    ],
)
def test_parts_on_several_devices(first: str, second: str, codes: list[str]) -> None:
    text = script(f"a = nn.Linear(2, 2){first}\nb = nn.Linear(2, 2){second}")
    facts = rewrite_source(text.encode(), "a.py", Options(backend="ddp"))
    assert [item.code for item in facts.findings if item.level == "error"] == codes


@pytest.mark.parametrize("value", ['"0"', "'3'", 'os.environ["GPU"]'])
def test_one_visible_device(value: str) -> None:
    before = f'os.environ["CUDA_VISIBLE_DEVICES"] = {value}\nz = 1'
    check_rewritten("device", before, "z = 1", ["DST904"], again=[])


def test_the_alias_of_the_runtime() -> None:
    whole = script("runtime = 3\nz = torch.zeros(2).cuda()").replace(
        "import runtime", "import runtime as distify_runtime"
    )
    whole = whole.replace("runtime.init()", "distify_runtime.init()")
    after = whole.replace(".cuda()", ".to(distify_runtime.device())")
    check_rewritten("device", whole, after, whole=True)
