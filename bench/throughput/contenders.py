"""Who takes part, and how each is started.

A contender is a name with what is changed about it: `ours-fsdp`, `hand-ddp+compile`, `ours-ddp+localbn`.
Names: `original` (the plain script as it is, fp32, one process); `ours` and `ours-BACKEND` (its conversion; BACKEND is
ddp, fsdp, zero1, zero2, zero3); `hand` (one process, autocast), `hand-ddp`, `hand-fsdp2`, `hand-fsdp2-tuned`
(parameters kept from forward to backward), `hand-fsdp2-local` (that, with clipping and step on local shards),
`hand-zero1`, `hand-zero2`, `hand-zero3`; `accelerate-ddp`, `accelerate-fsdp2`, `fabric-ddp`, `fabric-fsdp`.
Changes: `+compile`; `+localbn`, statistics of BatchNorm for each process's own slice; `+nowindow`, gradients
synchronised after every batch of an accumulation; `+recompute`, activations of blocks recomputed in backward; `+meta`,
parameters get memory only where they stay; `+offload`, they and the optimizer's state live on the host; `+null`,
one process of the group whose collectives do nothing: what a step costs apart from the network; `+reshard` and
`+keep`, gathered parameters dropped after a forward or kept for its backward, whatever the runtime would choose.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
NEVER = 10**9

TORCH = ("torch", "torch.distributed", "torch.nn.parallel", "torch.utils.data", "torch._dynamo")  # optimizers import it
FSDP = (*TORCH, "torch.distributed.fsdp", "torch.distributed.tensor")
IMPORTED = {
    "original": FSDP,
    "ours": FSDP,
    "hand": FSDP,
    "zero": (*FSDP, "deepspeed"),
    "accelerate": (*FSDP, "accelerate"),
    "fabric": (*FSDP, "lightning.fabric" if find_spec("lightning") else "lightning_fabric"),
}
SCRIPTS = {"gpt2": "gpt2.py", "convnet": "convnet.py", "mlp": "mlp.py"}
BATCHES = {
    "gpt2-124m": 16,
    "gpt2-774m": 8,
    "gpt2-tiny": 4,
    "convnet": 128,
    "convnet-tiny": 8,
    "mlp": 128,
    "mlp-tiny": 8,
}
WINDOW = ", sync=(step + 1) % args.accumulate == 0"  # which the codemod makes of a script's own accumulation
CHANGES = ("compile", "localbn", "nowindow", "recompute", "meta", "offload", "null", "reshard", "keep")
MEMORY = {"recompute": ["--checkpoint-activations"], "meta": ["--meta-init"], "offload": ["--offload", "cpu"]}
RESHARD = {"reshard": ["--reshard", "always"], "keep": ["--reshard", "never"]}
OURS = {
    "ddp": ["--backend", "ddp"],
    "fsdp": ["--backend", "fsdp"],
    "zero1": ["--backend", "deepspeed", "--zero-stage", "1"],
    "zero2": ["--backend", "deepspeed", "--zero-stage", "2"],
    "zero3": ["--backend", "deepspeed", "--zero-stage", "3"],
}
HAND = ("ddp", "fsdp2", "fsdp2-tuned", "fsdp2-local", "zero1", "zero2", "zero3")
LIBRARIES = ("accelerate-ddp", "accelerate-fsdp2", "fabric-ddp", "fabric-fsdp")
NAMES = ("original", "ours", *(f"ours-{name}" for name in OURS), "hand", *(f"hand-{name}" for name in HAND), *LIBRARIES)


@dataclass(frozen=True)
class Case:
    """One measurement, but for its repeats.

    Attributes:
        model: a name of `BATCHES`.
        world: number of processes.
        contender: a name with changes.
        precision: fp32, bf16 or fp16.
        accumulate: batches per optimizer step.
        log_every: batches per line printed; 0 for the first and last only.
        batch: samples per process.
        steps: batches, those of the warm-up included.
        warmup: first batches, not timed.
        options: further options of `distify rewrite`.
    """

    model: str
    world: int
    contender: str
    precision: str = "bf16"
    accumulate: int = 1
    log_every: int = 10
    batch: int = 16
    steps: int = 60
    warmup: int = 10
    options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The contender without changes."""
        return self.contender.split("+")[0]

    @property
    def changes(self) -> list[str]:
        """What is changed about it."""
        return self.contender.split("+")[1:]

    def problem(self) -> str:
        """Why this can't be measured; empty if it can."""
        if self.name not in NAMES:
            return f"no contender {self.name}: {', '.join(NAMES)}"
        for change in self.changes:
            if change not in CHANGES:
                return f"no change {change}: {', '.join(CHANGES)}"
        if self.model not in BATCHES and not re.fullmatch(r"gpt2-\d+x\d+", self.model):
            return f"no model {self.model}: {', '.join(BATCHES)}"
        if self.name == "original" and (self.world > 1 or self.precision != "fp32" or self.accumulate > 1):
            return "the original runs on one process, in fp32, without accumulation"
        if self.name == "hand" and self.world > 1:
            return "hand is a loop of one process"
        if self.name == "hand-ddp" and self.world == 1:
            return "a group of one process is no data parallelism"
        if set(self.changes) & set(MEMORY) and not self.name.startswith(("hand-fsdp2", "ours-")):
            return "only FSDP2 by hand and ours spare memory that way"
        if set(self.changes) & set(RESHARD) and self.name != "ours-fsdp":
            return "only of our fsdp it is told when gathered parameters are dropped; hand-fsdp2-tuned keeps them"
        if "null" in self.changes and (self.world == 1 or self.name == "hand-ddp"):
            return "collectives of one process do nothing anyhow, and those of DDP must return something"
        if "nowindow" in self.changes and self.name.startswith("ours") and not self.model.startswith("gpt2"):
            return "the script that accumulates by itself trains a GPT"
        return ""


def tokens(model: str) -> int:
    """Tokens of a sample; 1 for models that have none."""
    if not model.startswith("gpt2"):
        return 1
    return 32 if model.endswith("tiny") else 1024


@dataclass
class Start:
    """How a case is started.

    Attributes:
        script: what its processes run.
        argv: its arguments.
        modules: to be imported ahead.
        environment: of its processes.
    """

    script: Path
    argv: list[str]
    modules: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass
class Conversions:
    """Converted copies of the plain scripts; each is made once, by the command line as a user types it.

    Attributes:
        folder: where they are kept.
    """

    folder: Path
    made: dict[tuple[str, ...], Path] = field(default_factory=dict)

    def get(self, script: str, options: Sequence[str], cut: str = "") -> Path:
        """The plain script of that name, converted with these options; `cut` is taken out of it afterwards."""
        key = (script, *options)
        if key not in self.made:
            folder = self.folder / "_".join(part.strip("-") for part in key)
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(HERE / "plain", folder, ignore=shutil.ignore_patterns("__pycache__"))
            command = [sys.executable, "-m", "distify.codemod", "rewrite", script, "--quiet", *options]
            subprocess.run(command, cwd=folder, check=True)
            if cut:
                text = (folder / script).read_text()
                assert cut in text, f"{folder / script} has no {cut!r}"
                (folder / script).write_text(text.replace(cut, ""))
            self.made[key] = folder / script
        return self.made[key]


def start(case: Case, conversions: Conversions) -> Start:
    """How to start a case; converts its script if it is one of ours."""
    log_every = case.log_every or NEVER
    argv = ["--model", case.model, "--batch-size", str(case.batch * case.world), "--steps", str(case.steps)]
    argv += ["--log-every", str(log_every), "--workers", "0" if case.model.startswith("mlp") else "2"]
    if "compile" in case.changes:
        argv.append("--compile")
    script = SCRIPTS[case.model.split("-")[0]]
    environment = {"BENCH_WARMUP": str(case.warmup)}
    if "null" in case.changes:
        environment["BENCH_NULL"] = "1"
    family = case.name.split("-")[0]
    if case.name == "original":
        return Start(HERE / "plain" / script, argv, IMPORTED[family], environment)
    if family == "ours":
        return _ours(case, script, argv, environment, conversions)
    argv += ["--precision", case.precision, "--accumulate", str(case.accumulate)]
    if "nowindow" in case.changes:
        argv.append("--no-window")
    if "localbn" in case.changes:
        argv.append("--local-batchnorm")
    argv += [f"--{change}" for change in case.changes if change in MEMORY]
    if family == "hand":
        loop = case.name.removeprefix("hand-") if case.name != "hand" else "single"
        modules = IMPORTED["zero" if loop.startswith("zero") else "hand"]
        return Start(HERE / "hand.py", [*argv, "--loop", loop], modules, environment)
    return Start(HERE / "libraries.py", [*argv, "--loop", case.name], IMPORTED[family], environment)


def _ours(case: Case, script: str, argv: list[str], environment: dict[str, str], conversions: Conversions) -> Start:
    backend = case.name.removeprefix("ours-") if case.name != "ours" else "ddp"
    options = [*OURS[backend], "--precision", case.precision, *case.options]
    cut = ""
    if "nowindow" in case.changes:
        script, cut = "gpt2_accumulating.py", WINDOW
        argv = [*argv, "--accumulate", str(case.accumulate)]
    elif case.accumulate > 1:
        options += ["--accumulate", str(case.accumulate)]
    if "localbn" in case.changes:
        options += ["--batchnorm", "local"]
    for change in case.changes:
        options += MEMORY.get(change, []) + RESHARD.get(change, [])
    modules = IMPORTED["zero" if backend.startswith("zero") and case.world > 1 else "ours"]
    return Start(conversions.get(script, options, cut), argv, modules, environment)
