"""The harness notices what the usual mistakes of a conversion do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.parity.cases import BY_NAME
from tests.parity.compare import assert_files_equal, assert_output_equal
from tests.parity.harness import DDP, Originals, Refused, converted, run_source
from tests.pool import Pool


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("functions", r"runtime\.mean\(", "("),
        ("functions", r"runtime\.sum\(pred", "(pred"),
        ("weighted_sampler", r"seen \+= runtime\.sum\((.*)\)", r"seen += \1"),
        ("odd_sizes", r"runtime\.mean\(\(out", "((out"),
        ("vae_penalty", r"runtime\.draw\(torch\.randn_like, mu\)", "torch.randn_like(mu)"),
        ("cnn_topk", r"init\(", 'init(batchnorm="local", '),
    ],
)
def test_wrong_numbers(name: str, old: str, new: str, originals: Originals, pool2: Pool, tmp_path: Path) -> None:
    case = BY_NAME[name]
    wrong, count = re.subn(old, new, converted(name, DDP).decode())
    assert count
    expected = originals.run(case, case.runs, case.env)
    with pytest.raises((AssertionError, Refused)) as caught:  # by its output, if the runtime does not see it before
        assert_output_equal(expected.stdout, run_source(wrong.encode(), pool2, tmp_path).stdout)
    assert not isinstance(caught.value, Refused) or "ranks differ in what must be equal" in str(caught.value)


def test_files_written_by_all(pool2: Pool, tmp_path: Path) -> None:
    source = converted("functions", DDP)
    wrong = source.replace(b"runtime.save(runtime.state_dict(model)", b"torch.save(model.state_dict()")
    assert wrong != source
    with pytest.raises(AssertionError, match=r"rank 1 wrote files: \['torch.save patterns.pt'\]"):
        run_source(wrong, pool2, tmp_path)


def test_text_files_written_by_all(pool2: Pool, tmp_path: Path) -> None:
    source = b"from distify import runtime\nruntime.init()\nopen('log.txt', 'w').close()\nprint('a')\n"
    with pytest.raises(AssertionError, match=r"rank 1 wrote files: \['open .*log.txt'\]"):
        run_source(source, pool2, tmp_path)


def test_weights(originals: Originals, pool2: Pool, tmp_path: Path) -> None:
    case = BY_NAME["functions"]
    source = converted("functions", DDP)
    wrong = source.replace(
        b'runtime.state_dict(model), "p', b'{k: 1.001 * v for k, v in model.state_dict().items()}, "p'
    )
    assert wrong != source
    expected, actual = originals.run(case, case.runs, case.env), run_source(wrong, pool2, tmp_path)
    assert_output_equal(expected.stdout, actual.stdout)
    with pytest.raises(AssertionError, match=r"patterns\.pt"):
        assert_files_equal(expected.folder, actual.folder)
