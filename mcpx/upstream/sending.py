"""How a request leaves for an upstream server: as bytes where the transport is ours, else by the SDK.

Both ways are started without waiting and call back exactly once, with the raw JSON of the result or the
error. What they give back cancels the request at the server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import anyio
import anyio.abc
import mcp_types
import msgspec
from mcp import ClientSession
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from pydantic import TypeAdapter

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
from mcpx.wire.dispatcher import WireDispatcher
from mcpx.wire.outgoing import OnAnswer

Cancel = Callable[[str], None]
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


class Sender(Protocol):
    """Starts requests on one session."""

    def position(self) -> int | None:
        """Where the next request begins in what is sent; None where that is not known."""
        ...

    def send(self, request: Request, on_answer: OnAnswer, on_progress: OnProgress) -> Cancel:
        """Start a request; the result cancels it, given a reason. `on_answer` may be called before."""
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

    def send(self, request: Request, on_answer: OnAnswer, on_progress: OnProgress) -> Cancel:
        outgoing = self._outgoing
        request_id = outgoing.mint()
        token = str(request_id).encode()
        params = b"".join(
            (b"{", *request.params(), b',"_meta":{', self._meta, b'"progressToken":', token, b"}}")
        )
        outgoing.call(request_id, request.method, params, on_answer, on_progress)
        return lambda reason: outgoing.forget(request_id, reason)


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

    def send(self, request: Request, on_answer: OnAnswer, on_progress: OnProgress) -> Cancel:
        scope = anyio.CancelScope()
        self._tasks.start_soon(self._send, request, on_answer, on_progress, scope)
        return lambda _reason: scope.cancel()

    async def _send(
        self, request: Request, on_answer: OnAnswer, on_progress: OnProgress, scope: anyio.CancelScope
    ) -> None:
        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            on_progress(progress, total, message)

        with scope:
            try:
                result = await self._session.send_request(
                    _typed(request), _AS_IT_CAME, progress_callback=progressed
                )
            except Exception as error:  # noqa: BLE001 - the boundary: every failure goes to the caller
                on_answer(None, error)
            else:
                on_answer(msgspec.Raw(msgspec.json.encode(result)), None)


def _typed(request: Request) -> Typed:
    """The request as the SDK has it."""
    params = msgspec.json.decode(b"".join((b"{", *request.params(), b"}")))
    return _TYPES[type(request)].model_validate({"method": request.method, "params": params}, by_name=False)
