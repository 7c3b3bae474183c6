"""Curves of two runs as the points of an SVG, which need no library to be drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..dataclass import dataclass
from .numbers import difference

WIDTH, HEIGHT = 720, 240
LEFT, RIGHT, TOP, BOTTOM = 70, 10, 10, 30
MOST = 1200  # points of a curve; of longer ones the smallest and largest of each stretch are drawn


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: where, and what it says."""

    at: float
    text: str


@dataclass(frozen=True)
class Chart:
    """One picture.

    Attributes:
        title: what it shows.
        curves: name, and the points as `x,y x,y …` of each unbroken stretch.
        horizontal, vertical: marks of both axes.
        text: what it shows in words.
    """

    title: str
    curves: Sequence[tuple[str, Sequence[str]]]
    horizontal: Sequence[Tick]
    vertical: Sequence[Tick]
    text: str
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def loss_chart(original: Sequence[float], rewritten: Sequence[float]) -> Chart:
    """Both curves of losses over each other."""
    finite = [value for value in (*original, *rewritten) if math.isfinite(value)]
    low, high = spread(min(finite, default=0.0), max(finite, default=1.0))
    count = max(len(original), len(rewritten))
    curves = [(name, lines(values, count, low, high)) for name, values in both(original, rewritten)]
    ends = [f"{name} from {values[0]:.4g} to {values[-1]:.4g}" for name, values in both(original, rewritten) if values]
    vertical = [Tick(y_of(value, low, high), f"{value:.4g}") for value in marks(low, high)]
    return Chart("Loss by backward call", curves, steps(count), vertical, "; ".join(ends))


def difference_chart(original: Sequence[float], rewritten: Sequence[float], allowed: Sequence[float]) -> Chart:
    """The relative difference of both curves, and what is allowed, in powers of ten."""
    far = [difference(a, b) for a, b in zip(original, rewritten)]
    logs, bounds = ([math.log10(x) if 0 < x < math.inf else math.nan for x in values] for values in (far, allowed))
    finite = [value for value in (*logs, *bounds) if math.isfinite(value)]
    low, high = math.floor(min(finite, default=-8.0)), math.ceil(max(finite, default=-4.0)) or 0
    high = max(high, low + 1)
    count = max(len(original), len(rewritten))
    curves = [
        ("difference", lines(logs, count, low, high)),
        ("allowed", lines(bounds, count, low, high)),
    ]
    stride = max(1, (high - low) // 6)
    vertical = [Tick(y_of(power, low, high), f"1e{power}") for power in range(low, high + 1, stride)]
    known = [value for value in far if math.isfinite(value)]
    text = f"largest {max(known):.1e}" if known else "nothing to compare"
    return Chart("Relative difference of the losses", curves, steps(count), vertical, text)


def both(original: Sequence[float], rewritten: Sequence[float]) -> list[tuple[str, Sequence[float]]]:
    """The curves with their names."""
    return [("original", original), ("rewritten", rewritten)]


def lines(values: Sequence[float], count: int, low: float, high: float) -> list[str]:
    """A curve as points, broken where a value is not finite."""
    found: list[list[str]] = [[]]
    for index in chosen(values):
        if math.isfinite(values[index]):
            found[-1].append(f"{x_of(index, count):.1f},{y_of(values[index], low, high):.1f}")
        elif found[-1]:
            found.append([])
    return [" ".join(points if len(points) > 1 else points * 2) for points in found if points]


def chosen(values: Sequence[float]) -> list[int]:
    """Which values of a long curve are drawn: all peaks stay."""
    if len(values) <= MOST:
        return list(range(len(values)))
    size = math.ceil(2 * len(values) / MOST)
    found: set[int] = {0, len(values) - 1}
    for start in range(0, len(values), size):
        every = range(start, min(start + size, len(values)))
        found.update([index for index in every if not math.isfinite(values[index])][:1])
        stretch = [index for index in every if math.isfinite(values[index])] or [start]
        found |= {min(stretch, key=lambda i: values[i]), max(stretch, key=lambda i: values[i])}
    return sorted(found)


def x_of(index: int, count: int) -> float:
    """Where a step lies."""
    return LEFT + (WIDTH - LEFT - RIGHT) * (index / (count - 1) if count > 1 else 0.5)


def y_of(value: float, low: float, high: float) -> float:
    """Where a value lies; larger ones are higher."""
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low)


def spread(low: float, high: float) -> tuple[float, float]:
    """Bounds that are apart."""
    if high - low > 1e-12 * max(abs(low), abs(high)):
        return low, high
    return low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)


def marks(low: float, high: float, count: int = 4) -> list[float]:
    """Round values between bounds."""
    rough = (high - low) / count
    size = 10.0 ** math.floor(math.log10(rough))
    stride = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    first = math.ceil(low / stride)
    return [stride * number for number in range(first, math.floor(high / stride) + 1)]


def steps(count: int) -> list[Tick]:
    """Marks of backward calls, counted from 1."""
    if count <= 1:
        return [Tick(x_of(0, count), "1")] if count else []
    places = sorted({round(part * (count - 1) / 4) for part in range(5)})
    return [Tick(x_of(place, count), str(place + 1)) for place in places]
