"""A person signs in to a server, with a real browser at a certified authorization server."""

from __future__ import annotations

import signal
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from tests.live.gateways import open_gateway
from tests.live.oauth.household import run_tool, text
from tests.live.oauth.issuer import CLIENT_DOCUMENT_URL
from tests.live.oauth.people import person

pytestmark = [pytest.mark.live, pytest.mark.anyio, pytest.mark.timeout(120)]
ASKED = ("registered", "asked to sign in", "asked to agree", "authorization_code")


@pytest.mark.parametrize("era", ["modern", "handshake"])
async def test_a_server_is_of_use_once_a_person_has_signed_in(house, issuer, notes, alice, era):
    house.write({"notes": notes.entry(era=era)})
    async with house.attached() as client:
        await client.initialize()
        refused = await run_tool(client, "notes", "whoami")
        assert refused["isError"]
        details = refused["structuredContent"]
        assert (details["code"], details["outcome"]) == ("server_unavailable", "not_sent")
        assert "needs sign-in" in text(refused)
        assert "mcpx login notes" in text(refused)
        before = await house.server("notes")
        assert before["state"] == "needs sign-in"
        assert before["sign_in"]["command"].startswith("mcpx login notes")

        login = await house.sign_in(alice, "notes")
        assert await login.ended() == 0, login.said
        assert "close" in alice.sees
        assert text(await run_tool(client, "notes", "whoami")) == "alice"
        assert (await house.server("notes"))["state"] == "ready"
    assert await issuer.times(*ASKED) == [1, 1, 1, 1]
    [exchanged] = await issuer.happened("authorization_code")
    assert exchanged["resource"] == notes.url
    assert exchanged["scope"] == "notes:read"
    [agreed] = await issuer.happened("asked to agree")
    assert set(agreed["scope"].split()) == {"notes:read", "offline_access"}


async def test_scopes_are_asked_for_by_name(house, issuer, notes, alice):
    house.write({"notes": notes.entry()})
    async with house.attached() as client:
        await client.initialize()
        for scopes in ("notes:read", "notes:read notes:write"):
            login = await house.sign_in(alice, "notes", "--scopes", scopes)
            assert await login.ended() == 0, login.said
        assert text(await run_tool(client, "notes", "write", text="x")) == "written: x"
    agreed = [set(each["scope"].split()) for each in await issuer.happened("asked to agree")]
    assert agreed == [{"notes:read", "offline_access"}, {"notes:read", "notes:write", "offline_access"}]
    assert await issuer.times("asked to sign in") == [1]


async def test_a_server_of_the_older_transport_is_signed_in_to_likewise(house, issuer, notes, alice):
    house.write({"notes": notes.sse_entry()})
    async with house.attached() as client:
        await client.initialize()
        assert "mcpx login notes" in text(await run_tool(client, "notes", "whoami"))
        login = await house.sign_in(alice, "notes")
        assert await login.ended() == 0, login.said
        assert text(await run_tool(client, "notes", "whoami")) == "alice"


async def test_a_process_that_serves_goes_on_at_the_next_call_when_a_login_was_done_beside_it(
    house, issuer, notes, alice
):
    house.write({"notes": notes.entry()})
    async with open_gateway("stdio-auto", Path(house.config)) as gateway:
        assert "mcpx login notes" in (await gateway.exec("notes", "whoami")).content[0].text
        login = await house.sign_in(alice, "notes")
        assert await login.ended() == 0, login.said
        assert (await gateway.exec("notes", "whoami")).content[0].text == "alice"
    assert house.daemons() == []


async def test_two_accounts_of_one_server_are_two_entries(house, issuer, notes, alice, browser):
    house.write({"one": notes.entry(), "two": notes.entry()})
    async with house.attached() as client, person("bob", browser) as bob:
        await client.initialize()
        for each, name in ((alice, "one"), (bob, "two")):
            assert await (await house.sign_in(each, name)).ended() == 0
        assert text(await run_tool(client, "one", "whoami")) == "alice"
        assert text(await run_tool(client, "two", "whoami")) == "bob"
        assert (await house.command("logout", "one")).returncode == 0
        assert text(await run_tool(client, "two", "whoami")) == "bob"
        assert (await run_tool(client, "one", "whoami"))["isError"]
    assert len(house.kept()) == 1


async def test_an_address_is_pasted_where_the_browser_is_on_another_machine(house, issuer, notes, browser):
    house.write({"notes": notes.entry()})
    issuers = urlsplit(issuer.address).netloc
    async with house.attached() as client, person("alice", browser, sees_only=issuers) as far:
        await client.initialize()
        async with house.logging_in("notes", "--no-browser") as login:
            said = await login.printed(f"{issuer.address}/auth?")
            address = next(word for word in said.split() if word.startswith(issuer.address))
            returned = await far.follow(address)
            assert urlsplit(returned).port == house.login_port
            await login.paste(returned)
            assert await login.ended() == 0, login.said
        assert text(await run_tool(client, "notes", "whoami")) == "alice"


async def test_nothing_but_the_one_answer_ends_a_sign_in(house, issuer, notes, alice):
    house.write({"notes": notes.entry()})
    async with house.attached() as client, httpx2.AsyncClient() as stranger:
        await client.initialize()
        async with house.logging_in("notes") as login:
            first = parse_qs(urlsplit(await login.authorization()).query)
            returned = first["redirect_uri"][0]
            for query in ("", "?code=x", "?code=x&state=another", "?error=access_denied&state=another"):
                answer = await stranger.get(returned + query)
                assert answer.status_code >= 400, query
            login.interrupt(signal.SIGINT)
            assert await login.ended() not in {0, None}
        async with house.logging_in("notes") as login:
            address = await login.address()
            replayed = f"{returned}?code=x&state={first['state'][0]}&iss={issuer.address}"
            assert (await stranger.get(replayed)).status_code >= 400
            ended_at = await alice.follow(address)
            assert await login.ended() == 0, login.said
        with pytest.raises(httpx2.ConnectError):
            await stranger.get(ended_at)
        assert text(await run_tool(client, "notes", "whoami")) == "alice"
    assert await issuer.times("registered", "authorization_code", "grant refused") == [1, 1, 0]


async def test_a_person_who_refuses_is_not_signed_in(house, issuer, notes, alice):
    house.write({"notes": notes.entry()})
    login = await house.sign_in(alice, "notes", answer="refuse")
    assert await login.ended() == 1
    assert "the person said no" in login.said
    assert await issuer.times("authorization_code", "grant refused") == [0, 0]


@pytest.mark.parametrize("lie", ["issuer", "iss"])
async def test_an_authorization_server_that_calls_itself_another_gets_nothing(
    house, issuer, notes, alice, lie
):
    house.write({"notes": notes.entry()})
    other = "http://127.0.0.1:9"
    await issuer.switch(**{lie: other})
    if lie == "issuer":
        login = await house.command("login", "notes")
        code, said = login.returncode, login.stdout + login.stderr
    else:
        process = await house.sign_in(alice, "notes")
        code, said = await process.ended(), process.said
    assert code == 1
    assert other in said
    assert issuer.address in said
    assert await issuer.times("authorization_code", "grant refused") == [0, 0]
    assert await issuer.times("registered") == [0 if lie == "issuer" else 1]


async def test_a_client_that_the_authorization_server_has_forgotten_is_registered_anew(
    house, issuer, notes, alice
):
    house.write({"notes": notes.entry()})
    async with house.attached() as client:
        await client.initialize()
        await house.sign_in(alice, "notes")
        await issuer.forget_clients()
        login = await house.sign_in(alice, "notes")
        assert await login.ended() == 0, login.said
        assert text(await run_tool(client, "notes", "whoami")) == "alice"
    assert await issuer.times("registered") == [2]


@pytest.mark.parametrize(
    "auth",
    [{"client_id": "fixed", "client_secret": "fixed-secret"}, {"client_metadata_url": CLIENT_DOCUMENT_URL}],
    ids=["fixed", "document"],
)
async def test_a_client_of_the_configuration_is_not_registered(house, issuer, notes, alice, auth):
    house.write({"notes": notes.entry(auth=auth)})
    login = await house.sign_in(alice, "notes")
    assert await login.ended() == 0, login.said
    async with house.attached() as client:
        await client.initialize()
        assert text(await run_tool(client, "notes", "whoami")) == "alice"
    assert await issuer.times("registered", "authorization_code") == [0, 1]


@pytest.mark.parametrize("way", ["secret", "key"])
async def test_a_machine_signs_in_by_itself(house, issuer, notes, way):
    auth = {"grant": "client_credentials", "scopes": ["notes:read"]}
    if way == "secret":
        auth |= {"client_id": "machine", "client_secret": "machine/secret+"}
    else:
        auth |= {"client_id": "machine-with-key", "private_key": issuer.machine_key}
    house.write({"notes": notes.entry(auth=auth)})
    await issuer.switch(lifetime=2)
    async with house.attached() as client:
        await client.initialize()
        assert text(await run_tool(client, "notes", "whoami")) == auth["client_id"]
        await issuer.happened("client_credentials", 2)
        assert text(await run_tool(client, "notes", "whoami")) == auth["client_id"]
    assert await issuer.times("asked to sign in", "grant refused") == [0, 0]
