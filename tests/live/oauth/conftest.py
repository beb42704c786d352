"""Fixtures of the sign-ins: what runs once for a file of tests, and an MCPX for each.

All tests of a file share an event loop, on which the servers and the browser live.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.live.oauth import people
from tests.live.oauth.household import Household
from tests.live.oauth.issuer import Issuer, Notes, running_issuer
from tests.live.processes import serving

if TYPE_CHECKING:
    from playwright.async_api import Browser

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def running(anyio_backend: str, request: pytest.FixtureRequest) -> AsyncIterator[Issuer]:
    """One provider, which lists the SCOPES of the file of tests."""
    async with running_issuer(*getattr(request.module, "SCOPES", ())) as issuer:
        yield issuer


@pytest.fixture
async def issuer(running: Issuer) -> Issuer:
    """The authorization server: it does nothing wrong, and nothing has happened yet."""
    await running.begin()
    return running


@pytest.fixture(scope="module")
async def notes(running: Issuer) -> AsyncIterator[Notes]:
    """The server behind it."""
    async with serving(
        [sys.executable, str(HERE / "notes_server.py"), running.address], ready="serving at"
    ) as line:
        yield Notes(line.split()[-1])


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    async with people.open_browser() as browser:
        yield browser


@pytest.fixture
async def alice(browser: Browser) -> AsyncIterator[people.Person]:
    async with people.person("alice", browser) as person:
        yield person


@pytest.fixture
def house() -> Iterator[Household]:
    with Household.opened() as made:
        yield made
