"""Pools of gloo workers for tests on one to three ranks; they start when a test first asks for one."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.pool import Pool


def pytest_collection_finish() -> None:
    """Spare collections what the tests are made of, torch above all, and let the short-lived values of an analysis die."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="session")
def pool1() -> Iterator[Pool]:
    """One worker, for scripts as they are."""
    pool = Pool(1)
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def pool2() -> Iterator[Pool]:
    pool = Pool(2)
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def pool3() -> Iterator[Pool]:
    pool = Pool(3)
    yield pool
    pool.close()


# Machines that run tests are busy: how long one example takes says nothing. Examples are the same in every run, so that a
# change breaks its own tests and no one else's; `HYPOTHESIS=explore pytest tests/codemod/test_odd_text.py` draws new ones.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS", "same"))
