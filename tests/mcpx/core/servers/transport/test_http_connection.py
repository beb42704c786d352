"""One connection: what a server may send, and that no byte of it answers another request."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from mcpx.core.servers.transport import http_connection
from mcpx.core.servers.transport.exchange import Dropped
from mcpx.core.servers.transport.http_connection import MAX_HEAD_BYTES
from mcpx.core.servers.transport.http_network import open_network
from tests.mcpx.core.servers.transport.scripted_http import OK, Fetched, fetch, network_to

pytestmark = pytest.mark.anyio


def chunked(*pieces, trailer=b""):
    body = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in pieces)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n" + trailer + b"\r\n"


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (OK, b"ok"),
        (chunked(b"o", b"k"), b"ok"),
        (chunked(b"ok", trailer=b"X: y\r\nY: z\r\n"), b"ok"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" + OK, b"ok"),
        (OK.replace(b"\r\n", b"\n"), b"ok"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", b""),
    ],
)
async def test_a_response_ends_where_it_says_and_the_connection_is_kept(response, text):
    async with network_to(lambda _asked: response) as (network, server):
        for _ in range(3):
            assert (await fetch(network)).text == text
    assert server.connections == 1


@pytest.mark.parametrize("cut", [1, 7, 64])
async def test_it_may_come_in_pieces(cut):
    async def slowly(asked):
        response = chunked(b"o", b"k", trailer=b"X: y\r\n")
        for at in range(0, len(response) - cut, cut):
            asked.writer.write(response[at : at + cut])
            await asyncio.sleep(0)
        return response[at + cut :]

    async with network_to(slowly) as (network, server):
        assert [(await fetch(network)).text for _ in range(2)] == [b"ok", b"ok"]
    assert server.connections == 1


INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"


class Headed(Fetched):
    """A request of which the head of the response is kept."""

    head = None

    def accept(self, head, connection):
        self.head = head
        return super().accept(head, connection)


def with_header(value, *, end=b"\r\n", text=b"ok"):
    lines = [b"HTTP/1.1 200 OK", b"X: " + value, b"Content-Length: %d" % len(text), b"", text]
    return end.join(lines)


@pytest.mark.parametrize("cut", [False, True])
async def test_the_headers_of_a_response_are_its_own_whatever_came_before(cut):
    values = [b"1", b"1", b"2", b"1", b"1", b"12", b"1", b"1"]
    kinds = [with_header(each) for each in values]
    kinds[3:3] = [INTERIM + with_header(b"3"), INTERIM + with_header(b"4"), with_header(b"4"), INTERIM + OK]
    kinds += [with_header(each, end=b"\n") for each in (b"5", b"6", b"6")] + [with_header(b"7")]
    expected = b"1,1,2,3,4,4,,1,1,12,1,1,5,6,6,7".split(b",")
    waiting = list(kinds)

    async def answer(asked):
        response = waiting.pop(0)
        if cut:
            asked.writer.write(response[:30])
            await asyncio.sleep(0.005)
        return response[30:] if cut else response

    async with network_to(answer) as (network, server):
        for value in expected:
            exchange = Headed(network, "POST", b"{}", {})
            network.send(exchange)
            await exchange.done.wait()
            assert exchange.text == b"ok"
            assert exchange.head.headers.get("x", "").encode() == value
    assert server.connections == 1


async def test_a_response_without_a_length_ends_with_the_connection():
    def whole(asked):
        asked.writer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")

    async with network_to(whole) as (network, server):
        assert [(await fetch(network)).text for _ in range(2)] == [b"all of it"] * 2
    assert server.connections == 2


UPGRADE = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"


@pytest.mark.parametrize("after", [OK.replace(b"ok", b"no"), b"\r\n", b"x", b"HTTP/1.1 200", UPGRADE])
@pytest.mark.parametrize("late", [False, True])
async def test_what_nobody_asked_for_answers_nothing(after, late):
    async def more(asked):
        if not late:
            return OK + after
        asked.writer.write(OK)
        await asyncio.sleep(0.05)
        return after

    async with network_to(more) as (network, server):
        for _ in range(3):
            assert (await fetch(network)).text == b"ok"
            await asyncio.sleep(0.1 if late else 0)
    assert server.connections == (3 if late or after != b"\r\n" else 1)


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nok\r\n0\r\n\r\n",
        UPGRADE,
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2 * MAX_HEAD_BYTES,
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * MAX_HEAD_BYTES,
        chunked(b"ok")[:-2] + b"X: y\r\n" * MAX_HEAD_BYTES,
        chunked(b"ok")[:-2] + b"X: " + b"y" * 2 * MAX_HEAD_BYTES,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;" + b"x" * 2 * MAX_HEAD_BYTES,
    ],
    ids=str,
)
async def test_what_is_ambiguous_or_without_an_end_costs_the_connection_and_its_request(response):
    answers = [response, OK]

    async with network_to(lambda _asked: answers.pop(0)) as (network, server):
        first = await fetch(network)
        assert isinstance(first.error, Dropped) or first.text in {b"", b"ok"}
        assert (await fetch(network)).text == b"ok"
    assert server.connections == 2


async def test_a_server_that_hangs_up_in_the_middle_is_said_to():
    async with network_to(lambda asked: asked.writer.write(OK[:-1])) as (network, _server):
        exchange = await fetch(network)
    assert exchange.text == b"o"
    assert exchange.started


@asynccontextmanager
async def reading_only_a_head(response):
    """A server that reads a head, answers with that, and reads nothing more. Its URL."""
    over = asyncio.Event()

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()
        writer.write(response)
        await over.wait()
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1000)
    async with (
        server,
        open_network(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", None) as network,
    ):
        yield network
        over.set()


async def test_one_that_answers_before_it_has_read_all_gets_no_other_request_there():
    async with reading_only_a_head(OK) as network:
        assert (await fetch(network, body=b"x" * (8 << 20))).text == b"ok"
        assert (await fetch(network)).text == b"ok"


async def test_a_request_that_nobody_reads_is_given_up(monkeypatch):
    monkeypatch.setattr(http_connection, "WRITE_TIMEOUT_S", 0.1)
    async with reading_only_a_head(b"") as network:
        exchange = await fetch(network, body=b"x" * (8 << 20))
    assert "read nothing of the request" in str(exchange.error)
