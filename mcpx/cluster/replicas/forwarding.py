"""Passing a request on to the replica that holds what it needs, its answer back, and the errors of that.

The request goes over a connection of its own, which nobody has used before: where that cannot be opened, the
holder has provably read nothing. It is sent once. A stream comes back event by event; any other answer is
taken whole before its first byte goes on, so that one that is lost on the way becomes an error that says so.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
import msgspec
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from starlette.types import Scope, Send

from mcpx.cluster.replicas.seals import AlteredError, Incoming, Kind
from mcpx.core.gateway.frontends.http.exchange import PEERS
from mcpx.core.gateway.peer.results import encoded_error
from mcpx.core.gateway.tools import definitions as tools
from mcpx.core.protocol.result_address import SERVER
from mcpx.core.system import keepalive
from mcpx.core.wire import envelope
from mcpx.errors import CallError, Code, MCPXError, Outcome

_SHOWN: Final = {
    Kind.APPROVAL: "the question about this call",
    Kind.HELD: "this call, which waits for answers",
    Kind.STATE: "the state of this call",
    Kind.STATELESS: "the state of this call",
    Kind.TASK: "this task",
    Kind.KEPT: "this result",
}
CONNECT_TIMEOUT_S: Final = 3.0
WRITE_TIMEOUT_S: Final = 60.0
_NOT_PASSED_ON: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization te trailer transfer-encoding upgrade"
    b" host content-length accept-encoding expect".split()
)
_NOT_PASSED_BACK: Final = frozenset(
    {b"connection", b"keep-alive", b"transfer-encoding", b"content-length", b"date", b"server", b"vary"}
)
_CORS: Final = b"access-control-"  # each replica adds its own
Headers = list[tuple[bytes, bytes]]


def holder_gone(request: Incoming) -> CallError:
    """The holder cannot be reached, and has read nothing now."""
    what, kind = _SHOWN[request.kind or Kind.STATE], request.kind
    text = f"The replica that holds {what} cannot be reached"
    if kind is Kind.HELD:
        text = f"{text}; the call had been sent to its server, and may have taken effect"
        return CallError(Code.CANCELLED, text, server=SERVER)
    if kind is Kind.TASK:
        text = f"{text}, and the task may be gone; what it did may have taken effect"
        return CallError(Code.SERVER_UNAVAILABLE, text, server=SERVER, outcome=Outcome.UNKNOWN)
    return CallError(Code.SERVER_UNAVAILABLE, f"{text}; nothing was sent: call again", server=SERVER)


def answer_lost(request: Incoming) -> CallError:
    """The holder may have read the request, and its answer is lost."""
    what = _SHOWN[request.kind or Kind.STATE]
    text = f"The connection to the replica that holds {what} was lost before its answer came"
    if request.kind is Kind.KEPT:
        return CallError(Code.SERVER_UNAVAILABLE, f"{text}: read it again", server=SERVER)
    return CallError(Code.SERVER_DIED, f"{text}; it may have taken effect", server=SERVER)


def looping(request: Incoming) -> CallError:
    """The request was passed on already."""
    what = _SHOWN[request.kind or Kind.STATE]
    text = f"Another replica has passed this on for {what}, which is not here either; nothing was sent"
    return CallError(Code.INTERNAL_ERROR, text, server=SERVER, outcome=Outcome.NOT_SENT)


def altered(error: AlteredError) -> CallError:
    """The request brings something that no replica has given out so."""
    text = f"What this request brings back cannot be used: {error}; nothing was sent"
    return CallError(Code.INVALID_ARGUMENTS, text, server=SERVER)


def error_of(scope: Scope, request: Incoming | None, failure: CallError) -> bytes:
    """Answer a failure: as a call of a tool does, where that is what failed at an ordinary endpoint.

    At a peer endpoint it is as all failures there, so that another MCPX reads its outcome.
    """
    head = {"jsonrpc": "2.0", "id": None if request is None else request.id}
    if scope["path"].startswith(PEERS):
        return envelope.encode(head | {"error": msgspec.Raw(encoded_error(failure))})
    is_own = not scope["path"].startswith("/mcp/servers/")
    if request is not None and request.method == "tools/call" and is_own:
        result = {"resultType": "complete"} | tools.failure(failure, structured=True)
        return envelope.encode(head | {"result": result})
    code = INVALID_PARAMS if failure.code is Code.INVALID_ARGUMENTS else INTERNAL_ERROR
    data = {name: value for name, value in failure.to_dict().items() if name != "error"}
    return envelope.encode(head | {"error": {"code": code, "message": str(failure), "data": data}})


async def answer_failure(scope: Scope, body: bytes, send: Send, failure: CallError) -> None:
    """Answer a request with a failure."""
    request = _as_sent(body)
    answer = error_of(scope, request, failure)
    is_for_client = b'"result"' not in answer[:64] and not scope["path"].startswith(PEERS)
    status = 400 if is_for_client and failure.code is Code.INVALID_ARGUMENTS else 200
    headers = with_length([(b"content-type", b"application/json")], len(answer))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


def _as_sent(body: bytes) -> Incoming | None:
    """The id and the method of a request, whatever it brings."""
    try:
        message: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        return None
    return Incoming(message.get("id"), message["method"], b"")


def with_length(headers: list[tuple[bytes, bytes]], length: int) -> list[tuple[bytes, bytes]]:
    """Headers with the length of a body; those of a stream stay as they are."""
    kept = [(name, value) for name, value in headers if name.lower() != b"content-length"]
    if any(name.lower() == b"transfer-encoding" for name, _ in kept):
        return kept
    return [*kept, (b"content-length", b"%d" % length)]


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
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
        transport = httpx2.AsyncHTTPTransport(
            limits=limits, retries=0, trust_env=False, socket_options=keepalive.options()
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
