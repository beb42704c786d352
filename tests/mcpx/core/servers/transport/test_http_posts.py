"""Messages to a server over HTTP: what its responses mean for a request, and for the session."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from types import SimpleNamespace

import anyio
import anyio.lowlevel
import msgspec
import pytest

from mcpx.core.config import Http, Sse
from mcpx.core.servers.session import client_session
from mcpx.core.servers.session.client_session import PassingSession
from mcpx.core.servers.transport import http_dispatcher, http_pool, http_posts
from mcpx.core.servers.transport.connecting import open_link
from mcpx.core.servers.transport.exchange import (
    ClientRefused,
    ConnectionDropped,
    EntryRefused,
    Failed,
    MoreScopesRequired,
    NotExecuted,
    NoTokenNow,
    PersonNeeded,
    SignInRequired,
    StreamLeft,
    failure_of,
)
from mcpx.core.servers.transport.http_dispatcher import MAX_NOTIFICATIONS
from mcpx.core.servers.transport.link import Hooks
from mcpx.core.wire.envelope import MCPError
from mcpx.core.wire.outgoing import ResponseTooLarge
from tests.mcpx.core.servers.transport.scripted_http import serving
from tests.mcpx.core.servers.transport.test_http_network import Tokens, wants_fresh

pytestmark = pytest.mark.anyio
CALL = "tools/call"


def response(body=b"", status=200, **headers):
    lines = [
        f"HTTP/1.1 {status} X",
        *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode() + body


def result_to(asked, result=None, **more):
    body = {"jsonrpc": "2.0", "id": json.loads(asked.body)["id"], "result": result or {"done": True}, **more}
    return response(json.dumps(body).encode(), content_type="application/json")


def begin_events(asked, *events):
    asked.writer.write(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    send_events(asked, *events)


def send_events(asked, *events):
    for each in events:
        data = each if isinstance(each, bytes) else f"data: {json.dumps(each)}\n\n".encode()
        asked.writer.write(b"%x\r\n%b\r\n" % (len(data), data))


END = b"0\r\n\r\n"


class Opened:
    """A link to a scripted server, the requests that were sent on it, and what came of its own accord."""

    def __init__(self, link, server):
        self.link, self.server, self.heard, self.missed = link, server, [], 0
        self.wire = link.wire
        self.wire.receiver.on_notification = self._note

    def _note(self, method, params):
        self.heard.append((method, bytes(params), self.wire.receiver.about))
        return True

    def send(self, method=CALL, about=None):
        """Start a request; its id, and a future of its result or error."""
        outgoing = self.wire.outgoing
        request_id = outgoing.new_id()
        over = asyncio.get_running_loop().create_future()
        outgoing.call(request_id, method, [b"{}"], lambda *end: over.set_result(end), None, about)
        return request_id, over

    async def call(self, **more):
        """The result of a request, or its error."""
        with anyio.fail_after(50):
            result, error = await self.send(**more)[1]
        return error if result is None else msgspec.json.decode(result)


@asynccontextmanager
async def opened(answer, *, established=True, limit=1 << 20, authorizer=None, sse=False):
    async with serving(answer) as server:
        entry = (Sse if sse else Http)(url=server.url)
        hooks = Hooks(lambda _link: None, lambda *_: None, lambda _: None, lambda: None)
        async with (
            open_link(entry, limit=limit, hooks=hooks, redact=str, authorizer=authorizer) as link,
            anyio.create_task_group() as tasks,
        ):
            await tasks.start(link.wire.run, None, None)
            if established:
                link.establish()
            yield Opened(link, server)
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("last", "ended", "held", "retryable"),
    [
        (SignInRequired("run: mcpx login x"), "closed", True, False),
        (ClientRefused("no token for it"), "closed", False, False),
        (EntryRefused("the same as before"), "closed", False, False),
        (NoTokenNow("try again"), None, False, True),
        (MoreScopesRequired("run: mcpx login x"), None, False, True),
    ],
)
async def test_what_is_refused_with_every_token_fails_without_having_run(last, ended, held, retryable):
    async with opened(wants_fresh, authorizer=Tokens("stale", last=last)) as on:
        error = await on.call()
        assert isinstance(
            error, PersonNeeded if isinstance(last, SignInRequired | MoreScopesRequired) else NotExecuted
        )
        assert str(error) == str(last)
        assert on.link.closing.happened == (ended == "closed")
        assert (on.link.held, on.link.retryable) == (held, retryable)


async def test_a_session_that_needs_more_scopes_to_begin_is_held():
    last = MoreScopesRequired("run: mcpx login x")
    async with opened(wants_fresh, authorizer=Tokens("stale", last=last), established=False) as on:
        await on.call()
        assert (on.link.held, on.link.retryable, on.link.last_problem) == (True, False, str(last))


async def test_a_redirect_elsewhere_is_not_followed():
    for where, says in (("http://127.0.0.2/mcp", ""), ("/mcp", ", itself")):
        async with opened(lambda _asked, where=where: response(status=307, location=where)) as on:
            assert f"/mcp{says}, which is not followed" in str(await on.call())


async def test_what_the_sdk_asks_fails_with_the_reason_inside():
    async with opened(lambda _asked: response(b"busy", 503, content_type="text/plain")) as on:
        with pytest.raises(MCPError) as caught:
            await on.wire.send_raw_request("ping", None)
        assert isinstance(caught.value, Failed)
        assert failure_of(caught.value).status == 503
        assert "busy" in str(caught.value)


async def test_messages_on_the_stream_of_a_request_are_about_it_and_in_order():
    def answer(asked):
        notes = [{"jsonrpc": "2.0", "method": "notes/each", "params": {"n": n}} for n in range(100)]
        begin_events(asked, *notes, {"jsonrpc": "2.0", "id": json.loads(asked.body)["id"], "result": {}})
        return END

    async with opened(answer) as on:
        assert [await on.call(about=each) for each in ("this", "that")] == [{}, {}]
        assert [about for _, _, about in on.heard] == ["this"] * 100 + ["that"] * 100
        assert [json.loads(params)["n"] for _, params, _ in on.heard] == [*range(100)] * 2
        assert on.server.connections == 1


async def test_the_answer_to_another_request_is_none_to_this_one():
    def answer(asked):
        own = json.loads(asked.body)["id"]
        others = (
            {"jsonrpc": "2.0", "id": each, "result": {"of": each}} for each in (own + 100, "x", None, own)
        )
        begin_events(asked, *others)
        return END

    async with opened(answer) as on:
        request_id, over = on.send()
        with anyio.fail_after(50):
            result, error = await over
        assert (msgspec.json.decode(result), error) == ({"of": request_id}, None)


async def test_an_answer_is_taken_before_its_stream_ends():
    async def answer(asked):
        begin_events(asked, {"jsonrpc": "2.0", "id": json.loads(asked.body)["id"], "result": {}})
        await anyio.sleep_forever()

    async with opened(answer) as on:
        assert await on.call() == {}
        for each in on.server.asked:
            each.writer.transport.abort()


async def test_a_request_of_2026_07_28_is_cancelled_by_hanging_up():
    gone = asyncio.Event()

    async def answer(asked):
        begin_events(asked, b": here\n\n")
        while not asked.writer.is_closing():
            asked.writer.write(b"1\r\n\n\r\n")
            await asyncio.sleep(0.01)
        gone.set()

    async with opened(answer) as on:
        on.wire.version = "2026-07-28"
        request_id, over = on.send()
        while not on.server.asked:
            await anyio.lowlevel.checkpoint()
        on.wire.outgoing.cancel(request_id, "no more")
        with anyio.fail_after(50):
            await gone.wait()
        assert len(on.server.asked) == 1
        assert not over.done()


async def test_an_older_one_is_cancelled_by_a_notification_and_its_answer_read(monkeypatch):
    monkeypatch.setattr(http_posts, "ABANDONED_TIMEOUT_S", 5.0)
    go_on = asyncio.Event()

    async def answer(asked):
        if json.loads(asked.body)["method"] == CALL:
            await go_on.wait()
            return result_to(asked)
        return response(status=202)

    async with opened(answer) as on:
        on.wire.version = "2025-11-25"
        request_id, over = on.send()
        while not on.server.asked:
            await anyio.lowlevel.checkpoint()
        on.wire.outgoing.cancel(request_id, "no more")
        while len(on.server.asked) < 2:
            await anyio.lowlevel.checkpoint()
        note = json.loads(on.server.asked[1].body)
        assert note["params"] == {"requestId": request_id, "reason": "no more"}
        go_on.set()
        assert await on.call() == {"done": True}
        assert not over.done()
        assert on.server.connections == 2


async def test_one_that_waits_for_a_connection_is_taken_back():
    async with opened(result_to) as on:
        request_id, over = on.send()
        assert on.wire.outgoing.recall(request_id)
        assert await on.call() == {"done": True}
        assert len(on.server.asked) == 1
        assert not over.done()


async def test_what_follows_the_end_of_the_handshake_waits_for_it():
    go_on = asyncio.Event()

    async def answer(asked):
        message = json.loads(asked.body)
        if message["method"] == "notifications/initialized":
            await go_on.wait()
            return response(status=202)
        return result_to(asked)

    async with opened(answer) as on:
        on.wire.send_notification("notifications/initialized", None)
        _, over = on.send()
        while not on.server.asked:
            await anyio.lowlevel.checkpoint()
        await asyncio.sleep(0.05)
        assert len(on.server.asked) == 1
        go_on.set()
        assert (await over)[1] is None


async def test_notifications_beyond_the_bound_are_not_sent():
    async with opened(lambda _asked: anyio.sleep_forever()) as on:
        for _ in range(MAX_NOTIFICATIONS + 5):
            on.wire.channel.write(b'{"jsonrpc":"2.0","method":"x"}\n')
        while len(on.server.asked) < MAX_NOTIFICATIONS:
            await anyio.lowlevel.checkpoint()
        await asyncio.sleep(0.05)
        assert len(on.server.asked) == MAX_NOTIFICATIONS
        assert on.link.suspicion.is_set()
        for each in on.server.asked:
            each.writer.transport.abort()


async def test_a_stream_that_breaks_off_is_resumed_where_it_ended_and_no_further_than_allowed():
    resumed = []

    def answer(asked):
        if asked.line.startswith("GET"):
            resumed.append(asked.headers["last-event-id"])
            if len(resumed) >= 3:
                return response(status=405)
            begin_events(asked, f"id: {len(resumed)}\ndata:\n\n".encode())
            return END
        begin_events(asked, b"id: first\nretry: 1\ndata:\n\n")
        return END

    async with opened(answer) as on:
        error = await on.call()
        assert isinstance(error, ConnectionDropped)
        assert resumed[:3] == ["first", "1", "2"]
        assert resumed[3:] == ["2"]


async def test_a_standing_request_is_left_for_new_connections():
    async def answer(asked):
        begin_events(asked, b": here\n\n")
        await anyio.sleep_forever()

    async with opened(answer) as on:
        _, over = on.send("subscriptions/listen")
        while not on.wire.standing:
            await anyio.lowlevel.checkpoint()
        on.link.renew()
        assert isinstance((await over)[1], StreamLeft)
        for each in on.server.asked:
            each.writer.transport.abort()


async def test_what_is_no_call_ends_by_itself(monkeypatch):
    monkeypatch.setattr(http_dispatcher, "NON_CALL_TIMEOUT_S", 0.1)
    async with opened(lambda _asked: anyio.sleep_forever()) as on:
        with pytest.raises(MCPError, match="did not begin in time"):
            await on.wire.send_raw_request("tools/list", None)
        for each in on.server.asked:
            each.writer.transport.abort()


async def test_a_sign_of_life_is_waited_for_as_long_as_its_caller_does(monkeypatch):
    """A time-out of its own would be an error of the protocol, and any answer counts (`servers.health`)."""
    monkeypatch.setattr(client_session, "DISCOVER_TIMEOUT_S", 0.01)
    async with opened(lambda _asked: anyio.sleep_forever()) as on:
        nobody = SimpleNamespace(watch=id)
        session = PassingSession(on.wire, client_info={}, relay=nobody, on_change=id, on_updated=id)
        with anyio.move_on_after(0.2) as waited:
            await session.discover()
        assert waited.cancelled_caught
        for each in on.server.asked:
            each.writer.transport.abort()


# --- the older transport


def over_sse(answer):
    """A server of HTTP with SSE: `answer` gives the events that a message is answered with."""
    stream = []

    async def serve(asked):
        if asked.line.startswith("GET"):
            stream.append(asked)
            begin_events(asked, b"event: endpoint\ndata: /messages?s=1\n\n")
            await anyio.sleep_forever()
        send_events(stream[0], *answer(json.loads(asked.body)))
        return response(status=202)

    serve.stream = stream
    return serve


async def test_over_sse_a_large_event_passes_and_one_over_the_limit_costs_its_request_alone():
    sizes = {1: 1_500_000, 2: 3_000_000, 3: 10}

    def answer(message):
        return [{"jsonrpc": "2.0", "id": message["id"], "result": {"text": "x" * sizes[message["id"]]}}]

    serve = over_sse(answer)
    async with opened(serve, sse=True, limit=2_000_000) as on:
        assert len((await on.call())["text"]) == sizes[1]
        assert isinstance(await on.call(), ResponseTooLarge)
        assert len((await on.call())["text"]) == sizes[3]
        assert on.server.asked[1].line == "POST /messages?s=1 HTTP/1.1"
        serve.stream[0].writer.transport.abort()
        assert not on.link.lost.happened


async def test_over_sse_an_endpoint_of_another_origin_is_refused():
    async def serve(asked):
        begin_events(asked, b"event: endpoint\ndata: http://127.0.0.2/messages\n\n")
        await anyio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        async with opened(serve, sse=True):
            pass
    assert caught.group_contains(Exception, match="names no endpoint of its own origin")


async def test_a_session_is_ended_at_the_server_although_no_connection_is_left(monkeypatch):
    monkeypatch.setattr(http_pool, "KEEPALIVE_S", 0.01)

    def answer(asked):
        if asked.line.startswith("POST"):
            return result_to(asked).replace(b"\r\n\r\n", b"\r\nMcp-Session-Id: own\r\n\r\n", 1)
        return response(status=200)

    with anyio.CancelScope() as scope:
        async with opened(answer) as on:
            await on.call(method="initialize")
            await asyncio.sleep(0.05)
            scope.cancel()
            await anyio.sleep_forever()
    assert [each.line.split()[0] for each in on.server.asked] == ["POST", "DELETE"]
    assert on.server.asked[1].headers["mcp-session-id"] == "own"
    assert on.server.connections == 2
