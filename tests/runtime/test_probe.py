"""`runtime.probe`: what it finds, and that its all-reduce adds up."""

from __future__ import annotations

import json

import torch.distributed as dist

from distify.runtime import probe
from tests.pool import Pool


def reduce() -> dict[str, object]:
    return probe.measured("gloo", dist.get_rank(), dist.get_world_size())


def test_an_all_reduce_of_two(pool2: Pool) -> None:
    for found in pool2.run(reduce):
        assert found["right"] is True
        assert found["bytes"] == 16 << 20
        assert min(found["small_seconds"], found["seconds"]) > 0


def test_the_answers_are_lines_of_json(tmp_path, capsys) -> None:
    probe.main(["0", "1", str(tmp_path / "meet"), "gloo,nccl"])
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["facts"]["gloo"] is True
    assert second["reduce"]["right"] is True
    assert not dist.is_initialized()


def test_nothing_is_reduced_where_no_backend_is_named(tmp_path, capsys) -> None:
    probe.main(["0", "1", str(tmp_path / "meet"), ""])
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert list(line) == ["facts"]


def test_a_failure_is_an_answer(tmp_path, capsys) -> None:
    probe.main(["1", "1", str(tmp_path / "meet"), "gloo"])  # there is no such rank
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert line["reduce"]["backend"] == "gloo"
    assert line["reduce"]["error"]
