"""Scripts that are distributed already, whose training loop is a library's, or that start processes of their own."""

from __future__ import annotations

import pytest

from distify.codemod.options import Options
from distify.codemod.rewrite import Result, rewrite_source

from ..helpers import codes, convert
from .checks import HEAD, TRAINING


def whole(text: str, partial: bool = False) -> Result:
    """A training script with some lines in it, converted."""
    source = (HEAD + text + "\n" + TRAINING).encode()
    return rewrite_source(source, "train.py", Options(partial=partial))


OWN_PROCESSES = [
    "import torch.multiprocessing as mp\nmp.spawn(print, nprocs=2)",
    "from torch.multiprocessing import Process\nProcess(target=print).start()",
    "import multiprocessing\nNet().share_memory()\nmultiprocessing.Process(target=print).start()",
    "import torch.multiprocessing as mp\nNet().share_memory()\nmp.get_context('spawn').Process(target=print).start()",
]


@pytest.mark.parametrize("text", OWN_PROCESSES)
def test_processes_of_its_own(text: str) -> None:
    result = whole(text)
    assert codes(result) == ["DST145"]
    assert result.data == result.before
    assert result.findings[0].span.line == len(HEAD.splitlines()) + text.count("\n") + 1
    assert ("(Hogwild)" in result.findings[0].message) == ("share_memory" in text)


def test_processes_that_share_nothing_are_let_be() -> None:
    """A worker for data or plots trains nothing."""
    assert "DST145" not in codes(whole("import multiprocessing\nmultiprocessing.Process(target=print).start()"))


SHARDS = [
    ("from torch.distributed.fsdp import fully_shard\nfully_shard(Net())", "fully_shard"),
    ("from torch.distributed.pipelining import pipeline\nstages = pipeline(Net(), (1,))", "pipeline"),
    ("import horovod.torch as hvd", "Horovod"),
    ("from lightning.fabric import Fabric", "Lightning"),
]


@pytest.mark.parametrize(("text", "name"), SHARDS)
def test_what_distributes_is_named(text: str, name: str) -> None:
    result = whole(text, partial=True)
    assert codes(result) == ["DST107"]
    assert result.data == result.before
    assert name in result.findings[0].message


def test_a_step_on_a_tpu() -> None:
    text = "import torch_xla.core.xla_model as xm\nxm.mark_step()"
    result = whole(text)
    assert codes(result) == ["DST146"]
    assert result.data == result.before


def test_a_library_for_tpus_that_is_only_looked_for() -> None:
    assert "DST146" not in codes(whole("try:\n    import torch_xla\nexcept ImportError:\n    torch_xla = None"))


LOOPS = [
    "from transformers import Trainer\nTrainer(model=None).train()",
    "import transformers\ntransformers.Seq2SeqTrainer().train()",
    "import transformers as hf\nclass Mine(hf.Trainer):\n    pass\nMine().train()",
    "from trl import SFTTrainer\nSFTTrainer(model='gpt2').train()",
    "import pytorch_lightning as pl\npl.Trainer(max_epochs=1).fit(None)",
    "import lightning as L\nL.Trainer().fit(None)",
    "from fastai.vision.all import *\nlearn = vision_learner(1)\nlearn.fine_tune(1)",
    "from fastai.learner import Learner\nLearner(1, 2).fit(1)",
    "import torch\nfrom ignite.engine import create_supervised_trainer\ncreate_supervised_trainer(1, 2, 3).run(4)",
    "import torch\nfrom skorch import NeuralNetClassifier\nNeuralNetClassifier(torch.nn.Linear).fit(1, 2)",
    "import torch\nfrom mmengine.runner import Runner\nRunner(1).train()",
]


@pytest.mark.parametrize("text", LOOPS)
def test_a_loop_inside_a_library(text: str) -> None:
    """No loop is here to convert, and to say that the script trains no model would be untrue."""
    result = convert(text)
    assert codes(result) == ["DST144"]
    assert result.refused
    assert result.data == result.before
    assert result.findings[0].hint


@pytest.mark.parametrize(
    "text",
    [
        "import pytorch_lightning as pl\nclass Lit(pl.LightningModule):\n    pass",
        "from transformers import AutoModel\nmodel = AutoModel.from_pretrained('x')",
        "from transformers import Trainer",
        "import accelerate\nprint(accelerate.__version__)",
        "class Trainer:\n    pass\nTrainer().train()  # torch",
    ],
)
def test_files_that_run_no_trainer(text: str) -> None:
    result = convert(text)
    assert not result.findings
    assert result.data == result.before


UNSEEN = """
    import torch
    from {package} import x
    model = torch.nn.Linear(4, 3)
    x.backward(model(torch.randn(2, 4)).sum())
    x.step()
"""


@pytest.mark.parametrize("package", ["accelerate", "deepspeed", "lightning"])
def test_a_backward_that_is_a_library_s(package: str) -> None:
    """The reason is the library, not that what it runs can't be followed."""
    assert codes(convert(UNSEEN.format(package=package))) == ["DST107"]
