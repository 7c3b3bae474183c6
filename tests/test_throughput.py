"""The throughput and memory benches: what they count, and runs on the CPU."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.pool import Pool

BENCH = Path(__file__).parents[1] / "bench" / "throughput"
sys.path.append(str(BENCH))

import memory_page  # noqa: E402
import page  # noqa: E402
from contenders import Case, Conversions  # noqa: E402
from launch import PRINTED, Failed, Launcher, Outcome  # noqa: E402
from plot import draw, panels  # noqa: E402
from results import GIB, Row, checks, medians, percentile, verdicts  # noqa: E402
from run import fill, one, parse, planned  # noqa: E402
from summary import summary  # noqa: E402

from bench.memory import Found, fitted, search  # noqa: E402

DDP = Row("gpt2-124m", 2, "ours-ddp", "bf16", 1, 10, 16, 60, 0, rate=1000.0, gpu_peak=200, losses={0: 10.9, 50: 9.0})


def rows() -> list[Row]:
    """Three repeats of ours and of its rival, whose median rate is 990."""
    hand = replace(DDP, contender="hand-ddp", gpu_peak=100, losses={0: 10.901, 50: 9.1})
    ours = [replace(DDP, repeat=n, rate=rate) for n, rate in enumerate((1000.0, 400.0, 1100.0))]
    return ours + [replace(hand, repeat=n, rate=rate) for n, rate in enumerate((990.0, 5000.0, 900.0))]


def test_medians_and_targets() -> None:
    found = medians([*rows(), replace(DDP, rate=0.0, error="out of memory")])
    ours = found[DDP.key]
    assert (ours.repeats, ours.rate, ours.lowest, ours.highest) == (3, 1000.0, 400.0, 1100.0)
    ratios = [(v.target.measure, v.ratio, v.met) for v in verdicts(found)]
    assert ratios == [("rate", pytest.approx(1000 / 990), True), ("gpu_peak", 2.0, False)]


def test_scaling_counts_the_processes() -> None:
    one = replace(DDP, contender="ours", world=1, rate=520.0)
    (verdict,) = verdicts(medians([DDP, one]))
    assert verdict.ratio == pytest.approx(1000 / (2 * 520))
    assert verdict.met


def test_other_work_is_told() -> None:
    assert [check.equal for check in checks(rows())] == [True, True]
    other = replace(DDP, contender="accelerate-ddp", losses={0: 10.8, 50: 9.0})
    first, last = checks([*rows(), other])
    assert (first.step, first.equal, last.equal) == (0, False, True)
    assert "DIFFERS gpt2-124m" in summary([*rows(), other])


def test_a_row_counts_the_slowest_process_and_the_largest_gpu() -> None:
    row = replace(DDP)
    fast = {"steps": 50, "elapsed": 4.0, "step_times": [1.0, 3.0], "gpu_peak": 7, "gpu_reserved": 9, "host_peak": 5}
    slow = {**fast, "elapsed": 5.0, "gpu_peak": 8}
    fill(row, Outcome([fast, slow], {0: 1.0}, 9.0))
    assert row.rate == 16 * 2 * 1024 * 50 / 5.0
    assert (row.gpu_peak, row.host_peak, row.p50) == (8, 10, 2.0)


def test_percentiles_lie_between_the_nearest() -> None:
    assert [percentile([4.0, 1.0, 2.0], part) for part in (0.0, 0.5, 0.75, 1.0)] == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("limit", "most", "found"),
    [(50, 512, Found(50, True)), (3, 512, Found(3, True)), (0, 512, Found(0, True)), (99, 40, Found(40, False))],
)
def test_the_largest_model_is_found(limit: int, most: int, found: Found) -> None:
    asked: list[int] = []

    def fits(layers: int) -> bool:
        asked.append(layers)
        return layers <= limit

    largest, bounded = search(fits, 4, most)
    assert bounded == found.bounded
    assert found.largest - found.largest // 8 <= largest <= found.largest
    assert len(asked) == len(set(asked)) <= 10


def test_memory_is_told_in_tables() -> None:
    pair = [replace(DDP, gpu_peak=3 * GIB, host_peak=4 * GIB), replace(DDP, contender="hand-ddp", gpu_peak=2 * GIB)]
    assert "| gpt2-124m | ours-ddp | 3.000 | 1.500 | 2.00 |" in memory_page.peaks(pair)
    models = [replace(DDP, model=f"gpt2-2048x{layers}") for layers in (8, 16)]
    assert memory_page.parameters("gpt2-2048x16") == 16 * (12 * 2048**2 + 13 * 2048) + 51330 * 2048
    assert "| ours-ddp | at least 0.91 billion | 16 |" in memory_page.largest(models)
    assert "| ours-ddp | 0.51 billion | 8 |" in memory_page.largest([models[0], replace(models[1], error="full")])


def test_only_a_lack_of_memory_ends_a_search() -> None:
    assert fitted(DDP)
    assert not fitted(replace(DDP, error="torch.OutOfMemoryError: CUDA out of memory. Tried"))
    with pytest.raises(RuntimeError, match="broken"):
        fitted(replace(DDP, error="broken"))


def test_every_line_of_a_plan_can_be_measured(capsys: pytest.CaptureFixture[str]) -> None:
    plans = sorted((BENCH / "plans").glob("*.txt"))
    assert all(planned(parse(["--plan", str(plan)])) for plan in plans)
    assert capsys.readouterr().err == ""
    places = [name for _, name, _ in page.PLACE.findall(page.PAGE.read_text())]
    assert sorted(places) == sorted([*(plan.stem for plan in plans), *page.MEMORY])


def test_the_page_is_made_of_the_results(tmp_path: Path) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    made, plots = page.made(text, BENCH / "measured")
    assert made == text
    drawn = {file.name: file.read_text() for file in page.PAGE.with_suffix("").glob("*.svg")}
    assert plots == drawn
    (tmp_path / "one.jsonl").write_text("".join(row.line() + "\n" for row in rows()))
    filled, plots = page.made("<!-- measured: one -->\n<!-- end -->", tmp_path)
    assert "| ours-ddp | bf16 | 1 | every 10 | 1,000 | 400 – 1,100 |" in filled
    assert plots["one.svg"] == draw(panels(medians(rows())))


class InPools(Launcher):
    """Runs the scripts in workers that have torch already."""

    pools: dict[int, Pool]

    def run(self, script: Path, argv: Sequence[str], world: int, *rest: Any, **options: Any) -> Outcome:
        environment = {"BENCH_METER": str(self.work / "meter"), "BENCH_WARMUP": "2"}
        folder = self.work / "scripts"
        shutil.copytree(script.parent, folder, dirs_exist_ok=True)
        shutil.copy(BENCH / "meter.py", folder)
        done = self.pools[world].script(folder / script.name, argv, self.work, environment).check()
        meters = [json.loads((self.work / f"meter.{rank}").read_text()) for rank in range(world)]
        return Outcome(meters, {int(step): float(loss) for step, loss in PRINTED.findall(done.stdout)}, 1.0)


def test_contenders_do_equal_work(tmp_path: Path, pool1: Pool, pool2: Pool) -> None:
    launcher, conversions = InPools(tmp_path), Conversions(tmp_path / "converted")
    launcher.pools = {1: pool1, 2: pool2}
    cases = [Case("mlp-tiny", 1, "original", "fp32", batch=8, steps=6, warmup=2)]
    cases += [replace(cases[0], contender="ours-ddp", world=world, batch=8 // world) for world in (1, 2)]
    measured = [one(case, 0, 60.0, launcher, conversions) for case in cases]
    assert [(row.error, sorted(row.losses), row.rate > 0) for row in measured] == [("", [0, 5], True)] * 3
    text = summary(measured)
    assert "equal   mlp-tiny fp32, 8 samples, step 5: 3 contenders, spread" in text


MEASURED = """
import json, os, sys
rank = os.environ["RANK"]
print(f"step 0 loss {sys.argv[1]}")
if sys.argv[1] == "nan" and rank == "1":
    raise SystemExit("broken")
with open(os.environ["BENCH_METER"] + "." + rank, "w") as out:
    json.dump({"steps": int(rank)}, out)
"""


def test_processes_are_started_and_heard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(MEASURED)
    launcher = Launcher(tmp_path)
    try:
        outcome = launcher.run(script, ["2.5"], 2, ("decimal",))
        assert ([meter["steps"] for meter in outcome.meters], outcome.losses) == ([0, 1], {0: 2.5})
        with pytest.raises(Failed, match="process 1 ended with status 1: broken"):
            launcher.run(script, ["nan"], 2, ("decimal",))
    finally:
        launcher.close()
