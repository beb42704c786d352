"""Passing a request on to the replica that holds what it needs, and its answer back.

The request goes over a connection of its own, which nobody has used before: where that cannot be opened, the
holder has provably read nothing. It is sent once. A stream comes back event by event; any other answer is
taken whole before its first byte goes on, so that one that is lost on the way becomes an error that says so.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpx2

from mcpx.errors import MCPXError

CONNECT_TIMEOUT_S: Final = 3.0
WRITE_TIMEOUT_S: Final = 60.0
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
"""After 25 s without a sign of life from the holder's machine the connection is lost."""
_NOT_PASSED_ON: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization te trailer transfer-encoding upgrade"
    b" host content-length accept-encoding expect".split()
)
_NOT_PASSED_BACK: Final = frozenset(
    {b"connection", b"keep-alive", b"transfer-encoding", b"content-length", b"date", b"server", b"vary"}
)
_CORS: Final = b"access-control-"  # each replica adds its own

Headers = list[tuple[bytes, bytes]]


class HolderGoneError(MCPXError):
    """No connection could be opened: the holder has read nothing."""


class AnswerLostError(MCPXError):
    """The connection was lost after the request had been sent, or while it was."""


class Answer:
    """The answer of a holder, as it comes."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers: Headers = [
            (name, value)
            for name, value in ((name.lower(), value) for name, value in response.headers.raw)
            if name not in _NOT_PASSED_BACK and not name.startswith(_CORS)
        ]
        self.is_stream = response.headers.get("content-type", "").startswith("text/event-stream")

    async def whole(self) -> bytes:
        """All of it.

        Raises:
            AnswerLostError: It ended too early.
        """
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        """Its parts.

        Raises:
            AnswerLostError: It ended too early.
        """
        try:
            async for chunk in self._response.aiter_raw():
                yield chunk
        except httpx2.HTTPError as error:
            raise AnswerLostError(str(error) or type(error).__name__) from error


class Forwarder:
    """The connections to the other replicas."""

    def __init__(self) -> None:
        options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
        options += [
            (socket.IPPROTO_TCP, getattr(socket, name), value)
            for name, value in _KEEPALIVE
            if hasattr(socket, name)
        ]
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
        transport = httpx2.AsyncHTTPTransport(
            limits=limits, retries=0, trust_env=False, socket_options=options
        )
        timeout = httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S, write=WRITE_TIMEOUT_S)
        self._client = httpx2.AsyncClient(
            transport=transport, timeout=timeout, follow_redirects=False, trust_env=False
        )

    @asynccontextmanager
    async def send(self, origin: str, target: bytes, headers: Headers, body: bytes) -> AsyncIterator[Answer]:
        """Send a request, once; its answer, while the context lasts.

        `target` is the client's own text: it goes out as it is and is never part of a URL, in which it could
        name another host.

        Raises:
            HolderGoneError: The holder has read nothing.
            AnswerLostError: It may have.
        """
        passed = [(name, value) for name, value in headers if name.lower() not in _NOT_PASSED_ON]
        passed.append((b"accept-encoding", b"identity"))
        request = httpx2.Request("POST", origin, headers=passed, content=body)
        request.extensions = {"timeout": self._client.timeout.as_dict(), "target": target}
        try:
            response = await self._client.send(request, stream=True)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise HolderGoneError(str(error) or type(error).__name__) from error
        except httpx2.HTTPError as error:
            raise AnswerLostError(str(error) or type(error).__name__) from error
        try:
            yield Answer(response)
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close them."""
        await self._client.aclose()
