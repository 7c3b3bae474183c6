"""Training programs written once and run twice: as the original on one process, and with the runtime on several.

A program is a function `program(r)` that builds, trains and returns what the original would print or save: numbers,
tensors, or nested structures of them. `r` is either `Original`, or the runtime. Both must return the same.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import MethodType, SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.runtime.gradient_cases import Plain

Program = Callable[[Any], Any]
ROWS = (7, 5, 2, 1, 6)


class Original(Plain):
    """The original: torch's own functions."""

    split = staticmethod(lambda batch, dim=0: batch)
    prepare = staticmethod(lambda *objects: None)
    clip_grad_norm_ = staticmethod(nn.utils.clip_grad_norm_)
    clip_grad_value_ = staticmethod(nn.utils.clip_grad_value_)
    clone = staticmethod(copy.deepcopy)
    whole = staticmethod(lambda *modules, grads=False: nullcontext())

    @staticmethod
    def step(item: Any, *args: Any, closure: Any = None) -> Any:
        return item.step(*args) if closure is None else item.step(closure)

    @staticmethod
    def state_dict(item: Any) -> Any:
        return copy.deepcopy(item.state_dict())

    @staticmethod
    def load_state_dict(item: Any, state: Any, **options: Any) -> Any:
        return item.load_state_dict(state, **options)

    @staticmethod
    @contextmanager
    def accumulate(last: bool | None = None) -> Iterator[Any]:
        yield SimpleNamespace(starts=True, ends=True)


def batches(count: int = 3, rows: tuple[int, ...] = ROWS) -> list[tuple[Tensor, Tensor]]:
    """Global batches of different sizes, some with fewer rows than ranks."""
    generator = torch.Generator().manual_seed(3)
    return [
        (torch.randn(n, 6, generator=generator), torch.randint(0, 4, (n,), generator=generator))
        for n in (rows * count)[:count]
    ]


class Block(nn.Module):
    """A residual block with a norm and a raw parameter."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width, bias=False)
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.gain * self.down(torch.tanh(self.up(self.norm(x))))


class Model(nn.Module):
    """Blocks in a list, a scalar, tied weights, a frozen part, a part that is never used, and a method."""

    def __init__(self, width: int = 6, classes: int = 4) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(3))
        self.scale = nn.Parameter(torch.tensor(0.7))
        self.first = nn.Linear(width, width)
        self.tied = nn.Linear(width, width)
        self.tied.weight = self.first.weight
        self.frozen = nn.Linear(width, width)
        self.frozen.requires_grad_(False)
        self.unused = nn.Linear(width, 3)
        self.head = nn.Linear(width, classes)
        self.register_buffer("seen", torch.zeros(()))

    def features(self, x: Tensor) -> Tensor:
        x = self.tied(torch.tanh(self.first(x))) + self.frozen(x)
        for block in self.blocks:
            x = block(x)
        return x * self.scale

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


def model(seed: int = 0, **options: Any) -> Model:
    torch.manual_seed(seed)
    return Model(**options)


def train(r: Any, m: nn.Module, optimizer: Any, count: int = 3, clip: float | None = None) -> list[float]:
    """Steps on a mean loss; the losses and norms that the original prints."""
    shown = []
    for batch in batches(count):
        x, y = r.split(batch)
        optimizer.zero_grad()
        loss = r.mean(F.cross_entropy(m(x), y))
        r.backward(loss)
        if clip is not None:
            shown.append(r.clip_grad_norm_(m.parameters(), clip).item())
        r.step(optimizer)
        shown.append(loss.item())
    return shown


def optimizers() -> dict[str, Callable[[Any], torch.optim.Optimizer]]:
    """Every element-wise optimizer of torch, with the options that change its arithmetic or its kernels."""
    o = torch.optim
    return {
        "sgd": lambda p: o.SGD(p, 0.1),
        "sgd_momentum": lambda p: o.SGD(p, 0.1, momentum=0.9, weight_decay=0.01),
        "sgd_nesterov": lambda p: o.SGD(p, 0.1, momentum=0.9, nesterov=True, foreach=True),
        "sgd_fused": lambda p: o.SGD(p, 0.1, momentum=0.9, fused=True),
        "adam": lambda p: o.Adam(p, 0.02, amsgrad=True),
        "adam_foreach": lambda p: o.Adam(p, 0.02, foreach=True),
        "adamw": lambda p: o.AdamW(p, 0.02, weight_decay=0.1),
        "adamw_fused": lambda p: o.AdamW(p, 0.02, weight_decay=0.1, fused=True),
        "adagrad": lambda p: o.Adagrad(p, 0.05, lr_decay=0.1, initial_accumulator_value=0.1),
        # Its momentum is of gradients that were divided by their own size: small ones would show their rounding.
        "rmsprop": lambda p: o.RMSprop(p, 0.1, eps=0.05, momentum=0.5, centered=True),
        "adadelta": lambda p: o.Adadelta(p, 1.0),
        "nadam": lambda p: o.NAdam(p, 0.02),
        "radam": lambda p: o.RAdam(p, 0.02),
        "adamax": lambda p: o.Adamax(p, 0.02),
        "rprop": lambda p: o.Rprop(p, 0.01),
        "asgd": lambda p: o.ASGD(p, 0.05, t0=1.0, lambd=0.0),
    }


def with_optimizer(name: str) -> Program:
    """Two steps before `prepare`, three after: the state is carried over."""

    def program(r: Any) -> Any:
        m = model()
        optimizer = optimizers()[name]([p for p in m.parameters() if p.requires_grad])
        train(Original, m, optimizer, 2)
        optimizer.zero_grad()
        r.prepare(m, optimizer)
        return train(r, m, optimizer), r.state_dict(m), r.state_dict(optimizer)

    return program


def groups(r: Any) -> Any:
    """Groups of different rates, a per-step scheduler, clipping."""
    m = model()
    decayed = [p for n, p in m.named_parameters() if p.requires_grad and p.dim() > 1 and "unused" not in n]
    rest = [p for n, p in m.named_parameters() if p.requires_grad and p.dim() < 2 and "unused" not in n]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "lr": 0.05}, {"params": rest, "weight_decay": 0.0}], lr=0.01, weight_decay=0.2
    )
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
    r.prepare(m, optimizer)
    shown = []
    for batch in batches(4):
        x, y = r.split(batch)
        r.backward(r.mean(F.cross_entropy(m(x), y)))
        shown.append(r.clip_grad_norm_(m.parameters(), 0.1).item())
        r.step(optimizer)
        r.step(scheduler)
        optimizer.zero_grad()
        shown.append([g["lr"] for g in optimizer.param_groups])
    return shown, r.state_dict(m), r.state_dict(optimizer), r.state_dict(scheduler)


def norms(r: Any) -> Any:
    """Clipping by several norms, of a part, and by value."""
    shown = []
    for kind in (1.0, 2.0, 3.0, float("inf")):
        m = model()
        optimizer = torch.optim.SGD(m.parameters(), 1.0)
        r.prepare(m, optimizer)
        x, y = r.split(batches(1)[0])
        r.backward(r.mean(F.cross_entropy(m(x), y)))
        shown.append(r.clip_grad_norm_(m.blocks.parameters(), 0.05, kind).item())
        shown.append(r.clip_grad_norm_(m.parameters(), 0.5, norm_type=kind).item())
        r.clip_grad_value_(m.head.parameters(), 0.01)
        r.step(optimizer)
        shown.append(r.state_dict(m))
    return shown


def gan(r: Any) -> Any:
    """Two models, two optimizers; two backward calls for the discriminator, none of it frozen; `netD.zero_grad()`."""
    torch.manual_seed(0)
    net_g = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6))
    net_d = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    opt_g = torch.optim.Adam(net_g.parameters(), 0.02, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(net_d.parameters(), 0.02, betas=(0.5, 0.999))
    r.prepare(net_d, opt_d, net_g, opt_g)
    shown = []
    for real, noise in zip(batches(3), batches(3, (7, 5, 2)), strict=True):
        x, z = r.split((real[0], noise[0] * 2))
        net_d.zero_grad()
        loss_real = r.mean(F.softplus(-net_d(x)).mean())
        r.backward(loss_real)
        fake = net_g(z)
        loss_fake = r.mean(F.softplus(net_d(fake.detach())).mean())
        r.backward(loss_fake)
        r.step(opt_d)
        net_g.zero_grad()
        loss_g = r.mean(F.softplus(-net_d(fake)).mean())
        r.backward(loss_g)
        r.step(opt_g)
        shown.append([loss_real.item(), loss_fake.item(), loss_g.item()])
    return shown, r.state_dict(net_d), r.state_dict(net_g)


def gan_frozen(r: Any) -> Any:
    """The discriminator frozen by hand in the generator's step, one backward call each; `optimizer.zero_grad()`."""
    torch.manual_seed(0)
    net_g = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6))
    net_d = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    opt_g, opt_d = torch.optim.SGD(net_g.parameters(), 0.1), torch.optim.SGD(net_d.parameters(), 0.1)
    r.prepare(net_d, opt_d, net_g, opt_g)
    for x, _ in batches(3):
        x = r.split(x)
        fake = net_g(x * 2)
        for p in net_d.parameters():
            p.requires_grad_(True)
        opt_d.zero_grad()
        r.backward(r.mean(F.softplus(-net_d(x)).mean() + F.softplus(net_d(fake.detach())).mean()))
        r.step(opt_d)
        for p in net_d.parameters():
            p.requires_grad_(False)
        opt_g.zero_grad()
        r.backward(r.mean(F.softplus(-net_d(fake)).mean()))
        r.step(opt_g)
    return r.state_dict(net_d), r.state_dict(net_g)


def two_models_one_optimizer(r: Any) -> Any:
    """An encoder and a decoder."""
    torch.manual_seed(0)
    encoder, decoder = nn.Sequential(nn.Linear(6, 5), nn.Tanh()), nn.Linear(5, 4)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 0.05)
    r.prepare(encoder, decoder, optimizer)
    for batch in batches(3):
        x, y = r.split(batch)
        optimizer.zero_grad()
        r.backward(r.mean(F.cross_entropy(decoder(encoder(x)), y)))
        r.step(optimizer)
    return r.state_dict(encoder), r.state_dict(decoder), r.state_dict(optimizer)


def _squashed(self: nn.Linear, x: Tensor) -> Tensor:
    return torch.tanh(nn.Linear.forward(self, x))


def held_in_a_container(r: Any) -> Any:
    """Models in a container without a forward, a bare parameter in another one, a forward that was patched in."""
    torch.manual_seed(0)
    nets = nn.ModuleDict({"encoder": nn.Linear(6, 5), "decoder": nn.Sequential(nn.Linear(5, 4))})
    latent = nn.ParameterList([nn.Parameter(torch.randn(5))])
    nets["encoder"].forward = MethodType(_squashed, nets["encoder"])  # type: ignore[method-assign]
    optimizer = torch.optim.Adam([*nets.parameters(), *latent.parameters()], 0.05)
    r.prepare(nets, latent, optimizer)
    shown = []
    for batch in batches(3):
        x, y = r.split(batch)
        nets.zero_grad()
        latent.zero_grad()
        loss = r.mean(F.cross_entropy(nets["decoder"](nets["encoder"](x) + latent[0]), y))
        r.backward(loss)
        r.step(optimizer)
        shown.append(loss.item())
    copied = r.clone(nets)
    out = copied["decoder"](copied["encoder"](torch.ones(2, 6)))
    return shown, r.state_dict(nets), r.state_dict(latent), r.state_dict(optimizer), out.detach()


def evaluation_between(r: Any) -> Any:
    """The model evaluated between backward and step, and after the step."""
    m = model()
    optimizer = torch.optim.SGD(m.parameters(), 0.5)
    r.prepare(m, optimizer)
    shown = []
    for batch in batches(2):
        x, y = r.split(batch)
        loss = r.mean(F.cross_entropy(m(x), y))
        m.zero_grad()  # after the forward, as many scripts do
        r.backward(loss)
        m.eval()
        with torch.no_grad():
            shown.append(r.mean(F.cross_entropy(m(x), y)).item())
        m.train()
        r.step(optimizer)
        with torch.no_grad():
            shown.append(r.mean(F.cross_entropy(m(x), y)).item())
        shown.append(r.mean(F.cross_entropy(m(x), y)).item())  # with a graph that no backward uses
    return shown, r.state_dict(m)


def inference_first(r: Any) -> Any:
    """The model's first forward is an evaluation under `inference_mode`."""
    m = model()
    optimizer = torch.optim.SGD(m.parameters(), 0.1)
    r.prepare(m, optimizer)
    x, y = r.split(batches(1)[0])
    shown: list[Any] = []
    for _ in range(2):
        with torch.inference_mode():
            shown.append(r.mean(F.cross_entropy(m(x), y), of=x).item())
        shown.append(train(r, m, optimizer, 1))
    return shown, r.state_dict(m)


def large_raw(r: Any) -> Any:
    """A large parameter that only a method other than `forward` uses, next to submodules."""

    class Raw(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.randn(400, 300) / 20)
            self.into, self.out = nn.Linear(6, 400), nn.Linear(300, 4)

        def encode(self, x: Tensor) -> Tensor:
            return torch.tanh(self.into(x)) @ self.table

        def loss(self, x: Tensor, y: Tensor) -> Tensor:
            return F.cross_entropy(self(x), y) + 0.1 * self.encode(x).pow(2).mean()

        def forward(self, x: Tensor) -> Tensor:
            return self.out(self.encode(x))

    torch.manual_seed(0)
    m = Raw()
    optimizer = torch.optim.SGD(m.parameters(), 0.1)
    r.prepare(m, optimizer)
    shown = []
    for batch in batches(3):
        x, y = r.split(batch)
        optimizer.zero_grad()
        loss = r.mean(m.loss(x, y)) + r.mean(m.out(m.encode(-x)).pow(2).mean())
        r.backward(loss)
        r.step(optimizer)
        shown.append(loss.item())
    return shown, r.state_dict(m)


def late_backward(r: Any) -> Any:
    """A forward for the log in between, a loss kept on the model, a second model that only looks on."""

    class Keeps(Model):
        def forward(self, x: Tensor) -> Tensor:
            h = self.features(x)
            self.penalty = h.pow(2).mean()
            return self.head(h)[:, :3].transpose(0, 1)

    torch.manual_seed(0)
    m = Keeps()
    optimizer = torch.optim.SGD(m.parameters(), 0.1)
    r.prepare(m, optimizer)
    for k, (x, y) in enumerate(batches(4)):
        x, y = r.split((x, y.clamp(max=2)))
        optimizer.zero_grad()
        out = m(x)
        out += 0.5  # in place, on a view
        loss = r.mean(F.cross_entropy(out.transpose(0, 1), y))
        if k % 2:
            loss = r.mean(m.penalty)  # nothing but what the model kept
        r.backward(loss)
        r.step(optimizer)
    return r.state_dict(m)


def sum_of_terms(r: Any) -> Any:
    """Encoder and decoder by methods, a sum-reduced loss, a penalty over parameters, several backward calls."""
    m = model()
    optimizer = torch.optim.AdamW([p for n, p in m.named_parameters() if "unused" not in n], 0.01)
    r.prepare(m, optimizer)
    for batch in batches(3):
        x, y = r.split(batch)
        optimizer.zero_grad()
        r.backward(r.sum(m.features(x).pow(2).sum()))
        r.backward(r.mean(F.cross_entropy(m.head(m.features(x)), y)))
        named = r.full(m.named_parameters())
        r.backward(0.1 * sum(p.pow(2).sum() for n, p in named if n.startswith("blocks")))
        r.step(optimizer)
    return r.state_dict(m)


def late_part(r: Any) -> Any:
    """A frozen part that is trained from the second step on."""
    m = model()
    m.blocks.requires_grad_(False)
    optimizer = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9)
    r.prepare(m, optimizer)
    train(r, m, optimizer, 1)
    m.blocks.requires_grad_(True)
    train(r, m, optimizer, 2)
    return r.state_dict(m)


def restored(r: Any) -> Any:
    """Best weights kept and loaded back; optimizer state loaded straight after `prepare`; a copy that stays."""
    m = model()
    optimizer = torch.optim.AdamW([p for n, p in m.named_parameters() if "unused" not in n], 0.05)
    train(Original, m, optimizer, 2)
    saved = copy.deepcopy((m.state_dict(), optimizer.state_dict()))
    m = model(1)
    optimizer = torch.optim.AdamW([p for n, p in m.named_parameters() if "unused" not in n], 0.3)
    r.prepare(m, optimizer)
    shown: list[Any] = [r.load_state_dict(m, saved[0]).missing_keys, r.load_state_dict(optimizer, saved[1])]
    kept = r.clone(m)
    best = copy.deepcopy(r.state_dict(m))  # alive where parameters are whole, as in the original
    shown.append(train(r, m, optimizer, 2, clip=0.5))
    shown.append(copy.deepcopy([r.state_dict(m), r.state_dict(m.blocks[1]), r.state_dict(optimizer)]))
    r.load_state_dict(m, best)
    shown.append(train(r, m, optimizer, 2))
    incomplete = {k: v for k, v in best.items() if "head" not in k}
    shown.append(sorted(r.load_state_dict(m, incomplete, strict=False).missing_keys))
    return shown, r.state_dict(m), kept.state_dict()


PROGRAMS: dict[str, Program] = {
    **{f"optimizer_{name}": with_optimizer(name) for name in optimizers()},
    **{
        f.__name__: f
        for f in (
            groups,
            norms,
            gan,
            gan_frozen,
            two_models_one_optimizer,
            held_in_a_container,
            evaluation_between,
            inference_first,
            large_raw,
            late_backward,
            sum_of_terms,
            late_part,
            restored,
        )
    },
}


def gap(found: Any, expected: Any, where: str = "") -> dict[str, Any]:
    """Places where two results differ in structure, and the largest difference of numbers, under ''.

    Differences of numbers above one are taken as parts of them: a sum of ten rounds by more than a sum of one.
    """
    wrong: dict[str, Any] = {"": 0.0}

    def note(size: float, place: str) -> None:
        wrong[""] = max(wrong[""], size if size == size else float("inf"))
        if not size <= 1e-3:
            wrong[place] = size

    def look(a: Any, b: Any, place: str) -> None:
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            if type(a) is not type(b) and not isinstance(b, nn.Parameter):
                wrong[place] = f"{type(a)}, not {type(b)}"
            elif a.shape != b.shape or a.dtype != b.dtype:
                wrong[place] = f"{tuple(a.shape)} {a.dtype}, not {tuple(b.shape)} {b.dtype}"
            elif a.numel():
                note(((a.double() - b.double()).abs() / b.double().abs().clamp(min=1.0)).max().item(), place)
        elif isinstance(a, dict) and isinstance(b, dict):
            if list(a) != list(b):
                wrong[place] = f"keys {list(a)}, not {list(b)}"
            for key in a.keys() & b.keys():
                look(a[key], b[key], f"{place}.{key}")
        elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
            if len(a) != len(b):
                wrong[place] = f"{len(a)} items, not {len(b)}"
            for k, (x, y) in enumerate(zip(a, b)):
                look(x, y, f"{place}[{k}]")
        elif isinstance(a, float) and isinstance(b, (float, int)):
            note(0.0 if a == b else abs(a - b) / max(1.0, abs(b)), place)  # two infinities are equal
        elif a != b:
            wrong[place] = f"{a!r}, not {b!r}"

    look(found, expected, where)
    return wrong


def in_turn(turn: int, of: int = 2) -> tuple[str, ...]:
    """All programs but for those that differ only in their optimizer, which take turns.

    Each way of cutting a model gives every element-wise optimizer the same: tensors with a part of the elements. One
    way of a backend, and all others together, run them all.
    """
    plain = [name for name in PROGRAMS if name.startswith("optimizer_")]
    left = {name for k, name in enumerate(plain) if k % of != turn}
    return tuple(name for name in PROGRAMS if name not in left)


def autocast_steps(runtime: Any, count: int) -> Any:
    """Losses, norms, weights and optimizer state of some steps under the run's autocast."""
    m = model(width=24)
    optimizer = torch.optim.AdamW([p for n, p in m.named_parameters() if "unused" not in n], 0.01)
    runtime.prepare(m, optimizer)
    shown = []
    for x, y in batches(count):
        x, y = runtime.split((x.repeat(1, 4), y))
        optimizer.zero_grad()
        with runtime.autocast():
            loss = runtime.mean(F.cross_entropy(m(x), y))
        runtime.backward(loss)
        shown.append([loss.item(), runtime.clip_grad_norm_(m.parameters(), 1.0).item()])
        runtime.step(optimizer)
    return shown, copy.deepcopy(runtime.state_dict(m)), copy.deepcopy(runtime.state_dict(optimizer))
