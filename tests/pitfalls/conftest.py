"""The runner of small programs: as they are, naively converted, and converted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pitfalls.trial import Trial
from tests.pool import Pool


@pytest.fixture
def trial(pool1: Pool, pool2: Pool, pool3: Pool, tmp_path: Path) -> Trial:
    return Trial({1: pool1, 2: pool2, 3: pool3}, tmp_path)
