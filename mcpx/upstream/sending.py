"""How a request leaves for an upstream server: as bytes where the transport is ours, else by the SDK.

Both ways are started without waiting and call back exactly once, with the raw JSON of the result or the
error. What they give back is the request on its way.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import anyio
import anyio.abc
import mcp_types
import msgspec
from mcp import ClientSession, MCPError
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from pydantic import TypeAdapter

from mcpx.upstream.exchange import CURRENT, Dropped, Exchange
from mcpx.upstream.requests import CallTool, OnProgress, ReadResource, Request
from mcpx.wire.dispatcher import WireDispatcher
from mcpx.wire.outgoing import OnAnswer, Outgoing

_AS_IT_CAME: Final[TypeAdapter[Any]] = TypeAdapter(dict[str, Any])


class Sent(Protocol):
    """A request on its way."""

    def recall(self) -> bool:
        """Take it back: whether not a byte of it was sent, nor will be, where that can be known."""
        ...

    def cancel(self, reason: str) -> None:
        """Nobody waits any more: tell the server."""
        ...


class Sender(Protocol):
    """Starts requests on one session."""

    def position(self) -> int | None:
        """Where the next request begins in what is sent; None where that is not known."""
        ...

    def send(self, request: Request, on_answer: OnAnswer, on_progress: OnProgress) -> Sent:
        """Start a request. `on_answer` may be called before this returns."""
        ...


class WireSender:
    """Bytes to a dispatcher of ours."""

    def __init__(
        self, wire: WireDispatcher, session: ClientSession, client: mcp_types.Implementation
    ) -> None:
        self._channel = wire.channel
        self._outgoing = wire.outgoing
        self._meta = b"" if session.discover_result is None else _modern_meta(session, client)

    def position(self) -> int | None:
        return self._channel.position

    def send(self, request: Request, on_answer: OnAnswer, on_progress: OnProgress) -> Sent:
        outgoing = self._outgoing
        request_id = outgoing.mint()
        token = str(request_id).encode()
        params = b"".join(
            (b"{", *request.params(), b',"_meta":{', self._meta, b'"progressToken":', token, b"}}")
        )
        outgoing.call(request_id, request.method, params, on_answer, on_progress)
        return _SentOnWire(outgoing, request_id)


class _SentOnWire:
    __slots__ = ("_outgoing", "_request_id")

    def __init__(self, outgoing: Outgoing, request_id: int) -> None:
        self._outgoing = outgoing
        self._request_id = request_id

    def recall(self) -> bool:
        return False  # by now it is in the pipe; what the server has read is known by position

    def cancel(self, reason: str) -> None:
        self._outgoing.forget(self._request_id, reason)


def _modern_meta(session: ClientSession, client: mcp_types.Implementation) -> bytes:
    """The members that every request of the 2026-07-28 revision carries in `_meta`."""
    members = {
        PROTOCOL_VERSION_META_KEY: session.protocol_version,
        CLIENT_INFO_META_KEY: client.model_dump(by_alias=True, mode="json", exclude_none=True),
        CLIENT_CAPABILITIES_META_KEY: {},
    }
    return msgspec.json.encode(members)[1:-1] + b","


class SessionSender:
    """The SDK's session, one task a request: for HTTP, whose speed is the SDK's."""

    def __init__(self, session: ClientSession, tasks: anyio.abc.TaskGroup) -> None:
        self._session = session
        self._tasks = tasks

    def position(self) -> int | None:
        return None

    def send(self, request: Request, on_answer: OnAnswer, on_progress: OnProgress) -> Sent:
        scope = anyio.CancelScope()
        # a failure of the HTTP exchange is told first; the error that the SDK makes of it is not needed then
        exchange = Exchange(lambda error: on_answer(None, error))
        self._tasks.start_soon(self._send, request, on_answer, on_progress, scope, exchange)

        return _SentBySession(exchange, scope)

    async def _send(
        self,
        request: Request,
        on_answer: OnAnswer,
        on_progress: OnProgress,
        scope: anyio.CancelScope,
        exchange: Exchange,
    ) -> None:
        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            on_progress(progress, total, message)

        CURRENT.set(exchange)  # in this task only
        with scope:
            try:
                result = await self._session.send_request(
                    _typed(request), _AS_IT_CAME, progress_callback=progressed
                )
            except MCPError as error:
                exchange.fail(error if exchange.answered else Dropped(error.message))
            except Exception as error:  # noqa: BLE001 - the boundary: every failure goes to the caller
                exchange.fail(error)
            else:
                if not exchange.over:
                    on_answer(msgspec.Raw(msgspec.json.encode(result)), None)


class _SentBySession:
    __slots__ = ("_exchange", "_scope")

    def __init__(self, exchange: Exchange, scope: anyio.CancelScope) -> None:
        self._exchange = exchange
        self._scope = scope

    def recall(self) -> bool:
        return self._exchange.recall()

    def cancel(self, _reason: str) -> None:
        self._exchange.abandon()
        self._scope.cancel()


def _typed(request: Request) -> mcp_types.CallToolRequest | mcp_types.ReadResourceRequest:
    match request:
        case CallTool(name, arguments):
            params = mcp_types.CallToolRequestParams(name=name, arguments=msgspec.json.decode(arguments))
            return mcp_types.CallToolRequest(params=params)
        case ReadResource(uri):
            return mcp_types.ReadResourceRequest(params=mcp_types.ReadResourceRequestParams(uri=uri))
