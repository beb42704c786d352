"""The page as a person uses it, in a real browser: it follows what happens, and does what it is told to."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.live.page.visits import Visit

pytestmark = [pytest.mark.anyio, pytest.mark.live]


async def test_signing_out_ends_the_session(visit: Visit) -> None:
    await visit.page.get_by_role("button", name="Sign out").click()
    await expect(visit.page.get_by_text("mcpx ui")).to_be_visible()
    answer = await visit.page.request.get(f"{visit.origin}/ui/")
    assert answer.status == 401
