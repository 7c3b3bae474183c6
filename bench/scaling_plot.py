"""Efficiency over the number of GPUs as an SVG, without a drawing package."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

COLOURS = ("#1b6ca8", "#c8553d", "#e0a030", "#4a8f5b", "#7a4fa0")
WIDTH, HEIGHT, LEFT, TOP = 360, 240, 46, 34


@dataclass(frozen=True)
class Line:
    """One backend's points: number of GPUs, and efficiency from 0."""

    name: str
    points: Sequence[tuple[int, float]]


def plot(panels: Sequence[tuple[str, Sequence[Line]]]) -> str:
    """Panels side by side.

    Args:
        panels: a title, and the lines of each.
    """
    wide, high = (WIDTH + LEFT + 20) * len(panels) + 90, HEIGHT + TOP + 50
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{wide}" height="{high}" fill="white"/>',
    ]
    for k, (title, lines) in enumerate(panels):
        parts.append(f'<g transform="translate({(WIDTH + LEFT + 20) * k + LEFT},{TOP})">')
        parts += _panel(title, lines)
        parts.append("</g>")
    names = panels[0][1] if panels else []
    for k, line in enumerate(names):
        y = TOP + 12 + 18 * k
        parts.append(
            f'<line x1="{wide - 92}" x2="{wide - 72}" y1="{y}" y2="{y}" stroke="{COLOURS[k]}" stroke-width="2"/>'
        )
        parts.append(f'<text x="{wide - 68}" y="{y + 4}">{line.name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _panel(title: str, lines: Sequence[Line]) -> list[str]:
    most = max((gpus for line in lines for gpus, _ in line.points), default=2)
    top = max(1.0, *(value for line in lines for _, value in line.points)) if lines else 1.0

    def place(gpus: float, value: float) -> tuple[float, float]:
        return WIDTH * math.log2(gpus) / max(1.0, math.log2(most)), HEIGHT * (1 - value / top)

    parts = [f'<text x="0" y="-12" font-size="12">{title}</text>']
    for step in range(0, 11, 2):
        _, y = place(1, step / 10)
        parts.append(f'<line x1="0" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="-6" y="{y + 4:.1f}" text-anchor="end">{step * 10}%</text>')
    for power in range(int(math.log2(most)) + 1):
        x, _ = place(2**power, 0)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT + 16}" text-anchor="middle">{2**power}</text>')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT + 34}" text-anchor="middle">GPUs</text>')
    for colour, line in zip(COLOURS, lines):
        way = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in line.points)
        parts.append(f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2"/>')
    return parts
