"""The worker that runs the originals: one process, once per session."""

from __future__ import annotations

import pytest

from tests.parity.harness import Originals
from tests.pool import Pool


@pytest.fixture(scope="session")
def originals(pool1: Pool, tmp_path_factory: pytest.TempPathFactory) -> Originals:
    return Originals(pool1, tmp_path_factory.mktemp("originals"))
