"""HTTP within bounds: connections, redirects and cookies in number, bodies in size and time.

`open_network` has the connections to one server; they can be made anew (`Network.renew`).
`inflated` decompresses a body in small steps, so that a small one cannot become a huge one at once;
`read_whole` reads one message, `read_prefix` a body that only explains, and `bare_response` drops one.
"""

from __future__ import annotations

import functools
import ssl
import zlib
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from http.cookiejar import CookieJar
from typing import Any, Final, Protocol, runtime_checkable
from weakref import WeakSet

import anyio
import anyio.lowlevel
import anyio.to_thread
import httpx2
from mcp.shared._httpx_utils import next_request_within_origin

from mcpx.upstream.transport.exchange import UNAUTHORIZED
from mcpx.wire.outgoing import MalformedMessage, ResponseTooLarge

TIMEOUT: Final = httpx2.Timeout(None, connect=10.0, write=30.0)  # seconds; answers are bounded elsewhere
MAX_CONNECTIONS: Final = 256  # to one server, its streams among them
KEEPALIVE_S: Final = 4.0  # an idle connection; many servers close theirs after 5, a race that is lost
MAX_REDIRECTS: Final = 5  # of one request
MAX_COOKIES: Final = 50  # of one server; a load balancer sets one or two

ACCEPT_ENCODING: Final = "gzip"  # servers do not agree on what `deflate` means
MAX_PREFIX_BYTES: Final = 65536  # read of a body that is no message
PREFIX_TIMEOUT_S: Final = 2.0  # to read them
CHUNKS_PER_TURN: Final = 32  # of one body, before other tasks have their turn: 1 to 3 ms
MAX_QUOTE_LEN: Final = 200  # characters of a text of the server's in a message
UNREACHABLE: Final = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)
_INFLATE_STEP_BYTES: Final = 65536  # that come out of the decompressor at a time
_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS
_UNAUTHORIZED: Final = frozenset({401, 403})
_NOT_PASSED_ON: Final = frozenset(
    {"content-encoding", "content-length", "transfer-encoding", "connection", "set-cookie"}
)


class FewCookies(CookieJar):
    """Keeps the few cookies that a load balancer sets, and none of a server that sets very many."""

    def extract_cookies(self, response: Any, request: Any) -> None:
        if len(response.info().get_all("Set-Cookie", [])) <= MAX_COOKIES:
            super().extract_cookies(response, request)
        if len(self) > MAX_COOKIES:
            self.clear()


@functools.cache
def _certificates() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


@runtime_checkable
class Standing(Protocol):
    """A stream that is open for as long as the session."""

    def leave(self, reason: str) -> None:
        """End it; whoever needs it opens it again."""
        ...


class Authorizer(Protocol):
    """Puts tokens on requests: an `mcpx.oauth.account.Account`."""

    async def authorize(self, request: httpx2.Request) -> None:
        """Put a token on a request that is about to be sent.

        Raises:
            NotAuthorized: There is none, and without one it would be in vain.
        """
        ...

    async def refused(self, request: httpx2.Request, response: httpx2.Response) -> bool:
        """Take in a 401 or 403; whether the request is to be authorized and sent once more, true but once.

        Raises:
            NotAuthorized: It would be in vain.
        """
        ...


class Network:
    """The connections to one server. A client that was replaced is closed once it has no answer open."""

    def __init__(
        self, new_client: Callable[[], httpx2.AsyncClient], authorizer: Authorizer | None = None
    ) -> None:
        self._authorizer = authorizer
        self._new_client = new_client
        self._client = new_client()
        self._replaced: list[httpx2.AsyncClient] = []
        self._open: Counter[httpx2.AsyncClient] = Counter()  # answers
        self._standing: WeakSet[Standing] = WeakSet()

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, follow redirects within its origin, and return the answer as soon as it begins.

        Raises:
            httpx2.HTTPError: The server cannot be reached, or the connection was dropped.
        """
        client = self._client
        self._open[client] += 1
        try:
            response = await self._send_within_origin(client, request)
        except BaseException:
            await self._closed(client)
            raise
        if isinstance(response.stream, httpx2.AsyncByteStream) and not response.is_closed:
            response.stream = _Body(response.stream, partial(self._closed, client))
        else:
            await self._closed(client)
        return response

    async def _send_within_origin(
        self, client: httpx2.AsyncClient, request: httpx2.Request
    ) -> httpx2.Response:
        for _ in range(MAX_REDIRECTS):
            response = await self._send_authorized(client, request)
            if (redirected := next_request_within_origin(response)) is None:
                return response
            await read_prefix(response)
            request = redirected
        return await self._send_authorized(client, request)

    async def _send_authorized(self, client: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
        """Send a request with a token, where there are tokens, and once more with a better one."""
        authorizer = self._authorizer
        if authorizer is None:
            return await client.send(request, stream=True)
        while True:
            await authorizer.authorize(request)
            response = await client.send(request, stream=True)
            if response.status_code not in _UNAUTHORIZED:
                return response
            if (trace := request.extensions.get("trace")) is not None:
                await trace(UNAUTHORIZED, {})
            try:
                again = await authorizer.refused(request, response)
            except BaseException:
                await read_prefix(response)
                raise
            if not again:
                return response
            await read_prefix(response)

    def keep(self, response: httpx2.Response) -> httpx2.Response:
        """The response; where it is an event stream, that is left when connections are made anew."""
        if isinstance(response.stream, Standing):
            self._standing.add(response.stream)
        return response

    def renew(self) -> None:
        """Make new connections for all requests from now on; an answer that is open may end on its own."""
        self._replaced.append(self._client)
        self._client = self._new_client()
        for stream in list(self._standing):
            stream.leave("its connection is made anew")

    async def _closed(self, client: httpx2.AsyncClient) -> None:
        self._open[client] -= 1
        for unused in [each for each in self._replaced if not self._open[each]]:
            self._replaced.remove(unused)
            del self._open[unused]
            await _close(unused)

    async def aclose(self) -> None:
        """Close all connections."""
        for client in (self._client, *self._replaced):
            await _close(client)


async def _close(client: httpx2.AsyncClient) -> None:
    with anyio.CancelScope(shield=True), suppress(httpx2.HTTPError):  # it waits for nobody
        await client.aclose()


class _Body(httpx2.AsyncByteStream):
    """The body of an answer; `on_close` is called once, when it is closed."""

    def __init__(self, body: httpx2.AsyncByteStream, on_close: Callable[[], Awaitable[None]]) -> None:
        self._body = body
        self._on_close: Callable[[], Awaitable[None]] | None = on_close

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._body.__aiter__()

    async def aclose(self) -> None:
        on_close, self._on_close = self._on_close, None
        try:
            await self._body.aclose()
        finally:
            if on_close is not None:
                await on_close()


@asynccontextmanager
async def open_network(cookies: CookieJar, authorizer: Authorizer | None) -> AsyncIterator[Network]:
    """Open the connections to one server."""
    trusted = await anyio.to_thread.run_sync(_certificates)  # 20 ms the first time; others have their turn
    limits = httpx2.Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=KEEPALIVE_S)

    def new_client() -> httpx2.AsyncClient:
        return httpx2.AsyncClient(timeout=TIMEOUT, limits=limits, verify=trusted, cookies=cookies)

    network = Network(new_client, authorizer)
    try:
        yield network
    finally:
        await network.aclose()


async def inflated(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Yield the body without its Content-Encoding.

    Other tasks have their turn now and then: thousands of chunks may come in one read.

    Raises:
        MalformedMessage: The encoding is unknown, or broken.
        httpx2.HTTPError: The connection was dropped.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    taken = 0
    async for chunk in _inflated(response.aiter_raw(), encoding):
        taken += 1
        if taken % CHUNKS_PER_TURN == 0:
            await anyio.lowlevel.checkpoint()
        yield chunk


async def _inflated(body: AsyncIterable[bytes], encoding: str) -> AsyncIterator[bytes]:
    if encoding in {"", "identity"}:
        async for chunk in body:
            yield chunk
        return
    if encoding not in {"gzip", "x-gzip", "deflate"}:
        shown = encoding[:MAX_QUOTE_LEN]
        raise MalformedMessage(f"the answer is compressed with {shown}, which was not asked for")
    inflate = zlib.decompressobj(_GZIP_OR_ZLIB)
    async for chunk in body:
        rest = chunk
        while rest:
            try:
                yield inflate.decompress(rest, _INFLATE_STEP_BYTES)
            except zlib.error as error:
                raise MalformedMessage(f"the answer's compression is broken: {error}") from error
            rest = inflate.unconsumed_tail
        if inflate.eof:
            return  # what follows would only be kept
    yield inflate.flush()


async def read_whole(response: httpx2.Response, limit: int) -> bytes:
    """Read a body of at most `limit` bytes.

    Raises:
        ResponseTooLarge: It is longer.
        MalformedMessage, httpx2.HTTPError: As for `inflated`.
    """
    read = bytearray()  # a list of its chunks would hold forty times their size where they are of one byte
    async for chunk in inflated(response):
        read += chunk
        if len(read) > limit:
            raise too_large(limit)
    return bytes(read)


async def read_prefix(response: httpx2.Response) -> bytes:
    """Read what can be had of a body within small bounds, and close the response. Never raises.

    A body that is read to its end leaves the connection for the next request.
    """
    read = bytearray()
    with anyio.move_on_after(PREFIX_TIMEOUT_S), suppress(httpx2.HTTPError, MalformedMessage):
        async for chunk in inflated(response):
            read += chunk
            if len(read) > MAX_PREFIX_BYTES:
                break
    with anyio.CancelScope(shield=True), suppress(httpx2.HTTPError):  # closing does not wait for the server
        await response.aclose()
    return bytes(read[:MAX_PREFIX_BYTES])


async def bare_response(response: httpx2.Response) -> httpx2.Response:
    """Close a response, and return its status and headers without a body."""
    await read_prefix(response)
    return httpx2.Response(response.status_code, headers=kept_headers(response))


def kept_headers(response: httpx2.Response) -> httpx2.Headers:
    """Return the headers that still hold for a body that was read and decompressed."""
    pairs = [pair for pair in response.headers.multi_items() if pair[0] not in _NOT_PASSED_ON]
    return httpx2.Headers(pairs)


def too_large(limit: int) -> ResponseTooLarge:
    """The error for an answer of more than `limit` bytes."""
    return ResponseTooLarge(f"the answer is over {limit} bytes")
