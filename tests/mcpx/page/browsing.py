"""A real Chromium, as the system has it."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

with suppress(ImportError):
    from playwright.async_api import async_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NEEDS_BROWSER = (pytest.mark.others, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"))


@asynccontextmanager
async def browsing() -> AsyncIterator[Any]:
    """A context of a browser without a past."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield await browser.new_context()
        finally:
            await browser.close()
