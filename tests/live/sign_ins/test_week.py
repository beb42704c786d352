"""Two days with MCPX, whose person signs in once; `scripts/sign-ins` lives a week, with others too."""

from __future__ import annotations

import pytest

from tests.live.sign_ins.clients import MCPX
from tests.live.sign_ins.week import live

pytestmark = pytest.mark.anyio


async def test_a_person_signs_in_once():
    week = await live(MCPX, days=2, lifetime_s=1.0)
    assert (week.asked, week.failed, week.reuses) == (1, 0, 0), week
    assert week.refreshes
