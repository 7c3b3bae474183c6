"""The model of step times in `bench/`: its limits, its order, and that a fit finds what was planted."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

BENCH = Path(__file__).resolve().parents[1] / "bench"
sys.path.append(str(BENCH))

import scaling  # noqa: E402
from scaling_fit import TASKS, Fit, Point, fit, read  # noqa: E402
from scaling_model import BACKENDS, Fitted, Group, Machine, Task, everyone, predict  # noqa: E402

MACHINE = Machine()
TASK = Task("toy", 1e9, 24, 1024, 8)
FITTED = Fitted(
    {"toy": 3e14},
    {"ddp": 0.9, "fsdp": 0.8, "zero2": 0.7, "zero3": 0.6},
    {"single": 1e-3, "ddp": 1e-3, "fsdp": 2e-3, "zero2": 2e-3, "zero3": 3e-3},
    {"fsdp": 1e-11, "zero2": 3e-11, "zero3": 3e-11},
)
FREE = replace(MACHINE, inside=1e30, nic=1e30, hop_inside=0.0, hop_between=0.0)


def test_collectives_move_what_a_ring_must() -> None:
    eight, across = everyone(8, FREE), Group(1, 4, 8)
    slow = replace(FREE, inside=1e9, nic=2e9)
    assert eight.gather(8e9, 5, slow) == pytest.approx(7.0)
    assert eight.reduce(8e9, 5, slow) == pytest.approx(14.0)  # 2(n-1)/n of the bytes
    assert across.reduce(8e9, 5, slow) == pytest.approx(2 * 3 / 4 * 8 / 2)
    assert everyone(64, MACHINE).bandwidth(slow) == 1e9  # all NICs of a node together carry more than its inside
    assert everyone(64, MACHINE).bandwidth(replace(slow, nic=1e8)) == pytest.approx(8e8)
    hops = replace(FREE, hop_inside=1.0, hop_between=100.0)
    assert everyone(16, hops).gather(0.0, 3, hops) == 3 * (14 * 1.0 + 100.0)
    assert everyone(1024, hops).reduce(0.0, 1, hops) == 2 * (7 * 1.0 + 7 * 100.0)  # a tree's depth, not a ring's length


def test_one_gpu_computes_and_nothing_else() -> None:
    for backend in BACKENDS:
        times = predict(TASK, backend, 1, MACHINE, FITTED)
        assert (times.exposed, times.copies) == (0.0, 0.0)
        assert times.step == pytest.approx(6 * 1e9 * 8 * 1024 / 3e14 + 28 * 1e9 / MACHINE.memory)
    bound = predict(TASK, "ddp", 1, MACHINE, replace(FITTED, host={"single": 1.0}))
    assert bound.step == 24.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_more_gpus_never_make_a_step_of_the_same_batches_faster_than_without_communication(backend: str) -> None:
    steps = []
    for gpus in scaling.GPUS[1:]:
        times = predict(TASK, backend, gpus, MACHINE, FITTED)
        free = predict(TASK, backend, gpus, FREE, FITTED)
        assert times.exposed >= 0.0
        assert free.exposed == pytest.approx(0.0, abs=1e-9)
        assert free.step <= times.step + 1e-12
        steps.append(times.step - times.update)
    assert steps == sorted(steps)
    one = predict(TASK, backend, 1, MACHINE, FITTED)
    assert all(step >= one.step - one.update for step in steps)


def test_weak_scaling_is_at_most_perfect_and_hybrid_sharding_gains_where_links_between_nodes_are_slow() -> None:
    slow = replace(MACHINE, nic=1e9)
    machines = {name: Fit(FITTED, machine, [], []) for name, machine in (("fast", MACHINE), ("slow", slow))}
    rows = {
        (name, row["scaling"], row["backend"], row["gpus"]): row
        for name, found in machines.items()
        for row in scaling.scaling(replace(TASK, again=True), found, 1024)
    }
    sharded = 28 * TASK.params / MACHINE.memory  # the update of the whole, which sharding spares
    for (_, kind, backend, _), row in rows.items():
        spared = 0.0 if backend == "ddp" else sharded / row["seconds"]
        assert 0 < row["efficiency"] <= 1 + spared + 1e-9
        assert kind == "weak" or row["gpus"] <= 1024
    whole, hybrid = (rows["slow", "weak", backend, 16]["seconds"] for backend in ("fsdp", "fsdp-hybrid"))
    assert hybrid < 0.7 * whole
    assert ("fast", "weak", "fsdp-hybrid", 8) not in rows  # one node: the same as fsdp


def test_blocks_are_kept_for_the_backward_where_memory_allows() -> None:
    kept, again = (predict(replace(TASK, again=way), "fsdp", 64, MACHINE, FITTED).exposed for way in (False, True))
    assert kept < again
    assert predict(TASK, "fsdp", 64, MACHINE, FITTED).exposed == kept  # 16/64 + 2 GB of 141
    assert predict(TASK, "fsdp", 64, replace(MACHINE, capacity=4e9), FITTED).exposed == again


def test_strong_scaling_accumulates_what_does_not_fit_one_batch() -> None:
    times = predict(TASK, "ddp", 2, MACHINE, FITTED, samples=64)
    once = predict(TASK, "ddp", 2, MACHINE, FITTED)
    assert times.compute == pytest.approx(8 * once.compute)
    assert times.exposed == pytest.approx(once.exposed)  # gradients travel once
    gathered = predict(TASK, "fsdp", 2, MACHINE, FITTED, samples=64)
    assert gathered.exposed > 2 * predict(TASK, "fsdp", 2, MACHINE, FITTED).exposed  # parameters in each batch


def planted() -> tuple[list[Point], Machine]:
    machine = replace(MACHINE, inside=1e10)
    points = []
    for size in (0.3e9, 1e9, 3e9):
        for batch in (1, 8):
            task = Task("toy", size, int(24 * size / 1e9), 1024, batch)
            points.append(Point(task, "single", 1, predict(task, "ddp", 1, machine, FITTED).step))
            points += [
                Point(task, backend, gpus, predict(task, backend, gpus, machine, FITTED).step)
                for backend in ("ddp", "fsdp", "zero2", "zero3")
                for gpus in (2, 4, 8)
            ]
    return points, machine


def test_a_fit_finds_what_was_planted() -> None:
    points, machine = planted()
    found = fit(points, replace(machine, inside=3e10))
    assert max(abs(error) for _, error in found.errors) < 0.01
    assert found.machine.inside == pytest.approx(1e10, rel=0.03)
    assert found.fitted.speed["toy"] == pytest.approx(3e14, rel=0.01)
    for name in ("ddp", "fsdp", "zero3"):
        assert found.fitted.overlap[name] == pytest.approx(FITTED.overlap[name], abs=0.04)
    learnt = {one.name for one in found.sought if one.learnt}
    assert {"inside", "speed toy", "overlap ddp", "overlap fsdp"} <= learnt
    few = fit([point for point in points if point.backend in ("single", "ddp")][:2], machine)
    assert "speed toy" in {one.name for one in few.sought if one.learnt}
    assert "host ddp" not in {one.name for one in few.sought if one.learnt}  # told as assumed


def test_the_points_beside_it_are_explained(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    points = read([BENCH / "scaling_points.jsonl"], TASKS, "bf16")
    assert {point.backend for point in points} == {"single", "ddp", "fsdp", "zero2", "zero3"}
    assert max(abs(error) for _, error in fit(points, MACHINE).errors) < 0.08


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    picture = tmp_path / "scaling.svg"
    for words in ([], ["--json"]):
        monkeypatch.setattr(sys, "argv", ["scaling.py", *words, "--svg", str(picture)])
        scaling.main()
        shown = capsys.readouterr().out
        if words:
            rows = [json.loads(line) for line in shown.splitlines()]
            assert {row["backend"] for row in rows} == set(BACKENDS)
        else:
            assert "assumed: not told by these points" in shown
            assert "What it can't know" in shown
    drawing = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    assert len(drawing.findall(".//{http://www.w3.org/2000/svg}polyline")) == 2 * len(BACKENDS)


def test_the_page_shows_what_comes_out(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["scaling.py", "--model", "gpt2-774m"])
    scaling.main()
    tables = capsys.readouterr().out.partition("What it can't know")[0]
    page = (BENCH.parent / "docs" / "scaling.md").read_text(encoding="utf-8")
    shown = page[page.index("measured  ") : page.index("![Efficiency")]
    words = [[line.split() for line in text.splitlines() if line.strip(" `tex")] for text in (tables, shown)]
    assert len(words[0]) == len(words[1])
    for mine, theirs in zip(*words):
        assert len(mine) == len(theirs), "run python bench/scaling.py --model gpt2-774m --svg docs/scaling.svg"
        for one, other in zip(mine, theirs):
            try:
                numbers = [float(word.strip("%")) for word in (one, other)]
            except ValueError:
                assert one == other
            else:  # the last digits are those of the machine's algebra
                assert numbers[0] == pytest.approx(numbers[1], rel=0.01, abs=1.01 if "%" in one else 0.11)


def test_rows_that_do_not_count(tmp_path: Path) -> None:
    good = {"model": "gpt2-124m", "contender": "ours-ddp", "world": 2, "precision": "bf16", "batch": 16, "p50": 0.05}
    rows = [
        good,
        {**good, "contender": "hand-ddp"},  # the runtime's own was measured
        {**good, "precision": "fp32"},
        {**good, "error": "out of memory"},
        {**good, "accumulate": 8},
        {**good, "model": "convnet"},
        {**good, "rate": 2 * 16 * 1024 / 0.04},  # a rate is taken before a median
    ]
    file = tmp_path / "results.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert [round(point.seconds, 6) for point in read([file], TASKS, "bf16")] == [0.05, 0.04]
