"""HTTP on the wire: what is read as a request, what is refused, and what goes out, byte by byte."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest

from mcpx.core.gateway.frontends.http import connection, requests
from mcpx.core.gateway.frontends.http.connection import Shared
from mcpx.core.gateway.frontends.http.exchange import COMMENT, JSON, Refusal
from mcpx.core.gateway.frontends.http.frontend import listen
from mcpx.core.gateway.frontends.http.http_exchange import CONTINUE
from mcpx.core.gateway.frontends.http.server import HttpServer

pytestmark = pytest.mark.anyio
PATIENCE_S = 50.0
HOST = b"Host: here\r\n"
LIMIT = 1 << 20


class Site:
    """Serves what it is asked for: it keeps requests to `/held`, and answers others with what it has read."""

    def __init__(self) -> None:
        self.seen = []
        self.held = []
        self.gone = []

    def look(self, exchange):
        return Refusal(401, b"no token") if exchange.path == "/closed" else None

    def serve(self, exchange):
        self.seen.append(exchange)
        if exchange.path == "/raises":
            raise RuntimeError("for a test")
        if exchange.path == "/held":
            self.held.append(exchange)
            exchange.on_gone(lambda: self.gone.append(exchange))
        else:
            exchange.respond(200, JSON, [exchange.path.encode(), b" ", exchange.body])

    async def holds(self, count=1):
        with anyio.fail_after(PATIENCE_S):
            while len(self.held) < count:  # noqa: ASYNC110 - of another task
                await anyio.sleep(0.001)


class Served:
    def __init__(self, site, shared, server, port):
        self.site = site
        self.shared = shared
        self.server = server
        self.port = port

    @asynccontextmanager
    async def connected(self):
        async with await anyio.connect_tcp("127.0.0.1", self.port) as stream:
            yield stream

    async def answers(self, *parts: bytes) -> bytes:
        """Everything that is answered to these parts, until the server closes the connection."""
        async with self.connected() as stream:
            for part in parts:
                await stream.send(part)
                await anyio.sleep(0.002 if len(parts) > 1 else 0)
            return await rest(stream)


async def rest(stream) -> bytes:
    received = b""
    with anyio.fail_after(PATIENCE_S):
        async for data in stream:
            received += data
    return received


async def until(stream, end: bytes) -> bytes:
    received = b""
    with anyio.fail_after(PATIENCE_S):
        while not received.endswith(end):
            received += await stream.receive()
    return received


@asynccontextmanager
async def serving(limit=LIMIT, grace_s=1.0):
    site, listener = Site(), listen("127.0.0.1", 0)
    shared = Shared(limit, lambda: None)
    server = HttpServer(site, shared, grace_s=lambda: grace_s)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, listener)
        yield Served(site, shared, server, listener.getsockname()[1])
        tasks.cancel_scope.cancel()
    assert shared.connections == set()
    assert shared.bodies.bytes == 0


def request(path="/", *headers: bytes, body=b"", method=b"POST", version=b"1.1") -> bytes:
    lines = b"".join(header + b"\r\n" for header in headers)
    length = b"Content-Length: %d\r\n" % len(body) if body else b""
    return b"%b %b HTTP/%b\r\n%b%b%b\r\n%b" % (method, path.encode(), version, HOST, lines, length, body)


CLOSE = b"Connection: close"


async def test_a_request_is_answered_in_one_piece_and_the_connection_stays():
    async with serving() as served, served.connected() as stream:
        for body in (b"one", b"two"):
            await stream.send(request("/a%20b?q=1", b"X: y", body=body))
            head, _, answer = (await until(stream, body)).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\ndate: ")
            assert b"content-length: 8" in head
            assert b"connection" not in head
            assert answer == b"/a b " + body
        (first, _) = served.site.seen
        assert (first.method, first.head.query, first.headers[b"x"]) == ("POST", b"q=1", b"y")
        assert first.is_local


async def test_it_does_not_matter_how_a_request_is_cut():
    whole = request("/x", CLOSE, body=b"hello")
    async with serving() as served:
        expected = (await served.answers(whole)).partition(b"\r\n\r\n")[2]
        for at in range(1, len(whole)):
            got = await served.answers(whole[:at], whole[at:])
            assert got.partition(b"\r\n\r\n")[2] == expected == b"/x hello"


async def test_requests_that_follow_wait_and_are_answered_in_their_order():
    async with serving() as served, served.connected() as stream:
        held, then = request("/held", body=b"1"), request("/2") + request("/3", CLOSE)
        await stream.send(held + then)
        await served.site.holds()
        await anyio.sleep(0.02)
        assert len(served.site.seen) == 1
        served.site.held[0].respond(200, JSON, [b"first"])
        answered = await rest(stream)
        assert [part.rpartition(b"\r\n\r\n")[2] for part in answered.split(b"HTTP/1.1 200 OK")[1:]] == [
            b"first",
            b"/2 ",
            b"/3 ",
        ]


CHUNKED = b"Transfer-Encoding: chunked"
SMUGGLED = {
    "a length and chunks": request("/", b"Content-Length: 5", CHUNKED) + b"0\r\n\r\n",
    "chunks and a length": request("/", CHUNKED, b"Content-Length: 5") + b"0\r\n\r\n",
    "two lengths": request("/", b"Content-Length: 5", b"Content-Length: 6") + b"hello",
    "one length twice": request("/", b"Content-Length: 5", b"Content-Length: 5") + b"hello",
    "a list of lengths": request("/", b"Content-Length: 5, 5") + b"hello",
    "a signed length": request("/", b"Content-Length: +5") + b"hello",
    "a length too long": request("/", b"Content-Length: 99999999999999999999") + b"hello",
    "a folded header": request("/", b"X: a\r\n b"),
    "bare line feeds": b"POST / HTTP/1.1\nHost: here\n\n",
    "one bare line feed": request("/", b"X: a\nY: b"),
    "a bare carriage return": request("/", b"X: a\rY: b"),
    "a zero byte": request("/", b"X: a\0b"),
    "a space before a colon": request("/", b"Content-Length : 5") + b"hello",
    "chunks twice": request("/", CHUNKED, CHUNKED) + b"0\r\n\r\n",
    "chunks that are none": request("/", b"Transfer-Encoding: xchunked") + b"0\r\n\r\n",
    "chunks and another coding": request("/", b"Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n",
    "chunks in HTTP/1.0": request("/", CHUNKED, version=b"1.0") + b"0\r\n\r\n",
    "a chunk of no number": request("/", CHUNKED) + b"5x\r\nhello\r\n0\r\n\r\n",
    "a chunk of too much": request("/", CHUNKED) + b"5\r\nhelloo\r\n0\r\n\r\n",
    "a chunk with bare line feeds": request("/", CHUNKED) + b"5\nhello\n0\n\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": request("/", b"Host: there"),
    "two tokens": request("/", b"Authorization: a", b"Authorization: b"),
    "two origins": request("/", b"Origin: a", b"Origin: b"),
    "a tunnel": b"CONNECT there:1 HTTP/1.1\r\n" + HOST + b"\r\n",
    "another version": request("/", version=b"2.0"),
    "no version": b"GET /\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("raw", SMUGGLED.values(), ids=SMUGGLED)
async def test_what_others_may_read_otherwise_is_refused_and_nothing_behind_it_is_read(raw):
    async with serving() as served:
        answer = await served.answers(raw + request("/smuggled"))
        assert answer.split()[1] in {b"400", b"501", b"505"}
        assert answer.count(b"HTTP/1.1 ") == 1
        assert b"connection: close" in answer
        assert served.site.seen == []


async def test_a_header_behind_the_body_changes_nothing():
    async with serving() as served:
        raw = request("/", CHUNKED, CLOSE) + b"5;x=y\r\nhello\r\n0\r\nAuthorization: x\r\n\r\n"
        assert (await served.answers(raw)).endswith(b"/ hello")
        assert b"authorization" not in served.site.seen[0].headers


@pytest.mark.parametrize("body", [b"", b"hello"])
async def test_a_request_to_change_the_protocol_is_served_as_any_other(body):
    upgrade = b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AA"
    async with serving() as served:
        answer = await served.answers(request("/u", *upgrade, body=body) + request("/v", CLOSE))
        assert b"/u " + body + b"HTTP/1.1" in answer
        assert answer.endswith(b"/v ")
        closing = request("/u", b"Connection: upgrade, close", b"Upgrade: h2c") + request("/v")
        assert (await served.answers(closing)).endswith(b"/u ")


@pytest.mark.parametrize("scheme", ["http", "HTTPS"])
async def test_the_host_of_a_target_that_names_one_counts_and_not_the_header(scheme):
    async with serving() as served:
        target = f"{scheme}://other.example:80/p?q=1"
        assert (await served.answers(request(target), request("/closed", CLOSE))).count(b" 200 ") == 1
        (seen,) = served.site.seen
        assert (seen.path, seen.head.query, seen.headers[b"host"]) == ("/p", b"q=1", b"other.example:80")
        refused = request(f"{scheme}://other.example/closed", CLOSE)
        assert b" 401 " in await served.answers(refused)


async def test_a_refusal_does_not_wait_for_a_large_body_and_the_client_can_read_it():
    async with serving() as served, served.connected() as stream:
        await stream.send(request("/closed", b"Content-Length: 900000"))
        assert (await until(stream, b"no token")).startswith(b"HTTP/1.1 401")
        await stream.send(b"x" * 900_000)  # no reset before it has read
        assert await rest(stream) == b""


async def test_after_the_refusal_of_a_small_body_the_connection_stays():
    async with serving() as served, served.connected() as stream:
        await stream.send(request("/closed", body=b"hello"))
        await until(stream, b"no token")
        await stream.send(request("/open"))
        await until(stream, b"/open ")
        assert [each.path for each in served.site.seen] == ["/open"]


async def test_one_that_waits_to_be_asked_for_its_body_is_asked_or_refused():
    async with serving() as served:
        for path, said in (("/open", b"HTTP/1.1 100 Continue\r\n\r\n"), ("/closed", b"no token")):
            async with served.connected() as stream:
                await stream.send(request(path, b"Expect: 100-continue", b"Content-Length: 2"))
                await until(stream, said)
                if path == "/open":
                    await stream.send(b"hi")
                    assert (await until(stream, b"/open hi")).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("kept", [b"X: y", b"Connection: keep-alive"])
async def test_a_client_of_http_1_0_gets_its_answer_until_the_end(kept):
    async with serving() as served:
        answer = await served.answers(request("/old", kept, version=b"1.0"))
        assert b"connection: close" in answer
        assert answer.endswith(b"/old ")
        async with served.connected() as stream:
            await stream.send(request("/held", kept, version=b"1.0"))
            await served.site.holds()
            served.site.held[0].begin_events()
            served.site.held[0].end([b"1"])
            answer = await rest(stream)
        assert b"chunked" not in answer
        assert answer.endswith(b"\r\n\r\nevent: message\r\ndata: 1\r\n\r\n")


async def test_a_body_has_a_limit_said_or_not():
    async with serving(limit=1000) as served:
        assert b" 413 " in await served.answers(request("/", body=b"x" * 1001))
        chunks = b"".join(b"64\r\n" + b"x" * 100 + b"\r\n" for _ in range(11))
        assert b" 413 " in await served.answers(request("/", CHUNKED) + chunks)
        assert served.site.seen == []


async def test_of_a_flood_of_requests_the_first_are_served_and_no_more_is_read():
    async with serving() as served:
        answered = await served.answers(request("/", method=b"GET") * 2000)
        assert answered.count(b" 200 OK") == len(served.site.seen) == requests.MAX_WAITING
        assert answered.count(b" 503 ") == 1
        assert b" 431 " in await served.answers(request("/", *[b"X:y"] * 9000))


async def test_what_comes_together_from_many_is_taken_together():
    async with serving() as served, AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(served.connected()) for _ in range(50)]
        for stream in streams:
            await stream.send(request("/held"))
        await served.site.holds(len(streams))
        for exchange in served.site.held:
            exchange.respond(200, JSON, [b"now"])
        for stream in streams:
            await until(stream, b"now")


async def test_a_head_has_a_limit():
    async with serving() as served:
        many = [b"X: " + b"y" * 1000] * 200
        assert b" 431 " in await served.answers(request("/", *many))
        for filled in (request("/", b"X: " + b"y" * 70_000), request("/" + "y" * 70_000)):
            cut = len(filled) // 2
            assert b" 431 " in await served.answers(filled[:cut], filled[cut:])
        trailers = b"".join(b"X: y\r\n" for _ in range(200))
        raw = request("/", CHUNKED) + b"0\r\n" + trailers
        assert b" 431 " in await served.answers(raw)
        for beside_the_body in (b"0\r\nX: ", b"5;"):
            raw = request("/", CHUNKED) + beside_the_body
            assert b" 431 " in await served.answers(raw, b"y" * 40_000, b"y" * 40_000)
        assert served.site.seen == []


async def test_what_does_not_come_in_time_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(connection, "LOOK_S", 0.01)
    monkeypatch.setattr(connection, "HEAD_TIMEOUT_S", 0.05)
    monkeypatch.setattr(connection, "BODY_TIMEOUT_S", 0.05)
    async with serving() as served:
        for begun in (b"", b"POST / HTT", request("/", b"Content-Length: 5") + b"he"):
            assert await served.answers(begun) == b""
        monkeypatch.setattr(connection, "KEEP_ALIVE_S", 0.05)
        assert (await served.answers(request("/last"))).endswith(b"/last ")
        async with served.connected() as stream:  # it waits for us
            await stream.send(request("/held"))
            await served.site.holds()
            await anyio.sleep(0.2)
            served.site.held[0].respond(200, JSON, [b"late"])
            await until(stream, b"late")


async def test_the_sum_of_bodies_has_a_limit(monkeypatch):
    monkeypatch.setattr(requests, "MIN_COUNTED_BYTES", 10)
    async with serving(limit=1000) as served, served.connected() as first, served.connected() as second:
        for stream in (first, second):
            await stream.send(request("/held", b"Content-Length: 990") + b"x" * 800)
        with anyio.fail_after(PATIENCE_S):
            while served.shared.bodies.bytes < 1600:  # noqa: ASYNC110 - of another task
                await anyio.sleep(0.001)
        assert b" 503 " in await served.answers(request("/", b"Content-Length: 990") + b"x" * 900)
        await first.send(b"x" * 190)
        await served.site.holds()
        served.site.held[0].respond(200)
        await until(first, b"\r\n\r\n")
        with anyio.fail_after(PATIENCE_S):
            while served.shared.bodies.bytes > 1000:  # noqa: ASYNC110 - likewise
                await anyio.sleep(0.001)


async def test_events_go_out_in_chunks_and_the_end_with_the_last():
    async with serving() as served, served.connected() as stream:
        await stream.send(request("/held"))
        await served.site.holds()
        exchange = served.site.held[0]
        exchange.begin_events()
        assert exchange.event([b"{", b"}"], event_id="1")
        event = b"id: 1\r\nevent: message\r\ndata: {}\r\n\r\n"
        head = await until(stream, b"\r\n%x\r\n%b\r\n" % (len(event), event))
        assert b"transfer-encoding: chunked" in head
        assert b"content-type: text/event-stream" in head
        exchange.end([b"[]"])
        assert (await until(stream, b"0\r\n\r\n")).endswith(b"data: []\r\n\r\n\r\n0\r\n\r\n")
        assert not exchange.event([b"late"])
        await stream.send(request("/next"))
        await until(stream, b"/next ")


async def test_one_whose_client_leaves_hears_of_it_once():
    async with serving() as served:
        async with served.connected() as stream:
            await stream.send(request("/held"))
            await served.site.holds()
        with anyio.fail_after(PATIENCE_S):
            while not served.site.gone:  # noqa: ASYNC110 - of another task
                await anyio.sleep(0.001)
        (exchange,) = served.site.held
        assert exchange.is_over
        exchange.respond(200)
        exchange.end()
        assert served.site.gone == [exchange]
        assert served.shared.connections == set()


async def test_one_that_only_says_no_more_is_answered_all_that_is_whole():
    async with serving() as served, served.connected() as stream:
        await stream.send(request("/held") * 2 + request("/held", b"Content-Length: 5"))
        await stream.send_eof()
        await served.site.holds()
        served.site.held[0].respond(200, JSON, [b"first"])
        await until(stream, CONTINUE)
        served.site.held[1].begin_events()
        await until(stream, COMMENT + b"\r\n")
        served.site.held[1].end([b"second"])
        assert (await rest(stream)).endswith(b"data: second\r\n\r\n\r\n0\r\n\r\n")
        assert (len(served.site.held), served.site.gone) == (2, [])


async def test_what_fails_is_answered_and_costs_nothing_else():
    async with serving() as served, served.connected() as stream:
        await stream.send(request("/raises") + request("/next"))
        assert (await until(stream, b"/next ")).startswith(b"HTTP/1.1 500 ")


async def test_no_header_of_a_response_can_begin_another():
    async with serving() as served, served.connected() as stream:
        await stream.send(request("/held"))
        await served.site.holds()
        with pytest.raises(ValueError, match="the end of a line"):
            served.site.held[0].respond(200, ((b"x", b"a\r\nb: c"),))


async def test_a_head_is_asked_for_without_its_body():
    async with serving() as served:
        answer = await served.answers(request("/h", CLOSE, method=b"HEAD"))
        assert b"content-length: 3" in answer
        assert answer.endswith(b"\r\n\r\n")


async def test_an_answer_that_is_not_read_yet_is_not_lost_when_the_connection_closes():
    size = 8 << 20
    async with serving() as served:
        with socket.create_connection(("127.0.0.1", served.port)) as slow:
            slow.sendall(request("/held", CLOSE))
            await served.site.holds()
            served.site.held[0].respond(200, JSON, [b"x" * size])
            await anyio.sleep(0.05)
            slow.setblocking(False)
            received = 0
            with anyio.fail_after(PATIENCE_S):
                while True:
                    await anyio.wait_readable(slow)
                    data = slow.recv(1 << 16)
                    if not data:
                        break
                    received += len(data)
            assert received > size


async def test_at_the_end_every_request_is_answered():
    async with serving(grace_s=0.05) as served:
        async with served.connected() as stream, served.connected() as idle, served.connected() as events:
            call = b'{"jsonrpc":"2.0","id":7,"method":"tools/call"}'
            await stream.send(request("/held", body=call))
            await events.send(request("/held", method=b"GET"))
            await idle.send(request("/idle"))
            await until(idle, b"/idle ")
            await served.site.holds(2)
            following = next(each for each in served.site.held if each.method == "GET")
            following.begin_events()
            served.server.end()
            assert await rest(idle) == b""
            assert (await rest(events)).endswith(b"\r\n\r\n0\r\n\r\n")
            answer = await rest(stream)
        assert answer.startswith(b"HTTP/1.1 500 ")
        assert b'"id":7' in answer
        assert b'"outcome":"unknown"' in answer
        assert len(served.site.gone) == 2
