"""The scripted issuer, with the SDK's own client: the tests stand on it."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import anyio
import httpx2
import pytest
from mcp import ClientSession
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

from tests.mcpx.oauth.scripted_issuer import Fault, scripted_issuer

pytestmark = pytest.mark.anyio
BACK = "http://127.0.0.1:8767/callback"


class Storage:
    """Tokens in memory."""

    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info


def provider_of(issuer, storage):
    """The SDK's provider, with a person who agrees to all."""
    came_back = []

    async def ask(url):
        came_back.append(await anyio.to_thread.run_sync(issuer.consent, url))

    async def back():
        query = dict(parse_qsl(urlsplit(came_back.pop()).query))
        return AuthorizationCodeResult(code=query["code"], state=query["state"], iss=query.get("iss"))

    metadata = OAuthClientMetadata(redirect_uris=[BACK], client_name="test")
    return OAuthClientProvider(issuer.mcp_url, metadata, storage, redirect_handler=ask, callback_handler=back)


async def call(issuer, storage, *tools):
    """The texts of these tools' answers, in one session."""
    auth = provider_of(issuer, storage)
    async with (
        httpx2.AsyncClient(auth=auth) as client,
        streamable_http_client(issuer.mcp_url, http_client=client) as (read, write, *_),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        return [(await session.call_tool(tool, {})).content[0].text for tool in tools]


@pytest.mark.parametrize(
    "options",
    [{}, {"discovery": "origin"}, {"discovery": "well-known"}, {"openid": True}, {"issuer_path": "/tenant"}],
    ids=str,
)
async def test_the_sdk_signs_in(options):
    with scripted_issuer(**options) as issuer:
        assert await call(issuer, Storage(), "whoami", "count") == ["alice", "count"]
        assert issuer.asked == 1
        assert issuer.calls == ["whoami", "count"]
        assert not issuer.leaked_to("elsewhere")


async def test_a_scope_that_is_missing_is_asked_for():
    with scripted_issuer() as issuer:
        assert await call(issuer, Storage(), "count", "admin") == ["count", "admin"]
        assert issuer.asked == 2
        assert issuer.seen("authorize")[-1].query["scope"] == "read write"


async def test_refresh_tokens_rotate_and_a_used_one_ends_all():
    with scripted_issuer() as issuer:
        storage = Storage()
        await call(issuer, storage, "count")
        form = {
            "grant_type": "refresh_token",
            "refresh_token": storage.tokens.refresh_token,
            "client_id": storage.client.client_id,
            "client_secret": storage.client.client_secret or "",
        }
        form = {key: value for key, value in form.items() if value}
        async with httpx2.AsyncClient() as client:
            first = await client.post(issuer.url("issuer", "/token"), data=form)
            again = await client.post(issuer.url("issuer", "/token"), data=form)
            form["refresh_token"] = first.json()["refresh_token"]
            revoked = await client.post(issuer.url("issuer", "/token"), data=form)
            headers = {"authorization": f"Bearer {first.json()['access_token']}"}
            refused = await client.post(issuer.mcp_url, json={"id": 1, "method": "ping"}, headers=headers)
        assert [each.status_code for each in (first, again, revoked, refused)] == [200, 400, 400, 401]
        assert (issuer.refreshes, issuer.reuses) == (3, 1)


async def test_a_token_expires_and_lies_are_told():
    with scripted_issuer(lifetime_s=0) as issuer:
        issuer.token_answer = {"expires_in": 3600, "scope": None}
        with pytest.raises(Exception):  # noqa: B017 - whatever the SDK makes of a token that is refused
            await call(issuer, Storage(), "count")
        assert issuer.asked == 1
        assert not issuer.calls


async def test_faults():
    with scripted_issuer() as issuer:
        url = issuer.url("issuer", "/.well-known/oauth-authorization-server")
        async with httpx2.AsyncClient(timeout=0.5) as client:
            issuer.faults["metadata"] = Fault(status=503, headers={"retry-after": "7"}, times=1)
            assert (await client.get(url)).headers["retry-after"] == "7"
            assert (await client.get(url)).json()["issuer"] == issuer.issuer
            issuer.faults["metadata"] = Fault(redirect=issuer.url("elsewhere", "/x"))
            assert (await client.get(url)).headers["location"] == issuer.url("elsewhere", "/x")
            issuer.faults["metadata"] = Fault(drop=True)
            with pytest.raises(httpx2.RemoteProtocolError):
                await client.get(url)
            issuer.faults["metadata"] = Fault(hold=True)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.get, url)
                await issuer.reached("metadata", 5)
                issuer.release()
            issuer.faults["metadata"] = Fault(endless=True)
            async with client.stream("GET", url) as response:
                assert sum([len(chunk) async for chunk in _first(response, 64)]) >= 64
            issuer.go_down("issuer")
            with pytest.raises(httpx2.ConnectError):
                await client.get(url)
            issuer.come_up("issuer")
            issuer.faults.clear()
            assert (await client.get(url)).is_success


async def _first(response, count):
    taken = 0
    async for chunk in response.aiter_raw():
        yield chunk
        taken += len(chunk)
        if taken >= count:
            return
