"""A real Chromium, as the system has it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.live.oauth.people import CHROMIUM, open_browser

NEEDS_BROWSER = (pytest.mark.others, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"))


@asynccontextmanager
async def browsing() -> AsyncIterator[Any]:
    """A context of a browser without a past."""
    async with open_browser() as browser:
        yield await browser.new_context()
