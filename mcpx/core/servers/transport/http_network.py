"""The requests of one session to one server: with its headers, cookies and tokens, within its origin.

An `Exchange` is one request and what becomes of it. `Network.send` sends it: in the same turn of the event
loop, where there is a token and a connection. A redirect within the origin is followed, and a request that
was refused for want of a token is sent again with a better one, so that whoever sent it sees the outcome of
both. All that may wait is done in a task, and only then is there one.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.message import Message
from http.cookiejar import CookieJar
from typing import Any, Final
from urllib.parse import urljoin
from urllib.request import Request as JarRequest

import anyio
import anyio.to_thread
from msgspec.structs import replace

from mcpx.core.config.certificates import CertificateProblem, ssl_context
from mcpx.core.config.server_config import Tls
from mcpx.core.servers.accounts import Authorizer
from mcpx.core.servers.transport.exchange import Dropped, HttpFailure, Unreachable
from mcpx.core.servers.transport.http_bodies import Body, Prefix
from mcpx.core.servers.transport.http_connection import Head, Headers, HttpConnection
from mcpx.core.servers.transport.http_pool import (
    HttpRequest,
    Pool,
    Url,
    find_refusal,
    open_socket,
    proxy_for,
    read_url,
    refusal_behind,
)
from mcpx.core.servers.transport.link import ConnectionLost
from mcpx.core.telemetry.contained import contain

MAX_REDIRECTS: Final = 5  # of one request
MAX_COOKIES: Final = 50  # of one server; a load balancer sets one or two
ACCEPT_ENCODING: Final = "gzip"  # servers do not agree on what `deflate` means
USER_AGENT: Final = "mcpx"
_GOOD: Final = range(200, 300)
_UNAUTHORIZED: Final = frozenset({401, 403})
_SAME_METHOD: Final = frozenset({307, 308})
_OF_THE_MESSAGE: Final = ("host", "content-length", "transfer-encoding", "connection")
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class FewCookies(CookieJar):
    """Keeps the few cookies that a load balancer sets, and none of a server that sets very many."""

    are_any = False

    def take(self, url: str, head: Head) -> None:
        """Take in the cookies of a response."""
        if len(head.cookies) <= MAX_COOKIES:
            self.extract_cookies(_Jarred(head.cookies), _asked(url))  # type: ignore[arg-type]  # all it uses
        if len(self) > MAX_COOKIES:
            self.clear()
        self.are_any = len(self) > 0

    def header(self, url: str) -> str | None:
        """The cookies for a request to that URL, if there are any."""
        request = _asked(url)
        self.add_cookie_header(request)
        return request.get_header("Cookie")


def _asked(url: str) -> JarRequest:
    """A request, as far as the jar looks at one."""
    return JarRequest(url)  # noqa: S310 - nothing is opened


class _Jarred:
    """A response, as far as the jar looks at one."""

    def __init__(self, cookies: list[str]) -> None:
        self._message = Message()
        for each in cookies:
            self._message["Set-Cookie"] = each

    def info(self) -> Message:
        return self._message


class Exchange:
    """One request on its way, through redirects and better tokens, and its response.

    What is overridden is called once each at the most, and must not raise: `accept` or `refused` with the
    response, `failed` if there is none. Nothing is called after `stop`.
    """

    def __init__(self, network: Network, request: HttpRequest) -> None:
        self.network = network
        self.request = request
        self.started = False
        """True if any byte of it may have been sent, and the server has not said that it did not run it."""
        self.stopped = False
        self._connection: HttpConnection | None = None
        self._body: Body | None = None
        self._been: tuple[str, ...] = ()  # the URLs that have redirected it

    def accept(self, head: Head, connection: HttpConnection) -> Body:
        """The response is good: return what takes its body."""
        raise NotImplementedError

    async def refused(self, head: Head, explanation: bytes, /) -> None:
        """The response is an error, or a redirect that is not followed; `explanation` is of its body."""
        raise NotImplementedError

    def failed(self, error: HttpFailure, /) -> None:
        """There is no response: `Unreachable`, `Dropped`, or why there is no token."""
        raise NotImplementedError

    def stop(self) -> None:
        """End it now: hang up, or take it back."""
        if self.stopped:
            return
        self.stopped = True
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        else:
            self.network.forget(self)

    # --- as the request that waits for a connection

    def go(self, connection: HttpConnection) -> None:
        try:
            data = self.request.encode(through=connection.through)
        except Unreachable as error:
            connection.close()
            self.give_up(error)
            return
        self._connection, self.started = connection, True
        connection.send(data, self)

    def give_up(self, error: HttpFailure) -> None:
        """There will be no response."""
        if not self.stopped:
            self.stopped = True
            self.failed(error)

    # --- as the one who is told of the response

    def begun(self, head: Head, connection: HttpConnection) -> None:
        network = self.network
        network.answered = True
        if head.cookies:
            network.cookies.take(str(self.request.url), head)
        if head.status_code in _GOOD:
            self._body = self.accept(head, connection)
        else:
            self._body = Prefix(head, connection, lambda begun: network.spawn(self._judge, head, begun))

    def came(self, piece: bytes) -> None:
        if self._body is not None:
            self._body.feed(piece)

    def ended(self, piece: bytes) -> None:
        self._connection = None
        if self._body is not None:
            self._body.end(piece)

    def dropped(self, error: Dropped) -> None:
        self._connection = None
        if self._body is not None:
            self._body.drop(error)
        elif not self.stopped:
            self.network.spawn(self._explain, error)

    async def _explain(self, error: Dropped) -> None:
        """Fail, for a refused handshake if that is the reason."""
        refusal = await self.network.find_refusal(error)
        if refusal is None:
            self.give_up(error)
            return
        found = Unreachable(str(refusal))
        found.__cause__ = refusal
        self.give_up(found)

    async def _judge(self, head: Head, prefix: bytes) -> None:
        """Send the request again, if that can help; else it is refused."""
        try:
            again = await self._again(head)
        except HttpFailure as error:
            self.give_up(error)
            return
        if self.stopped:
            return
        if again:
            self._body = None
            self.network.send(self)
        else:
            await self.refused(head, prefix)

    async def _again(self, head: Head) -> bool:
        """Prepare the request to be sent again; False if that would be in vain."""
        if self.stopped:
            return False
        status, authorizer = head.status_code, self.network.authorizer
        if status in _UNAUTHORIZED and authorizer is not None:
            self.started = False  # it did not run
            return await authorizer.refused(self.request, head)
        location, before = redirect_of(self.request, head), self.request.url
        if location is None or not follows(self.request, head, location):
            return False
        been = (*self._been, str(before))
        if len(been) > MAX_REDIRECTS or str(location) in been:  # where it may have run already
            return False
        self._been = been
        self.request.url = replace(location, userinfo=before.userinfo, direct=before.direct)
        return True


def redirect_of(request: HttpRequest, head: Head) -> Url | None:
    """The target of a redirect; None if the response is none, or the target cannot be read."""
    if head.status_code not in REDIRECTS or "location" not in head.headers:
        return None
    try:
        return read_url(urljoin(str(request.url), head.headers["location"]))
    except (HttpFailure, ValueError):
        return None


def follows(request: HttpRequest, head: Head, location: Url) -> bool:
    """True if a redirect is followed: it keeps the method, and leads to the same origin, or to its https."""
    if request.method != "GET" and head.status_code not in _SAME_METHOD:
        return False
    url = request.url
    if location.userinfo:
        return False
    is_upgrade = (
        (url.scheme, location.scheme) == ("http", "https")
        and url.port is None
        and location.port is None
        and url.host == location.host
    )
    return url.origin == location.origin or is_upgrade


class Network:
    """The connections to one server, and what all requests to it have in common."""

    def __init__(
        self,
        url: Url,
        headers: dict[str, str],
        *,
        trusted: ssl.SSLContext | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        """Requests have these `headers`. `trusted` are the certificates for https."""
        self.url = url
        self.authorizer = authorizer
        self.cookies = FewCookies()
        self.answered = False
        """True once the server has answered anything."""
        self.headers = Headers({name.lower(): value for name, value in headers.items()})
        """Those of all requests."""
        self.headers.setdefault("user-agent", USER_AGENT)
        self.headers["accept-encoding"] = ACCEPT_ENCODING
        for name in _OF_THE_MESSAGE:
            self.headers.pop(name, None)
        if url.credentials is not None:
            self.headers.setdefault("authorization", url.credentials)
        self._tasks: set[asyncio.Task[None]] = set()
        self._trusted = trusted
        self._pools: dict[tuple[str, str, int], Pool] = {}
        self._pool: Pool | None = None  # of that URL

    def request(
        self, method: str, headers: dict[str, str], body: bytes = b"", url: Url | None = None
    ) -> HttpRequest:
        """A request with those headers beside those of all."""
        return HttpRequest(method, url or self.url, Headers({**self.headers, **headers}), body)

    def send(self, exchange: Exchange) -> None:
        """Send a request, with a token if there is one."""
        authorizer = self.authorizer
        if authorizer is None or authorizer.authorize_nowait(exchange.request):
            self._submit(exchange)
        else:
            self.spawn(self._authorize, authorizer, exchange)

    async def _authorize(self, authorizer: Authorizer, exchange: Exchange) -> None:
        try:
            await authorizer.authorize(exchange.request)
        except HttpFailure as error:
            exchange.give_up(error)
        else:
            self._submit(exchange)

    def _submit(self, exchange: Exchange) -> None:
        if exchange.stopped:
            return
        request = exchange.request
        if self.cookies.are_any and (cookies := self.cookies.header(str(request.url))) is not None:
            request.headers["cookie"] = cookies
        url = request.url
        if url is not self.url or (pool := self._pool) is None:
            pool = self._pool_of(url)
        pool.send(exchange)

    def _pool_of(self, url: Url) -> Pool:
        pool = self._pools.get(url.origin)
        if pool is None:
            trusted = self._trusted if url.scheme == "http" else self._trusted or ssl_context()
            pool = self._pools[url.origin] = Pool(url, trusted, self.spawn)
            if url is self.url:
                self._pool = pool
        return pool

    def spawn(self, function: Any, *arguments: object) -> None:
        """Run a coroutine function until all is closed; what it raises is logged.

        It outlives a cancellation of the session, whose end is still to be told to the server.
        """
        task = asyncio.get_running_loop().create_task(_contained(function, *arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def forget(self, exchange: Exchange) -> None:
        """Take a request back that waits for a connection."""
        for pool in self._pools.values():
            pool.forget(exchange)

    async def find_refusal(self, error: Dropped) -> ssl.SSLError | None:
        """The server's refusal of the handshake, if it is that by which a request has failed."""
        found = refusal_behind(error)
        if found is None and self.url.scheme == "https" and not self.answered:
            return await find_refusal(self.url, self._trusted)
        return found

    async def reach(self) -> None:
        """Make a connection to the server, or to the proxy on the way, and close it again.

        Raises:
            OSError: None can be made.
        """
        try:
            _, host, port = (proxy_for(self.url) or self.url).origin
        except HttpFailure as error:
            raise OSError(str(error)) from error
        (await open_socket(host, port)).close()

    def renew(self) -> None:
        """Make new connections for all requests from now on; a response that is open may end on its own."""
        for pool in self._pools.values():
            pool.renew()

    async def aclose(self) -> None:
        """Close all connections, and end what is done for them."""
        for pool in self._pools.values():
            pool.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        with anyio.CancelScope(shield=True):  # they wait for nobody
            await asyncio.gather(*tasks, return_exceptions=True)
        for pool in self._pools.values():
            pool.close()  # a connection may just have been made


async def _contained(function: Any, *arguments: Any) -> None:
    try:
        await function(*arguments)
    except Exception as error:  # noqa: BLE001 - the boundary: one request must not cost the session
        contain(error, "http")


@asynccontextmanager
async def open_network(
    url: str,
    headers: dict[str, str] | None,
    *,
    tls: Tls | None = None,
    authorizer: Authorizer | None = None,
    direct: bool = False,
) -> AsyncIterator[Network]:
    """Open the connections to one server, `direct` ones if no proxy is to be used. Redirects to another
    origin are not followed, so no other is shown the certificate of `tls`.

    Raises:
        ConnectionLost: The certificates cannot be used.
        Unreachable: It is no URL of HTTP.
    """
    target = replace(read_url(url), direct=direct)
    trusted: ssl.SSLContext | None = None
    if target.scheme == "https":
        try:
            trusted = await anyio.to_thread.run_sync(ssl_context, tls)  # 20 ms; others have their turn
        except CertificateProblem as problem:
            raise ConnectionLost(f'the certificates in "tls" cannot be used: {problem}') from None
    network = Network(target, headers or {}, trusted=trusted, authorizer=authorizer)
    try:
        yield network
    finally:
        await network.aclose()
