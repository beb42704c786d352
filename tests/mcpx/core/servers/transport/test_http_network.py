"""The requests of a session: connections that are kept, redirects, tokens, cookies, proxies."""

from __future__ import annotations

import asyncio
import base64
import socket
from contextlib import asynccontextmanager, suppress

import anyio
import anyio.lowlevel
import pytest

from mcpx.core.config.server_config import Tls
from mcpx.core.servers.transport import http_pool
from mcpx.core.servers.transport.exchange import NoTokenNow, Unreachable
from mcpx.core.servers.transport.http_network import open_network
from mcpx.core.servers.transport.http_pool import read_url
from tests.mcpx.authority import Authority
from tests.mcpx.core.servers.transport.scripted_http import OK, Fetched, fetch, network_to, serving

pytestmark = pytest.mark.anyio


def ok(_asked):
    return OK


async def held(network, number):
    """Send requests that are answered together."""
    exchanges = [Fetched(network, "POST", b"{}", {}) for _ in range(number)]
    for each in exchanges:
        network.send(each)
    return exchanges


async def test_each_request_in_flight_has_a_connection_which_is_kept():
    together = anyio.Event()

    async def wait(asked):
        if len(server.asked) >= 5:
            together.set()
        await together.wait()
        return OK

    async with network_to(wait) as (network, server):
        for each in await held(network, 5):
            await each.done.wait()
        assert server.connections == 5
        for _ in range(20):
            await fetch(network)
        assert server.connections == 5


async def test_one_that_is_idle_for_long_is_closed_and_one_that_the_server_closed_is_not_used(monkeypatch):
    monkeypatch.setattr(http_pool, "KEEPALIVE_S", 0.05)
    async with network_to(ok) as (network, server):
        await fetch(network)
        await asyncio.sleep(0.2)
        assert (await fetch(network)).text == b"ok"
        assert server.connections == 2
        server.asked[-1].writer.get_extra_info("socket").shutdown(socket.SHUT_RDWR)  # unnoticed so far
        assert (await fetch(network)).text == b"ok"
        assert server.connections == 3


async def test_new_connections_are_made_while_an_answer_is_open():
    go_on = anyio.Event()

    async def slow(asked):
        if len(server.asked) == 1:
            await go_on.wait()
        return OK

    async with network_to(slow) as (network, server):
        (first,) = await held(network, 1)
        while not server.asked:
            await anyio.lowlevel.checkpoint()
        network.renew()
        assert (await fetch(network)).text == b"ok"
        go_on.set()
        await first.done.wait()
        assert first.text == b"ok"
        await fetch(network)
        assert [each.connection for each in server.asked] == [1, 2, 2]


async def test_what_waits_for_a_connection_can_be_taken_back(monkeypatch):
    monkeypatch.setattr(http_pool, "MAX_CONNECTIONS", 1)
    go_on = anyio.Event()

    async def slow(_asked):
        await go_on.wait()
        return OK

    async with network_to(slow) as (network, server):
        first, second, third = await held(network, 3)
        while not server.asked:
            await anyio.lowlevel.checkpoint()
        second.stop()
        go_on.set()
        for each in (first, third):
            await each.done.wait()
    assert (len(server.asked), server.connections) == (2, 1)
    assert (second.started, second.status) == (False, None)


async def test_who_is_not_there_is_said_to_be_without_a_byte_sent():
    async with serving(ok) as server:
        url = server.url
    async with open_network(url, None) as network:
        exchange = await fetch(network)
    assert isinstance(exchange.error, Unreachable)
    assert isinstance(exchange.error.__cause__, ConnectionRefusedError)
    assert not exchange.started


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_a_redirect_within_the_origin_is_followed_for_whatever_is_sent(method):
    def redirect(asked):
        if " /mcp " in asked.line:
            return b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /other?a=b\r\nContent-Length: 3\r\n\r\nhey"
        return OK

    async with network_to(redirect) as (network, server):
        assert (await fetch(network, method, b"{}" if method == "POST" else b"")).text == b"ok"
    assert [each.line for each in server.asked] == [
        f"{method} {path} HTTP/1.1" for path in ("/mcp", "/other?a=b")
    ]
    assert server.asked[1].body == server.asked[0].body
    assert server.connections == 1


@pytest.mark.parametrize(
    ("method", "status", "location"),
    [
        ("POST", 307, "http://127.0.0.2/mcp"),
        ("POST", 307, "http://me@127.0.0.1:{port}/mcp"),
        ("POST", 307, "/mcp"),
        ("GET", 308, "http://127.0.0.1:{port}/mcp#again"),
        ("POST", 303, "/other"),
        ("POST", 302, "/other"),
        ("GET", 307, "https://127.0.0.1:{port}/mcp"),
        ("GET", 307, "ftp://127.0.0.1/"),
        ("GET", 307, "http://["),
    ],
)
async def test_a_redirect_elsewhere_is_not_followed(method, status, location):
    def redirect(_asked):
        to = location.format(port=server.port)
        return f"HTTP/1.1 {status} X\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()

    async with network_to(redirect) as (network, server):
        assert (await fetch(network, method)).status == status
    assert len(server.asked) == 1


@pytest.mark.parametrize(("places", "times"), [(10, 6), (2, 3)])
async def test_redirects_without_an_end_and_back_to_where_it_was_are_not_followed(places, times):
    def redirect(_asked):
        return b"HTTP/1.1 307 X\r\nLocation: /%d\r\nContent-Length: 0\r\n\r\n" % (len(server.asked) % places)

    async with network_to(redirect) as (network, server):
        assert (await fetch(network)).status == 307
    assert len(server.asked) == times


async def test_requests_have_the_headers_of_the_entry_and_send_cookies_back():
    cookie = OK.replace(b"\r\n\r\n", b'\r\nSet-Cookie: route=7\r\nSet-Cookie: b="x, y"; Path=/\r\n\r\n')
    async with network_to(lambda _asked: cookie, headers={"X-Own": "1", "Host": "elsewhere"}) as (
        network,
        server,
    ):
        for _ in range(2):
            await fetch(network, headers={"mcp-name": "x"})
    for asked in server.asked:
        assert (asked.headers["x-own"], asked.headers["mcp-name"]) == ("1", "x")
        assert (asked.headers["host"], asked.headers["accept-encoding"]) == (
            f"127.0.0.1:{server.port}",
            "gzip",
        )
    assert [each.headers.get("cookie") for each in server.asked] == [None, 'route=7; b="x, y"']


async def test_a_server_that_sets_very_many_cookies_gets_none_back():
    many = b"".join(b"Set-Cookie: c%d=1\r\n" % number for number in range(100))
    async with network_to(lambda _asked: OK.replace(b"Content-Type", many + b"Content-Type")) as (
        network,
        server,
    ):
        for _ in range(2):
            await fetch(network)
    assert "cookie" not in server.asked[1].headers


async def test_a_header_with_a_line_break_is_not_sent():
    async with network_to(ok) as (network, server):
        for value in ("a\r\nb: c", "a\nb: c", "a\rb", "a\0b"):
            exchange = await fetch(network, headers={"mcp-name": value})
            assert "line break" in str(exchange.error)
            assert not exchange.started
    assert server.asked == []


class Tokens:
    """Puts tokens on requests, one after the other: the next one whenever the last was refused."""

    def __init__(self, *tokens, last=None, waits=False):
        self.tokens, self.last, self.waits, self.seen = list(tokens), last, waits, []

    def authorize_nowait(self, request):
        if not self.waits:
            request.headers["authorization"] = f"Bearer {self.tokens[0]}"
        return not self.waits

    async def authorize(self, request):
        await asyncio.sleep(0)
        request.headers["authorization"] = f"Bearer {self.tokens[0]}"

    async def refused(self, _request, response):
        self.seen.append((response.status_code, response.headers.get_list("www-authenticate")))
        if len(self.tokens) == 1 and self.last is not None:
            raise self.last
        return len(self.tokens) > 1 and bool(self.tokens.pop(0))


def wants_fresh(asked):
    """A server that takes one token alone."""
    if asked.headers.get("authorization") == "Bearer fresh":
        return OK
    wanted = b"WWW-Authenticate: Bearer a=b\r\nwww-authenticate: Basic\r\n"
    return b"HTTP/1.1 401 No\r\n" + wanted + b"Content-Length: 0\r\n\r\n"


@pytest.mark.parametrize("waits", [True, False])
async def test_a_request_that_was_refused_is_sent_again_with_a_better_token(waits):
    tokens = Tokens("stale", "fresh", waits=waits)
    async with network_to(wants_fresh, authorizer=tokens) as (network, _server):
        assert (await fetch(network)).text == b"ok"
    assert tokens.seen == [(401, ["Bearer a=b, Basic"])]


async def test_one_that_is_refused_with_every_token_did_not_run():
    async with network_to(wants_fresh, authorizer=Tokens("stale", "stale too")) as (network, server):
        exchange = await fetch(network)
    assert (exchange.status, exchange.started, len(server.asked)) == (401, False, 2)
    last = NoTokenNow("try again")
    async with network_to(wants_fresh, authorizer=Tokens("stale", last=last)) as (network, _server):
        assert (await fetch(network)).error is last


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://h", "http://h/"),
        ("HTTPS://H.example:443/a b/ü?q=ö#f", "https://h.example/a%20b/%C3%BC?q=%C3%B6"),
        ("http://[::1]:8000/x%20y", "http://[::1]:8000/x%20y"),
        ("http://user:p%40ss@bücher.example/", "http://xn--bcher-kva.example/"),
    ],
)
def test_a_url_is_escaped_once(text, expected):
    assert str(read_url(text)) == expected


@pytest.mark.parametrize("text", ["ftp://h/", "h", "http://", "http://h:x/", "http://h:70000/"])
def test_what_is_no_url_of_http_is_said_to_be_none(text):
    with pytest.raises(Unreachable):
        read_url(text)


# --- proxies


@asynccontextmanager
async def tunnel(*, wants=""):
    """A proxy that connects where it is asked to; and what it was asked."""
    asked, writers, tasks = [], [], set()

    async def copy(reader, writer):
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    async def serve(reader, writer):
        tasks.add(asyncio.current_task())
        writers.append(writer)
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked.append(head)
        if wants not in head:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            return
        host, port = head.split()[1].rsplit(":", 1)
        near, far = await asyncio.open_connection(host, int(port))
        writers.append(far)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(copy(reader, far), copy(near, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        try:
            yield server.sockets[0].getsockname()[1], asked
        finally:
            for each in writers:
                each.transport.abort()
            await asyncio.wait(tasks)


async def test_a_proxy_gets_whole_urls_of_plain_http(monkeypatch):
    monkeypatch.delenv("NO_PROXY", raising=False)
    async with serving(ok) as proxy:
        monkeypatch.setenv("http_proxy", f"http://me:word@127.0.0.1:{proxy.port}")
        async with open_network("http://elsewhere.example/mcp?a=b", None) as network:
            assert (await fetch(network)).text == b"ok"
        monkeypatch.setenv("no_proxy", ".example")
        async with open_network("http://elsewhere.example/mcp", None) as network:
            assert isinstance((await fetch(network)).error, Unreachable)
    (asked,) = proxy.asked
    assert asked.line == "POST http://elsewhere.example/mcp?a=b HTTP/1.1"
    assert asked.headers["host"] == "elsewhere.example"
    assert asked.headers["proxy-authorization"] == "Basic " + base64.b64encode(b"me:word").decode()


async def test_a_proxy_connects_to_a_server_with_tls(tmp_path, monkeypatch):
    authority = Authority(tmp_path)
    context = authority.server_context(wants_client=False)
    tls = Tls(ca=str(authority.ca))
    monkeypatch.delenv("NO_PROXY", raising=False)
    async with serving(ok, context) as server, tunnel(wants="Proxy-Authorization: Basic") as (port, asked):
        url = f"https://127.0.0.1:{server.port}/mcp"
        monkeypatch.setenv("https_proxy", f"http://me:word@127.0.0.1:{port}")
        async with open_network(url, None, tls=tls) as network:
            assert [(await fetch(network)).text for _ in range(2)] == [b"ok", b"ok"]
        assert len(asked) == 1
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
        async with open_network(url, None, tls=tls) as network:
            error = (await fetch(network)).error
    assert isinstance(error, Unreachable)
    assert "407" in str(error)


async def test_a_proxy_that_cannot_be_used_is_named(monkeypatch):
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:9")
    async with open_network("http://elsewhere.example/", None) as network:
        assert "SOCKS" in str((await fetch(network)).error)
