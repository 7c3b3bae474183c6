"""Fill docs/performance.md with what was measured: tables and plots from the rows in `measured/`.

    python bench/throughput/page.py

A comment `<!-- measured: NAME -->` in the page stands before what is made of `measured/NAME.jsonl`, and
`<!-- end -->` after it; plots become docs/performance/NAME.svg and NAME_memory.svg.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import memory_page
from plot import draw, panels
from results import GIB, Key, Row, checks, medians, read, verdicts
from summary import check_line, last_line, side

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "performance.md"
MEMORY = {"memory_peaks": memory_page.peaks, "memory_largest": memory_page.largest}
PLACE = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> None:
    """Write the page and the plots."""
    page, plots = made(PAGE.read_text(encoding="utf-8"), HERE / "measured")
    PAGE.write_text(page, encoding="utf-8")
    for name, drawing in plots.items():
        file = PAGE.with_suffix("") / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(drawing, encoding="utf-8")


def made(page: str, folder: Path) -> tuple[str, dict[str, str]]:
    """The page with its places filled, and the plots by file name.

    Args:
        page: text with places.
        folder: of the results.
    """
    plots: dict[str, str] = {}

    def fill(match: re.Match[str]) -> str:
        file = folder / f"{match[2]}.jsonl"
        text = "Not measured yet.\n"
        if file.exists():
            rows = read([file])
            if match[2] in MEMORY:
                text = f"{about(rows)}\n\n{MEMORY[match[2]](rows)}\n"
            else:
                found = medians(rows)
                plots[f"{match[2]}.svg"] = draw(panels(found))
                plots[f"{match[2]}_memory.svg"] = draw(panels(found, "gpu_peak"))
                text = section(rows, match[2])
        return f"{match[1]}\n{text}\n{match[3]}"

    return PLACE.sub(fill, page), plots


def section(rows: Sequence[Row], name: str) -> str:
    """What one file of results says."""
    parts = [about(rows), targets(rows), tables(rows)]
    parts.append(f"![Rates](performance/{name}.svg)\n\n![Memory](performance/{name}_memory.svg)")
    lines = "\n".join(map(check_line, checks(rows)))
    parts.append(f"Equal work, checked by the losses that were printed:\n\n```text\n{lines}\n```")
    failed = [
        f"- {row.contender} ({row.model}): `{last_line(row.error)}`" for row in rows if row.error and not row.repeat
    ]
    if failed:
        parts.append("Not measured, since it failed:\n\n" + "\n".join(failed))
    return "\n\n".join(parts) + "\n"


def about(rows: Sequence[Row]) -> str:
    """Card, date, versions, command."""
    first = rows[0]
    packages = ", ".join(f"{name} {number}" for name, number in first.versions.items())
    commit = f"; commit {first.commit}" if first.commit else ""
    return f"{first.card}, {first.date[:10]}; {packages}{commit}.\n\n```sh\n{first.command}\n```"


def targets(rows: Sequence[Row]) -> str:
    """A table of the ratios that are aimed at."""
    lines = ["| ratio of medians | model | measured | aim | |", "| --- | --- | ---: | ---: | --- |"]
    for verdict in verdicts(medians(rows)):
        target = verdict.target
        rate = target.measure == "rate"
        times = "" if target.times == 1 else f"{target.times:g} × "
        lines.append(
            f"| {'' if rate else 'memory: '}{side(target.left)} / {times}{side(target.right)} | {verdict.model} "
            f"| {verdict.ratio:.3f} | {'≥' if rate else '≤'} {target.bound:g} | {'met' if verdict.met else 'missed'} |"
        )
    return "\n".join(lines)


def tables(rows: Sequence[Row]) -> str:
    """A table of medians for each model and number of processes."""
    found = medians(rows)
    groups: dict[tuple[str, int], list[Key]] = {}
    for key in found:
        groups.setdefault(key[:2], []).append(key)
    parts = []
    for (model, world), keys in groups.items():
        unit = "tokens/s" if model.startswith("gpt2") else "samples/s"
        lines = [
            f"**{model}, {world} {'process' if world == 1 else 'processes'}, {keys[0][6]} samples each**",
            "",
            f"| contender | precision | accumulation | printed | {unit} | lowest – highest | step p50, p90, p99 ms "
            "| GiB per GPU | host GiB | repeats |",
            "| --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        ]
        for key in sorted(keys, key=lambda key: (key[3:6], -found[key].rate)):
            m, printed = found[key], {0: "never", 1: "every step"}.get(key[5], f"every {key[5]}")
            lines.append(
                f"| {key[2]} | {key[3]} | {key[4]} | {printed} | {m.rate:,.0f} | {m.lowest:,.0f} – {m.highest:,.0f} "
                f"| {m.p50 * 1e3:.2f}, {m.p90 * 1e3:.2f}, {m.p99 * 1e3:.2f} | {m.gpu_peak / GIB:.2f} "
                f"| {m.host_peak / GIB:.2f} | {m.repeats} |"
            )
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
