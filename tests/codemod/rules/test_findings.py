"""Rules that only report: values that differ by process, limits of backends, scripts that are distributed already."""

from __future__ import annotations

import textwrap

import pytest

from distify.codemod.options import Options
from distify.codemod.rewrite import rewrite_source
from tests.codemod.rules.checks import HEAD, TRAINING, check_noop, outcome

DIFFERENT = {
    "np.random.default_rng()": ["DST130"],
    "np.random.default_rng(None)": ["DST130"],
    "random.Random()": ["DST130"],
    "random.seed()": ["DST130"],
    "os.urandom(4)": ["DST130"],
    "torch.manual_seed(int(time.time()))": ["DST130"],
    "np.random.seed(int(time.time()) % 100)": ["DST130"],
    'name = f"run-{time.time()}"': ["DST803"],
    'name = "run-" + str(int(time.time()))': ["DST803"],
    'name = time.strftime("%H%M")': ["DST803"],
    "name = str(uuid.uuid4())": ["DST803"],
    "folder = tempfile.mkdtemp()": ["DST803"],
    'name = datetime.datetime.now().strftime("%H")': ["DST803"],
}
SAME = [
    "np.random.default_rng(0)",
    "random.Random(3)",
    "random.seed(1)",
    "np.random.seed(seed=1)",
    "np.random.rand(3)",
    "random.random()",
    "torch.randn(3)",
    "torch.manual_seed(7)",
    "start = time.time()",
    "spent = time.time() - 3",
    "print(time.time() - 3)",
    'print(f"took {time.time() - 3:.1f} s")',
    'print("now " + time.strftime("%H:%M"))',
    'logging.info(f"{time.time()}")',
    "text = str(3)",
]


@pytest.mark.parametrize("line", DIFFERENT)
def test_what_differs_by_process(line: str) -> None:
    check_noop(
        "determinism",
        f"import datetime, logging, random, tempfile, time, uuid\nimport numpy as np\n{line}",
        DIFFERENT[line],
    )


@pytest.mark.parametrize("line", SAME)
def test_what_is_the_same(line: str) -> None:
    check_noop("determinism", f"import datetime, logging, random, tempfile, time, uuid\nimport numpy as np\n{line}")


LBFGS = """
model = Net()
optimizer = optim.LBFGS(model.parameters())


def closure():
    optimizer.zero_grad()
    loss = F.cross_entropy(model(torch.zeros(4, 4)), torch.zeros(4, dtype=torch.long))
    loss.backward()
    return loss


for step in range(3):
    optimizer.step(closure)
"""


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ({}, []),
        ({"backend": "ddp", "precision": "bf16"}, []),
        ({"backend": "fsdp"}, ["DST203"]),
        ({"backend": "deepspeed"}, ["DST203"]),
        ({"precision": "fp16"}, ["DST203"]),
        ({"accumulate": 2}, ["DST208"]),
        ({"accumulate": 1}, []),
    ],
)
def test_lbfgs(options: dict[str, str | int], codes: list[str]) -> None:
    check_noop("limits", LBFGS, codes, **options)
    converted = LBFGS.replace("optimizer.step(closure)", "runtime.step(optimizer, closure)")
    check_noop("limits", converted, codes, **options)


def test_a_scaled_step_is_no_closure() -> None:
    scaled = "scaler = torch.amp.GradScaler()\n" + TRAINING.replace("loss.backward()", "scaler.scale(loss).backward()")
    scaled = scaled.replace("optimizer.step()", "scaler.step(optimizer)\n    scaler.update()")
    check_noop("limits", scaled, accumulate=2)


def test_other_optimizers_have_no_such_limits() -> None:
    check_noop("limits", "z = 1", backend="fsdp", precision="fp16", accumulate=2)


GRADIENTS = TRAINING + "    for p in model.parameters():\n        p.grad.clamp_(-1, model(x).max())\n"


@pytest.mark.parametrize(("backend", "levels"), [("ddp", []), ("fsdp", ["warning"]), ("deepspeed", ["error"])])
def test_gradients_by_hand(backend: str, levels: list[str]) -> None:
    result = rewrite_source((HEAD + GRADIENTS).encode(), "train.py", Options(backend=backend))
    assert [item.level for item in result.findings if item.code == "DST206"] == levels


@pytest.mark.parametrize(("backend", "codes"), [("ddp", []), ("fsdp", []), ("deepspeed", ["DST206"])])
def test_gradients_after_the_step(backend: str, codes: list[str]) -> None:
    after = TRAINING + "    print(model.fc.weight.grad.norm())\n"
    assert [item.code for item in outcome("limits", HEAD + after, Options(backend=backend))[1]] == codes
    before = TRAINING.replace("    optimizer.step()", "    print(model.fc.weight.grad.norm())\n    optimizer.step()")
    assert outcome("limits", HEAD + before, Options(backend=backend))[1] == []


def test_gradients_of_inputs_are_nobodys() -> None:
    check_noop("limits", TRAINING + "    print(x.grad)\n", backend="fsdp")


def test_half() -> None:
    check_noop("limits", TRAINING.replace("optimizer =", "model.half()\noptimizer ="), ["DST403"])
    check_noop("limits", "z = torch.zeros(2).half()")


DISTRIBUTED = [
    "import torch.distributed as dist\ndist.init_process_group('gloo')",
    "from torch.nn.parallel import DistributedDataParallel as DDP\nwrapped = DDP(Net())",
    "from torch.utils.data.distributed import DistributedSampler\nsampler = DistributedSampler(data)",
    "from accelerate import Accelerator",
    "import lightning as L",
    "import pytorch_lightning.callbacks",
    "import deepspeed",
]


@pytest.mark.parametrize("text", DISTRIBUTED)
@pytest.mark.parametrize("partial", [False, True])
def test_distributed_already(text: str, partial: bool) -> None:
    """Refused, and left alone as a whole even where parts would be converted."""
    source = (HEAD + text + "\n" + TRAINING).encode()
    result = rewrite_source(source, "train.py", Options(backend="fsdp", partial=partial))
    assert result.data == source
    assert [item.code for item in result.findings if item.level == "error"] == ["DST107"]


@pytest.mark.parametrize(
    "text",
    [
        "import torch.distributed as dist\nready = dist.is_available()",
        "import multiprocessing\nmultiprocessing.cpu_count()",
        "from . import lightning",
        "accelerate = 3",
        "import torch.multiprocessing as mp\nmp.set_sharing_strategy('file_system')",
        "from transformers import get_scheduler",
    ],
)
def test_not_distributed(text: str) -> None:
    check_noop("distributed", textwrap.dedent(text))


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("from torch.optim import *", ["DST604"]),
        ("from torch.nn import *", ["DST604"]),
        ("from torch.optim import SGD", []),
        ("from math import *", []),
        ("from .torch import *", []),
        ("from torchvision.models import *", []),
    ],
)
def test_star_imports(line: str, codes: list[str]) -> None:
    check_noop("stars", line, codes)


WITH_OTHER_WEIGHTS = TRAINING.replace(
    "    loss = F.cross_entropy(model(x), y)",
    "    weights = dict(model.named_parameters())\n    loss = F.cross_entropy(torch.func.functional_call(model, weights, (x,)), y)",
)


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ({"backend": "fsdp"}, ["DST903"]),
        ({"backend": "deepspeed", "zero_stage": 3}, ["DST903"]),
        ({"backend": "deepspeed", "zero_stage": 2}, []),
        ({"backend": "ddp"}, []),
    ],
)
def test_a_model_called_with_other_weights(options: dict[str, str | int], codes: list[str]) -> None:
    """Where parameters lie in parts, nothing gathers them for such a call."""
    check_noop("limits", WITH_OTHER_WEIGHTS, codes, **options)
