"""What the tests of faults share: garbage is looked for in what a test has made, and nowhere else."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(scope="module", autouse=True)
def _only_new_garbage() -> None:
    """A row counts descriptors after a collection, which would look through all of the SDK each time."""
    gc.collect()
    gc.freeze()
