"""The endpoints of HTTP by their URLs: profiles and named servers, and the sessions of each."""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest

from mcpx.core.config import HttpGateway
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.http import endpoints as http_endpoints
from mcpx.core.gateway.frontends.http.frontend import HttpFrontend, listen
from supervisors import ChildSpec
from tests.mcpx.core.gateway.endpoints import HttpEndpoint
from tests.mcpx.core.gateway.test_profiles import both, run
from tests.mcpx.scripted import PATIENCE_S, open_watched, soon

pytestmark = pytest.mark.anyio
OTHERS = ("shout", "touch", "grow", "steal")
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@asynccontextmanager
async def served(config):
    async with open_watched(config) as watch, httpx2.AsyncClient(timeout=PATIENCE_S) as client:
        clients = ClientSessions(watch.hub)
        with listen("127.0.0.1", 0) as listener:
            endpoints = Endpoints(watch.hub, clients)
            http = HttpFrontend(endpoints, listener, HttpGateway(), token=None, limit=1 << 24)
            watch.hub.root.add(ChildSpec(name="clients", run=clients.run))
            watch.hub.root.add(ChildSpec(name="http", run=http.run))
            yield watch.hub, client, http.url


@asynccontextmanager
async def at(client, url, *, modern):
    endpoint = HttpEndpoint(client, url, modern=modern)
    await endpoint.open()
    yield endpoint


async def names(endpoint):
    listed = httpx2.Response(200, content=bytes((await endpoint.answer("tools/list", {})).result)).json()
    return [tool["name"] for tool in listed["tools"]]


async def code(endpoint, server, tool):
    method, params = run(server, tool)
    answer = httpx2.Response(200, content=bytes((await endpoint.answer(method, params)).result)).json()
    return answer.get("structuredContent", {}).get("code")


@pytest.mark.parametrize("modern", [False, True])
async def test_each_url_shows_its_servers_and_tools(modern):
    async with served(both(expose="all")) as (_, client, url):
        for endpoint, shown in (
            ("", ["shop__browse", "shop__buy", "vault__buy", "vault__open"]),
            ("/work", ["shop__buy"]),
            ("?only=shop", ["shop__browse", "shop__buy"]),
            ("?only=vault,shop&only=shop", ["shop__browse", "shop__buy", "vault__buy", "vault__open"]),
            ("/work?only=shop&expose=both", ["exec", "inspect", "resources", "shop__buy"]),
        ):
            async with at(client, url + endpoint, modern=modern) as talk:
                assert [each for each in sorted(await names(talk)) if not each.endswith(OTHERS)] == shown
                hidden = None if endpoint in {"", "?only=vault,shop&only=shop"} else "unknown_server"
                assert await code(talk, "vault", "steal") == hidden
        assert (await code(talk, "shop", "browse"), await code(talk, "shop", "buy")) == ("unknown_tool", None)


async def test_a_endpoint_that_there_is_not():
    async with served(both()) as (_, client, url):
        for endpoint, problem in (
            ("/wrok", 'there is no profile "wrok"; did you mean "work"?'),
            ("?only=shpo", 'there is no server "shpo"; did you mean "shop"?'),
            ("/work?only=vault", 'there is no server "vault"; there is "shop"'),
            ("?only=", "no server is named"),
        ):
            answer = await client.post(url + endpoint, json=LIST)
            assert (answer.status_code, answer.json()["error"]["message"]) == (404, problem)
            foreign = await client.post(url + endpoint, json=LIST, headers={"Origin": "https://evil.example"})
            assert (foreign.status_code, "shop" in foreign.text) == (403, False)
        assert (await client.post(url + "/work?expose=x", json=LIST)).status_code == 400


async def test_a_session_is_of_one_endpoint_and_ends_with_its_profile():
    async with served(both()) as (hub, client, url):
        async with at(client, url + "/work", modern=False) as talk:
            assert (await client.post(url, json=LIST, headers=talk._headers)).status_code == 404
            assert (await client.post(url + "/work", json=LIST, headers=talk._headers)).status_code == 200
            await hub.reload(both(profiles={}))
            assert (await client.post(url + "/work", json=LIST, headers=talk._headers)).status_code == 404
            await hub.reload(both())
            assert (await client.post(url + "/work", json=LIST, headers=talk._headers)).status_code == 404
        async with at(client, url + "/work", modern=False):
            pass


async def test_of_very_many_endpoints_the_one_used_longest_ago_ends(monkeypatch):
    monkeypatch.setattr(http_endpoints, "MAX_ENDPOINTS", 2)
    async with served(both()) as (hub, client, url):
        endpoints = [url, url + "?only=shop", url + "?only=vault", url + "/work"]
        talks = []
        for endpoint in endpoints:
            async with at(client, endpoint, modern=False) as talk:
                talks.append(talk)
        with anyio.fail_after(PATIENCE_S):
            answers = [
                (await client.post(endpoint, json=LIST, headers=talk._headers)).status_code
                for endpoint, talk in zip(endpoints, talks, strict=True)
            ]
        assert answers[:2] == [200, 404]
        await soon(lambda: len(hub.clients.handles) <= 3)
