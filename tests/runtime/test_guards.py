"""Misuse that trains wrongly, hangs or fails obscurely without a guard: errors that say what to write; and what looks
like it and is right goes on.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.pool import Pool
from tests.runtime.guard_setting import ALL, WHOLE, Setting

# --- what must fail, with the words of its fix


def grad_of_slices(backend: str) -> None:
    s = Setting(backend)
    torch.autograd.grad(s.local(), list(s.model.parameters()))


def grad_of_slices_imported(backend: str) -> None:
    from torch.autograd import grad  # a library's own name for it

    s = Setting(backend)
    grad(s.local(), list(s.model.parameters())[:1], retain_graph=True)


def grad_of_a_reduced_loss(backend: str) -> None:
    s = Setting(backend)
    x = s.x.clone().requires_grad_()
    torch.autograd.grad(s.runtime.mean(s.model(x).square().mean()), x)


def grad_twice(backend: str) -> None:
    s = Setting(backend)
    x = s.x.clone().requires_grad_()
    torch.autograd.grad(s.model(x).sum(), x, create_graph=True)


def backward_to_inputs(backend: str) -> None:
    s = Setting(backend)
    s.x = s.x.clone().requires_grad_()
    with s.runtime.frozen(s.model):
        s.loss().backward()


def backward_of_slices(backend: str) -> None:
    Setting(backend).local().backward()


def clip(backend: str) -> None:
    s = Setting(backend)
    s.runtime.backward(s.loss())
    nn.utils.clip_grad_norm_(s.model.parameters(), 0.1)


def clip_value(backend: str) -> None:
    s = Setting(backend)
    s.runtime.backward(s.loss())
    nn.utils.clip_grad_value_(s.model.parameters(), 0.1)


def clip_scaled(backend: str) -> None:
    s = Setting(backend, precision="fp16")
    with s.runtime.autocast():
        loss = s.loss()
    s.runtime.backward(loss)
    nn.utils.clip_grad_norm_(s.model.parameters(), 0.1)


def clip_too_early(backend: str) -> None:
    """In a window of the script's own, before its last backward."""
    s = Setting(backend)
    s.runtime.backward(s.loss(), sync=False)
    nn.utils.clip_grad_norm_(s.model.parameters(), 0.1)


def new_layer(backend: str) -> None:
    s = Setting(backend)
    s.train()
    s.model[2] = nn.Linear(8, 4)
    optimizer = torch.optim.AdamW(s.model.parameters())
    s.runtime.prepare(s.model, optimizer)
    s.train(optimizer)


def part_before_whole(backend: str) -> None:
    s = Setting(backend, prepare=False)
    s.runtime.prepare(s.model[2], torch.optim.AdamW(s.model[2].parameters()))
    s.runtime.prepare(s.model, s.optimizer)


def prepared_twice(backend: str) -> None:
    s = Setting(backend)
    s.runtime.prepare(s.model)


def built_by_rank(backend: str) -> None:
    s = Setting(backend)
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2 + s.runtime.rank()))
    s.runtime.prepare(model, torch.optim.AdamW(model.parameters()))


def larger_by_rank(backend: str) -> None:
    s = Setting(backend)
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(1 + s.runtime.rank())))
    s.runtime.prepare(model, torch.optim.AdamW(model.parameters()))


def half_and_scaled(backend: str) -> None:
    s = Setting(backend, prepare=False, precision="fp16")
    s.runtime.prepare(s.model.half(), s.optimizer)


def captured(backend: str) -> None:
    s = Setting(backend, prepare=False)
    kept = list(s.model.parameters())
    s.runtime.prepare(s.model, s.optimizer)
    kept[0].clone()


def captured_graph(backend: str) -> None:
    s = Setting(backend, prepare=False)
    loss = s.loss()
    s.runtime.prepare(s.model, s.optimizer)
    s.runtime.backward(loss)


def optimizer_of_none(backend: str) -> None:
    s = Setting(backend, prepare=False)
    other = nn.Linear(2, 2)
    s.runtime.prepare(s.model, torch.optim.AdamW(other.parameters()))


def another_init(backend: str) -> None:
    Setting(backend).runtime.init(precision="bf16")


def not_prepared(backend: str) -> None:
    s = Setting(backend, prepare=False)
    s.train()


GRAD = "Write runtime.grad(outputs, inputs) in place of torch.autograd.grad"
BACKWARD = "Write runtime.backward(loss) in place of loss.backward()"
REFUSED: list[tuple[Callable[[str], None], tuple[str, ...], tuple[str, ...]]] = [
    (grad_of_slices, ("ddp", "zero1", "zero2", "zero3"), ("test_guards.py:", "rank's rows only", "write" + GRAD[5:])),
    (grad_of_slices, ("fsdp",), ("test_guards.py:", "fsdp holds in parts", GRAD)),
    (grad_of_slices_imported, ("ddp", "zero2"), ("test_guards.py:", "write" + GRAD[5:])),
    (grad_of_a_reduced_loss, ALL, ("rank's rows only", GRAD)),
    (grad_twice, ("fsdp",), ("test_guards.py:", "second backward would not find them", GRAD)),
    (backward_to_inputs, ALL, ("rank's rows only", BACKWARD)),
    (backward_of_slices, ALL, ("prepared module", BACKWARD)),
    (clip, ("zero1", "zero2", "zero3"), ("test_guards.py:", "Write runtime.clip_grad_norm_(…)")),
    (clip_value, ("zero1", "zero2", "zero3"), ("test_guards.py:", "Write runtime.clip_grad_value_(…)")),
    (clip_scaled, WHOLE, ("loss scale of fp16", "Write runtime.clip_grad_norm_(…)")),
    (clip_too_early, WHOLE, ("has not been reduced over the ranks yet", "Write runtime.clip_grad_norm_(…)")),
    (new_layer, WHOLE, ("were made after runtime.prepare()", "Build the whole model before")),
    (
        part_before_whole,
        ("fsdp",),
        ("2.weight of Sequential lies in parts already", "Prepare the outermost module first"),
    ),
    (part_before_whole, ("zero1", "zero3"), ("was prepared before", "pass them in one call")),
    (prepared_twice, ALL, ("Sequential was prepared before", "remove one call")),
    (built_by_rank, ALL, ("1.weight (2, 3) torch.float32 on rank 0, 1.weight (3, 3)", "must build the same model")),
    (larger_by_rank, WHOLE, ("nothing more   on rank 0, 1.weight (2, 2)", "must not depend on the rank")),
    (half_and_scaled, WHOLE, ("'0.weight' of Sequential is fp16", "Remove model.half()")),
    (captured, ("fsdp",), ("'Sequential.0.weight' was used through", "Collect parameters after runtime.prepare()")),
    (captured_graph, ("fsdp",), ("used through a reference from before", "Collect parameters after runtime.prepare()")),
    (
        optimizer_of_none,
        ALL,
        ("belong to no prepared module: param_groups[0]['params'][0]", "Pass the module that holds"),
    ),
    (another_init, ALL, ("ran before, with precision='fp32'", "keep one call, or make them equal")),
    (not_prepared, ALL, ("this AdamW was not prepared", "Pass it to runtime.prepare()")),
]


def refused(case: Callable[[str], None], backend: str) -> str:
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            case(backend)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing was raised"


@pytest.mark.parametrize(
    ("case", "backend", "words"),
    [pytest.param(c, b, words, id=f"{c.__name__}-{b}") for c, backends, words in REFUSED for b in backends],
)
def test_what_fails_says_the_fix(case: Any, backend: str, words: tuple[str, ...], pool2: Pool) -> None:
    for found in pool2.run(refused, case, backend):
        missing = [part for part in words if part not in found]
        assert not missing, found


def test_on_three(pool3: Pool) -> None:
    for case, backend, words in (
        (grad_of_slices, "ddp", "write" + GRAD[5:]),
        (backward_of_slices, "fsdp", BACKWARD),
        (new_layer, "fsdp", "Build the whole model before"),
        (captured, "fsdp", "Collect parameters after runtime.prepare()"),
    ):
        for found in pool3.run(refused, case, backend):
            assert words in found


def on_one(**options: Any) -> tuple[Any, Any, Tensor]:
    from distify import runtime

    runtime.init(**options)
    model = nn.Linear(6, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    runtime.prepare(model, optimizer)
    x = runtime.split(torch.ones(3, 6))
    with runtime.autocast():
        loss = runtime.mean(model(x).square().mean())
    return model, optimizer, loss


def test_one_process_is_plain_torch(alone: None) -> None:
    model, optimizer, loss = on_one()
    before = model.weight.detach().clone()
    torch.autograd.grad(loss, model.weight, retain_graph=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    assert not torch.equal(before, model.weight)


@pytest.mark.parametrize("options", [{"precision": "fp16"}, {"accumulate": 2}])
def test_one_process_whose_gradients_are_scaled(options: dict[str, Any], alone: None) -> None:
    from distify import runtime
    from distify.runtime.state import DistifyError

    model, optimizer, loss = on_one(**options)
    with pytest.raises(DistifyError, match=r"Write runtime\.backward\(loss\) in place of loss\.backward\(\)"):
        loss.backward(retain_graph=True)
    with contextlib.ExitStack() as stack:
        if "accumulate" in options:
            stack.enter_context(runtime.accumulate())
        runtime.backward(loss)
        with pytest.raises(DistifyError, match=r"Write runtime\.clip_grad_norm_\(…\) in its place"):
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        with pytest.raises(DistifyError, match=r"Write runtime\.step\(optimizer\) in its place"):
            optimizer.step()


# --- what must go on


def part_after_whole(s: Setting) -> Any:
    optimizer = torch.optim.AdamW(s.model[2].parameters())
    s.runtime.prepare(s.model[2], optimizer)
    return s.train(optimizer)


def later_phase(s: Setting) -> Any:
    optimizer = torch.optim.SGD(s.model.parameters(), lr=0.1)
    s.runtime.prepare(s.model, optimizer)
    return s.train(optimizer)


def init_again(s: Setting) -> Any:
    s.runtime.init()
    s.runtime.init(precision="fp32", accumulate=1)
    return s.train()


def grad_to_inputs(s: Setting) -> Any:
    """A gradient penalty of a library: of slices, to slices, differentiated again."""
    x = s.x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(s.model(x).sum(), x, create_graph=True)
    loss = s.runtime.mean(grad.square().mean())
    s.runtime.backward(loss)
    return loss.item()


class Forces(nn.Module):
    """Its forward differentiates itself."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = x.requires_grad_()
        return torch.autograd.grad(self.inner(x).sum(), x, create_graph=True)[0]


def grad_inside(s: Setting) -> Any:
    model = Forces()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    s.runtime.prepare(model, optimizer)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = s.runtime.mean(model(s.x.clone()).square().mean())
        s.runtime.backward(loss)
        s.runtime.step(optimizer)
        losses.append(loss.item())
    return losses


def grad_of_all_alike(s: Setting) -> Any:
    """What all ranks compute alike needs no reduction."""
    other = nn.Linear(6, 2)
    (grad,) = torch.autograd.grad(other(torch.ones(3, 6)).square().sum(), other.weight)
    if s.runtime.state.state.backend.name != "fsdp":
        loss = s.model(torch.ones(3, 6)).square().sum()
        grad = torch.autograd.grad(loss, [s.model[2].bias], retain_graph=True)[0]
        torch.autograd.grad(loss, [s.model[2].bias], torch.ones(2), is_grads_batched=True)
    return grad.norm().item()


def clip_others(s: Setting) -> Any:
    other = nn.Linear(6, 2)
    other(torch.ones(3, 6)).sum().backward()
    return nn.utils.clip_grad_norm_((p for p in other.parameters()), 0.1).item()


def thawed(s: Setting) -> Any:
    """A teacher that becomes a student, as a whole and in part."""
    whole, part = nn.Linear(6, 4), nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4))
    s.runtime.prepare(whole.requires_grad_(False), part.requires_grad_(False))
    whole.requires_grad_(True)
    part[1].requires_grad_(True)
    for model, trained in ((whole, whole), (part, part[1])):
        optimizer = torch.optim.AdamW(trained.parameters(), lr=0.1)
        s.runtime.prepare(trained, optimizer)
        s.model = model
        s.train(optimizer)
    return [s.runtime.full(p).sum().item() for p in (*whole.parameters(), *part.parameters())]


GOES_ON: dict[Callable[[Setting], Any], tuple[str, ...]] = {
    part_after_whole: WHOLE,
    thawed: ALL,
    later_phase: WHOLE,
    init_again: ALL,
    grad_to_inputs: ("ddp", "zero1", "zero3"),
    grad_inside: ("ddp", "fsdp", "zero3"),
    grad_of_all_alike: ("ddp", "fsdp", "zero2"),
    clip_others: ("ddp", "zero3"),
}


def accepted(case: Callable[[Setting], Any], backend: str) -> Any:
    return case(Setting(backend))


@pytest.mark.parametrize(
    ("case", "backend"),
    [pytest.param(c, b, id=f"{c.__name__}-{b}") for c, backends in GOES_ON.items() for b in backends],
)
def test_what_goes_on(case: Any, backend: str, pool2: Pool) -> None:
    first, second = pool2.run(accepted, case, backend)
    assert first == second
