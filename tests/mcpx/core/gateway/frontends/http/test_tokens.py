"""Tokens with names over HTTP: what each shows, and that nothing of one gets to the clients of another."""

from __future__ import annotations

import json
import re
import sys
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import anyio
import httpx2
import pytest

from mcpx.core.config import HttpGateway
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.http import access as auth
from mcpx.core.gateway.frontends.http.frontend import HttpFrontend, listen
from mcpx.core.policy.tokens import issue, named_tokens_file, revoke
from supervisors import ChildSpec
from tests.mcpx.core.gateway.endpoints import ACCEPT, HttpEndpoint
from tests.mcpx.core.gateway.test_profiles import both, inspect, read, run
from tests.mcpx.core.gateway.test_profiles import entry as named_entry
from tests.mcpx.core.gateway.test_tasks import TAKES
from tests.mcpx.core.gateway.test_tasks import HttpClient as TaskClient
from tests.mcpx.core.gateway.test_tasks import entry as task_entry
from tests.mcpx.core.servers.relay.answering import asking_server
from tests.mcpx.scripted import PATIENCE_S, config_of, open_watched, soon
from tests.mcpx.scripted import entry as scripted_entry
from tests.mcpx.serving import MODERN

pytestmark = pytest.mark.anyio
DEFAULT = "the-default-token"
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
PROFILES = {
    "work": {"servers": ["shop"], "tools": {"shop": ["buy", "sh*"]}},
    "whole": {"servers": ["shop"]},
}
TABLES = {
    "command": sys.executable,
    "args": ["-S", "-E", str(Path(__file__).parents[1] / "tables_server.py")],
}


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(auth, "LOOK_INTERVAL_S", 0.01)


def make(name, **more):
    given = {"profile": None, "expires": None, "now": datetime.now(UTC)} | more
    return issue(name, **given)[0]


def expire(name):
    """Let a token end now."""
    file = named_tokens_file()
    tokens = json.loads(file.read_bytes())
    ended = datetime.now(UTC) - timedelta(seconds=1)
    for token in tokens["tokens"]:
        if token["name"] == name:
            token["expires"] = ended.isoformat()
    file.write_text(json.dumps(tokens))


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


class Authorized:
    """An HTTP client with a token."""

    def __init__(self, client, token):
        self._client, self._token = client, token

    async def post(self, url, headers, **more):
        return await self._client.post(url, headers=headers | bearer(self._token), **more)


class Site:
    """A hub that is served over HTTP."""

    def __init__(self, hub, http, client):
        self.hub, self.http, self.client = hub, http, client
        self.url = http.url

    @asynccontextmanager
    async def at(self, token, path="", *, modern=False):
        endpoint = HttpEndpoint(self.client, self.url + path, modern=modern)
        endpoint._headers |= bearer(token)
        await endpoint.open()
        yield endpoint

    async def status(self, token, path="", message=LIST, **headers):
        answer = await self.client.post(
            self.url + path, json=message, headers=ACCEPT | bearer(token) | headers
        )
        return answer.status_code

    def client_of(self, token, takes):
        """A client of 2026-07-28 with those capabilities."""
        client = TaskClient(Authorized(self.client, token), self.url)
        client.takes = takes
        return client

    async def refused(self, token, path):
        """The error with which a path does not exist."""
        answer = await self.client.post(self.url + path, json=LIST, headers=ACCEPT | bearer(token))
        assert answer.status_code == 404, answer.text
        return answer.json()["error"]["message"]


@asynccontextmanager
async def served(config):
    async with open_watched(config) as watch, httpx2.AsyncClient(timeout=PATIENCE_S) as client:
        clients = ClientSessions(watch.hub)
        watch.hub.root.add(ChildSpec(name="clients", run=clients.run))
        with listen("127.0.0.1", 0) as listener:
            endpoints = Endpoints(watch.hub, clients)
            http = HttpFrontend(endpoints, listener, HttpGateway(), token=DEFAULT, limit=1 << 24)
            watch.hub.root.add(ChildSpec(name="http", run=http.run))
            yield Site(watch.hub, http, client)


def shops(**settings):
    return both(profiles=PROFILES, **settings)


async def answer(endpoint, method, params):
    return json.loads(bytes((await endpoint.answer(method, params)).result) or b"null")


async def text(endpoint, method, params):
    """What a model reads of a result of the three tools."""
    return "\n".join(block["text"] for block in (await answer(endpoint, method, params))["content"])


# --- who is let in


async def test_a_token_with_a_name_lets_in_until_it_is_revoked_or_expires():
    async with served(shops()) as site:
        for end in (revoke, expire):
            assert await site.status("mcpx_x") == 401
            token = make("ci")
            assert await site.status(token) == 400  # let in, without a session
            assert (await site.status(token[:-1]), await site.status(DEFAULT)) == (401, 400)
            assert site.http.named_tokens == 1
            end("ci")
            assert (await site.status(token), await site.status(DEFAULT)) == (401, 400)
            assert site.http.named_tokens == 0


async def test_a_file_that_others_may_read_lets_nobody_in_but_the_default_token():
    token = make("ci")
    async with served(shops()) as site, site.at(token) as endpoint:
        named_tokens_file().chmod(0o644)
        assert (await site.status(token), await site.status(DEFAULT)) == (401, 400)
        named_tokens_file().chmod(0o600)
        assert await site.status(token) == 400
        assert await site.status(token, **endpoint._headers) == 404  # its sessions have ended


# --- what a token shows


@pytest.mark.parametrize("modern", [False, True])
async def test_a_token_for_a_profile_is_at_that_endpoint_on_either_path(modern):
    token, free = make("ci", profile="work"), make("free")
    async with served(shops(expose="all")) as site:

        async def names(token, path):
            async with site.at(token, path, modern=modern) as endpoint:
                listed = (await answer(endpoint, "tools/list", {}))["tools"]
                return {tool["name"] for tool in listed}

        mine = {"shop__buy", "shop__shout"}
        assert await names(token, "") == await names(token, "/work") == await names(DEFAULT, "/work") == mine
        assert await names(token, "?only=shop") == mine
        assert {"vault__steal", "shop__grow"} <= await names(free, "") & await names(DEFAULT, "")
        assert await names(free, "/work") == mine
        async with site.at(token, "?expose=three", modern=modern) as endpoint:
            said = [
                json.dumps(await answer(endpoint, *request))
                for request in (
                    inspect(),
                    inspect(query="steal"),
                    inspect(server_name="vault"),
                    run("vault", "steal"),
                    run("shop", "browse"),
                    read("vault", "note:///vault"),
                    ("tools/list", {}),
                    ("resources/list", {}),
                )
            ]
            hidden = [
                re.findall(r"[^\"]*(?:The|Title of|How to use) vault[^\"]*|browse of", each) for each in said
            ]
            assert hidden == [[]] * len(said)
            assert ("unknown_server" in said[3], "unknown_tool" in said[4]) == (True, True)


async def test_for_a_token_with_a_profile_no_other_endpoint_exists():
    token, lost = make("ci", profile="work"), make("lost", profile="gone")
    whole = make("whole", profile="whole")
    async with served(shops()) as site:
        absent = 'there is no profile "{}"; there is "work"'
        assert await site.refused(token, "/whole") == absent.format("whole")
        assert await site.refused(token, "/other") == absent.format("other")
        assert await site.refused(token, "?only=vault") == 'there is no server "vault"; there is "shop"'
        for path in ("", "/gone", "/work", "?only=shop"):
            assert "there is no profile" in await site.refused(lost, path)
        for name in ("vault", "other"):
            assert await site.refused(token, f"/servers/{name}") == f"No server {name}"
        assert await site.refused(whole, "/servers/vault") == "No server vault"
        assert await site.refused(whole, "/servers/shap") == "No server shap; did you mean shop?"
        async with site.at(whole, "/servers/shop") as endpoint, site.at(token, "/servers/shop") as narrowed:
            tools = (await answer(endpoint, "tools/list", {}))["tools"]
            assert len(tools) == 5
            shown = [each["name"] for each in (await answer(narrowed, "tools/list", {}))["tools"]]
            assert shown == ["buy", "shout"]
            hidden = next(each["name"] for each in tools if each["name"] not in shown)
            refused = await narrowed.answer("tools/call", {"name": hidden})
            assert refused.error == {"code": -32602, "message": f"Unknown tool: {hidden}"}
            await site.hub.reload(both(profiles={"whole": PROFILES["work"]}))
            assert [each["name"] for each in (await answer(endpoint, "tools/list", {}))["tools"]] == shown
        assert "there is no profile" in await site.refused(token, "")


# --- sessions


async def test_a_session_is_of_its_token_and_does_not_exist_for_another():
    one, two = make("one"), make("two")
    async with served(shops()) as site, site.at(one) as endpoint:
        own = {key: value for key, value in endpoint._headers.items() if key != "Authorization"}
        for other in (two, DEFAULT):
            foreign = own | bearer(other)
            assert await site.status(other, **own) == 404
            batch = [LIST, LIST | {"id": 2}]
            assert await site.status(other, message=batch, **own) in {400, 404}
            for method, more in (("GET", {}), ("GET", {"Last-Event-ID": "1-1-1"}), ("DELETE", {})):
                response = await site.client.request(method, site.url, headers=foreign | more)
                assert response.status_code == 404
        assert await site.status(one, **own) == 200
        again = make("again")
        revoke("one")
        assert await site.status(again, **own) == 404
        renewed = make("one")
        assert await site.status(renewed, **own) == 404


async def test_session_ids_are_random():
    one = make("one")
    async with served(shops()) as site, site.at(one) as first, site.at(one) as second:
        ids = [endpoint._headers["Mcp-Session-Id"] for endpoint in (first, second)]
    assert ids[0] != ids[1]
    assert [UUID(each).version for each in ids] == [4, 4]


async def test_the_event_stream_of_a_session_stays_when_others_ask_for_it():
    one, two = make("one"), make("two")
    async with (
        served(both()) as site,
        site.at(one) as endpoint,
        site.client.stream("GET", site.url, headers=endpoint._headers) as stream,
    ):
        assert stream.status_code == 200
        foreign = endpoint._headers | bearer(two)
        assert (await site.client.get(site.url, headers=foreign)).status_code == 404
        await answer(endpoint, *run("shop", "grow", arguments={"text": "tools"}))
        with anyio.fail_after(PATIENCE_S):
            async for line in stream.aiter_lines():
                if "list_changed" in line:
                    break


async def test_what_a_server_says_after_a_call_is_for_no_other_token():
    one, two = make("one"), make("two")
    async with (
        served(shops()) as site,
        site.at(one) as endpoint,
        site.at(two) as other,
        site.at(DEFAULT) as default,
        site.client.stream("GET", site.url, headers=default._headers) as everything,
        site.client.stream("GET", site.url, headers=other._headers) as stream,
    ):
        for each in (default, other):
            await answer(each, "logging/setLevel", {"level": "debug"})
        await answer(endpoint, *run("shop", "shout"))
        with anyio.fail_after(PATIENCE_S):
            async for line in everything.aiter_lines():
                if "shop!" in line:
                    break
        revoke("two")  # so that the stream ends
        assert b"shop!" not in await stream.aread()


# --- results, calls, tasks


@pytest.mark.parametrize("modern", [False, True])
async def test_a_kept_result_is_read_with_its_token_alone(modern):
    one, two = make("one"), make("two")
    async with served(config_of({"t": TABLES})) as site:
        async with (
            site.at(one, modern=modern) as endpoint,
            site.at(two, modern=modern) as other,
            site.at(DEFAULT, modern=modern) as default,
        ):
            shown = await text(endpoint, *run("t", "lines", arguments={"rows": 20_000}))
            uri = re.search(r'mcpx://result/[^"]+', shown)[0]
            wanted = read("mcpx", uri)
            for foreign in (other, default):
                said = await answer(foreign, *wanted)
                assert said["structuredContent"]["code"] == "unknown_resource"
                assert not bytes((await foreign.answer("resources/read", {"uri": uri})).result)
            assert "line 1" in await text(endpoint, *wanted)
            assert (await answer(endpoint, "resources/read", {"uri": uri}))["contents"]
        if modern:  # without a session: the token is the client
            async with site.at(one, "?expose=both", modern=True) as again:
                assert "line 1" in await text(again, *wanted)
            revoke("one")
            await soon(lambda: not site.hub.views.kept.size)


async def test_a_task_is_of_its_token_whatever_its_client_calls_itself():
    one, two = make("one"), make("two")
    async with served(config_of({"s": task_entry()})) as site:
        clients = {token: site.client_of(token, TAKES) for token in (one, two, DEFAULT)}
        made = await clients[one].call("start")
        for token in (two, DEFAULT):
            refused = await clients[token].ask("tasks/get", taskId=made["taskId"])
            assert "has no task" in refused["message"]
        assert (await clients[one].ask("tasks/get", taskId=made["taskId"]))["taskId"] == made["taskId"]


async def test_a_call_that_waits_for_answers_goes_on_for_its_token_alone():
    one, two = make("one"), make("two")
    question = {"questions": [{"method": "roots/list"}]}
    async with asking_server("stdio-handshake") as server, served(config_of({"s": server})) as site:

        async def ask(token, **more):
            given = {"server_name": "s", "tool_name": "ask", "arguments": question}
            client = site.client_of(token, {"roots": {}})
            return await client.ask("tools/call", name="exec", arguments=given, **more)

        asked = await ask(one)
        back = {
            "requestState": asked["requestState"],
            "inputResponses": {key: {"roots": []} for key in asked["inputRequests"]},
        }
        for other in (two, DEFAULT):
            refused = await ask(other, **back)
            assert refused["structuredContent"]["code"] == "cancelled"
        assert not (await ask(one, **back)).get("isError")
        asked = await ask(one)
        suspended = site.hub.upstreams["s"].main._suspended
        assert len(suspended) == 1
        revoke("one")
        await soon(lambda: not len(suspended))


async def test_at_a_transparent_endpoint_each_token_has_a_session_of_its_own():
    one, two = make("one"), make("two")
    async with served(config_of({"shop": named_entry("shop", ["buy"])})) as site:
        direct = site.hub.upstreams["shop"].direct
        for token in (one, two, DEFAULT):
            async with site.at(token, "/servers/shop", modern=True) as endpoint:
                assert (await answer(endpoint, "tools/list", {}))["tools"]
        assert len(direct) == 3
        revoke("one")
        await soon(lambda: len(direct) == 2)


@pytest.mark.parametrize("modern", [False, True])
async def test_the_audit_log_names_the_token_and_its_profile(modern, tmp_path):
    one, work = make("one"), make("work-token", profile="work")
    async with served(shops()) as site:
        for token in (one, work, DEFAULT):
            async with site.at(token, modern=modern) as endpoint:
                await answer(endpoint, *run("shop", "buy"))
                await answer(endpoint, *run("vault", "steal"))
    lines = [
        json.loads(line)
        for file in (tmp_path / "state" / "audit").glob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    found = [[each.get(name) for name in ("token", "profile", "server", "outcome")] for each in lines]
    assert found == [
        ["one", None, "shop", "ok"],
        ["one", None, "vault", "ok"],
        ["work-token", "work", "shop", "ok"],
        ["work-token", "work", "vault", "not_sent"],
        [None, None, "shop", "ok"],
        [None, None, "vault", "ok"],
    ]


# --- the end of a token


@pytest.mark.parametrize("end", [revoke, expire])
@pytest.mark.parametrize("modern", [False, True])
async def test_what_is_open_ends_with_the_token_and_nothing_else(ears, end, modern):
    one, two = make("one"), make("two")
    hang = {"server_name": "s", "tool_name": "hang", "arguments": {}}
    answers = {}
    async with served(config_of({"s": scripted_entry(ears)})) as site, anyio.create_task_group() as tasks:

        async def call(token):
            async with site.at(token, modern=modern) as endpoint:
                message = LIST | {"method": "tools/call", "params": {"name": "exec", "arguments": hang}}
                if modern:
                    about = {"protocolVersion": MODERN, "clientCapabilities": {}}
                    meta = {f"io.modelcontextprotocol/{key}": value for key, value in about.items()}
                    message["params"]["_meta"] = meta
                    endpoint._headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "exec"}
                answers[token] = await site.client.post(site.url, json=message, headers=endpoint._headers)

        for token in (one, two):
            tasks.start_soon(call, token)
        await ears.hear("call", count=2, tool="hang")
        upstream = site.hub.upstreams["s"]
        assert upstream.counters.in_flight == 2
        end("one")
        await soon(lambda: one in answers and upstream.counters.in_flight == 1)
        ended = answers[one]
        assert '"result"' not in ended.text
        assert ended.status_code == (500 if modern else 200)
        if modern:  # a client whose request is answered with 401 gets another token and sends it again
            assert ended.json()["error"]["data"] == {"code": "cancelled", "outcome": "unknown"}
        assert '"data":{"code":"cancelled","outcome":"unknown"}' in ended.text
        assert two not in answers
        async with site.at(two, modern=modern) as endpoint:
            release = {"server_name": "s", "tool_name": "release", "arguments": {}}
            await endpoint.answer("tools/call", {"name": "exec", "arguments": release})
        await soon(lambda: two in answers)
        assert "released" in answers[two].text


@pytest.mark.parametrize("end", [revoke, expire])
async def test_streams_of_events_end_with_the_token(end):
    one = make("one")
    async with served(both()) as site:
        listen_to = LIST | {
            "method": "subscriptions/listen",
            "params": {
                "notifications": {"toolsListChanged": True},
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": MODERN,
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
            },
        }
        headers = (
            ACCEPT | bearer(one) | {"MCP-Protocol-Version": MODERN, "Mcp-Method": "subscriptions/listen"}
        )
        client = site.client
        async with site.at(one) as endpoint:
            async with (
                client.stream("GET", site.url, headers=endpoint._headers) as events,
                client.stream("POST", site.url, json=listen_to, headers=headers) as listened,
            ):
                assert (events.status_code, listened.status_code) == (200, 200)
                assert len(site.hub.clients.handles) == 1
                served_ = site.http._served
                await soon(lambda: len(served_) == 1)
                end("one")
                with anyio.fail_after(PATIENCE_S):
                    await events.aread()
                    await listened.aread()
            await soon(lambda: not site.hub.clients.handles)
            assert not len(served_)
            assert not served_._common.kept.bytes
            assert (
                await site.status(
                    DEFAULT, **{k: v for k, v in endpoint._headers.items() if k != "Authorization"}
                )
                == 404
            )


async def test_one_token_does_not_use_up_the_endpoints_of_another(monkeypatch):
    monkeypatch.setattr("mcpx.core.gateway.frontends.http.endpoints.MAX_ENDPOINTS", 1)
    one, two = make("one", profile="work"), make("two")
    async with served(shops()) as site, site.at(one) as endpoint:
        for path in ("?only=shop", "?only=vault", "/work"):
            async with site.at(two, path):
                pass
        await answer(endpoint, "tools/list", {})
