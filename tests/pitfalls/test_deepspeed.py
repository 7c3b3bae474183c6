"""Section 9: a configuration that says something else than the script, and an engine that does steps of its own."""

from __future__ import annotations

import pytest
import torch

from distify.codemod.options import OptionError, Options
from distify.runtime.backends.deepspeed_load import config
from tests.pitfalls.trial import Trial
from tests.pool import Pool, RankError

STEPPED = """
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = optim.Adam(model.parameters(), lr=0.05)
    for epoch in range(2):
        for x, y in DataLoader(data, batch_size=7):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.2)
            optimizer.step()
            optimizer.zero_grad()
            print(loss.item(), float(norm))
"""


def inconsistent() -> None:
    import deepspeed

    model = torch.nn.Linear(2, 1)
    given = {"train_batch_size": 8, "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 1}
    deepspeed.initialize(model=model, model_parameters=model.parameters(), config=given)


def test_p68_batch_sizes_that_do_not_multiply(trial: Trial, pool2: Pool) -> None:
    with pytest.raises(RankError, match="train_batch_size is not equal to micro_batch_per_gpu"):
        pool2.run(inconsistent)
    given = config(2, torch.float32, [1000])
    assert "train_batch_size" not in given, "no world size is written down: DeepSpeed multiplies by what is there"
    trial.same(STEPPED, backend="deepspeed", zero_stage=2, size=3)


def test_p69_accumulation_set_in_two_places(trial: Trial) -> None:
    assert config(2, torch.float32, [1000])["gradient_accumulation_steps"] == 1, "the window is the runtime's"
    larger = STEPPED.replace("batch_size=7", "batch_size=6")
    smaller = STEPPED.replace("batch_size=7", "batch_size=3").replace("print(loss.item(), float(norm))", "pass")
    shown = "    print(*[p.sum().item() for p in model.parameters()])\n"
    larger = larger.replace("print(loss.item(), float(norm))", "pass") + shown
    trial.same(smaller + shown, like=larger, backend="deepspeed", zero_stage=2, accumulate=2)
    with pytest.raises(OptionError):
        Options(backend="deepspeed", accumulate=0)


OWN_ENGINE = """
    import deepspeed

    model = nn.Linear(5, 2)
    engine, optimizer, _, _ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config={"gradient_accumulation_steps": 4}
    )
    for x, y in DataLoader(data, batch_size=6):
        loss = F.cross_entropy(engine(x), y)
        engine.backward(loss)
        engine.step()
"""


def test_p69_a_script_with_an_engine_of_its_own(trial: Trial) -> None:
    trial.refused(OWN_ENGINE, "DST107", backend="deepspeed")


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_p70_engine_that_steps_and_clears_by_itself(trial: Trial, stage: int) -> None:
    """The user's own calls, in the user's order, also where `zero_grad` comes last."""
    trial.same(STEPPED, backend="deepspeed", zero_stage=stage)
