"""The HTTP guard between the SDK's client and a network that is made up."""

from __future__ import annotations

import asyncio
import inspect
import json
from contextlib import aclosing, asynccontextmanager

import anyio
import httpx2
import pytest

from mcpx.core.servers.transport.exchange import NotExecuted, capture_failures
from mcpx.core.servers.transport.http_guard import MAX_NOTIFICATIONS, HttpGuard
from mcpx.core.servers.transport.http_link import guarded_client
from mcpx.core.servers.transport.http_network import Network
from mcpx.core.servers.transport.link import Ending
from mcpx.core.servers.transport.refusals import ClientRefused, MoreScopesRequired, NoTokenNow, SignInRequired

pytestmark = pytest.mark.anyio
URL = "http://127.0.0.1/mcp"
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
NOTE = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
DONE = {"jsonrpc": "2.0", "id": 1, "result": {}}


class Tokens:
    """Puts tokens on requests, one after the other: the next one whenever the last was refused."""

    def __init__(self, *tokens, last=None):
        self.tokens, self.last, self.seen = list(tokens), last, []

    async def authorize(self, request):
        request.headers["authorization"] = f"Bearer {self.tokens[0]}"

    async def refused(self, _request, response):
        self.seen.append(response.status_code)
        del self.tokens[0]
        if not self.tokens and self.last is not None:
            raise self.last
        return bool(self.tokens)


class Observer:
    """A link, as far as the guard knows one."""

    def __init__(self):
        self.established, self.retryable, self.held, self.last_problem = True, True, False, None
        self.lost, self.closed = Ending(), Ending()
        self.heard = []

    def lose(self, reason):
        self.heard.append(reason)
        self.lost.set(reason)

    def close(self, reason):
        self.heard.append(reason)
        self.closed.set(reason)

    def mark_healthy(self):
        self.heard.append("healthy")

    def mark_suspect(self):
        self.heard.append("suspect")


@asynccontextmanager
async def guarded(network, authorizer=None, *, established=True):
    """A client as the SDK has it, and what observes it; `network` answers what goes out."""

    async def unread(request):
        answer = network(request)
        response = await answer if inspect.isawaitable(answer) else answer
        body = httpx2.ByteStream(response.content)
        return httpx2.Response(response.status_code, headers=response.headers, stream=body)

    real = Network(lambda: httpx2.AsyncClient(transport=httpx2.MockTransport(unread)), authorizer)
    async with aclosing(real), anyio.create_task_group() as tasks:
        guard = HttpGuard(real, tasks, 1000, str)
        guard.observer = Observer()
        guard.observer.established = established
        yield httpx2.AsyncClient(transport=guard), guard.observer
        tasks.cancel_scope.cancel()


def wants_fresh(request):
    """A server that takes one token alone."""
    authorized = request.headers.get("authorization") == "Bearer fresh"
    return httpx2.Response(200, json=DONE) if authorized else httpx2.Response(401, json={"no": "token"})


async def test_a_request_that_was_refused_is_sent_again_with_a_better_token():
    tokens = Tokens("stale", "fresh")
    async with guarded(wants_fresh, tokens) as (client, observer):
        response = await client.post(URL, json=CALL)
    assert (response.status_code, response.json()) == (200, DONE)
    assert (observer.heard, tokens.seen) == (["healthy"], [401])


@pytest.mark.parametrize(
    ("last", "ended", "held", "retryable"),
    [
        (None, "lost", False, False),
        (SignInRequired("run: mcpx login x"), "closed", True, False),
        (ClientRefused("no token for it"), "closed", False, False),
        (NoTokenNow("try again"), None, False, True),
        (MoreScopesRequired("run: mcpx login x"), None, False, True),
    ],
)
async def test_what_is_refused_with_every_token_fails_without_having_run(last, ended, held, retryable):
    async with guarded(wants_fresh, Tokens("stale", "stale too", last=last)) as (client, observer):
        with capture_failures() as failures:
            response = await client.post(URL, json=CALL)
    assert response.json()["error"]["message"] == str(failures[0])
    assert isinstance(failures[0], NotExecuted)
    assert last is None or str(failures[0]) == str(last)
    assert observer.lost.happened == (ended == "lost")
    assert observer.closed.happened == (ended == "closed")
    assert (observer.held, observer.retryable) == (held, retryable)


async def test_a_session_that_needs_more_scopes_to_begin_is_held():
    last = MoreScopesRequired("run: mcpx login x")
    async with guarded(wants_fresh, Tokens("stale", last=last), established=False) as (client, observer):
        await client.post(URL, json=CALL)
    assert (observer.held, observer.retryable, observer.last_problem) == (True, False, str(last))


@pytest.mark.parametrize("message", [CALL, NOTE, None])
async def test_a_redirect_within_the_origin_is_followed_for_whatever_is_sent(message):
    arrived = anyio.Event()

    def network(request):
        if request.url.path == "/mcp":
            return httpx2.Response(307, headers={"location": "/other"})
        assert json.loads(request.content or b"null") == message
        arrived.set()
        return httpx2.Response(200, json=DONE)

    async with guarded(network) as (client, _):
        await client.request("POST" if message else "DELETE", URL, json=message)
        with anyio.fail_after(5):
            await arrived.wait()


async def test_a_redirect_elsewhere_is_not_followed():
    def network(request):
        assert request.url.host == "127.0.0.1"
        return httpx2.Response(307, headers={"location": "http://127.0.0.2/mcp"})

    async with guarded(network) as (client, _):
        response = await client.post(URL, json=CALL)
    assert "http://127.0.0.2/mcp, which is not followed" in response.json()["error"]["message"]


async def test_notifications_beyond_the_bound_are_not_sent():
    sent = []

    async def network(request):
        sent.append(request)
        await anyio.sleep_forever()

    async with guarded(network) as (client, observer):
        for _ in range(MAX_NOTIFICATIONS + 5):
            assert (await client.post(URL, json=NOTE)).status_code == 202
            await anyio.wait_all_tasks_blocked()
    assert (len(sent), observer.heard) == (MAX_NOTIFICATIONS, ["suspect"] * 5)


async def test_a_session_has_its_headers_and_sends_cookies_back():
    heads = []

    async def serve(reader, writer):
        for _ in range(2):
            heads.append((await reader.readuntil(b"\r\n\r\n")).decode().lower())
            await reader.readexactly(len(json.dumps(CALL, separators=(",", ":"))))
            body = json.dumps(DONE).encode()
            kind = b"Content-Type: application/json\r\nSet-Cookie: route=7\r\n"
            writer.write(b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s" % (kind, len(body), body))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    async with server, guarded_client(1000, {"X-Own": "1"}, str) as (client, guard):
        guard.observer = Observer()
        for _ in range(2):
            assert (await client.post(url, json=CALL)).json() == DONE
    assert all("x-own: 1" in head and "accept-encoding: gzip\r" in head for head in heads)
    assert ["cookie: route=7" in head for head in heads] == [False, True]
