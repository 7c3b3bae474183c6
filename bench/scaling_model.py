"""The formula: seconds of one optimizer step on n GPUs, for each way in which they share a model.

    step      = max(host, compute + update + copies + exposed)
    compute   = a · 6·P·t / F              a batches of a step, t tokens of each on one GPU, P parameters; F: speed
    update    = 28·P·held / M              AdamW moves 7 numbers of 4 bytes for each parameter that a GPU holds
    copies    = e · P                      into and out of the buffers that travel, and other types
    exposed   = Σ over passes of (c − overlap · min(window, c·(1 − 1/k)))
                                           c: the pass's communication in k messages, of which the last can't be hidden;
                                           window: the computing that may hide it, C/3 of a forward, 2C/3 of a backward
    host      = h · layers · a             Python and kernel launches, which run ahead of the GPU or hold it up

    gather(S), scatter(S) over k GPUs      (k−1)/k · S/B + messages · latency          a ring
    reduce(S)                              2(k−1)/k · S/B + messages · latency         a ring, or a tree for small ones
    B                                      `inside` a node of g GPUs; for more: min(inside, g·nic), since the NIC of
                                           each carries a g-th; between the same GPU of each node: nic
    latency                                ring: hops of one round; tree: 2·((g−1)·inside + log2(nodes)·between)

Bytes of a step, for P parameters, w bytes of a gathered parameter and v of a reduced gradient:

    ddp          reduce(vP)                                   in the backward
    fsdp         gather(wP) a times, again in the backward where memory demands it; scatter(vP)
    fsdp-hybrid  the same within a node of g GPUs; then reduce(vP/g) between nodes
    zero2        scatter(vP) in the backward; gather(wP) after the step, with nothing to hide it
    zero3        gather(wP) in each forward and in each backward; scatter(vP)

On one GPU there is no communication, and none of the sharding backends' Python: the runtime takes the plain path.

Sources. Ring and its lower bound 2(n−1)/n: Patarasuk and Yuan, "Bandwidth Optimal All-reduce Algorithms for Clusters of
Workstations" (2009); the same factors as "bus bandwidth" in NCCL's tests, https://github.com/NVIDIA/nccl-tests,
doc/PERFORMANCE.md. Latencies of rings and trees, and what a hop takes over NVLink and a network: NCCL's own model,
https://github.com/NVIDIA/nccl, src/graph/tuning.cc; Thakur, Rabenseifner and Gropp, "Optimization of Collective
Communication Operations in MPICH" (2005); Jeaugey, "Massively Scale Your Deep Learning Training with NCCL 2.4" (2019).
Volumes 2Ψ and 3Ψ of the stages: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
Models" (2020), section 7. Hybrid sharding: Zhao et al., "PyTorch FSDP" (2023), section 3.2.2; Zhang et al., "MiCS"
(2022). 6 operations per parameter and token, a third of them in the forward: Kaplan et al., "Scaling Laws for Neural
Language Models" (2020), section 2.1; Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters
Using Megatron-LM" (2021), appendix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

BACKENDS = ("ddp", "fsdp", "fsdp-hybrid", "zero2", "zero3")
UPDATE = 28.0  # bytes that AdamW moves for a parameter in fp32: value, gradient and two moments read, three written
BUCKET = 25 * 2**20  # bytes of a bucket of ddp
ELEMENTS = 5e8  # of a bucket of DeepSpeed
ROOM = 0.5  # part of a GPU's memory that a model may take for fsdp to keep gathered blocks for the backward


@dataclass(frozen=True)
class Task:
    """What is trained.

    Attributes:
        name: of the model.
        params, layers: its parameters; its repeated blocks, each gathered by itself.
        tokens: of one sample (1 for images).
        batch: samples that one GPU computes at once.
        wide: bytes of a parameter in the type that computes, 2 for bf16 and fp16.
        again: whether fsdp gathers blocks again in the backward; `None`: where memory demands it.
    """

    name: str
    params: float
    layers: int
    tokens: int
    batch: int
    wide: int = 2
    again: bool | None = None


@dataclass(frozen=True)
class Machine:
    """GPUs and what connects them.

    Attributes:
        gpus: of a node.
        inside, nic: bytes per second of one GPU in a collective, to others of its node and to those of other nodes.
        hop_inside, hop_between: seconds that a message takes at least.
        memory: bytes per second that an optimizer moves.
        capacity: bytes of a GPU.
    """

    gpus: int = 8
    inside: float = 300e9
    nic: float = 45e9
    hop_inside: float = 1.9e-6
    hop_between: float = 4e-6
    memory: float = 4e12
    capacity: float = 141e9


@dataclass(frozen=True)
class Fitted:
    """What measurements tell.

    Attributes:
        speed: floating-point operations per second that one GPU reaches, by model.
        overlap: by backend, from 0 (communication waits for computing and the other way round) to 1.
        host: seconds of Python for a layer of one batch, by backend; "single" for one GPU.
        copies: seconds for a parameter, by backend.
    """

    speed: dict[str, float]
    overlap: dict[str, float] = field(default_factory=dict)
    host: dict[str, float] = field(default_factory=dict)
    copies: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Group:
    """GPUs that communicate: `inside` of each node, on `nodes` nodes; `rails` of them per node share its NICs."""

    inside: int
    nodes: int
    rails: int

    @property
    def size(self) -> int:
        """How many."""
        return self.inside * self.nodes

    def bandwidth(self, machine: Machine) -> float:
        """Bytes per second of each, through the narrowest link of a ring."""
        if self.nodes == 1:
            return machine.inside
        return min(machine.inside, self.rails * machine.nic) if self.inside > 1 else machine.nic

    def ring(self, machine: Machine) -> float:
        """Seconds of the hops of one round."""
        return self.nodes * (self.inside - 1) * machine.hop_inside + (self.nodes - 1) * machine.hop_between

    def tree(self, machine: Machine) -> float:
        """Seconds up a tree and down again."""
        return 2 * ((self.inside - 1) * machine.hop_inside + math.log2(self.nodes) * machine.hop_between)

    def gather(self, size: float, messages: int, machine: Machine) -> float:
        """Seconds until each has all of `size` bytes, or its sum of a part of them."""
        return (self.size - 1) / self.size * size / self.bandwidth(machine) + messages * self.ring(machine)

    def reduce(self, size: float, messages: int, machine: Machine) -> float:
        """Seconds until each has the sum of `size` bytes."""
        moved = 2 * (self.size - 1) / self.size * size / self.bandwidth(machine)
        return moved + messages * min(2 * self.ring(machine), self.tree(machine))


def everyone(gpus: int, machine: Machine) -> Group:
    """All GPUs; nodes are full if there are several."""
    inside = min(gpus, machine.gpus)
    return Group(inside, max(1, -(-gpus // machine.gpus)), inside)


@dataclass(frozen=True)
class Times:
    """Seconds of one step.

    Attributes:
        compute, update, copies: of the GPU.
        exposed: communication that nothing hides.
        host: what Python takes.
    """

    compute: float
    update: float
    copies: float
    exposed: float
    host: float

    @property
    def step(self) -> float:
        """From one step to the next."""
        return max(self.host, self.compute + self.update + self.copies + self.exposed)


def predict(
    task: Task, backend: str, gpus: int, machine: Machine, fitted: Fitted, samples: float | None = None
) -> Times:
    """The seconds of a step.

    Args:
        task: what is trained.
        backend: of `BACKENDS`.
        gpus: how many; whole nodes if more than one node has.
        machine: what they are.
        fitted: what was measured.
        samples: of one GPU in a step; the task's batch if not given. More than that are batches of an accumulation.
    """
    samples = task.batch if samples is None else samples
    batches = max(1, math.ceil(samples / task.batch))
    compute = 6 * task.params * samples * task.tokens / fitted.speed[task.name]
    if gpus == 1:
        update = UPDATE * task.params / machine.memory
        return Times(compute, update, 0.0, 0.0, fitted.host.get("single", 0.0) * task.layers * batches)
    group = everyone(gpus, machine)
    width = group.inside if backend == "fsdp-hybrid" else gpus
    held = 1.0 if backend == "ddp" else 1 / width
    update = UPDATE * task.params * held / machine.memory
    kind = backend.removesuffix("-hybrid")
    overlap, copies = fitted.overlap.get(kind, 1.0), fitted.copies.get(kind, 0.0) * task.params
    exposed = 0.0
    for seconds, window, messages in passes(task, backend, group, machine, compute, batches):
        exposed += seconds - overlap * min(window, seconds * (1 - 1 / messages))
    host = fitted.host.get(kind, 0.0) * task.layers * batches
    return Times(compute, update, copies, exposed, host)


def gathers_again(task: Task, width: int, machine: Machine) -> bool:
    """Whether fsdp gives blocks back after the forward: Adam's 16 bytes in parts, and all parameters gathered."""
    if task.again is not None:
        return task.again
    return 16 * task.params / width + task.wide * task.params > ROOM * machine.capacity


def passes(
    task: Task, backend: str, group: Group, machine: Machine, compute: float, batches: int
) -> list[tuple[float, float, int]]:
    """Each pass of a step that communicates: seconds of it, seconds of computing that may hide it, its messages."""
    forward, backward = compute / 3, 2 * compute / 3
    weights, gradients = task.wide * task.params, (2 if backend.startswith("zero") else 4) * task.params
    blocks = task.layers + 1
    if backend == "ddp":
        buckets = math.ceil(gradients / BUCKET) + 1
        return [(group.reduce(gradients, buckets, machine), backward / batches, buckets)]
    if backend == "zero2":
        buckets = math.ceil(task.params / ELEMENTS)
        scatter, gather = group.gather(gradients, buckets, machine), group.gather(weights, buckets, machine)
        return [(scatter, backward / batches, buckets), (gather, 0.0, buckets)]
    near = Group(group.inside, 1, group.rails) if backend == "fsdp-hybrid" else group
    gather, scatter = near.gather(weights, blocks, machine), near.gather(gradients, blocks, machine)
    again = batches * gather if backend == "zero3" or gathers_again(task, near.size, machine) else 0.0
    if near is not group:  # parts travel between nodes while the next ones are made: the slower link counts
        across = Group(1, group.nodes, group.rails).reduce(gradients / near.size, blocks, machine)
        slow, fast = max(again + scatter, across), min(again + scatter, across)
        scatter, again = slow + fast / blocks, 0.0
    return [(batches * gather, forward, blocks), (again + scatter, backward, blocks)]
