"""Read-only analysis: names, roles of values, the batch algebra, training steps. Nothing of the program is run."""

from __future__ import annotations

from .analysis import analyse, analyse_program
from .model import Facts

__all__ = ["Facts", "analyse", "analyse_program"]
