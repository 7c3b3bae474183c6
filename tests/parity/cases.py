"""What each fixture needs to be run: arguments, environment, and where equality can't be asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


@dataclass(frozen=True)
class Larger:
    """How to run the original with a four times larger batch, and the conversion with `--accumulate 4`.

    Attributes:
        original, converted: arguments of the two runs.
        original_env, converted_env: their environments.
        lines: regular expression of the output lines that both must have (evaluation; not the per-batch ones).
    """

    lines: str
    original: tuple[str, ...] = ()
    converted: tuple[str, ...] = ()
    original_env: dict[str, str] = field(default_factory=dict)
    converted_env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One fixture.

    Attributes:
        name: its folder.
        runs: arguments of the runs, one after the other in the same folder.
        env: environment of all runs.
        may_refuse: backends (as `target` names them) that may refuse instead of being equal.
        accumulate: the larger batch of the original, `None` where a larger batch is another run (BatchNorm, noise).
    """

    name: str
    runs: tuple[tuple[str, ...], ...] = ((),)
    env: dict[str, str] = field(default_factory=dict)
    may_refuse: tuple[str, ...] = ()
    accumulate: Larger | None = None


CASES = (
    Case("functions", accumulate=Larger("Test set", ("--batch-size", "24"), ("--batch-size", "6"))),
    Case(
        "module_scheduler",
        accumulate=Larger("mse", original_env={"BATCH_SIZE": "24"}, converted_env={"BATCH_SIZE": "6"}),
    ),
    Case("trainer_class", accumulate=Larger("val", original_env={"BATCH": "24"}, converted_env={"BATCH": "6"})),
)

BY_NAME = {case.name: case for case in CASES}
