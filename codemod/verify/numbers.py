"""When two numbers are the same: up to rounding, which grows with the steps that were made."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?(?![\w])|[-+]?\b(?:nan|inf)\b")
REDUCED = {"bf16": 2e-2, "fp16": 3e-3}  # a slice's products are rounded to that type before they are added
DIGITS = 3  # significant ones that a printed number needs, for its last one to be rounding


@dataclass(frozen=True)
class Tolerance:
    """How far apart two numbers may be.

    Attributes:
        step: relative, at the first line or step; it grows by as much with each.
        many: where it stops growing.
        absolute: allowed beside the relative one, for numbers around zero.
        norm: whether tensors are compared by the length of their difference, instead of its largest element.
    """

    step: float = 1e-5
    many: float = 2e-4
    absolute: float = 1e-6
    norm: bool = False

    def at(self, index: int) -> float:
        """The relative tolerance at the line or step with this index."""
        return min(self.many, self.step * (index + 1))


def tolerance_of(precision: str, given: float | None = None) -> Tolerance:
    """The tolerance for a precision of the rewritten run; `given` replaces its relative part."""
    many = REDUCED.get(precision, Tolerance.many) if given is None else given
    if precision not in REDUCED:
        return Tolerance(min(Tolerance.step, many), many, min(Tolerance.absolute, many))
    # by norm: under Adam an element whose gradient is all rounding moves by the whole rate, either way
    return Tolerance(many, many, many / 100, norm=True)


def excess(a: float, b: float, relative: float, absolute: float) -> float:
    """The difference of two numbers in units of what is allowed: equal up to 1; NaN equals NaN, infinity itself."""
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf
    allowed = absolute * (1 + 1e-6) + relative * max(abs(a), abs(b))
    return abs(a - b) / allowed if allowed else math.inf


def difference(a: float, b: float) -> float:
    """The difference of two numbers relative to the larger one."""
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf
    return abs(a - b) / max(abs(a), abs(b))


def last_digit(a: str, b: str) -> bool:
    """Whether two printed numbers differ by one unit of the last digit that both show: 0.1235 and 0.1236.

    What was printed is rounded already, so numbers that lie 1e-9 apart may be printed so. Whole numbers are exact.
    """
    try:
        x, y = Decimal(a), Decimal(b)
    except InvalidOperation:
        return False
    exponent = x.as_tuple().exponent
    if not isinstance(exponent, int) or exponent >= 0 or exponent != y.as_tuple().exponent:
        return False
    digits = max(len(str(abs(int(value.scaleb(-exponent))))) for value in (x, y))
    return digits >= DIGITS and abs(x - y) <= Decimal(1).scaleb(exponent)


def shown(value: float) -> str:
    """A number in at most 12 characters, as tables show it."""
    return f"{value:.7g}"
