"""Reduced precision on two ranks against loops written by hand with `torch.autocast` and a `GradScaler`.

Equal up to the rounding of the reduced type: gradients of two slices are rounded one by one before they are added.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.parity.cases import BY_NAME, FIXTURES
from tests.parity.compare import assert_files_equal, close
from tests.parity.harness import Originals, Target, fresh, run_converted
from tests.pool import Pool

# name -> what to compare of each line: losses and norms; counts of correct answers may flip at a tie
SCALARS = {
    "functions": r"[Ll]oss: ([\d.]+)",
    "trainer_class": r"(?:train|val) ([\d.]+)",
    "lm_get_batch": r"(?:loss|norm) ([\d.]+)",
    "gan_simple": r"loss: ([\d.]+)",
}
TOLERANCE = {"bf16": 2e-2, "fp16": 3e-3}
# max pooling and a high rate: where two picture elements are equal up to rounding, another one wins. The loop by hand
# differs from itself by 3.5 % between two sets of kernels of one processor (ONEDNN_MAX_CPU_ISA=AVX2).
STEEP = {("functions", "bf16"): 6e-2, ("functions", "fp16"): 2e-2}


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("backend", ["ddp", "fsdp"])
@pytest.mark.parametrize("name", SCALARS)
def test_against_a_loop_by_hand(
    name: str, backend: str, precision: str, originals: Originals, pool2: Pool, tmp_path: Path
) -> None:
    case = BY_NAME[name]
    folder = fresh(tmp_path / "reference")
    script = FIXTURES / name / "reference_amp.py"
    expected = originals.pool.script(script, cwd=folder, env={"AMP": precision}).check().stdout
    actual = run_converted(case, Target(backend, precision=precision), pool2, tmp_path, case.runs, case.env)

    left, right = (re.findall(SCALARS[name], text) for text in (expected, actual.stdout))
    assert len(left) == len(right) > 5
    rel = STEEP.get((name, precision), TOLERANCE[precision])
    wrong = [(a, b) for a, b in zip(left, right) if not close(float(a), float(b), rel)]
    assert not wrong, f"{wrong}\n{expected}\n{actual.stdout}"
    # by norm: under Adam an element whose gradient is all rounding moves by the whole rate, either way
    assert_files_equal(folder, actual.folder, many=rel, absolute=rel / 100, norm=True)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_reduced_precision_is_used(precision: str, originals: Originals, pool2: Pool, tmp_path: Path) -> None:
    case = BY_NAME["trainer_class"]
    full = originals.run(case, case.runs, case.env).stdout
    actual = run_converted(case, Target("ddp", precision=precision), pool2, tmp_path, case.runs, case.env)
    assert actual.stdout != full
