"""Fixtures of the page: one browser, one daemon and one open page for a file of tests.

A file whose daemon is another one has a fixture `house` of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from playwright.async_api import Browser, expect

from tests.live import servers
from tests.live.oauth import people
from tests.live.page.houses import PageHouse, open_house
from tests.live.page.visits import AXE, PAGE_MS, Visit, visiting


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    servers.absent(None if AXE.exists() else "axe-core is not installed; run scripts/test --all")
    expect.set_options(timeout=PAGE_MS)
    async with people.open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def house() -> Iterator[PageHouse]:
    with open_house() as house:
        house.begin()
        yield house


@pytest.fixture(scope="module")
async def opened(house: PageHouse, browser: Browser) -> AsyncIterator[Visit]:
    async with visiting(house, browser) as visit:
        yield visit


@pytest.fixture
async def visit(opened: Visit) -> AsyncIterator[Visit]:
    """The page of the file; after each test, nothing may have gone wrong."""
    yield opened
    await opened.check()
