"""Under fp16 the host waits for the search for inf only where it must."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from distify import runtime
from distify.runtime.overflow import Overflow, skips_by_itself


class Own(torch.optim.AdamW):
    """A class of the script, whose step may do more."""


def hooked(*args: Any, **options: Any) -> torch.optim.Optimizer:
    made = torch.optim.AdamW(*args, **options)
    made.register_step_post_hook(lambda *_: None)
    return made


class Event:
    """Stands for one of a GPU that is busy for as long as nobody waits for it."""

    def __init__(self, waits: list[str]) -> None:
        self.waits = waits

    def query(self) -> bool:
        return False

    def synchronize(self) -> None:
        self.waits.append("wait")


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """How often the host waited for an answer."""
    found: list[str] = []
    begin = Overflow.__init__

    def slow(self: Overflow, flag: torch.Tensor) -> None:
        begin(self, flag)
        self._arrived = Event(found)  # type: ignore[assignment]

    monkeypatch.setattr(Overflow, "__init__", slow)
    runtime.init(precision="fp16")
    yield found
    runtime.shutdown()


@pytest.mark.parametrize(
    ("make", "at_once"),
    [
        (lambda p: torch.optim.AdamW(p, 0.1, fused=True), False),
        (lambda p: torch.optim.SGD(p, 0.1, fused=True), False),
        (lambda p: torch.optim.AdamW(p, 0.1), True),
        (lambda p: Own(p, 0.1, fused=True), True),
        (lambda p: hooked(p, 0.1, fused=True), True),
    ],
)
def test_a_step_after_an_overflow_changes_nothing(
    make: Callable[[Any], torch.optim.Optimizer], at_once: bool, waits: list[str]
) -> None:
    model = nn.Linear(2, 1)
    optimizer = make(model.parameters())
    runtime.prepare(model, optimizer)
    scale = runtime.scaler()
    first = scale.get_scale()
    before = [p.detach().clone() for p in model.parameters()]
    for factor, kept in ((float("inf"), True), (1.0, False)):
        optimizer.zero_grad()
        runtime.backward(model(torch.ones(1, 2)).sum() * factor)  # adjusts the scale
        waits.clear()
        runtime.step(optimizer)
        assert waits == ["wait"] * at_once
        equal = all(torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))
        assert equal is kept
    assert scale.get_scale() == first / 2


def test_parameters_elsewhere_are_not_told() -> None:
    optimizer = torch.optim.AdamW(nn.Linear(2, 1).parameters(), fused=True)
    assert skips_by_itself(optimizer, Overflow(torch.zeros(())))
    assert not skips_by_itself(optimizer, Overflow(torch.zeros((), device="meta")))


def test_a_schedule_waits_for_the_step_before_it(waits: list[str]) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters(), 0.1, fused=True)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    runtime.prepare(model, optimizer)
    rates = []
    for factor in (1.0, float("inf"), 1.0):
        optimizer.zero_grad()
        runtime.backward(model(torch.ones(1, 2)).sum() * factor)
        runtime.step(optimizer)
        runtime.step(scheduler)
        rates.append(scheduler.get_last_lr()[0])
    assert rates == [0.05, 0.05, 0.025]
    assert len(waits) == 3
