"""What the tests of the product share: the back end that it runs on, and ears for scripted servers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from mcpx.core.running import put_in_force
from mcpx.core.telemetry import contained
from tests.mcpx.scripted import Ears


@pytest.fixture
def ears(tmp_path: Path) -> Iterator[Ears]:
    with Ears(tmp_path / "ears") as made:
        yield made


@pytest.fixture(autouse=True)
def _own_environment() -> Iterator[None]:
    """What a test's configuration has put in force, and the faults of a test, do not count for the next.

    Neither does the log that a command has set up: the next test may wait for a line of it.
    """
    log, root = structlog.get_config(), logging.getLogger()
    handlers, level = [*root.handlers], root.level
    yield
    put_in_force(None)
    contained._by_place.clear()
    if structlog.get_config() != log:
        structlog.configure(**log)
    if root.handlers != handlers or root.level != level:
        root.handlers[:] = handlers
        root.setLevel(level)
