"""What the tests of the product share: the back end that it runs on, and ears for scripted servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpx.core.running import put_in_force
from mcpx.core.telemetry import contained
from tests.mcpx.scripted import Ears


@pytest.fixture
def ears(tmp_path: Path) -> Iterator[Ears]:
    with Ears(tmp_path / "ears") as made:
        yield made


@pytest.fixture(autouse=True)
def _own_environment() -> Iterator[None]:
    """What a test's configuration has put in force, and the faults of a test, do not count for the next."""
    yield
    put_in_force(None)
    contained._by_place.clear()
