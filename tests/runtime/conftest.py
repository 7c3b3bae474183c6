"""A fresh runtime after every test that runs in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def alone() -> Iterator[None]:
    """One process: shuts the runtime down after the test, whatever happened."""
    yield
    from distify import runtime

    runtime.shutdown()
