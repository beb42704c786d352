"""Sixty-four calls at the moment a token expires: one refresh, no failed call, and each runs once."""

from __future__ import annotations

import time

import anyio
import pytest

from mcpx.errors import CallError
from tests.mcpx.oauth.scripted_issuer import Fault, scripted_issuer
from tests.mcpx.oauth.signing_in import config_for, expire_stored, signed_in
from tests.mcpx.scripted import PATIENCE_S, open_watched

pytestmark = pytest.mark.anyio
CALLS = 64


async def call_all(watch, tool="count"):
    """Make the calls at once; each gets its own answer."""

    async def call(key):
        assert await watch.text(tool, {"key": key}, server="r") == key

    async with anyio.create_task_group() as tasks:
        for number in range(CALLS):
            tasks.start_soon(call, str(number))


def check(issuer, refreshes=1):
    """Each call ran once, with so many refreshes, and nobody was asked again."""
    assert sorted(issuer.calls) == sorted(["first", *map(str, range(CALLS))])
    assert (issuer.refreshes, issuer.asked, issuer.reuses) == (refreshes, 1, 0)
    assert not issuer.leaked_to("elsewhere")


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_server_finds_that_it_has_expired(era, tmp_path):
    with scripted_issuer(era=era) as issuer:
        async with signed_in(issuer, tmp_path) as watch:
            issuer.expire()
            await call_all(watch)
            check(issuer)
            assert watch.hub.supervisor.state("r").failures == 0


async def test_it_has_expired_while_mcpx_was_not_running(tmp_path):
    with scripted_issuer() as issuer:
        async with signed_in(issuer, tmp_path):
            pass
        issuer.expire()
        expire_stored(tmp_path)
        async with open_watched(config_for(issuer), state=tmp_path) as watch:
            await call_all(watch)
            check(issuer)


async def test_the_refresh_is_slow(tmp_path):
    with scripted_issuer() as issuer:
        async with signed_in(issuer, tmp_path) as watch:
            issuer.expire()
            issuer.faults["token:refresh_token"] = Fault(hold=True)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call_all, watch)
                await issuer.reached("token:refresh_token")
                await issuer.reached("mcp:tools/call", CALLS // 2)
                issuer.release()
            check(issuer)


async def test_the_refresh_fails_once(tmp_path):
    """Calls meanwhile have not run, and nobody is asked; the next refresh makes it good."""
    with scripted_issuer() as issuer:
        async with signed_in(issuer, tmp_path) as watch:
            issuer.faults["token:refresh_token"] = Fault(status=503, times=1)
            issuer.expire()
            with anyio.fail_after(PATIENCE_S):
                while (error := await failure(watch)) is not None:
                    assert error.outcome == "not_sent"
                    await anyio.sleep(0.05)  # a refresh that failed is not tried again at once
            issuer.calls.remove("again")
            await call_all(watch)
            check(issuer, refreshes=2)


async def failure(watch):
    """What a call fails with, if it does."""
    try:
        await watch.text("count", {"key": "again"}, server="r")
    except CallError as error:
        return error
    return None


async def test_lifetime_after_lifetime(tmp_path):
    """The old token is used while it lives, and calls never fail, whoever refreshes."""
    with scripted_issuer(lifetime_s=1) as issuer:
        async with signed_in(issuer, tmp_path) as watch:
            until = time.monotonic() + 2
            made = []

            async def keep_calling(worker):
                while time.monotonic() < until:
                    key = f"{worker}.{len(made)}"
                    made.append(key)
                    assert await watch.text("count", {"key": key}, server="r") == key

            async with anyio.create_task_group() as tasks:
                for worker in range(CALLS):
                    tasks.start_soon(keep_calling, worker)
            assert sorted(issuer.calls) == sorted(["first", *made])
            assert (issuer.asked, issuer.reuses) == (1, 0)
            assert 1 <= issuer.refreshes <= 6
