"""`meta_init`: parameters in files until they are cut; initial values, training and checkpoints as without."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from distify import runtime
from distify.runtime import spilled
from distify.runtime.state import state
from tests.pool import Pool


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.tanh(self.up(self.norm(x))))


class Model(nn.Module):
    """Initialised as people do it: by the modules, again by `apply`, by name, by hand; with tied weights."""

    def __init__(self, words: int = 50, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=0)
        self.layers = nn.ModuleList([Layer(width) for _ in range(3)])
        self.gain = nn.Parameter(torch.rand(3 * width).reshape(3, width))
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight
        self.apply(self._init)
        for name, p in self.named_parameters():
            if name.endswith("down.weight"):
                nn.init.normal_(p, std=0.02 / math.sqrt(6))
        with torch.no_grad():
            self.gain[1] /= self.gain.norm()
            self.layers[2].up.weight.copy_(self.layers[1].up.weight * 2)  # type: ignore[union-attr, arg-type]

    def _init(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.trunc_normal_(module.weight, std=0.02)

    def forward(self, words: Tensor) -> Tensor:
        x = self.embed(words)
        for k, layer in enumerate(self.layers):
            x = layer(x) * self.gain[k]
        return self.head(x)


def train(meta_init: bool, seeded: bool, **options: Any) -> tuple[dict[str, Tensor], list[float], dict[str, Tensor]]:
    """Initial state, losses, final state."""
    spilled.LEAST = 256
    runtime.init(backend="fsdp", meta_init=meta_init, **options)
    torch.manual_seed(5 if seeded else 5 + state.rank)  # rank 0's values count
    model = Model().to(runtime.device())
    teacher = nn.Linear(16, 16).requires_grad_(False)
    optimizer = torch.optim.AdamW([{"params": list(model.parameters()), "weight_decay": 0.1}], lr=0.01)
    spill = spilled.current()
    assert (spill is not None) == meta_init
    if spill is not None:
        assert model.embed.weight in spill
        assert model.gain not in spill  # a small one
        assert model.head.weight is model.embed.weight
        spill.let_go()
    runtime.prepare(model, teacher, optimizer)
    if spill is not None:
        assert not spill.files
    first = {name: tensor.clone() for name, tensor in runtime.state_dict(model).items()}
    losses = []
    torch.manual_seed(7)
    for _ in range(2):
        words = runtime.split(torch.randint(0, 50, (6, 4)))
        optimizer.zero_grad()
        with runtime.autocast():
            loss = runtime.mean(torch.nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten()))
        runtime.backward(loss)
        runtime.clip_grad_norm_(model.parameters(), 1.0)
        runtime.step(optimizer)
        losses.append(loss.item())
    return first, losses, {name: tensor.clone() for name, tensor in runtime.state_dict(model).items()}


def compare(**options: Any) -> None:
    plain = train(False, **options)
    runtime.shutdown()
    found = train(True, **options)
    assert found[1] == plain[1]
    for one, other in ((plain[0], found[0]), (plain[2], found[2])):
        assert list(one) == list(other)
        for name, tensor in one.items():
            assert torch.equal(tensor, other[name]), name


@pytest.mark.parametrize(
    "options",
    [
        {"seeded": True},
        {"seeded": False, "checkpoint_activations": True},
        {"seeded": True, "precision": "bf16", "offload": "cpu", "reshard": "always"},
    ],
    ids=str,
)
def test_the_same_run(pool2: Pool, options: dict[str, Any]) -> None:
    pool2.run(compare, **options)


def test_one_process_is_told(alone: None, capfd: pytest.CaptureFixture[str]) -> None:
    runtime.init(backend="fsdp", meta_init=True, offload="cpu")
    assert "offload and meta_init do nothing on one process" in capfd.readouterr().err
    assert spilled.current() is None


def test_memory_is_no_place_for_files() -> None:
    assert spilled.file_system("/dev/shm/x") in spilled.MEMORY
    assert spilled.file_system("/proc") == "proc"


def moved() -> None:
    """A change of type, and of device, of what is in files."""
    spilled.LEAST = 256
    runtime.init(backend="fsdp", meta_init=True)
    spill = spilled.current()
    assert spill is not None
    linear = nn.Linear(32, 32)
    values = linear.weight.detach().clone()
    linear.double()
    assert linear.weight in spill
    assert torch.equal(linear.weight, values.double())
    linear.to("meta")
    assert linear.weight.device.type == "cpu"  # until it is used
    assert spill.wanted
    with pytest.raises(RuntimeError, match="incompatible tensor type"):  # torch can't move there, but to a GPU
        linear(torch.ones(2, 32).double())
    assert not spill.wanted


def test_types_and_devices(pool2: Pool) -> None:
    pool2.run(moved)
