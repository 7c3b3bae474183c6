"""What may be meant and costs something is said once, on standard error of rank 0."""

from __future__ import annotations

import contextlib
import io
import warnings

import pytest
import torch
from torch import nn

from tests.pool import Pool
from tests.runtime.guard_setting import ALL, WHOLE, Setting


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
