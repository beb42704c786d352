"""The connections to one server: within bounds, with its certificates, and with tokens on requests.

`open_network` has the connections to one server; they can be made anew (`Network.renew`).

With TLS 1.3 a server refuses the client's certificate behind the client's back: the alert comes where the
answer to the first request should, or is lost because that could not be written. `refusal_behind` finds it in
an error, `find_refusal` by a connection on which nothing is sent.
"""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from http.cookiejar import CookieJar
from typing import Any, Final, Protocol, runtime_checkable
from urllib.request import getproxies
from weakref import WeakSet

import anyio
import anyio.to_thread
import httpx2
from mcp.shared._httpx_utils import next_request_within_origin

from mcpx.core.config.certificates import CertificateProblem, ssl_context
from mcpx.core.config.server_config import Tls
from mcpx.core.servers.accounts import Authorizer
from mcpx.core.servers.transport.exchange import UNAUTHORIZED
from mcpx.core.servers.transport.http_bodies import read_prefix
from mcpx.core.servers.transport.link import ConnectionLost
from mcpx.core.wire.unreachable import REFUSALS, alert_in, causes

HTTPS_PORT: Final = 443
REFUSAL_TIMEOUT_S: Final = 1.0  # for a server to refuse a handshake: a round trip
TIMEOUT: Final = httpx2.Timeout(None, connect=10.0, write=30.0)  # seconds; answers are bounded elsewhere
MAX_CONNECTIONS: Final = 256  # to one server, its streams among them
KEEPALIVE_S: Final = 4.0  # an idle connection; many servers close theirs after 5, a race that is lost
MAX_REDIRECTS: Final = 5  # of one request
MAX_COOKIES: Final = 50  # of one server; a load balancer sets one or two
ACCEPT_ENCODING: Final = "gzip"  # servers do not agree on what `deflate` means
UNREACHABLE: Final = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)
_UNAUTHORIZED: Final = frozenset({401, 403})


def refusal_behind(error: BaseException) -> ssl.SSLError | None:
    """The server's refusal of a handshake that led to an error: it has read nothing else."""
    found = (each for each in causes(error) if isinstance(each, ssl.SSLError))
    return next((each for each in found if alert_in(each) in REFUSALS), None)


async def find_refusal(url: httpx2.URL, context: ssl.SSLContext) -> ssl.SSLError | None:
    """Make a connection and send nothing; what the server says to that, if it refuses the handshake.

    None where a proxy is to be used: nothing goes past it.
    """
    if getproxies().keys() & {"https", "all"}:
        return None
    host = url.raw_host.decode("ascii")
    with anyio.move_on_after(REFUSAL_TIMEOUT_S):
        try:
            async with await anyio.connect_tcp(
                host, url.port or HTTPS_PORT, ssl_context=context, tls_standard_compatible=False
            ) as stream:
                await stream.receive(1)
        except (OSError, anyio.BrokenResourceError, anyio.EndOfStream) as error:
            return refusal_behind(error)
    return None


class FewCookies(CookieJar):
    """Keeps the few cookies that a load balancer sets, and none of a server that sets very many."""

    def extract_cookies(self, response: Any, request: Any) -> None:
        if len(response.info().get_all("Set-Cookie", [])) <= MAX_COOKIES:
            super().extract_cookies(response, request)
        if len(self) > MAX_COOKIES:
            self.clear()


@runtime_checkable
class Standing(Protocol):
    """A stream that is open for as long as the session."""

    def leave(self, reason: str) -> None:
        """End it; whoever needs it opens it again."""


class Network:
    """The connections to one server. A client that was replaced is closed once it has no answer open."""

    def __init__(
        self,
        new_client: Callable[[], httpx2.AsyncClient],
        authorizer: Authorizer | None = None,
        trusted: ssl.SSLContext | None = None,
    ) -> None:
        self._authorizer = authorizer
        self._trusted = trusted
        self._answered = False
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
        except (httpx2.NetworkError, httpx2.RemoteProtocolError, ssl.SSLError) as error:
            await self._closed(client)
            if (refusal := await self._refusal(request.url, error)) is not None:
                raise httpx2.ConnectError(str(refusal)) from refusal
            if isinstance(error, ssl.SSLError):  # which the library lets through
                raise httpx2.ReadError(str(error)) from error
            raise
        except BaseException:
            await self._closed(client)
            raise
        self._answered = True
        if isinstance(response.stream, httpx2.AsyncByteStream) and not response.is_closed:
            response.stream = _Body(response.stream, partial(self._closed, client))
        else:
            await self._closed(client)
        return response

    async def _refusal(self, url: httpx2.URL, error: Exception) -> ssl.SSLError | None:
        """The server's refusal of the handshake, if it is that by which a request has failed."""
        found = refusal_behind(error)
        may_be_lost = (
            url.scheme == "https" and not self._answered and not isinstance(error, httpx2.ConnectError)
        )
        if found is None and may_be_lost and self._trusted is not None:
            return await find_refusal(url, self._trusted)
        return found

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
async def open_network(
    cookies: CookieJar, authorizer: Authorizer | None, tls: Tls | None = None
) -> AsyncIterator[Network]:
    """Open the connections to one server. Redirects to another origin are not followed, so no other is shown
    the certificate of `tls`.

    Raises:
        ConnectionLost: The certificates cannot be used.
    """
    try:
        trusted = await anyio.to_thread.run_sync(ssl_context, tls)  # 20 ms; others have their turn
    except CertificateProblem as problem:
        raise ConnectionLost(f'the certificates in "tls" cannot be used: {problem}') from None
    limits = httpx2.Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=KEEPALIVE_S)

    def new_client() -> httpx2.AsyncClient:
        return httpx2.AsyncClient(timeout=TIMEOUT, limits=limits, verify=trusted, cookies=cookies)

    network = Network(new_client, authorizer, trusted)
    try:
        yield network
    finally:
        await network.aclose()
