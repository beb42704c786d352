"""A week of a person with two AI clients and one server that wants a sign-in, in a minute.

A token lives for seconds where it lives for an hour elsewhere. Each day the first AI client starts and
calls; then the second does, and both call at once when the token has expired. At night everything ends. On
one day the authorization server answers 503 once.
"""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio
import msgspec

from tests.live.sign_ins.clients import Compared, Running
from tests.mcpx.oauth.scripted_issuer import Fault, scripted_issuer

LIFETIME_S: Final = 3.0  # of an access token
OUTAGE_DAY: Final = 4
CALLS_AT_ONCE: Final = 8


class Week(msgspec.Struct, kw_only=True):
    """What a week with one client was like."""

    client: str
    days: int
    asked: int = 0
    """How often a browser was opened for the person."""
    calls: int = 0
    failed: int = 0
    refreshes: int = 0
    reuses: int = 0
    """How often a refresh token was used twice: all tokens of the sign-in are lost then."""
    errors: list[str] = []
    """Why calls failed, each reason once."""
    seconds: float = 0.0


async def live(client: type[Compared], days: int = 7, *, lifetime_s: float = LIFETIME_S) -> Week:
    """A week with one client."""
    week, began = Week(client=client.name, days=days), time.monotonic()
    with scripted_issuer(lifetime_s=lifetime_s) as issuer, TemporaryDirectory(prefix="week-") as home:
        compared = client(issuer, Path(home))
        try:
            for day in range(days):
                await _Day(compared, week, lifetime_s).live(outage=day == OUTAGE_DAY)
        finally:
            with anyio.CancelScope(shield=True):
                await compared.end()
        week.asked, week.refreshes, week.reuses = issuer.asked, issuer.refreshes, issuer.reuses
    week.seconds = time.monotonic() - began
    return week


class _Day:
    def __init__(self, compared: Compared, week: Week, lifetime_s: float) -> None:
        self._compared = compared
        self._week = week
        self._expiry_s = lifetime_s * 1.1

    async def live(self, *, outage: bool) -> None:
        """From the start of the first AI client to the night."""
        issuer = self._compared.issuer
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(self._compared.started())
            await self._call(first)
            second = await stack.enter_async_context(self._compared.started())
            await self._call(second)
            if outage:
                issuer.faults["token:refresh_token"] = Fault(status=503, times=1)
            await anyio.sleep(self._expiry_s)
            async with anyio.create_task_group() as tasks:
                for number in range(CALLS_AT_ONCE):
                    tasks.start_soon(self._call, (first, second)[number % 2])
            issuer.faults.clear()
        await self._compared.end()
        await anyio.sleep(self._expiry_s)

    async def _call(self, running: Running) -> None:
        """Call; a person who is told to sign in does so, and calls again."""
        self._week.calls += 1
        problem = await self._compared.call(running, f"call-{self._week.calls}")
        if problem is not None and "sign-in" in problem:
            await self._compared.sign_in()
            problem = await self._compared.call(running, f"call-{self._week.calls}")
        if problem is not None:
            self._week.failed += 1
            if problem not in self._week.errors:
                self._week.errors.append(problem)
