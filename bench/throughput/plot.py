"""Draw results: a bar per contender with its median, a line from the lowest to the highest repeat.

python bench/throughput/plot.py results.jsonl [more.jsonl …] --out results.svg [--measure rate|gpu_peak]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from results import GIB, Key, Medians, medians, read

COLOURS = {"ours": "#1b6ca8", "original": "#777777", "hand": "#c8553d"}
OTHER = "#e0a030"
LEFT, WIDTH, RIGHT, BAR, GAP = 270, 420, 130, 15, 6


@dataclass(frozen=True)
class Bar:
    """One contender.

    Attributes:
        name: what is written beside it.
        value: its length.
        low, high: ends of the line over it.
        text: what is written behind it.
    """

    name: str
    value: float
    low: float
    high: float
    text: str

    @property
    def colour(self) -> str:
        """By whose loop it is."""
        return COLOURS.get(self.name.split("-")[0].split("+")[0].split(" ")[0], OTHER)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results.svg"))
    parser.add_argument("--measure", choices=("rate", "gpu_peak"), default="rate")
    args = parser.parse_args()
    args.out.write_text(draw(panels(medians(read(args.files)), args.measure)), encoding="utf-8")


def panels(found: dict[Key, Medians], measure: str = "rate") -> list[tuple[str, list[Bar]]]:
    """A title and bars for each model and number of GPUs, the largest value first."""
    made: dict[str, list[Bar]] = {}
    for key, m in found.items():
        model, world, contender, precision, accumulate, log_every, _ = key
        notes = [] if precision == "bf16" else [precision]
        notes += [] if accumulate == 1 else [f"accumulation of {accumulate}"]
        notes += [] if log_every == 10 else [f"printed {'every step' if log_every == 1 else 'never'}"]
        name = f"{contender} ({', '.join(notes)})" if notes else contender
        unit = "tokens/s" if model.startswith("gpt2") else "samples/s"
        if measure == "rate":
            bar = Bar(name, m.rate, m.lowest, m.highest, f"{m.rate:,.0f}")
        else:
            bar = Bar(name, m.gpu_peak, m.gpu_peak, m.gpu_peak, f"{m.gpu_peak / GIB:.2f}")
            unit = "GiB of the fullest GPU"
        made.setdefault(f"{model}, {world} {'GPU' if world == 1 else 'GPUs'}, {unit}", []).append(bar)
    return [(title, sorted(bars, key=lambda bar: -bar.value)) for title, bars in made.items()]


def draw(parts: Sequence[tuple[str, Sequence[Bar]]]) -> str:
    """An SVG of panels, one below the other."""
    lines: list[str] = []
    y = 10
    for title, bars in parts:
        y += 18
        lines.append(f'<text x="6" y="{y}" font-size="13" font-weight="bold">{escape(title)}</text>')
        y += 10
        most = max((bar.high for bar in bars), default=0.0) or 1.0
        for bar in bars:
            lines += _bar(bar, y, WIDTH / most)
            y += BAR + GAP
        y += 12
    wide = LEFT + WIDTH + RIGHT
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {y}" width="{wide}" height="{y}" '
            'font-family="sans-serif" font-size="11">',
            f'<rect width="{wide}" height="{y}" fill="white"/>',
            *lines,
            "</svg>",
            "",
        ]
    )


def _bar(bar: Bar, y: int, scale: float) -> list[str]:
    middle, end = y + BAR / 2, LEFT + bar.value * scale
    low, high = LEFT + bar.low * scale, LEFT + bar.high * scale
    return [
        f'<text x="{LEFT - 6}" y="{y + 11}" text-anchor="end">{escape(bar.name)}</text>',
        f'<rect x="{LEFT}" y="{y}" width="{end - LEFT:.1f}" height="{BAR}" fill="{bar.colour}"/>',
        f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}" stroke="black" stroke-width="1.5"/>',
        f'<text x="{max(end, high) + 6:.1f}" y="{y + 11}">{bar.text}</text>',
    ]


if __name__ == "__main__":
    main()
