"""`distify launch`: what is resolved and where it came from, the command, and its refusals."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from distify.codemod import __main__ as entry
from distify.codemod.cli import app
from distify.codemod.launching import machine

SCRIPT = "from distify import runtime\n\nruntime.init({options})\n"


@pytest.fixture(autouse=True)
def plain(monkeypatch, tmp_path):
    """No GPU, no settings of this machine, and nothing is started."""
    for name in list(os.environ):
        if name.startswith(("DISTIFY_", "PET_", "SLURM_", "OMPI_", "PMI_", "CUDA_")) or name in (
            "OMP_NUM_THREADS",
            "PYTHONHASHSEED",
        ):
            monkeypatch.delenv(name)
    monkeypatch.setattr(machine, "gpu_names", lambda: [])
    monkeypatch.chdir(tmp_path)
    write()


def write(options="", name="train.py"):
    with open(name, "w") as file:
        file.write(SCRIPT.format(options=options))


def launch(*arguments):
    return CliRunner().invoke(app, ["launch", *arguments])


def rows(result):
    """The table: option to value and source."""
    cells = [line.split(maxsplit=2) for line in result.stderr.splitlines() if line.startswith("  ")]
    return {cell[0]: (cell[1], cell[2]) for cell in cells if len(cell) == 3}


def refused(capsys, *arguments):
    """The one line that is said."""
    code = entry.run(["launch", *arguments])
    text = capsys.readouterr().err
    assert (code, text.count("\n")) == (2, 1), text
    return text


def test_each_value_tells_its_source(monkeypatch, tmp_path):
    write('backend="fsdp"')
    (tmp_path / "pyproject.toml").write_text('[tool.distify]\nbatchnorm = "local"\nprecision = "fp16"\n')
    monkeypatch.setenv("DISTIFY_PRECISION", "bf16")
    result = launch("train.py", "--accumulate", "4", "--nproc", "3", "--dry-run")
    assert rows(result) == {
        "backend": ("fsdp", "train.py:3: runtime.init(backend=…)"),
        "precision": ("bf16", "DISTIFY_PRECISION"),
        "accumulate": ("4", "--accumulate"),
        "batch": ("global", "default"),
        "batchnorm": ("local", "pyproject.toml: [tool.distify]"),
        "zero_stage": ("-", "of deepspeed only"),
        "shard_size": ("-", "default: all processes"),
        "nproc": ("3", "--nproc"),
        "nnodes": ("1", "default"),
    }
    assert result.stdout == (
        "DISTIFY_ACCUMULATE=4 PYTHONHASHSEED=0 OMP_NUM_THREADS=1 torchrun --standalone --nproc-per-node 3 train.py\n"
    )
    assert result.exit_code == 0


def test_the_run_replaces_this_process(monkeypatch):
    seen = []
    monkeypatch.setattr(machine, "starter", lambda: ["/bin/torchrun"])
    monkeypatch.setattr(os, "execve", lambda *words: seen.append(words))
    monkeypatch.setattr("subprocess.call", lambda *words, **more: 7)  # where a process can't be replaced
    monkeypatch.setenv("RANK", "1")
    result = launch("train.py", "--backend", "fsdp", "--", "--lr", "0.1 $HOME", "--nproc")
    assert result.exit_code == 7
    ((path, words, environment),) = seen
    assert [path, *words[1:]] == [
        "/bin/torchrun",
        *["--standalone", "--nproc-per-node", "2", "train.py", "--lr"],
        "0.1 $HOME",
        "--nproc",
    ]
    assert (environment["DISTIFY_BACKEND"], environment.get("RANK")) == ("fsdp", None)
    assert "command: DISTIFY_BACKEND=fsdp PYTHONHASHSEED=0" in result.stderr


def test_the_starter_is_torch_beside_us_or_torchrun(monkeypatch, capsys):
    assert machine.starter()[-2:] == ["-m", "distify.runtime.agent"]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("shutil.which", lambda name: f"/env/bin/{name}")
    assert machine.starter() == ["/env/bin/torchrun"]
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert refused(capsys, "train.py", "-q").startswith("distify: torch is not installed beside distify")


def test_gpus_are_counted(monkeypatch):
    monkeypatch.setattr(machine, "gpu_names", lambda: ["H100"] * 8)
    assert rows(launch("train.py", "--dry-run"))["nproc"] == ("8", "GPUs of this machine")
    for visible, count in (("0,3", "2"), ("", "2"), ("-1", "2"), ("5", "1"), ("1,2,-1,3", "2")):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert rows(launch("train.py", "--dry-run"))["nproc"][0] == count
    assert rows(launch("train.py", "--dry-run", "--nproc", "gpu"))["nproc"] == ("gpu", "--nproc")


def test_a_machine_that_has_no_address_is_told_of(monkeypatch):
    monkeypatch.setattr(machine, "starter", lambda: ["/bin/torchrun"])
    monkeypatch.setattr(os, "execve", lambda *words: None)
    monkeypatch.setattr("subprocess.call", lambda *words, **more: 0)
    for host, told in (("127.0.0.1:29500", False), ("[::1]", False), ("no-such-host.invalid", True)):
        result = launch("train.py", "--nnodes", "2", "--node-rank", "1", "--rdzv-endpoint", host)
        assert result.exit_code == 0
        assert (f"{host} has no address on this machine (yet)" in result.stderr) == told


def test_several_machines(monkeypatch):
    fixed = launch(
        "train.py", "--nnodes", "2", "--node-rank", "1", "--rdzv-endpoint", "host0", "--nproc", "8", "--dry-run"
    )
    assert fixed.stdout.endswith(
        "torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend static --rdzv-endpoint host0:29500 --node-rank 1 train.py\n"
    )
    assert "waits for the first machine, at host0:29500" in fixed.stderr
    for count, told in (
        ("2", "on the other machine, with --node-rank 1;"),
        ("3", "on the other 2 machines, with --node-rank 1 to 2;"),
    ):
        words = ["--nnodes", count, "--node-rank", "0", "--master-addr", "host0", "--nproc-per-node", "8", "--dry-run"]
        first = launch("train.py", *words)
        assert f"--nnodes {count} --nproc-per-node 8 --rdzv-backend static --rdzv-endpoint host0:29500" in first.stdout
        assert f"type the same command {told}" in first.stderr
    free = launch(
        "train.py",
        "--nnodes",
        "1:4",
        "--rdzv-endpoint",
        "[::1]:80",
        "--rdzv-id",
        "x",
        "--max-restarts",
        "3",
        "--dry-run",
    )
    assert "--rdzv-backend c10d --rdzv-endpoint '[::1]:80' --rdzv-id x --max-restarts 3 train.py" in free.stdout
    assert "type the same command on the other machines; it starts when 1:4 are there" in free.stderr
    for name, value in {
        "NNODES": "2",
        "NODE_RANK": "0",
        "MASTER_ADDR": "m",
        "MASTER_PORT": "5",
        "NPROC_PER_NODE": "4",
    }.items():
        monkeypatch.setenv(f"PET_{name}", value)
    found = rows(launch("train.py", "--dry-run"))
    assert found["nnodes"] == ("2", "PET_NNODES")
    assert found["nproc"] == ("4", "PET_NPROC_PER_NODE")
    assert found["rdzv_endpoint"] == ("m:5", "PET_MASTER_ADDR")
    assert found["node_rank"] == ("0", "PET_NODE_RANK")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train.py --backend fdsp", "did you mean 'fsdp'?"),
        ("train.py --accumulate 0", "not a whole number from 1"),
        ("train.py --zero-stage 2", "--zero-stage: 2 is a stage of DeepSpeed's ZeRO, but the backend is ddp (default)"),
        ("train.py --offload cpu", "--offload: cpu is where parts of a model and its optimizer lie, but the backend"),
        ("train.py --meta-init", "--meta-init: True says that a model is built in parts, but the backend is ddp"),
        (
            "train.py --shard-size 2",
            "--shard-size: 2 is how many processes share the parts of a model, but the backend",
        ),
        (
            "train.py --backend fsdp --shard-size 4 --nproc 3 --nnodes 2 --node-rank 0 --rdzv-endpoint a",
            "--shard-size: 6 processes can't be divided into groups of 4, which each hold all of a model.",
        ),
        ("train.py --nproc 0", "--nproc: '0' is not a whole number from 1, gpu or cpu"),
        ("train.py --nproc -1", "--nproc"),
        ("train.py --nnodes 4:2", "the first number is the smaller one"),
        ("train.py --nnodes 2", "several machines need --rdzv-endpoint"),
        ("train.py --node-rank 1", "--node-rank goes with several machines: give --nnodes too"),
        ("train.py --nnodes 2 --node-rank 2 --rdzv-endpoint a", "--node-rank: '2' is not a whole number from 0 to 1"),
        ("train.py --nnodes 2 --rdzv-endpoint a --rdzv-backend static", "static needs --node-rank, from 0 to 1"),
        ("train.py --nnodes 2 --rdzv-endpoint a --rdzv-backend c10", "did you mean 'c10d'?"),
        ("train.py --nnodes 2 --rdzv-endpoint a:0", "'a:0' is not HOST or HOST:PORT"),
        ("train.py --nnodes 2 --rdzv-endpoint http://a", "is not HOST or HOST:PORT"),
        ("train.py --nnodes 2 --node-rank 0 --rdzv-endpoint a --rdzv-backend c10d", "goes with --rdzv-backend static"),
        ("train.py --nnodes 1:2 --node-rank 0 --rdzv-endpoint a", "static needs a fixed number"),
        ("train.py --max-restarts x", "--max-restarts: 'x' is not a whole number from 0"),
        ("trein.py", "trein.py: no such file, did you mean 'train.py'?"),
        ("-m train.x", "train.x: no such module in this folder"),
        ("-m ../train", "no such module"),
        (".", ".: is a folder"),
        ("train.py --lr 0.1", "no such option: --lr"),
        ("train.py -o x", "-o goes with --emit"),
        ("train.py --time 3", "--time goes with --emit slurm"),
        ("train.py --emit slrm", "did you mean 'slurm'?"),
        ("train.py --emit slurm", "--emit needs --nproc N"),
        ("train.py --emit slurm --nproc gpu", "'gpu' is not a whole number"),
        ("train.py --emit slurm --nproc 8 --node-rank 0", "--node-rank: the job file finds that out"),
        ("train.py --emit slurm --nproc 8 --nnodes 1:2", "a job file has a fixed number of machines"),
        ("train.py --emit slurm --nproc 8 --dry-run", "leave --dry-run out"),
        ("train.py --emit slurm --nproc 8 --image x", "--image goes with --emit kubernetes"),
        ("train.py --emit torchrun --nproc 8 --name x", "--name goes with --emit slurm or --emit kubernetes"),
        ("train.py --emit kubernetes --nproc 8", "needs --image"),
        ("train.py --emit slurm --nproc 8 -o train.py", "train.py: is the script itself"),
        ("train.py --emit slurm --nproc 8 -o a/\0b", ""),
    ],
)
def test_what_is_wrong_is_one_line(capsys, arguments, message):
    before = Path("train.py").read_text()
    assert message in refused(capsys, *arguments.split(" "))
    assert Path("train.py").read_text() == before


def test_what_the_script_says_wins_and_is_never_passed_over(capsys):
    write('backend="fsdp", precision=args.precision')
    line = refused(capsys, "train.py", "--backend", "ddp")
    assert "train.py:3: runtime.init(backend=…) says 'fsdp', and what the code says wins" in line
    assert "distify rewrite train.py --backend ddp" in line
    assert "says a value of its own" in refused(capsys, "train.py", "--precision", "bf16")
    assert rows(launch("train.py", "--dry-run", "--backend", "fsdp"))["precision"][0] == "-"
    write("**options")
    assert rows(launch("train.py", "--dry-run"))["backend"] == (
        "-",
        "train.py:3: runtime.init(backend=…), computed there",
    )


def test_a_stage_of_the_project_is_moot_beside_a_flag_but_not_beside_its_own_backend(capsys, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.distify]\nbackend = "deepspeed"\nzero-stage = 3\n')
    assert rows(launch("train.py", "--dry-run"))["zero_stage"] == ("3", "pyproject.toml: [tool.distify]")
    assert launch("train.py", "--dry-run", "--backend", "ddp").exit_code == 0
    (tmp_path / "pyproject.toml").write_text('[tool.distify]\nbackend = "fsdp"\nzero-stage = 3\n')
    assert "is a stage of DeepSpeed's ZeRO" in refused(capsys, "train.py")


@pytest.mark.parametrize(
    "text",
    [
        "import distify.runtime\ndistify.runtime.init(backend='fsdp')\n",
        "import distify.runtime as d\nd.init(backend='fsdp')\n",
        "from distify.runtime import init as begin\nbegin(backend='fsdp')\n",
        "from distify import runtime as r\ndef main():\n    r.init(backend='fsdp')\n",
        "from lib import start\nstart()\n",
    ],
)
def test_the_call_is_found_by_any_name_and_in_imported_modules(tmp_path, text):
    (tmp_path / "lib.py").write_text("from distify import runtime\ndef start():\n    runtime.init(backend='fsdp')\n")
    (tmp_path / "train.py").write_text(text)
    assert rows(launch("train.py", "--dry-run"))["backend"][0] == "fsdp"


def test_a_plain_script_is_not_started_several_times(capsys, tmp_path):
    (tmp_path / "plain.py").write_text("import torch\nprint(1)\n")
    assert "each process would train alone" in refused(capsys, "plain.py")
    assert "nothing would read it" in refused(capsys, "plain.py", "--backend", "fsdp", "--as-is")
    assert launch("plain.py", "--dry-run", "--as-is").exit_code == 0
    assert launch("plain.py", "--dry-run", "--nproc", "1").exit_code == 0


@pytest.mark.parametrize(
    ("text", "by_hand"),
    [
        ("import torch.distributed as dist\n", True),
        ("from torch import distributed\n", True),
        ("import torch\ntorch.distributed.init_process_group()\n", True),
        ("from accelerate import Accelerator\n", True),
        ("from transformers import Seq2SeqTrainer\n", True),
        ("from transformers import AutoModel\n", False),
        ("# torch.distributed\nclass Trainer: pass\n", False),
        ("import lightning_rod\nfrom .accelerate import x\n", False),
    ],
)
def test_what_is_distributed_by_hand_or_by_a_library_is_started(tmp_path, text, by_hand):
    (tmp_path / "plain.py").write_text(text)
    assert launch("plain.py", "--dry-run").exit_code == (0 if by_hand else 2)


def test_several_tasks_of_another_launcher_are_not_trained_alone(capsys, monkeypatch):
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "2")
    assert "each would train alone" in refused(capsys, "train.py")


def test_a_module(tmp_path):
    (tmp_path / "package").mkdir()
    write("", "package/__main__.py")
    write("", "package/train.py")
    assert launch("-m", "package.train", "--dry-run").stdout.endswith(" -m package.train\n")
    assert launch("-m", "package", "--dry-run").exit_code == 0


def test_odd_names_stay_one_word(tmp_path):
    name = "-a b;$(touch x)'\".py"
    write("", name)
    result = launch("--dry-run", "--", name, "\n")
    done = os.popen(f"printf '%s|' {result.stdout.split('node 2 ')[1]}").read()
    assert done == f"./{name}|\n|"
    assert not os.path.exists("x")
