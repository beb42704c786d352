"""How a request leaves for an upstream server: as bytes where the transport is ours, else by the SDK.

Both ways are started without waiting and call back exactly once, with the raw JSON of the result or the
error. What they give back is the request on its way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import anyio
import anyio.abc
import mcp_types
import msgspec
from mcp import ClientSession, MCPError
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    LOG_LEVEL_META_KEY,
    PROTOCOL_VERSION_META_KEY,
)
from pydantic import TypeAdapter

from mcpx.upstream.context import Caller
from mcpx.upstream.requests import (
    CallTool,
    Complete,
    GetPrompt,
    OnProgress,
    ReadResource,
    Request,
    Subscribe,
    Unsubscribe,
)
from mcpx.upstream.session.log_level import Telling
from mcpx.upstream.session.sdk_session import REQUEST
from mcpx.upstream.transport.exchange import CURRENT, Dropped, Exchange
from mcpx.wire.dispatcher import WireDispatcher
from mcpx.wire.outgoing import OnAnswer, Outgoing

Typed = (
    mcp_types.CallToolRequest
    | mcp_types.ReadResourceRequest
    | mcp_types.GetPromptRequest
    | mcp_types.CompleteRequest
    | mcp_types.SubscribeRequest
    | mcp_types.UnsubscribeRequest
)
_TYPES: Final[dict[type[Request], type[Typed]]] = {
    CallTool: mcp_types.CallToolRequest,
    ReadResource: mcp_types.ReadResourceRequest,
    GetPrompt: mcp_types.GetPromptRequest,
    Complete: mcp_types.CompleteRequest,
    Subscribe: mcp_types.SubscribeRequest,
    Unsubscribe: mcp_types.UnsubscribeRequest,
}
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

    def congested(self) -> bool:
        """Whether the server does not read what it was sent already."""
        ...

    def on_drained(self, told: Callable[[], None]) -> None:
        """Have `told` called whenever the server reads again."""
        ...

    def send(self, request: Request, on_answer: OnAnswer, on_progress: OnProgress) -> Sent:
        """Start a request. `on_answer` may be called before this returns.

        Raises:
            Exception: The request cannot be put into a message; nothing was sent.
        """
        ...


class WireSender:
    """Bytes to a dispatcher of ours."""

    def __init__(
        self,
        wire: WireDispatcher,
        session: ClientSession,
        client: mcp_types.Implementation,
        telling: Telling,
    ) -> None:
        self._wire = wire
        self._channel = wire.channel
        self._outgoing = wire.outgoing
        self._telling = telling
        self._modern = None if session.discover_result is None else _ModernMeta(session, client)

    def position(self) -> int | None:
        return self._channel.position

    def congested(self) -> bool:
        return self._channel.congested

    def on_drained(self, told: Callable[[], None]) -> None:
        self._wire.on_drained = told

    def send(self, request: Request, on_answer: OnAnswer, on_progress: OnProgress) -> Sent:
        outgoing, caller = self._outgoing, request.origin.caller
        more: list[bytes] = []
        if self._modern is None:
            meta = b""
            if self._telling.has_level and caller is not None:
                self._telling.raise_at_once(caller.log_level)
        else:
            meta = self._modern.of(caller)
            if request.origin.answers is not None:
                more = request.origin.answers.members()
        request_id = outgoing.new_id()
        token = str(request_id).encode()
        params = b"".join(
            (b"{", *request.params(), *more, b',"_meta":{', meta, b'"progressToken":', token, b"}}")
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
        self._outgoing.cancel(self._request_id, reason)


class _ModernMeta:
    """The members that every request of the 2026-07-28 revision carries in `_meta`, in JSON, with a comma.

    They say what the client behind the request can be asked, and which log messages it wants.
    """

    def __init__(self, session: ClientSession, client: mcp_types.Implementation) -> None:
        members = {
            PROTOCOL_VERSION_META_KEY: session.protocol_version,
            CLIENT_INFO_META_KEY: client.model_dump(by_alias=True, mode="json", exclude_none=True),
        }
        self._head = msgspec.json.encode(members)[1:-1] + f',"{CLIENT_CAPABILITIES_META_KEY}":'.encode()
        self._level = f',"{LOG_LEVEL_META_KEY}":"'.encode()

    def of(self, caller: Caller | None) -> bytes:
        """For a request of that client."""
        if caller is None:
            return self._head + b"{},"
        head, level = self._head + caller.capabilities.encoded, caller.log_level
        return head + b"," if level is None else head + self._level + level.encode() + b'",'


class SessionSender:
    """The SDK's session, one task a request: for HTTP, whose speed is the SDK's."""

    def __init__(self, session: ClientSession, tasks: anyio.abc.TaskGroup, telling: Telling) -> None:
        self._session = session
        self._tasks = tasks
        self._telling = telling

    def position(self) -> int | None:
        return None

    def congested(self) -> bool:
        return False  # each request has a connection of its own, and waits for it

    def on_drained(self, told: Callable[[], None]) -> None:
        """It never was congested."""

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
        REQUEST.set(request)  # what comes in on its stream belongs to it
        with scope:
            try:
                if request.origin.caller is not None:
                    await self._telling.raise_first(request.origin.caller.log_level)
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


def _typed(request: Request) -> Typed:
    """The request as the SDK has it."""
    answers = request.origin.answers
    more = [] if answers is None else answers.members()
    params = msgspec.json.decode(b"".join((b"{", *request.params(), *more, b"}")))
    return _TYPES[type(request)].model_validate({"method": request.method, "params": params}, by_name=False)
