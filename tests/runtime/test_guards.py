"""Misuse that trains wrongly, hangs or fails obscurely without a guard: errors that say what to write; and what looks
like it and is right goes on.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from tests.pool import Pool

ALL = ("ddp", "fsdp", "zero1", "zero2", "zero3")
WHOLE = ("ddp", "fsdp")


class Setting:
    """A prepared model with its optimizer, and a batch."""

    def __init__(self, backend: str, prepare: bool = True, **options: Any) -> None:
        from distify import runtime

        zero = int(backend[-1]) if backend.startswith("zero") else None
        runtime.init(backend=backend if zero is None else "deepspeed", zero_stage=zero, **options)
        torch.manual_seed(0)
        self.runtime: Any = runtime
        self.model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        if prepare:
            runtime.prepare(self.model, self.optimizer)
        self.x, self.y = runtime.split((torch.randn(6, 6), torch.randint(0, 4, (6,))))

    def local(self) -> Tensor:
        return F.cross_entropy(self.model(self.x), self.y)

    def loss(self) -> Tensor:
        return self.runtime.mean(self.local())

    def train(self, optimizer: Any = None, steps: int = 2) -> list[float]:
        optimizer, losses = optimizer or self.optimizer, []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = self.loss()
            self.runtime.backward(loss)
            self.runtime.step(optimizer)
            losses.append(loss.item())
        return losses


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
    (backward_to_inputs, ALL, ("rank's rows only", BACKWARD)),
    (backward_of_slices, ALL, ("prepared module", BACKWARD)),
    (clip, ("zero1", "zero2", "zero3"), ("test_guards.py:", "Write runtime.clip_grad_norm_(…)")),
    (clip_value, ("zero1", "zero2", "zero3"), ("test_guards.py:", "Write runtime.clip_grad_value_(…)")),
    (clip_scaled, WHOLE, ("loss scale of fp16", "Write runtime.clip_grad_norm_(…)")),
    (new_layer, WHOLE, ("were made after runtime.prepare()", "Build the whole model before")),
    (
        part_before_whole,
        ("fsdp",),
        ("2.weight of Sequential lies in parts already", "Prepare the outermost module first"),
    ),
    (part_before_whole, ("zero1", "zero3"), ("was prepared before", "pass them in one call")),
    (prepared_twice, ALL, ("Sequential was prepared before", "remove one call")),
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


GOES_ON: dict[Callable[[Setting], Any], tuple[str, ...]] = {
    part_after_whole: WHOLE,
    later_phase: WHOLE,
    init_again: ALL,
    grad_to_inputs: ("ddp", "zero1"),
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


# --- what is said once


def said(case: str, backend: str) -> tuple[list[str], str]:
    shown = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stderr(shown):
        warnings.simplefilter("always")
        s = Setting(backend, prepare=False)
        if case == "unowned":
            s.runtime.prepare(s.model, torch.optim.AdamW(s.model[0].parameters()))
        elif case == "aliased":
            kept = s.model[0].weight.data, s.model.state_dict()["2.bias"], s.model[2].weight.detach().clone()
            s.runtime.prepare(s.model, s.optimizer)
            assert len(kept) == 3
        elif case == "compiled":
            recurrent, compiled = nn.LSTM(2, 2, 2), torch.compile(nn.Linear(2, 2))
            tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
            tied[1].weight = tied[0].weight
            both = [*recurrent.parameters(), *compiled.parameters(), *tied.parameters()]
            s.runtime.prepare(recurrent, compiled, tied, torch.optim.AdamW(both))
        elif case == "frozen":
            s.model[2].requires_grad_(False)
            s.runtime.prepare(s.model, torch.optim.AdamW(s.model[0].parameters()))
        else:
            s.runtime.prepare(s.model.half(), s.optimizer)
            other = nn.Linear(2, 2).half()
            s.runtime.prepare(other, torch.optim.AdamW(other.parameters()))
    return [str(w.message) for w in caught if "runtime." in str(w.message)], shown.getvalue()


@pytest.mark.parametrize("backend", ["ddp", "fsdp", "zero2"])
def test_a_parameter_that_no_optimizer_owns(backend: str, pool2: Pool) -> None:
    (main, _), (other, _) = pool2.run(said, "unowned", backend)
    assert len(main) == 1
    assert "no optimizer updates 2.weight, 2.bias of Sequential" in main[0]
    assert "freeze them with requires_grad_(False)" in main[0]
    assert other == []
    assert [warned for warned, _ in pool2.run(said, "frozen", backend)] == [[], []]


@pytest.mark.parametrize("backend", ALL)
def test_memory_of_parameters_that_was_captured(backend: str, pool2: Pool) -> None:
    """Parameters that are cut leave it behind; ddp trains in place."""
    (_, main), (_, other) = pool2.run(said, "aliased", backend)
    words = "something else refers to the memory of 0.weight, 2.bias of Sequential"
    assert (words in main) == (backend != "ddp")
    assert backend == "ddp" or "runtime.state_dict(model) or runtime.full(parameter)" in main
    assert "distify:" not in other


@pytest.mark.parametrize("backend", ["fsdp", "zero2"])
def test_memory_that_nobody_captured(backend: str, pool2: Pool) -> None:
    assert ["distify:" in shown for _, shown in pool2.run(said, "compiled", backend)] == [False, False]


@pytest.mark.parametrize("backend", WHOLE)
def test_weights_in_fp16(backend: str, pool2: Pool) -> None:
    (_, main), (_, other) = pool2.run(said, "half", backend)
    assert main.count("distify:") == 1
    assert "'0.weight' of Sequential is fp16" in main
    assert "remove model.half() and set precision to 'fp16'" in main
    assert "distify:" not in other


# --- loaders that differ by rank


class Items(IterableDataset[Tensor]):
    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[Tensor]:
        return iter(torch.ones(self.count, 6).unbind())


def loader(kind: str, rank: int) -> DataLoader[Any]:
    whole = TensorDataset(torch.arange(12.0))
    if kind == "longer":
        return DataLoader(TensorDataset(torch.ones(12 + 4 * rank)), batch_size=4)
    if kind == "iterable":
        return DataLoader(Items(12 + 4 * rank), batch_size=4)
    if kind == "short batch":
        return DataLoader(Items(12 + rank), batch_size=8)
    if kind == "other data":
        return DataLoader(Items(12) if rank else whole, batch_size=4)
    if kind == "generator":
        return DataLoader(whole, batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(rank))
    if kind == "sampler":
        return DataLoader(whole, batch_sampler=[[0, 1], [2, 3 + rank]])
    if kind == "more batches":
        return DataLoader(whole, batch_sampler=[[0, 1]] * (2 + rank))
    sampler = {"same sampler": [[0, 1], [2, 3]], "same names": [["a", "b"]]}[kind]
    return DataLoader({"a": 1.0, "b": 2.0} if kind == "same names" else whole, batch_sampler=sampler)  # type: ignore[arg-type]


def read(kind: str) -> str:
    from distify import runtime

    runtime.init()
    total = 0
    try:
        for batch in runtime.shard(loader(kind, runtime.rank())):
            held = batch if isinstance(batch, Tensor) else batch[0]
            total += int(runtime.sum(torch.tensor(1.0 * len(held)), of=held).item())
    except runtime.state.DistifyError as error:
        return f"{type(error).__name__}: {error}"
    return f"{total} rows"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("longer", "over TensorDataset has 12 samples in batches of 4 on rank 0, 16 samples in batches of 4 on rank 1"),
        ("iterable", "after 3 batches rank 0 has no more, rank 1 has a batch of 4 rows"),
        ("short batch", "after 1 batches rank 0 has a batch of 4 rows, rank 1 has a batch of 5 rows"),
        ("other data", "rank 0 begins a pass over the loader over TensorDataset, rank 1 over the loader over Items"),
        ("generator", "Seed it with the same number on all ranks"),
        ("sampler", "batch 2 of the loader over TensorDataset holds other samples on rank 1 than on rank 0"),
        ("more batches", "after 2 batches rank 0 has no more, rank 1 has a batch of 2 rows"),
    ],
)
def test_ranks_that_read_different_batches(kind: str, words: str, pool2: Pool) -> None:
    first, second = pool2.run(read, kind)
    assert first == second
    assert first.startswith("LoadersDiffer: ")
    assert words in first
    assert kind in ("other data", "generator") or "All ranks must read the same data in the same order" in first


def test_ranks_that_read_the_same_batches(pool2: Pool) -> None:
    assert pool2.run(read, "same sampler") == ["4 rows"] * 2
    assert pool2.run(read, "same names") == ["2 rows"] * 2


# --- statistics of a model that nobody trains


def recalibrated(rows: int) -> tuple[list[float], list[float]]:
    from distify import runtime

    runtime.init()
    data = torch.arange(float(rows)).reshape(-1, 1).square() + torch.arange(3.0)
    layer = nn.BatchNorm1d(3)
    with torch.no_grad():
        for (x,) in runtime.shard(DataLoader(TensorDataset(data), batch_size=4)):
            layer(x)
        layer(data)  # outside of any loop over slices: all ranks hold the same
    return layer.running_mean.tolist(), layer.running_var.tolist()  # type: ignore[union-attr, operator]


def test_batchnorm_that_nobody_trains_sees_whole_batches(pool2: Pool, pool3: Pool) -> None:
    data = torch.arange(11.0).reshape(-1, 1).square() + torch.arange(3.0)
    layer = nn.BatchNorm1d(3)
    for x in (*data.split(4), data):
        layer(x)
    for mean, variance in (*pool2.run(recalibrated, 11), *pool3.run(recalibrated, 11)):
        torch.testing.assert_close(torch.tensor(mean), layer.running_mean)
        torch.testing.assert_close(torch.tensor(variance), layer.running_var)


# --- before `init`


def too_early() -> list[str]:
    from distify import runtime as r

    model, x = nn.Linear(2, 2), torch.ones(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    calls: dict[str, Callable[[], Any]] = {
        **{name: getattr(r, name) for name in ("device", "rank", "world_size", "is_main", "barrier", "accumulate")},
        **{name: lambda name=name: getattr(r, name)(x.sum()) for name in ("averaged", "mean", "sum", "max", "min")},
        "prepare": lambda: r.prepare(model, optimizer),
        "shard": lambda: r.shard(DataLoader(x)),  # type: ignore[arg-type]
        "cycle": lambda: next(iter(r.cycle(DataLoader(x)))),  # type: ignore[arg-type]
        "split": lambda: r.split(x),
        "replicated": lambda: r.replicated(torch.rand, 1),
        "gather": lambda: r.gather(x),
        "draw": lambda: r.draw(torch.randn, 3),
        "full": lambda: r.full(model.weight),
        "whole": lambda: r.whole(model).__enter__(),
        "autocast": lambda: r.autocast().__enter__(),
        "backward": lambda: r.backward(model(x).sum()),
        "grad": lambda: r.grad(model(x).sum(), model.weight),
        "clip_grad_norm_": lambda: r.clip_grad_norm_(model.parameters(), 1.0),
        "clip_grad_value_": lambda: r.clip_grad_value_(model.parameters(), 1.0),
        "step": lambda: r.step(optimizer),
        "scaler": lambda: r.scaler().get_scale(),
        "any": lambda: r.any(True),
        "on_main": lambda: r.on_main(print),
        "main_first": lambda: r.main_first().__enter__(),
        "save": lambda: r.save({}, "absent/file"),
        "load": lambda: r.load("absent/file"),
        "save_state": lambda: r.save_state("absent"),
        "load_state": lambda: r.load_state("absent"),
        "latest": lambda: r.latest("absent"),
        "state_dict": lambda: r.state_dict(model),
        "load_state_dict": lambda: r.load_state_dict(model, {}),
        "clone": lambda: r.clone(model),
    }
    wrong = sorted({*r.__all__} - {*calls, "init", "shutdown", "frozen"})
    for name, call in calls.items():
        try:
            call()
            wrong.append(f"{name} goes on")
        except r.state.NotInitialized as error:
            if f"runtime.{name}() was called before runtime.init(). Call runtime.init() once" not in str(error):
                wrong.append(f"{name}: {error}")
    return wrong


def test_before_init(pool2: Pool) -> None:
    """Every public function says so, also in a process that a launcher started; `frozen` and `shutdown` need no run."""
    assert pool2.run(too_early) == [[], []]
