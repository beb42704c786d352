"""What comes after a sign-in: refreshes, restarts, rotation, revocation, and more scopes."""

from __future__ import annotations

import anyio
import pytest

from tests.live.oauth.household import run_tool, text
from tests.live.oauth.people import person

pytestmark = [pytest.mark.live, pytest.mark.anyio, pytest.mark.timeout(120)]
PERSON = ("asked to sign in", "asked to agree", "registered")
SCOPES = ("notes:read", "notes:write")
SHORT_S = 2
PACE_S = 0.05  # between calls that go on and on


def statuses(seen):
    """How requests of calls were answered."""
    return [each["status"] for each in seen if each["method"] == "tools/call"]


async def test_tokens_are_refreshed_before_they_expire_and_calls_go_on(house, issuer, notes, alice):
    house.write({"notes": notes.entry()})
    await issuer.switch(lifetime=6)  # it counts in whole seconds: there is one between refresh and expiry
    async with house.attached() as client:
        await client.initialize()
        await house.sign_in(alice, "notes")
        before = len(await notes.seen())
        over = anyio.Event()

        async def wait():
            await issuer.happened("refresh_token", 1)
            over.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            while not over.is_set():
                assert text(await run_tool(client, "notes", "whoami")) == "alice"
                await anyio.sleep(PACE_S)
        assert house.spilled() == []
    answered = statuses((await notes.seen())[before:])
    assert set(answered) == {200}
    assert await issuer.times(*PERSON) == [1, 1, 1]
    # each old refresh token was given up for a new one, and none was used twice
    assert await issuer.times("grant refused", "grant revoked") == [0, 0]


@pytest.mark.parametrize("expired", [True, False])
async def test_a_daemon_that_is_started_again_asks_nobody(house, issuer, notes, alice, expired):
    house.write({"notes": notes.entry()})
    await issuer.switch(lifetime=SHORT_S if expired else 3600)
    async with house.attached() as client:
        await client.initialize()
        await house.sign_in(alice, "notes")
        assert text(await run_tool(client, "notes", "whoami")) == "alice"
    assert (await house.command("daemon", "stop")).returncode == 0
    given = sum(await issuer.times("authorization_code", "refresh_token"))
    if expired:
        await issuer.happened("expired", given)
    async with house.attached() as client:
        await client.initialize()
        assert text(await run_tool(client, "notes", "whoami")) == "alice"
    assert await issuer.times(*PERSON) == [1, 1, 1]
    assert (sum(await issuer.times("authorization_code", "refresh_token")) > given) is expired
    assert await issuer.times("grant refused") == [0]


async def test_what_the_authorization_server_took_back_is_asked_for_again(house, issuer, notes, alice):
    house.write({"notes": notes.entry()})
    async with house.attached() as client:
        await client.initialize()
        await house.sign_in(alice, "notes")
        assert text(await run_tool(client, "notes", "whoami")) == "alice"
        await issuer.revoke()
        for _ in range(3):
            refused = await run_tool(client, "notes", "whoami")
            assert refused["structuredContent"]["outcome"] == "not_sent"
            assert "mcpx login notes" in text(refused)
        assert (await house.server("notes"))["state"] == "needs sign-in"
        assert await issuer.times("grant refused") == [1]
        assert await (await house.sign_in(alice, "notes")).ended() == 0
        assert text(await run_tool(client, "notes", "whoami")) == "alice"
    # the cookie of the browser still signs in, and the client is still known
    assert await issuer.times("asked to sign in", "registered") == [1, 1]


async def test_tokens_are_revoked_at_a_logout_and_another_person_may_sign_in(
    house, issuer, notes, alice, browser
):
    house.write({"notes": notes.entry()})
    async with house.attached() as client:
        await client.initialize()
        await house.sign_in(alice, "notes")
        assert text(await run_tool(client, "notes", "whoami")) == "alice"
        done = await house.command("logout", "notes")
        assert done.returncode == 0, done.stderr
        assert house.kept() == []
        assert await issuer.times("revoked", "grant revoked") == [2, 1]
        refused = await run_tool(client, "notes", "whoami")
        assert refused["structuredContent"]["outcome"] == "not_sent"
        assert (await house.server("notes"))["state"] == "needs sign-in"
        async with person("bob", browser) as bob:
            assert await (await house.sign_in(bob, "notes")).ended() == 0
        assert text(await run_tool(client, "notes", "whoami")) == "bob"
        assert await (await house.sign_in(alice, "notes")).ended() == 0
        assert text(await run_tool(client, "notes", "whoami")) == "alice"
    assert await issuer.times("refresh_token", "grant refused") == [0, 0]


async def test_a_call_that_needs_more_scopes_says_so_and_the_next_login_asks_for_them(
    house, issuer, notes, alice
):
    house.write({"notes": notes.entry()})
    async with house.attached() as client:
        await client.initialize()
        await house.sign_in(alice, "notes")
        for _ in range(2):
            refused = await run_tool(client, "notes", "write", text="x")
            assert refused["structuredContent"]["outcome"] == "not_sent"
            assert "notes:write" in text(refused)
            assert "mcpx login notes" in text(refused)
            assert text(await run_tool(client, "notes", "read", note=1)) == "note 1"
        assert "notes:write" in (await house.server("notes"))["sign_in"]["wanted_scopes"]
        login = await house.sign_in(alice, "notes")
        assert await login.ended() == 0, login.said
        assert text(await run_tool(client, "notes", "write", text="x")) == "written: x"
        assert text(await run_tool(client, "notes", "read", note=1)) == "note 1"
        assert not (await house.server("notes")).get("sign_in", {}).get("wanted_scopes")
    [_, agreed] = await issuer.happened("asked to agree")
    assert {"notes:read", "notes:write"} <= set(agreed["scope"].split())


async def test_an_authorization_server_that_fails_for_now_costs_nobody_a_sign_in(house, issuer, notes, alice):
    house.write({"notes": notes.entry()})
    await issuer.switch(lifetime=SHORT_S)
    async with house.attached() as client:
        await client.initialize()
        await house.sign_in(alice, "notes")
        await issuer.switch(token_status=503)
        await issuer.happened("expired", sum(await issuer.times("authorization_code", "refresh_token")))
        refused = await run_tool(client, "notes", "whoami")
        assert refused["structuredContent"]["outcome"] == "not_sent"
        await issuer.switch()
        await issuer.happened("refresh_token", 1)
        assert text(await run_tool(client, "notes", "whoami")) == "alice"
    assert await issuer.times(*PERSON) == [1, 1, 1]
