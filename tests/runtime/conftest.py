"""A fresh runtime after every test that runs in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.runtime.forked import Forks


@pytest.fixture
def alone() -> Iterator[None]:
    """One process: shuts the runtime down after the test, whatever happened."""
    yield
    from distify import runtime

    runtime.shutdown()


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """A server that forks the ranks of a run; starts with the first test that asks for one."""
    with Forks() as server:
        yield server
