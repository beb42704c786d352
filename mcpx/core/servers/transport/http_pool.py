"""The connections to one HTTP server: made when they are needed, kept alive, one for each request in flight.

`Pool.send` takes a connection that is free, or has one made; a request that waits for one can be taken back
(`forget`). Connections are made in `open_socket` and nowhere else, through the proxy that the environment
names (`proxy_for`), and with TLS where the URL says so.

With TLS 1.3 a server refuses the client's certificate behind the client's back: the alert comes where the
answer to the first request should, or is lost because that could not be written. `refusal_behind` finds it in
an error, `find_refusal` by a connection on which nothing is sent.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, Protocol
from urllib.parse import quote, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import anyio
import msgspec

from mcpx.core.servers.transport.exchange import Dropped, Unreachable
from mcpx.core.servers.transport.http_connection import Headers, HttpConnection, Reply
from mcpx.core.wire.tls_channel import connected_to
from mcpx.core.wire.unreachable import REFUSALS, alert_in, causes

_PORTS: Final = {"http": 80, "https": 443}
_SAFE: Final = "/%:@!$&'()*+,;=~-._?"  # in a path; what else there is, is escaped
CONNECT_TIMEOUT_S: Final = 10.0  # to reach a server, its handshake included
REFUSAL_TIMEOUT_S: Final = 1.0  # for a server to refuse a handshake: a round trip
MAX_CONNECTIONS: Final = 256  # to one server, its streams among them
KEEPALIVE_S: Final = 4.0  # an idle connection; many servers close theirs after 5, a race that is lost
MAX_PROXY_ANSWER_BYTES: Final = 16384
_OK: Final = b"200"


class Url(msgspec.Struct, frozen=True):
    """A URL of HTTP, as it goes into requests. `port` is None for the usual one."""

    scheme: str
    host: str
    port: int | None
    path: str
    """With the query, and escaped."""
    userinfo: str = ""
    direct: bool = False
    """True if no proxy is on the way, whatever the environment says: MCPX itself has started what listens."""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def authority(self) -> str:
        """Host and port, as in the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port, to be compared and connected to."""
        return self.scheme, self.host, self.port or _PORTS[self.scheme]

    @property
    def credentials(self) -> str | None:
        """The value of a header of basic authentication, if the URL has a user."""
        return basic(self.userinfo) if self.userinfo else None


def basic(userinfo: str) -> str:
    """The value of a header of basic authentication for `user:password`, escaped as in a URL."""
    user, _, password = userinfo.partition(":")
    return "Basic " + base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()


def read_url(text: str) -> Url:
    """Read an absolute URL.

    Raises:
        HttpFailure: It is none of HTTP.
    """
    try:
        parts = urlsplit(text.strip())
        scheme, port, host = parts.scheme.lower(), parts.port, parts.hostname or ""
        if not host.isascii():
            host = host.encode("idna").decode()
    except ValueError as error:
        raise Unreachable(f"it is no URL: {error}") from error
    if scheme not in _PORTS or not host:
        raise Unreachable(f'its URL begins with "{scheme}://", not with http:// or https://')
    path = quote(parts.path, safe=_SAFE) or "/"
    if parts.query:
        path += "?" + quote(parts.query, safe=_SAFE)
    userinfo = parts.netloc.rpartition("@")[0]
    return Url(scheme, host, None if port == _PORTS[scheme] else port, path, userinfo)


class HttpRequest:
    """A request: where it goes, and what is sent."""

    __slots__ = ("body", "extensions", "headers", "method", "url")

    def __init__(self, method: str, url: Url, headers: Headers, body: bytes = b"") -> None:
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
        self.extensions: dict[str, Any] = {}
        """Marks of who puts tokens on it."""

    def encode(self, *, through: Url | None) -> bytes:
        """The bytes of it, for the server or `through` a proxy that passes it on.

        Raises:
            Unreachable: A header has characters that none may have.
        """
        head = _encoded(self.method, self.url, through, tuple(self.headers.items()))
        if self.body or self.method == "POST":
            return b"%bcontent-length: %d\r\n\r\n%b" % (head, len(self.body), self.body)
        return head + b"\r\n"


@lru_cache(maxsize=64)
def _encoded(method: str, url: Url, through: Url | None, headers: tuple[tuple[str, str], ...]) -> bytes:
    """The head of a request, but for its length and its end; most are the same as one that was before."""
    target, own = url.path, {"host": url.authority}
    if through is not None:
        target = f"{url.scheme}://{url.authority}{target}"
        if through.userinfo:
            own["proxy-authorization"] = through.credentials or ""
    lines = [f"{name}: {value}\r\n" for name, value in (*own.items(), *headers)]
    head = f"{method} {target} HTTP/1.1\r\n" + "".join(lines)
    count = 1 + len(lines)
    if head.count("\n") != count or head.count("\r") != count or "\0" in head:
        raise Unreachable("a header of the request has a line break in it")
    return head.encode(errors="replace")


def proxy_for(url: Url) -> Url | None:
    """The proxy that the environment names for a URL; None for none.

    Raises:
        HttpFailure: It cannot be used.
    """
    if url.direct:
        return None
    proxies = getproxies()
    named = proxies.get(url.scheme) or proxies.get("all")
    if not named or proxy_bypass(f"{url.host}:{url.origin[2]}") or proxy_bypass(url.host):
        return None
    if named.startswith("socks"):
        raise Unreachable("the environment names a SOCKS proxy for it, which MCPX cannot use")
    return read_url(named if "://" in named else f"http://{named}")


async def open_socket(host: str, port: int) -> socket.socket:
    """Connect to a server, or to a proxy: every socket of an HTTP connection is made here.

    Raises:
        OSError: It cannot be reached.
    """
    return await connected_to(host, port)


Spawn = Callable[[Callable[[], Awaitable[None]]], object]
"""Runs a coroutine function, until the connections are closed."""


class Waiting(Reply, Protocol):
    """A request, and who is told of its response."""

    def go(self, connection: HttpConnection) -> None:
        """There is a connection: send it."""

    def give_up(self, error: Unreachable) -> None:
        """There is none, and nothing was sent."""


class Pool:
    """The connections to the origin of `url`, until `close`. `spawn` runs what makes them."""

    def __init__(self, url: Url, context: ssl.SSLContext | None, spawn: Spawn) -> None:
        """`context` is for https."""
        self._url = url
        self._context = context
        self._spawn = spawn
        self._waiting: deque[Waiting] = deque()
        self._making = 0
        self._all: set[HttpConnection] = set()
        self._idle: deque[tuple[HttpConnection, float]] = deque()  # and since when, the longest first
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def send(self, request: Waiting) -> None:
        """Send a request as soon as there is a connection for it; at once, if one is free."""
        while self._idle:
            connection, _ = self._idle.pop()
            if connection.is_usable():
                request.go(connection)
                return
            connection.close()
        self._waiting.append(request)
        self._make_some()

    def forget(self, request: Waiting) -> None:
        """Send a request that waits no more."""
        with suppress(ValueError):
            self._waiting.remove(request)

    def renew(self) -> None:
        """Use no connection that there is for another request."""
        for connection in self._all:
            connection.reusable = False
        while self._idle:
            self._idle.pop()[0].close()

    def close(self) -> None:
        """Close all connections."""
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.clear()
        for connection in list(self._all):
            connection.close()

    # --- connections

    def _make_some(self) -> None:
        if self._making < len(self._waiting) and self._making + len(self._all) < MAX_CONNECTIONS:
            self._making += 1
            self._spawn(self._make)

    async def _make(self) -> None:
        """Make a connection for the request that waits longest, or tell it why there is none."""
        failure: Unreachable | None = None
        try:
            with anyio.fail_after(CONNECT_TIMEOUT_S):
                connection = await self._connect()
        except Unreachable as error:
            failure = error
        except TimeoutError as error:
            failure = Unreachable(f"no connection within {CONNECT_TIMEOUT_S:g} s")
            failure.__cause__ = error
        except (OSError, ValueError, Dropped) as error:
            failure = Unreachable(str(error))
            failure.__cause__ = error
        finally:
            self._making -= 1
        if failure is None:
            self._all.add(connection)
            self._free(connection)
        elif self._waiting:
            self._waiting.popleft().give_up(failure)
            self._make_some()

    def _free(self, connection: HttpConnection) -> None:
        if self._waiting:
            self._waiting.popleft().go(connection)
            return
        self._idle.append((connection, self._loop.time()))
        if self._timer is None:
            self._timer = self._loop.call_later(KEEPALIVE_S, self._expire)

    def _expire(self) -> None:
        """Close what has been idle for too long."""
        now, self._timer = self._loop.time(), None
        while self._idle and (self._idle[0][1] + KEEPALIVE_S <= now or self._idle[0][0].closed):
            self._idle.popleft()[0].close()
        if self._idle:
            self._timer = self._loop.call_at(self._idle[0][1] + KEEPALIVE_S, self._expire)

    def _closed(self, connection: HttpConnection) -> None:
        self._all.discard(connection)
        self._make_some()

    async def _connect(self) -> HttpConnection:
        """Make one connection, through the proxy if there is one.

        Raises:
            OSError: The server cannot be reached, or refuses the handshake.
            Unreachable: The proxy cannot be used, or does not connect.
        """
        proxy = proxy_for(self._url)
        near = proxy or self._url
        connected = await open_socket(*near.origin[1:])
        made = HttpConnection(self._free, self._closed)
        try:
            if proxy is None or self._url.scheme == "http":
                made.through = proxy
                context = self._context if proxy is None else ssl.create_default_context()
                await start(made, connected, near, context)
            else:
                await self._tunnel(made, connected, proxy)
        except BaseException:
            connected.close()
            raise
        return made

    async def _tunnel(self, made: HttpConnection, connected: socket.socket, proxy: Url) -> None:
        """Have the proxy connect, and shake hands with the server through it."""
        secure = proxy.scheme == "https"
        reader, writer = await asyncio.open_connection(
            sock=connected,
            ssl=ssl.create_default_context() if secure else None,
            server_hostname=proxy.host if secure else None,
            limit=MAX_PROXY_ANSWER_BYTES,
        )
        try:
            await self._connect_through(reader, writer, proxy)
            context, made.tunnel = self._context or ssl.create_default_context(), writer
            transport = await self._loop.start_tls(
                writer.transport, made, context, server_hostname=self._url.host
            )
        except BaseException:
            writer.transport.abort()
            raise
        if transport is None:
            raise Unreachable("the connection was closed in the handshake")
        made.connection_made(transport)

    async def _connect_through(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, proxy: Url
    ) -> None:
        """Have a proxy connect to the server.

        Raises:
            Unreachable: It does not.
        """
        _, host, port = self._url.origin
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        given = f"Proxy-Authorization: {proxy.credentials}\r\n" if proxy.userinfo else ""
        writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{given}\r\n".encode())
        try:
            answer = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise Unreachable("the proxy does not answer as one") from error
        said = answer.partition(b"\r\n")[0].decode("latin-1")
        if answer.split(b" ", 2)[1:2] != [_OK]:
            raise Unreachable(f"the proxy does not connect: {said[:100]}")


async def start(
    made: HttpConnection, connected: socket.socket, near: Url, context: ssl.SSLContext | None
) -> None:
    """Have a connection go over a socket, with TLS if its URL says so.

    Raises:
        OSError: The handshake has failed.
    """
    secure = near.scheme == "https"
    await asyncio.get_running_loop().create_connection(
        lambda: made,
        sock=connected,
        ssl=context if secure else None,
        server_hostname=near.host if secure else None,
    )


async def find_refusal(url: Url, context: ssl.SSLContext | None) -> ssl.SSLError | None:
    """Make a connection and send nothing; what the server says to that, if it refuses the handshake.

    None where a proxy is to be used: nothing goes past it.
    """
    if context is None or proxy_for(url) is not None:
        return None
    with anyio.move_on_after(REFUSAL_TIMEOUT_S):
        try:
            _, host, port = url.origin
            connected = await open_socket(host, port)
            reader, writer = await asyncio.open_connection(sock=connected, ssl=context, server_hostname=host)
            try:
                await reader.read(1)
            finally:
                writer.transport.abort()
        except OSError as error:
            return refusal_behind(error)
    return None


def refusal_behind(error: BaseException) -> ssl.SSLError | None:
    """The server's refusal of a handshake that led to an error: it has read nothing else."""
    found = (each for each in causes(error) if isinstance(each, ssl.SSLError))
    return next((each for each in found if alert_in(each) in REFUSALS), None)
