"""For all tests: what MCPX remembers goes into a folder of the test run, never into the user's own.

MCPX runs on asyncio, and so do its tests; those of `supervisors` choose their back end themselves.
"""

from __future__ import annotations

import os
import tempfile

import pytest

from tests.forking import client

STATE = tempfile.TemporaryDirectory(prefix="mcpx-tests-")
os.environ["MCPX_STATE_DIR"] = STATE.name


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def pytest_sessionstart(session: pytest.Session) -> None:
    """Start the fork server while the tests are collected, where there will be many of them."""
    if hasattr(session.config, "workerinput"):
        client.SERVER.address()


def pytest_unconfigure() -> None:
    client.stop()
