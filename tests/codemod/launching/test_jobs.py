"""`distify launch --emit`: job files that shells and Kubernetes take, whatever the names in them are."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

from distify.codemod.launching.emit import Job, job_file, label
from distify.codemod.launching.processes import Processes
from distify.codemod.launching.quoting import Unquotable, shell, unexpanded
from distify.codemod.launching.quoting import yaml as quoted
from distify.codemod.launching.settings import ENVIRONMENT, FILE, FLAG, Setting
from distify.codemod.launching.start import Run

SCHEMA = json.loads((Path(__file__).parent / "kubernetes.schema.json").read_text())
ODD = (
    "it's $(touch hacked) `touch hacked`",
    'a"b\\',
    "#no comment",
    "- x: {y}",
    "two\nlines",
    "é\u2028\x85\ufeff🙂",
    "$(NODE_RANK)",
    "--",
    "*",
)
SETTINGS = (
    Setting("backend", "fsdp", "", FLAG),
    Setting("precision", "bf16", "", ENVIRONMENT),
    Setting("accumulate", 2, "", FILE),
)


JOB = Job()


def made(form, nodes=2, job=JOB, words=ODD, restarts="0"):
    run = Run(("train me.py",), tuple(words), Processes("8", str(nodes), restarts=restarts), SETTINGS)
    return job_file(form, run, job, {"PYTHONHASHSEED": "5"})


def checked(folder, text):
    """A script that bash and, where it is installed, shellcheck accept; one of the words looks like a mistake (SC1003)."""
    file = folder / "job.sh"
    file.write_bytes(text)
    subprocess.run(["bash", "-n", file], check=True)
    if shutil.which("shellcheck"):
        done = subprocess.run(["shellcheck", "--exclude=SC1003", file], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "")
    return file


def run(folder, file, **variables):
    """What each torchrun is given, where torchrun, srun and scontrol are stand-ins."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    (tools / "torchrun").write_text(
        '#!/bin/bash\nprintf "%s\\0" "$@" "B=$DISTIFY_BACKEND" "P=$DISTIFY_PRECISION" "A=${DISTIFY_ACCUMULATE-}"\n'
    )
    (tools / "srun").write_text('#!/bin/bash\nshift 2\nSLURM_NODEID=0 "$@"\nSLURM_NODEID=1 "$@"\n')
    (tools / "scontrol").write_text("#!/bin/bash\nprintf 'host3\\nhost7\\n'\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    variables["PATH"] = f"{tools}:{os.environ['PATH']}"
    done = subprocess.run(["bash", file], capture_output=True, check=True, cwd=folder, env=variables)
    assert not (folder / "hacked").exists()
    return done.stdout.decode().split("\0")[:-1]


TOLD = ["B=fsdp", "P=bf16", "A="]  # what pyproject.toml says travels with the project


def test_a_script_of_torchrun(tmp_path):
    file = checked(tmp_path, made("torchrun", 1, restarts="2"))
    options = ["--standalone", "--nproc-per-node", "8", "--max-restarts", "2"]
    assert run(tmp_path, file) == [*options, "train me.py", *ODD, *TOLD]


def test_a_script_of_torchrun_for_several_machines(tmp_path):
    file = checked(tmp_path, made("torchrun", 2))
    options = [
        "--nnodes",
        "2",
        "--nproc-per-node",
        "8",
        "--node-rank",
        "1",
        "--master-addr",
        "host0",
        "--master-port",
        "29500",
    ]
    assert run(tmp_path, file, NODE_RANK="1", MASTER_ADDR="host0") == [*options, "train me.py", *ODD, *TOLD]
    with pytest.raises(subprocess.CalledProcessError) as error:
        run(tmp_path, file, MASTER_ADDR="host0")
    assert b"NODE_RANK: is 0, 1, ... on each machine" in error.value.stderr


def test_a_job_of_slurm(tmp_path):
    job = Job("my-job", cpus="16", memory="64G", time="1-12:00:00", partition="a,b", account="me")
    file = checked(tmp_path, made("slurm", 2, job, restarts="1"))
    asked = [line for line in file.read_text().splitlines() if line.startswith("#SBATCH")]
    assert asked == [
        f"#SBATCH --{item}"
        for item in [
            "job-name=my-job",
            "nodes=2",
            "ntasks-per-node=1",
            "gpus-per-node=8",
            "cpus-per-task=16",
            "mem=64G",
            "time=1-12:00:00",
            "partition=a,b",
            "account=me",
        ]
    ]
    got = run(tmp_path, file, SLURM_JOB_NODELIST="host[3,7]", SLURM_JOB_ID="1234567", SLURM_NNODES="2")
    one = [
        [
            "--nnodes",
            "2",
            "--nproc-per-node",
            "8",
            "--node-rank",
            "%d",
            "--master-addr",
            "host3",
            "--master-port",
            "24567",
            "--max-restarts",
            "1",
        ],
        ["train me.py", *ODD, *TOLD],
    ]
    each = [[word.replace("%d", str(rank)) for word in one[0]] + one[1] for rank in (0, 1)]
    assert got == [*each[0], *each[1]]


def test_lines_of_sbatch_that_nobody_asked_for_are_left_out(tmp_path):
    text = checked(tmp_path, made("slurm", 1, Job(gpus="0"))).read_text()
    assert [line.split("=")[0] for line in text.splitlines() if line.startswith("#SBATCH")] == [
        "#SBATCH --job-name",
        "#SBATCH --nodes",
        "#SBATCH --ntasks-per-node",
    ]


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_job_of_kubernetes(nodes):
    job = Job("Train_me!", cpus="16", memory="64Gi", image="registry.org/a/train:1@sha256")
    documents = list(yaml.safe_load_all(made("kubernetes", nodes, job)))
    for document in documents:
        jsonschema.validate(document, SCHEMA)
    assert [item["kind"] for item in documents] == ["Service", "Job"][2 - nodes :]
    spec = documents[-1]["spec"]
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (nodes, nodes, "Indexed")
    (container,) = spec["template"]["spec"]["containers"]
    words = container["command"]
    assert [word.replace("$$", "$") for word in words[-len(ODD) - 1 :]] == ["train me.py", *ODD]
    assert words[-3] == "$$(NODE_RANK)"  # Kubernetes would fill in a variable
    limits = {"nvidia.com/gpu": "8", "cpu": "16", "memory": "64Gi"}
    assert container["resources"]["limits"] == limits
    values = {item["name"]: item.get("value") for item in container["env"]}
    assert values["DISTIFY_BACKEND"] == "fsdp"
    assert values["DISTIFY_PRECISION"] == "bf16"
    if nodes == 2:
        assert words[words.index("--master-addr") + 1] == "train-me-0.train-me"
        assert words[words.index("--node-rank") + 1] == "$(NODE_RANK)"
        assert documents[0]["spec"]["selector"] == {"batch.kubernetes.io/job-name": documents[1]["metadata"]["name"]}
        assert spec["template"]["spec"]["subdomain"] == documents[0]["metadata"]["name"]
    else:
        assert words[:2] == ["torchrun", "--standalone"]


@pytest.mark.parametrize("field", ["kind", "spec"])
def test_the_schema_finds_mistakes(field):
    (document,) = yaml.safe_load_all(made("kubernetes", 1, Job(image="a")))
    document[field] = {} if field == "spec" else "Jobs"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)


def test_names_of_jobs():
    for name in ("Train_me.v2", "9-lives", "---", "é", "x" * 80, "a" * 51 + "-b"):
        jsonschema.validate(label(name), {"$ref": "#/$defs/label", "$defs": SCHEMA["$defs"]})
        assert len(label(name)) <= 56


def test_every_character_survives_yaml():
    for number in [*range(1, 0x400), *range(0x2000, 0x2070), 0xFEFF, 0xFFFE, 0x1F600, 0xE0001, 0x10FFFF]:
        text = f"a{chr(number)}b"
        if not 0xD800 <= number < 0xE000:
            assert yaml.safe_load(quoted(text)) == text, hex(number)
    assert yaml.safe_load(quoted(7)) == 7
    assert yaml.safe_load(quoted("7")) == "7"


def test_what_no_file_can_hold():
    with pytest.raises(Unquotable):
        quoted("a\udce9")
    with pytest.raises(Unquotable):
        shell("a\0b")
    assert b"a\xe9" in made("slurm", words=["a\udce9"])  # bytes of a file name are bytes of a script
    assert unexpanded("$(A) $$") == "$$(A) $$$$"
