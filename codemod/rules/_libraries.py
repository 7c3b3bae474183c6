"""Libraries that spread a training run over processes or devices by themselves; no rule by itself."""

from __future__ import annotations

from ..dataclass import dataclass


@dataclass(frozen=True)
class Library:
    """A library that is imported under any of `roots`.

    Attributes:
        title: its name in messages.
        roots: top-level packages.
        hint: how it runs on several processes.
        trainers: ends of the names of classes and functions that hold the training loop.
        methods: names of methods that run it, where a star import hides who made the object.
        shards: with a loop of the script's own, the library still moves its batches and reduces its gradients.
    """

    title: str
    roots: tuple[str, ...]
    hint: str
    trainers: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    shards: bool = True


LIGHTNING_HINT = "it runs on several devices by itself: Trainer(devices=2, strategy='ddp'), or Fabric(devices=2)"

LIBRARIES = (
    Library(
        "Accelerate",
        ("accelerate",),
        "accelerate launch starts it on several processes; or take the Accelerator out, then convert",
    ),
    Library("Lightning", ("lightning", "pytorch_lightning"), LIGHTNING_HINT, ("Trainer", "LightningCLI")),
    Library(
        "Fabric", ("lightning_fabric",), "Fabric(devices=2) starts several processes; or take Fabric out, then convert"
    ),
    Library(
        "DeepSpeed", ("deepspeed",), "the deepspeed launcher starts it; or take deepspeed out: --backend deepspeed"
    ),
    Library("Horovod", ("horovod",), "horovodrun starts it; or take horovod out, then convert"),
    Library("Colossal-AI", ("colossalai",), "its launcher starts it; or take colossalai out, then convert"),
    Library("Composer", ("composer",), "the composer launcher starts it on several processes", ("Trainer",)),
    Library("FairScale", ("fairscale",), "take FairScale's wrappers out, then convert: --backend fsdp"),
    Library(
        "the Trainer of Hugging Face",
        ("transformers", "trl", "sentence_transformers", "setfit"),
        "it runs on several processes by itself: torchrun --nproc-per-node 2",
        ("Trainer",),
        shards=False,
    ),
    Library(
        "fastai",
        ("fastai",),
        "it runs on several processes by itself: with learn.distrib_ctx(): around the fit, and accelerate launch",
        ("Learner", "_learner"),
        ("fine_tune", "fit_one_cycle", "fit_flat_cos"),
        shards=False,
    ),
    Library(
        "Ignite",
        ("ignite",),
        "ignite.distributed.Parallel starts several processes; or write the loop over the batches out, then convert",
        ("Engine", "create_supervised_trainer"),
        shards=False,
    ),
    Library(
        "skorch",
        ("skorch",),
        "write the training loop out, then convert",
        ("NeuralNet", "NeuralNetClassifier", "NeuralNetRegressor"),
        shards=False,
    ),
    Library(
        "OpenMMLab's Runner",
        ("mmengine", "mmcv"),
        "it runs on several processes by itself: launcher='pytorch'",
        ("Runner",),
        shards=False,
    ),
)

TPU_HINT = "torch_xla has its own launcher and loaders; for GPUs, take xm.* out (optimizer.step()), then convert"
TPUS = ("torch_xla",)


def library_of(name: str) -> Library | None:
    """The library that a dotted name belongs to."""
    root = name.split(".")[0]
    return next((item for item in LIBRARIES if root in item.roots), None)


def trainer_of(name: str) -> Library | None:
    """The library whose training loop a class or function holds: `transformers.Seq2SeqTrainer`."""
    found = library_of(name)
    return found if found is not None and found.trainers and name.endswith(found.trainers) else None
