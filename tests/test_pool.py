"""The worker pool itself: results, failures, hangs, scripts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from tests.pool import Pool, PoolTimeout, RankError


def total(x: float) -> tuple[int, float]:
    t = torch.tensor([x * (dist.get_rank() + 1)])
    dist.all_reduce(t)
    return dist.get_rank(), t.item()


def fails(on: int | None, wait: bool) -> None:
    if on is None or dist.get_rank() == on:
        raise ValueError(f"no luck on {dist.get_rank()}")
    if wait:
        dist.barrier()


def hang() -> None:
    if dist.get_rank() == 1:
        dist.barrier()
        return
    import time

    time.sleep(60)


def test_results_come_in_rank_order(pool3: Pool) -> None:
    assert pool3.run(total, 2.0) == [(0, 12.0), (1, 12.0), (2, 12.0)]


def test_failure_on_all_ranks_keeps_the_workers(pool2: Pool) -> None:
    pool2.run(total, 1.0)
    before = [w.pid for w in pool2.workers]
    with pytest.raises(RankError, match="no luck on 1") as caught:
        pool2.run(fails, None, False)
    assert caught.value.types == ["ValueError", "ValueError"]
    assert pool2.run(total, 1.0)[0] == (0, 3.0)
    assert [w.pid for w in pool2.workers] == before


def test_failure_on_one_rank_ends_the_waiting_of_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.pool.GRACE", 0.5)
    pool = Pool(2)
    try:
        with pytest.raises(RankError, match="no luck on 0") as caught:
            pool.run(fails, 0, True)
        assert caught.value.types == ["ValueError", "Killed"]
        assert pool.run(total, 1.0)[1] == (1, 3.0)
        with pytest.raises(PoolTimeout, match=r"(?s)ranks \[0, 1\].*in hang"):
            pool.run(hang, timeout=1.0)
    finally:
        pool.close()


def test_script_runs_as_main_with_its_own_surroundings(pool2: Pool, tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("value = 3\n")
    script = tmp_path / "main.py"
    script.write_text(
        "import os, sys, helper\n"
        "if __name__ == '__main__':\n"
        "    os.system('echo child')\n"
        "    open('rank' + os.environ['RANK'], 'w').write(os.environ['COLOUR'])\n"
        "    print(sys.argv[1:], helper.value, os.getcwd(), os.environ['COLOUR'], os.environ['RANK'])\n"
        "    sys.exit(4)\n"
    )
    run = pool2.script(script, ["--n", "1"], cwd=tmp_path, env={"COLOUR": "red"})
    assert run.code == 4
    assert not run.error
    assert run.stdout.splitlines() == ["child", f"['--n', '1'] 3 {tmp_path} red 0"]
    assert (
        tmp_path / "rank1"
    ).read_text() == "red"  # its standard output is silent if a script before took the runtime
    (tmp_path / "helper.py").write_text("value = 4  # of another size: bytecode of the same second is kept\n")
    assert " 4 " in pool2.script(script, cwd=tmp_path, env={"COLOUR": "red"}).stdout
    script.write_text("raise ValueError('broken script')\n")
    run = pool2.script(script, cwd=tmp_path)
    assert run.code == 1
    assert "broken script" in run.error
    with pytest.raises(AssertionError, match="broken script"):
        run.check()
    assert "COLOUR" not in os.environ
