"""Job files for other machines: a script of torchrun, a job of SLURM, a job of Kubernetes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ..dataclass import dataclass
from ..options import OptionError, flag, variable
from .processes import PORT
from .quoting import Unquotable, shell, unexpanded, yaml
from .settings import ENVIRONMENT, FLAG
from .start import Run

FORMATS = ("torchrun", "slurm", "kubernetes")
LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
LONGEST = 52  # of a name from which Kubernetes makes those of pods

# What each field may look like, and what it is; nothing else gets into a line of #SBATCH.
FIELDS: Mapping[str, tuple[str, str]] = {
    "name": (r"[A-Za-z0-9][A-Za-z0-9._-]*", "a name of letters, digits, '.', '_' and '-'"),
    "gpus": (r"\d{1,6}", "a whole number from 0"),
    "cpus": (r"[1-9]\d{0,5}", "a whole number from 1"),
    "memory": (r"[1-9]\d*([KMGT]i?)?", "a size, such as 64G"),
    "time": (r"\d+(:\d{2}){0,2}|\d+-\d{1,2}(:\d{2}){0,2}", "a time, such as 12:00:00 or 2-00"),
    "partition": (r"[A-Za-z0-9][A-Za-z0-9._,-]*", "a name"),
    "account": (r"[A-Za-z0-9][A-Za-z0-9._-]*", "a name"),
    "image": (r"[A-Za-z0-9][A-Za-z0-9._/:@+-]*", "the name of an image"),
}
TAKES: Mapping[str, tuple[str, ...]] = {
    "torchrun": (),
    "slurm": ("name", "gpus", "cpus", "memory", "time", "partition", "account"),
    "kubernetes": ("name", "gpus", "cpus", "memory", "image"),
}


@dataclass(frozen=True)
class Job:
    """What a scheduler is asked for; `None` where nothing was said.

    Attributes:
        name: of the job; the script's if not given.
        gpus, cpus, memory: of each machine; as many GPUs as processes if not given.
        time, partition, account: of SLURM.
        image: of Kubernetes.
    """

    name: str | None = None
    gpus: str | None = None
    cpus: str | None = None
    memory: str | None = None
    time: str | None = None
    partition: str | None = None
    account: str | None = None
    image: str | None = None

    def given(self) -> dict[str, str]:
        """The fields that were given."""
        return {item.name: value for item in fields(self) if (value := getattr(self, item.name)) is not None}


def check(form: str, job: Job) -> None:
    """Refuse what a format has no place for, and values that are none.

    Raises:
        OptionError: the first of them.
    """
    for name, value in job.given().items():
        if name not in TAKES.get(form, ()):
            takers = " or ".join(f"--emit {taker}" for taker, names in TAKES.items() if name in names)
            raise OptionError(f"{flag(name)} goes with {takers}")
        pattern, wanted = FIELDS[name]
        if not re.fullmatch(pattern, value):
            raise OptionError(f"{flag(name)}: {value!r} is not {wanted}")
    if form == "kubernetes" and job.image is None:
        raise OptionError("--emit kubernetes needs --image: a container image that holds torch, distify and the script")


def job_file(form: str, run: Run, job: Job, environment: Mapping[str, str]) -> bytes:
    """The text of a job file.

    Args:
        form: one of `FORMATS`.
        run: what is started.
        job: what the scheduler is asked for, checked.
        environment: of this process; the options that hold here hold in the job.

    Raises:
        OptionError: a word that the file can't hold.
    """
    from ..templates import launch

    nodes, nproc = int(run.processes.nnodes), int(run.processes.nproc)
    params: dict[str, Any] = {
        "nodes": nodes,
        "nproc": nproc,
        "restarts": int(run.processes.restarts),
        "variables": list(variables(run, environment).items()),
        "words": [*run.target, *run.arguments],
        **{name: getattr(job, name) for name in FIELDS},
        "name": job.name or name_of(run),
        "gpus": int(job.gpus or nproc) if job.gpus != "0" else 0,
    }
    try:
        if form == "kubernetes":
            return launch("kubernetes.yaml", yaml, {**params, **of_kubernetes(params, job)}).encode()
        return os.fsencode(launch(f"{form}.sh", shell, params))
    except Unquotable as error:
        raise OptionError(f"--emit {form}: {error}") from None


def variables(run: Run, environment: Mapping[str, str]) -> dict[str, str]:
    """What the processes get: options of the command line and of this environment, which the machines don't have."""
    options = {
        variable(item.name): str(item.value)
        for item in run.settings
        if item.level in (FLAG, ENVIRONMENT) and item.value is not None
    }
    return {**options, **run.variables({})}


def of_kubernetes(params: Mapping[str, Any], job: Job) -> dict[str, Any]:
    """What is another thing in a manifest: names of hosts, amounts, and words in which `$(NAME)` is no variable."""
    name = label(params["name"])
    several = params["nodes"] > 1
    meet = ["--master-addr", f"{name}-0.{name}", "--master-port", str(PORT)]
    options = ["--nnodes", str(params["nodes"]), "--node-rank", "$(NODE_RANK)", *meet] if several else ["--standalone"]
    options += ["--nproc-per-node", str(params["nproc"])]
    options += ["--max-restarts", str(params["restarts"])] if params["restarts"] else []
    memory = job.memory if job.memory is None or not job.memory.endswith("K") else job.memory[:-1] + "k"
    limits = {"nvidia.com/gpu": str(params["gpus"]) if params["gpus"] else None, "cpu": job.cpus, "memory": memory}
    return {
        "name": name,
        "options": options,
        "words": [unexpanded(word) for word in params["words"]],
        "variables": [(key, unexpanded(value)) for key, value in params["variables"]],
        "limits": [(key, value) for key, value in limits.items() if value is not None],
    }


def name_of(run: Run) -> str:
    """A name for a job, after what it runs."""
    stem = os.path.splitext(os.path.basename(run.target[-1]))[0]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._") or "distify"


def label(name: str) -> str:
    """A name as Kubernetes wants it: small letters, digits and dashes."""
    found = re.sub(r"[^a-z0-9]+", "-", name.lower())[:LONGEST].strip("-")
    return found if LABEL.fullmatch(found) else f"job-{found}".strip("-")
