"""When two numbers are the same: up to rounding, which grows with the steps that were made."""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation

from ..dataclass import dataclass, replace

NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?(?![\w])|[-+]?\b(?:nan|inf)\b")
REDUCED = {"bf16": 2e-2, "fp16": 3e-3}  # a slice's products are rounded to that type before they are added
FLOOR = 1e-10  # allowed around zero in what is saved
TINY = 1e-8  # allowed around zero where numbers are told by their first digits
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

    def after(self, steps: int) -> Tolerance:
        """That of what is saved after some steps; a larger one than usual was asked for, and holds at once.

        Around zero next to nothing is allowed: tensors as the squares that Adam keeps are small throughout.
        """
        usual = steps and not self.norm and self.many <= Tolerance.many
        return replace(self, many=self.at(steps - 1), absolute=min(self.absolute, FLOOR)) if usual else self


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


def beyond(a: str, b: str, relative: float, absolute: float) -> float:
    """The difference of two printed numbers in units of what is allowed.

    Whole numbers are counts, and exact: a rounded sum that is printed so is told by the original's own rounding. In
    `5e-07` digits count from the first one on, so that what is allowed around zero is next to nothing.
    """
    if whole(a) and whole(b):
        return 0.0 if Decimal(a) == Decimal(b) else math.inf
    x, y = float(a), float(b)
    if x == y:
        return math.inf if whole(a) != whole(b) else 0.0
    return excess(x, y, relative, min(absolute, TINY) if "e" in (a + b).lower() else absolute)


def whole(token: str) -> bool:
    """Whether a number is printed as a whole one."""
    return token.lstrip("+-").isdigit()


def unit(token: str) -> float:
    """One unit of the last digit of a printed number; 0 where there are none behind a point."""
    digits = token.lower().partition("e")[0].partition(".")[2]
    power = int(token.lower().partition("e")[2] or 0)
    return 10.0 ** (power - len(digits)) if digits and abs(power) < 300 else 0.0


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
