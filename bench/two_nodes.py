"""A run on two machines, end to end, on one: two network namespaces that a link of limited speed connects.

    python bench/two_nodes.py                                  # 100 Mbit/s, 1 ms; two processes on each machine
    python bench/two_nodes.py --rate 1gbit --nproc 4 --only ddp,fsdp-hybrid
    python bench/two_nodes.py --loopback                       # where namespaces are not allowed: no limit, no count

A plain script is converted, and the conversion started on each machine as a user would: `distify launch train.py
--nnodes 2 --node-rank K --rdzv-endpoint HOST`. Each machine has a folder and an address of its own, and knows itself by
a name that leads to a loopback address, as most do. Checked, and told by the exit status: the numbers that machine 0
prints and the checkpoint that it writes are those of the original on one process; machine 1 prints and writes nothing.
Told: seconds of a step (median of the steps but the first), and the bytes that the link carried in one, by the kernel's
counters (/sys/class/net/*/statistics), without what starting the processes takes.

Namespaces, link and limit belong to a namespace that ends with this process: nothing is left behind. Root is not needed
where users may make user namespaces. Needs `ip` and `tc` (iproute2) and `unshare` (util-linux).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
INSIDE = "_TWO_NODES_INSIDE"
NUMBER = re.compile(r"-?\d+\.\d+|-?\d+")
ADDRESSES = ("10.77.0.1", "10.77.0.2")
WAYS = {
    "ddp": ["--backend", "ddp"],
    "fsdp": ["--backend", "fsdp"],
    "fsdp-hybrid": ["--backend", "fsdp", "--shard-size", "NPROC"],
}


@dataclass
class Result:
    """One way of sharing, on both machines.

    Attributes:
        seconds: of a step.
        sent: bytes that machine 0 and machine 1 sent in a step; empty where nobody counted.
        worst: largest relative difference to the original's printed numbers.
        weights: largest absolute difference to its checkpoint.
        wrong: what is not as it should be.
    """

    seconds: float
    sent: list[float] = field(default_factory=list)
    worst: float = 0.0
    weights: float = 0.0
    wrong: list[str] = field(default_factory=list)


def main() -> int:
    """Command line; 1 if something differs from the original."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rate", default="100mbit", help="of the link, each way, as tc writes it")
    parser.add_argument("--delay", default="1ms", help="of the link, each way")
    parser.add_argument("--nproc", type=int, default=2, help="processes of each machine")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--only", default=",".join(WAYS), help="ways of sharing")
    parser.add_argument("--rendezvous", choices=("static", "c10d"), default="static", help="who numbers the machines")
    parser.add_argument("--loopback", action="store_true", help="two addresses of one machine, no namespaces")
    args = parser.parse_args()
    if not args.loopback:
        if INSIDE not in os.environ:
            return enter()
        if not connect(args.rate, args.delay):
            sys.stderr.write("this kernel can't delay packets (netem): --delay has no effect\n")
            args.delay = "no delay"
    with tempfile.TemporaryDirectory(prefix="two-nodes-") as folder:
        return compare(args, Path(folder))


def enter() -> int:
    """Start this command anew, in namespaces of its own."""
    missing = [tool for tool in ("unshare", "ip", "tc") if shutil.which(tool) is None]
    if missing:
        sys.stderr.write(f"not found: {', '.join(missing)} (util-linux, iproute2); --loopback needs none of them\n")
        return 2
    own = ["unshare", "--net", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    tried = subprocess.run([*own, "true"], capture_output=True, text=True)
    if tried.returncode:
        sys.stderr.write(f"namespaces are not allowed here: {tried.stderr.strip()} Try it as root, or --loopback\n")
        return 2
    return subprocess.run([*own, sys.executable, *sys.argv], env={**os.environ, INSIDE: "1"}).returncode


def connect(rate: str, delay: str) -> bool:
    """Two machines and a link between them; whether it could be given a delay."""
    late = True
    call("mount", "-t", "tmpfs", "none", "/run")
    for node in (0, 1):
        call("ip", "netns", "add", f"node{node}")
    call("ip", "link", "add", "veth0", "type", "veth", "peer", "name", "veth1")
    for node, address in enumerate(ADDRESSES):
        call("ip", "link", "set", f"veth{node}", "netns", f"node{node}")
        call("ip", "-n", f"node{node}", "addr", "add", f"{address}/24", "dev", f"veth{node}")
        for name in (f"veth{node}", "lo"):
            call("ip", "-n", f"node{node}", "link", "set", name, "up")
        limit = ["root", "handle", "1:", "tbf", "rate", rate, "burst", "128kb", "latency", "400ms"]
        call(*on(node, False), "tc", "qdisc", "add", "dev", f"veth{node}", *limit)
        words = [
            "tc",
            "qdisc",
            "add",
            "dev",
            f"veth{node}",
            "parent",
            "1:1",
            "netem",
            "limit",
            "100000",
            "delay",
            delay,
        ]
        late = late and subprocess.run([*on(node, False), *words], capture_output=True).returncode == 0
    return late


def call(*words: str) -> None:
    """Run a command that must succeed."""
    subprocess.run(words, check=True)


def on(node: int, loopback: bool) -> list[str]:
    """What runs a command on a machine."""
    return [] if loopback else ["ip", "netns", "exec", f"node{node}"]


def compare(args: argparse.Namespace, folder: Path) -> int:
    """Run the original, then each way, and print a table."""
    script = folder / "train.py"
    shutil.copy(HERE / "two_nodes_train.py", script)
    original = folder / "original"
    original.mkdir()
    options = ["--steps", str(args.steps), "--width", str(args.width), "--depth", str(args.depth)]
    plain = subprocess.run(
        [sys.executable, str(script), *options], cwd=original, capture_output=True, text=True, env=threads(), check=True
    )
    call(sys.executable, "-m", "distify.codemod", "rewrite", "--quiet", str(script))
    link = "loopback" if args.loopback else f"{args.rate}, {args.delay}"
    print(f"2 machines x {args.nproc} processes, {link}; original: {median(plain.stderr):.3f} s a step on one process")
    print(f"{'':12} {'s a step':>8} {'MB sent by 0':>13} {'by 1':>6} {'numbers':>9} {'weights':>9}", flush=True)
    bad = False
    for name in args.only.split(","):
        found = run(
            args, folder / name, script, [word.replace("NPROC", str(args.nproc)) for word in WAYS[name]], options
        )
        judge(found, plain.stdout, original, folder / name)
        sent = [f"{one / 1e6:.1f}" for one in found.sent] or ["-", "-"]
        line = f"{name:12} {found.seconds:>8.3f} {sent[0]:>13} {sent[1]:>6} {found.worst:>9.1e} {found.weights:>9.1e}"
        print(line, *(f"\n  {text}" for text in found.wrong), flush=True)
        bad = bad or bool(found.wrong)
    return int(bad)


def threads() -> dict[str, str]:
    """The environment of every process."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "DISTIFY_TIMEOUT": "300"}


def run(args: argparse.Namespace, folder: Path, script: Path, way: list[str], options: list[str]) -> Result:
    """Start both machines and wait for them; the bytes of few steps are taken from those of many."""
    counts = []
    for steps in (2, args.steps):
        shutil.rmtree(folder, ignore_errors=True)
        before = [] if args.loopback else [counted(node) for node in (0, 1)]
        ended = [machine(args, folder, script, way, ["--steps", str(steps), *options[2:]], node) for node in (0, 1)]
        texts = [process.communicate(timeout=900) for process in ended]
        for node, process in enumerate(ended):
            if process.returncode:
                raise SystemExit(f"machine {node} ended with status {process.returncode}\n{texts[node][1]}")
        counts.append([counted(node) - before[node] for node in range(len(before))])
        for node, (out, err) in enumerate(texts):
            (folder / str(node) / "out").write_text(out)
            (folder / str(node) / "err").write_text(err)
    sent = [(many - few) / (args.steps - 2) for few, many in zip(*counts)]
    return Result(median(texts[0][1]), sent)


def machine(
    args: argparse.Namespace, folder: Path, script: Path, way: list[str], options: list[str], node: int
) -> subprocess.Popen[str]:
    """`distify launch` on one machine, in a folder of its own."""
    here = folder / str(node)
    here.mkdir(parents=True)
    shutil.copy(script, here)
    host = "127.0.0.1" if args.loopback else ADDRESSES[0]
    where = ["--nproc", str(args.nproc), "--nnodes", "2", "--rdzv-endpoint", f"{host}:29577"]
    if args.rendezvous == "static":
        where += ["--node-rank", str(node)]
    words = [sys.executable, "-m", "distify.codemod", "launch", script.name, *where, *way, "--", *options]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*on(node, args.loopback), *words], cwd=here, stdout=pipe, stderr=pipe, text=True, env=threads()
    )


def counted(node: int) -> int:
    """Bytes that a machine has sent over the link."""
    words = [*on(node, False), "cat", f"/sys/class/net/veth{node}/statistics/tx_bytes"]
    return int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def median(text: str) -> float:
    """Seconds of a step, as the script says on standard error; the largest of its processes."""
    found = [float(number) for number in re.findall(r"^seconds of a step: (\S+)$", text, re.MULTILINE)]
    return statistics.median(found)


def judge(found: Result, printed: str, original: Path, folder: Path) -> None:
    """Compare what the machines printed and wrote with the original."""
    import torch

    mine, theirs = (NUMBER.findall(text) for text in ((folder / "0" / "out").read_text(), printed))
    if len(mine) != len(theirs):
        found.wrong.append(f"machine 0 printed {len(mine)} numbers, the original {len(theirs)}")
    found.worst = max((abs(float(a) - float(b)) / max(abs(float(b)), 1e-9) for a, b in zip(mine, theirs)), default=1.0)
    if found.worst > 1e-4:
        found.wrong.append("the printed numbers differ from the original's")
    weights = [torch.load(path / "model.pt", weights_only=True) for path in (original, folder / "0")]
    if list(weights[0]) != list(weights[1]):
        found.wrong.append("the checkpoint has other keys")
    found.weights = max((weights[0][key] - weights[1][key]).abs().max().item() for key in weights[0])
    if found.weights > 1e-4:
        found.wrong.append("the weights differ from the original's")
    if (folder / "1" / "out").read_text() or (folder / "1" / "model.pt").exists():
        found.wrong.append("machine 1 printed something, or wrote a checkpoint")


if __name__ == "__main__":
    sys.exit(main())
