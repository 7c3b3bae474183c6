"""Tables of docs/performance.md for what bench/memory.py measured."""

from __future__ import annotations

from collections.abc import Sequence

from results import GIB, Row

WORDS, LENGTH = 50304, 1024


def parameters(model: str) -> int:
    """Of a GPT by its name, gpt2-WIDTHxLAYERS."""
    width, layers = map(int, model.removeprefix("gpt2-").split("x"))
    return layers * (12 * width**2 + 13 * width) + (WORDS + LENGTH + 2) * width


def peaks(rows: Sequence[Row]) -> str:
    """Ours beside its rival, as they follow each other in the file."""
    lines = [
        "| model | contender | GiB of the fullest GPU | ours / rival | GiB of the host per process |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for ours, rival in zip(rows[::2], rows[1::2]):
        for row in (ours, rival):
            ratio = f"{ours.gpu_peak / rival.gpu_peak:.3f}" if row is ours and ours.gpu_peak and rival.gpu_peak else ""
            peak = "failed" if row.error else f"{row.gpu_peak / GIB:.3f}"
            host = "" if row.error else f"{row.host_peak / row.world / GIB:.2f}"
            lines.append(f"| {row.model} | {row.contender} | {peak} | {ratio} | {host} |")
    return "\n".join(lines)


def largest(rows: Sequence[Row]) -> str:
    """The deepest model of each contender."""
    lines = [
        "| contender | parameters | layers | GiB of the fullest GPU | GiB of the host per process | tokens/s |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for contender in dict.fromkeys(row.contender for row in rows):
        trained = [row for row in rows if row.contender == contender and not row.error]
        if not trained:
            lines.append(f"| {contender} | none | | | | |")
            continue
        best = max(trained, key=lambda row: parameters(row.model))
        tried = max(parameters(row.model) for row in rows if row.contender == contender)
        sign = "" if tried > parameters(best.model) else "at least "
        lines.append(
            f"| {contender} | {sign}{parameters(best.model) / 1e9:.2f} billion | {best.model.split('x')[1]} "
            f"| {best.gpu_peak / GIB:.2f} | {best.host_peak / best.world / GIB:.2f} | {best.rate:,.0f} |"
        )
    return "\n".join(lines)
