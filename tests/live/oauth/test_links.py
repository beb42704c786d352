"""Clients that can open links, at a server that wants a sign-in: they are given one, and their calls run."""

from __future__ import annotations

from urllib.parse import urlsplit

import anyio
import pytest
from mcp import Client
from mcp_types import ElicitResult

from tests.mcpx.core.daemon.daemons import parameters

pytestmark = [pytest.mark.live, pytest.mark.anyio, pytest.mark.timeout(120)]
WHOAMI = {"server_name": "notes", "tool_name": "whoami"}
CALLS = 8


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_calls_of_a_client_that_opens_links_run_once_its_person_has_signed_in(
    house, issuer, notes, alice, mode
):
    house.write({"notes": notes.entry()})
    shown, answers = [], []
    before = len(await notes.seen())

    async def elicit(_context, params):
        shown.append(params)
        if len(shown) == 1:
            tasks.start_soon(alice.follow, params.url)
        return ElicitResult(action="accept")

    async def call():
        answers.append(await client.call_tool("exec", WHOAMI))

    async with (
        anyio.create_task_group() as tasks,
        Client(parameters(house), mode=mode, cache=None, elicitation_callback=elicit) as client,
        anyio.create_task_group() as calls,
    ):
        for _ in range(CALLS):
            calls.start_soon(call)
    assert [answer.content[0].text for answer in answers] == ["alice"] * CALLS
    assert len({each.url for each in shown}) == 1
    assert "notes" in shown[0].message
    assert urlsplit(issuer.address).netloc in shown[0].message or "127.0.0.1" in shown[0].message
    ran = [each for each in (await notes.seen())[before:] if each["tool"] == "whoami"]
    assert [each["status"] for each in ran] == [200] * CALLS
    assert await issuer.times("registered", "asked to sign in", "authorization_code") == [1, 1, 1]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_call_that_wants_more_scopes_runs_once_its_person_has_agreed(
    house, issuer, notes, alice, mode
):
    house.write({"notes": notes.entry()})
    await house.sign_in(alice, "notes")
    before = len(await notes.seen())

    async def elicit(_context, params):
        tasks.start_soon(alice.follow, params.url)
        return ElicitResult(action="accept")

    async with (
        anyio.create_task_group() as tasks,
        Client(parameters(house), mode=mode, cache=None, elicitation_callback=elicit) as client,
    ):
        call = {"server_name": "notes", "tool_name": "write", "arguments": {"text": "x"}}
        assert (await client.call_tool("exec", call)).content[0].text == "written: x"
    ran = [each["status"] for each in (await notes.seen())[before:] if each["tool"] == "write"]
    assert ran.count(200) == 1
    agreed = [set(each["scope"].split()) for each in await issuer.happened("asked to agree")]
    assert agreed[1] >= {"notes:read", "notes:write", "offline_access"}


async def test_a_link_that_is_declined_is_an_error_that_says_how_to_sign_in(house, issuer, notes):
    house.write({"notes": notes.entry()})

    async def elicit(_context, _params):
        return ElicitResult(action="decline")

    async with Client(parameters(house), cache=None, elicitation_callback=elicit) as client:
        refused = await client.call_tool("exec", WHOAMI)
        assert refused.structured_content["outcome"] == "not_sent"
        assert "mcpx login notes" in refused.content[0].text
    assert await issuer.times("asked to sign in", "authorization_code") == [0, 0]
