"""A picture of both curves and their difference, where matplotlib is installed."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Sequence
from typing import Any

from ..files import FileError, reason
from ..report.stream import complain
from .numbers import difference
from .outcome import Outcome

MISSING = "--plot: matplotlib is not installed here (pip install matplotlib); --html FILE draws the same without it"


def can_plot() -> bool:
    """Whether a picture can be drawn; says so if not."""
    if importlib.util.find_spec("matplotlib") is None:
        complain(MISSING)
        return False
    return True


def write_plot(path: str, script: str, outcomes: Sequence[Outcome]) -> None:
    """Draw one column for each conversion that was run.

    Raises:
        FileError: the file can't be written.
    """
    shown = [outcome for outcome in outcomes if outcome.losses[0] or outcome.losses[1]]
    if not shown:
        complain(f"--plot: no backward was traced, {path} is not drawn")
        return
    figures: Any = importlib.import_module("matplotlib.figure")
    figure = figures.Figure(figsize=(7 * len(shown), 7), layout="constrained")  # no window, whatever is configured
    figure.suptitle(os.path.basename(script))
    axes = figure.subplots(2, len(shown), squeeze=False, sharex="col")
    for column, outcome in enumerate(shown):
        original, rewritten = outcome.losses
        upper, lower = axes[0][column], axes[1][column]
        upper.plot(range(1, len(original) + 1), original, label="original", linewidth=2.5, alpha=0.6)
        upper.plot(range(1, len(rewritten) + 1), rewritten, "--", label=f"rewritten ({outcome.name})", linewidth=1.2)
        upper.set_ylabel("loss")
        upper.legend()
        far = [difference(a, b) for a, b in zip(original, rewritten)]
        lower.plot(range(1, len(far) + 1), far, label="relative difference")
        lower.plot(range(1, len(far) + 1), [outcome.allowed.at(k) for k in range(len(far))], ":", label="allowed")
        lower.set_yscale("log" if any(0 < value < float("inf") for value in far) else "linear")
        lower.set_xlabel("backward call")
        lower.legend()
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise FileError(f"{path}: {reason(error)}") from None
    except ValueError as error:  # an ending that no format has
        raise FileError(f"{path}: {error}") from None
