"""The requests of a sign-in, within bounds: where they may go, how long they take, how much is read.

Every URL comes from a server that may lie. It must be https, or http on loopback for a server on loopback;
a server with a public address cannot lead to addresses of private networks, which is checked at the
connected socket (`mcpx.oauth.addresses`); through a proxy, which resolves names itself, only addresses that
stand in a URL can be checked. Redirects are followed within their origin only, bodies end at
`MAX_BODY_BYTES`, requests after `REQUEST_TIMEOUT_S`. What libraries log of these requests is dropped: it
quotes URLs and answers, in which there are codes and tokens.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx2
from mcp.shared._httpx_utils import next_request_within_origin
from msgspec import structs

from mcpx.core.config import Http, ServerConfig, Sse
from mcpx.core.config.certificates import CertificateProblem, ssl_context
from mcpx.core.config.server_config import OAuth
from mcpx.core.wire.unreachable import why_unreachable
from mcpx.oauth.addresses import (
    Reach,
    is_ip,
    is_loopback,
    may_lead,
    origin,
    reach_of,
    reach_of_server,
    shown_origin,
)
from mcpx.oauth.errors import Problem, SignInError

REQUEST_TIMEOUT_S: Final = 10.0  # of one request with its redirects and its answer
MAX_BODY_BYTES: Final = 262_144  # of one answer; metadata has a few thousand
MAX_REDIRECTS: Final = 5  # of one request
MAX_URL_LEN: Final = 8192  # characters; a browser takes more, many servers do not
_LOGGERS: Final = (
    "mcp.client.auth.oauth2",
    "httpx2",
    *(f"httpcore2.{name}" for name in ("connection", "http11", "http2", "proxy", "socks")),
)
_DROPPED: Final = frozenset({"content-length", "transfer-encoding", "connection", "set-cookie"})
_silent: ContextVar[bool] = ContextVar("mcpx_oauth_silent", default=False)


def _is_logged(_record: logging.LogRecord) -> bool:
    return not _silent.get()


class OAuthNetwork:
    """The connections of one sign-in, refresh or revocation."""

    def __init__(
        self, server: ServerConfig, client: httpx2.AsyncClient, own_client: httpx2.AsyncClient, reach: Reach
    ) -> None:
        """`own_client` is for the server itself, `client` for all others."""
        self.server = server
        self._client = client
        self._own_client = own_client
        self._origin = origin(httpx2.URL(url_of(server)))
        self._reach = reach
        self._is_local = is_loopback(self._origin[1])

    async def send(self, request: httpx2.Request, *, follow_redirects: bool = True) -> httpx2.Response:
        """Send a request, and read the answer whole. One of any status is returned.

        Raises:
            SignInError: `INSECURE` for a URL or an address that is not allowed, `UNREACHABLE` without an
                answer, `METADATA_REFUSED` for one that is too large.
        """
        host = shown_origin(request.url)
        try:
            with anyio.fail_after(REQUEST_TIMEOUT_S):
                return await self._send(request, MAX_REDIRECTS if follow_redirects else 0)
        except TimeoutError as error:
            text = f"{host} did not answer within {REQUEST_TIMEOUT_S:.0f} s"
            raise SignInError(Problem.UNREACHABLE, text) from error
        except httpx2.HTTPError as error:
            text = f"{host} cannot be reached: {why_unreachable(error)}"
            raise SignInError(Problem.UNREACHABLE, text) from error

    async def _send(self, request: httpx2.Request, redirects: int) -> httpx2.Response:
        for left in range(redirects, -1, -1):
            response = await self._send_once(request)
            following = next_request_within_origin(response) if left else None
            if following is None:
                break
            request = following
        return await self._whole(response)

    async def _send_once(self, request: httpx2.Request) -> httpx2.Response:
        self.check_url(str(request.url), "a URL of the sign-in")
        request.headers.setdefault("Accept", "application/json")
        request.headers["Accept-Encoding"] = "identity"  # nothing can be inflated that is not compressed
        request.extensions = {**request.extensions, "trace": self._check_of(request.url)}
        client = self._own_client if origin(request.url) == self._origin else self._client
        return await client.send(request, stream=True, follow_redirects=False)

    async def _whole(self, response: httpx2.Response) -> httpx2.Response:
        """The response with its body read, and closed."""
        body = bytearray()
        host = shown_origin(response.request.url)
        try:
            if response.headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}:
                text = f"the answer of {host} is compressed, which was not asked for"
                raise SignInError(Problem.METADATA_REFUSED, text)
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                text = f"the answer of {host} is an event stream, which would not end"
                raise SignInError(Problem.METADATA_REFUSED, text)
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    text = f"the answer of {host} is over {MAX_BODY_BYTES} bytes"
                    raise SignInError(Problem.METADATA_REFUSED, text)
        finally:
            with anyio.CancelScope(shield=True):  # closing waits for nobody
                await response.aclose()
        headers = [pair for pair in response.headers.multi_items() if pair[0] not in _DROPPED]
        return httpx2.Response(
            response.status_code, headers=headers, content=bytes(body), request=response.request
        )

    def check_url(self, url: str, what: str) -> None:
        """Refuse a URL that no request of a sign-in may go to, and no browser; `what` names it in the error.

        Raises:
            SignInError: `INSECURE`.
        """
        if len(url) > MAX_URL_LEN:
            raise SignInError(Problem.INSECURE, f"{what} is over {MAX_URL_LEN} characters long")
        try:
            parsed = httpx2.URL(url)
            urlsplit(url)  # the SDK's way to read one, which is stricter
        except (httpx2.InvalidURL, ValueError) as error:
            raise SignInError(Problem.INSECURE, f"{what} is no valid URL") from error
        host = parsed.host
        if parsed.userinfo or not host:
            raise SignInError(
                Problem.INSECURE, f"{what} needs a host, and may name no user: {_shown(parsed)}"
            )
        if parsed.scheme != "https" and not (
            parsed.scheme == "http" and is_loopback(host) and self._is_local
        ):
            text = f"{what} is not https, so no credential goes there: {_shown(parsed)}"
            raise SignInError(Problem.INSECURE, text)
        if is_ip(host):
            self._check_address(parsed, host)

    def _check_address(self, url: httpx2.URL, address: str) -> None:
        reach = reach_of(address)
        if not may_lead(self._reach, reach) or (url.scheme == "http" and reach is not Reach.LOOPBACK):
            where = "this machine" if reach is Reach.LOOPBACK else "a private network"
            text = f"{self.server.name} leads to {shown_origin(url)}, an address of {where}: refused"
            raise SignInError(Problem.INSECURE, text)

    def _check_of(self, url: httpx2.URL) -> Callable[[str, Any], Awaitable[None]]:
        """A hook that refuses a connection to an address that the server may not lead to."""
        host = url.raw_host.decode("ascii")
        direct = True

        async def check(event: str, info: Any) -> None:
            nonlocal direct
            if event == "connection.connect_tcp.started":
                direct = info["host"] == host  # else it is a proxy's
            elif event == "connection.connect_tcp.complete" and direct:
                stream = info["return_value"]
                try:
                    self._check_address(url, stream.get_extra_info("server_addr")[0])
                except BaseException:
                    await stream.aclose()
                    raise

        return check


def url_of(server: ServerConfig) -> str:
    """The URL of a server over HTTP.

    Raises:
        SignInError: `NOT_FOR_PEOPLE` for a server that is not reached by HTTP.
    """
    if isinstance(server.transport, Http | Sse):
        return server.transport.url
    raise SignInError(Problem.NOT_FOR_PEOPLE, f"{server.name} is not reached by HTTP: it has no sign-in")


def oauth_of(server: ServerConfig) -> OAuth:
    """Return the settings by which MCPX signs in to a server over HTTP."""
    transport = server.transport
    return (transport.auth if isinstance(transport, Http | Sse) else None) or OAuth()


def _shown(url: httpx2.URL) -> str:
    """A URL without what may be secret in it."""
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))


@asynccontextmanager
async def open_network(server: ServerConfig) -> AsyncIterator[OAuthNetwork]:
    """Open connections for one sign-in to a server over HTTP.

    Raises:
        SignInError: `NOT_FOR_PEOPLE`, or `INSECURE` for a server whose certificates cannot be used.
    """
    url = httpx2.URL(url_of(server))
    usual, own = await anyio.to_thread.run_sync(_certificates, server)  # 20 ms the first time
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_is_logged)  # adds it once
    token = _silent.set(True)
    try:
        async with (
            httpx2.AsyncClient(timeout=REQUEST_TIMEOUT_S, verify=usual) as client,
            httpx2.AsyncClient(timeout=REQUEST_TIMEOUT_S, verify=own) as own_client,
        ):
            yield OAuthNetwork(server, client, own_client, await _reach(url))
    finally:
        _silent.reset(token)


def _certificates(server: ServerConfig) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Load what servers are known by, and the same for the server itself, which alone is shown `cert`."""
    transport = server.transport
    tls = transport.tls if isinstance(transport, Http | Sse) else None
    try:
        usual = ssl_context(None if tls is None else structs.replace(tls, cert=None))
        return usual, usual if tls is None or tls.cert is None else ssl_context(tls)
    except CertificateProblem as problem:
        text = f'the certificates in "tls" of {server.name} cannot be used: {problem}'
        raise SignInError(Problem.INSECURE, text) from None


async def _reach(url: httpx2.URL) -> Reach:
    """The reach of a server; one whose name is not known here, but perhaps to a proxy, counts as public."""
    if is_loopback(url.host):
        return Reach.LOOPBACK
    if is_ip(url.host):
        return reach_of_server([url.host])
    try:
        with anyio.fail_after(REQUEST_TIMEOUT_S):
            found = await anyio.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError):
        return Reach.PUBLIC
    return reach_of_server(str(each[4][0]) for each in found)
