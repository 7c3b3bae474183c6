"""The worker that runs the originals: one process, once per session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.parity.harness import Originals
from tests.pool import Pool


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Originals]:
    pool = Pool(1)
    yield Originals(pool, tmp_path_factory.mktemp("originals"))
    pool.close()
