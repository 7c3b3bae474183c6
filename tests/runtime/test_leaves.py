"""`.grad` of leaf tensors that the script itself made: perturbed inputs, hand-made weights, latent vectors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.pool import Pool, RankError
from tests.runtime.gradient_cases import Plain


class Original(Plain):
    split = staticmethod(lambda batch: batch)
    gather = staticmethod(lambda x, of=None: x)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 4)

    def features(self, x: Tensor) -> Tensor:
        return torch.tanh(self.first(x))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.features(x))


def fgsm(r: Any, m: Any, x: Tensor, y: Tensor) -> Any:
    x.requires_grad_()
    r.backward(r.mean(F.cross_entropy(m(x), y)))
    again = x.detach() + 0.1 * x.grad.sign()
    r.backward(r.mean(F.cross_entropy(m(again), y)))
    return r.gather(x.grad, of=x), r.gather(again, of=x)


def pgd(r: Any, m: Any, x: Tensor, y: Tensor) -> Any:
    """A perturbation that starts at zero, the same on all ranks, and is one per row."""
    delta = torch.zeros_like(x, requires_grad=True)
    seen = []
    for _ in range(3):
        r.backward(r.mean(F.cross_entropy(m(x + delta), y)))
        seen.append(r.gather(delta.grad.clone(), of=x))
        delta.data = (delta + 0.5 * delta.grad.sign()).clamp(-1, 1).detach()
        delta.grad.zero_()
    return seen


def saliency(r: Any, m: Any, x: Tensor, y: Tensor) -> Any:
    """A method, not the forward, of a graph that was used before."""
    x = x.clone().requires_grad_()
    r.backward(r.sum(m.features(x).max(1)[0].sum()))
    return r.gather(x.grad.abs(), of=x)


def accumulates(r: Any, m: Any, x: Tensor, y: Tensor) -> Any:
    x = x.clone().requires_grad_()
    loss = r.mean(F.cross_entropy(m(x), y))
    r.backward(loss, retain_graph=True)
    kept = x.grad
    r.backward(loss * 2)
    assert x.grad is kept
    return r.gather(x.grad, of=x)


def some_inputs(r: Any, m: Any, x: Tensor, y: Tensor) -> Any:
    x = x.clone().requires_grad_()
    r.backward(r.mean(F.cross_entropy(m(x), y)), inputs=[x])
    return r.gather(x.grad, of=x)


def universal(r: Any, m: Any, x: Tensor, y: Tensor) -> Any:
    delta = torch.zeros(1, 6, requires_grad=True)
    for _ in range(2):
        r.backward(r.mean(F.cross_entropy(m(x + delta), y)) + delta.pow(2).sum())
        with torch.no_grad():
            delta += delta.grad
    return delta.grad, delta.detach()


def hand_made(r: Any, m: Any, x: Tensor, y: Tensor) -> Any:
    w = torch.linspace(-1, 1, 24).reshape(6, 4).requires_grad_()
    b = torch.linspace(0, 1, 4).requires_grad_()
    shown = []
    for _ in range(3):
        loss = r.mean(F.cross_entropy(x @ w + b + m(x), y)) + 0.1 * w.pow(2).sum()
        r.backward(loss)
        with torch.no_grad():
            w -= w.grad
            b -= b.grad
        w.grad, b.grad = None, None
        shown.append(loss.item())
    return shown, w.detach(), b.detach()


def parameter(r: Any, m: Any, x: Tensor, y: Tensor) -> Any:
    z = nn.Parameter(torch.full((4,), 0.5))
    r.backward(r.mean(F.cross_entropy(m(x) * z, y)))
    return z.grad


def style(r: Any, m: Any, x: Tensor, y: Tensor) -> Any:
    """No batch at all: all ranks compute the same."""
    z = torch.linspace(0, 1, 18).reshape(3, 6).requires_grad_()
    r.backward(m(z).pow(2).mean() + z.abs().sum())
    return z.grad


def with_graph(r: Any, m: Any, x: Tensor, y: Tensor) -> Any:
    x = x.clone().requires_grad_()
    loss = r.mean(F.cross_entropy(m(x), y))
    (g,) = r.grad(loss, x, create_graph=True)
    r.backward(loss + r.sum(g.pow(2).sum()))
    return r.gather(x.grad, of=x)


def grad_of_zeros(r: Any, m: Any, x: Tensor, y: Tensor) -> Any:
    """`grad` with respect to rows that start alike."""
    delta = torch.zeros_like(x, requires_grad=True)
    (g,) = r.grad(r.mean(F.cross_entropy(m(x + delta), y)), delta)
    return r.gather(g, of=x)


CASES = {
    f.__name__: f
    for f in (
        fgsm, pgd, saliency, accumulates, some_inputs, universal, hand_made, parameter, style, with_graph, grad_of_zeros
    )
}  # fmt: skip
SLICES = ("fgsm", "accumulates", "saliency", "some_inputs")  # defined for slices of one row, and fillers


def build() -> Net:
    torch.manual_seed(0)
    return Net()


def data(n: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(4)
    return torch.randn(n, 6, generator=generator), torch.randint(0, 4, (n,), generator=generator)


def train(r: Any, name: str, n: int, prepare: bool) -> Any:
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    if prepare:
        r.prepare(model, optimizer)
    x, y = r.split(data(n))
    found = CASES[name](r, model, x, y)
    if prepare:
        r.step(optimizer)
        return found, r.state_dict(model)
    optimizer.step()
    return found, model.state_dict()


def run(backend: str, names: list[str], n: int) -> list[Any]:
    from distify import runtime

    zero = int(backend[-1]) if backend.startswith("zero") else None
    found = []
    for name in names:
        runtime.init(
            backend="ddp" if zero is None and backend == "ddp" else backend if zero is None else "deepspeed",
            zero_stage=zero,
        )
        try:
            found.append(train(runtime, name, n, True))
        except Exception as error:
            raise AssertionError(name) from error
        finally:
            runtime.shutdown()
    return found


@pytest.mark.parametrize(
    ("backend", "ranks", "n"),
    [
        *(("ddp", ranks, n) for ranks in (2, 3) for n in (7, 8, 2, 1)),
        *((backend, 2, n) for backend in ("fsdp", "zero1", "zero2", "zero3") for n in (8, 1)),
    ],
)
def test_gradients_of_leaves_are_the_original_s(backend: str, ranks: int, n: int, pool2: Pool, pool3: Pool) -> None:
    names = [name for name in CASES if n > 3 or name in SLICES]
    if backend in ("zero2", "zero3", "zero1"):
        names = [name for name in names if name != "with_graph"]
    expected = [train(Original, name, n, False) for name in names]
    for found in (pool2 if ranks == 2 else pool3).run(run, backend, names, n):
        for name, mine, right in zip(names, found, expected, strict=True):
            torch.testing.assert_close(mine, right, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")


def reweighted(kind: str) -> float:
    """One number per row, all alike on all ranks: as likely one number for each class."""
    from distify import runtime

    runtime.init()
    model = build()
    runtime.prepare(model)
    x, y = runtime.split(data(8))
    one = {"bare": torch.zeros(4), "parameter": nn.Parameter(torch.zeros(4)), "split": None}[kind]
    eps = (runtime.split(torch.zeros(8)) if one is None else one).requires_grad_()
    each = F.cross_entropy(model(x), y, reduction="none")
    runtime.backward(runtime.mean((each * (1 + eps)).mean(), of=x))
    return eps.grad[0].item()


def test_a_leaf_that_could_be_rows_or_whole_is_an_error(pool2: Pool) -> None:
    model, (x, y) = build(), data(8)
    each = F.cross_entropy(model(x), y, reduction="none").detach().double() / 8
    with pytest.raises(
        RankError, match=r"shape \(4,\) holds one number on all ranks.*\(4 of 8\).*nn\.Parameter.*split"
    ):
        pool2.run(reweighted, "bare")
    assert pool2.run(reweighted, "parameter") == pytest.approx([float(each[0] + each[4])] * 2, rel=1e-5)
    assert pool2.run(reweighted, "split") == pytest.approx([each[0].item(), each[4].item()], rel=1e-5)


def scaled(ranks: int) -> dict[str, Any]:
    """fp16: nobody unscales what no optimizer owns."""
    from distify import runtime

    runtime.init(precision="fp16")
    try:
        with runtime.autocast():
            return {name: train(runtime, name, 7, True)[0] for name in ("accumulates", "parameter", "some_inputs")}
    finally:
        runtime.shutdown()


def test_no_loss_scale_is_left(pool2: Pool) -> None:
    for found in [*pool2.run(scaled, 2), scaled(1)]:
        for name, mine in found.items():
            right = train(Original, name, 7, False)[0]
            torch.testing.assert_close(mine, right, rtol=0.05, atol=0.002)


def walked() -> Any:
    """How many nodes the search for leaves visits in an ordinary step, and where the forward was not called."""
    from distify import runtime
    from distify.runtime import leaves

    runtime.init()
    model = nn.Sequential(*(nn.Linear(6, 6) for _ in range(50)))
    runtime.prepare(model)
    x = runtime.split(data(8)[0])
    plain = runtime.mean(model(x).pow(2).mean())
    found = [len(leaves.reached(plain)), len(leaves.reached(runtime.mean(model(x.requires_grad_()).pow(2).mean())))]
    runtime.backward(plain)
    return found


def test_the_graph_of_a_plain_forward_is_not_searched(pool2: Pool) -> None:
    assert pool2.run(walked) == [[0, 101]] * 2


def thawed(r: Any, prepare: bool) -> Any:
    """A module that is frozen when it is prepared, and trained later."""
    torch.manual_seed(0)
    backbone, head = nn.Linear(6, 8), nn.Linear(8, 4)
    backbone.requires_grad_(False)
    optimizer = torch.optim.SGD([*backbone.parameters(), *head.parameters()], lr=0.5)
    if prepare:
        r.prepare(backbone, head, optimizer)
    for epoch in range(3):
        backbone.requires_grad_(epoch > 0)
        x, y = r.split(data(7))
        optimizer.zero_grad()
        r.backward(r.mean(F.cross_entropy(head(torch.tanh(backbone(x))), y)))
        r.step(optimizer) if prepare else optimizer.step()
    read = r.state_dict if prepare else nn.Module.state_dict
    return read(backbone), read(head)


def thaw(backend: str, precision: str) -> Any:
    from distify import runtime

    runtime.init(backend=backend, precision=precision)
    return thawed(runtime, True)


@pytest.mark.parametrize(("backend", "precision"), [("ddp", "fp32"), ("ddp", "fp16"), ("fsdp", "fp32")])
def test_a_module_that_is_thawed_after_it_was_prepared(backend: str, precision: str, pool2: Pool) -> None:
    expected = thawed(Original, False)
    for found in pool2.run(thaw, backend, precision):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
