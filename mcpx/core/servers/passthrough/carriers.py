"""Carriers of a direct session's messages on a link: as bytes on a stream, or by the SDK's dispatcher.

A carrier sends under ids that its caller chose, and hands everything that the server sends of its own accord
to a `ServerMessages`, in order.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

import anyio
import anyio.abc
import msgspec
from mcp import MCPError
from mcp.shared.dispatcher import CallOptions, DispatchContext, Dispatcher
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.transport_context import TransportContext
from mcp_types import METHOD_NOT_FOUND, PROTOCOL_VERSION_META_KEY

from mcpx.core.catalog.model import JSON, Catalogue
from mcpx.core.protocol.context import TASK_METHODS
from mcpx.core.protocol.requests import OnAnswer as OnRawAnswer
from mcpx.core.protocol.requests import Passed
from mcpx.core.servers.in_flight import Sent
from mcpx.core.servers.passthrough.messages import NOTHING, elements_of, members_of, result_of, value_of
from mcpx.core.servers.session.sdk_session import REQUEST
from mcpx.core.servers.transport.exchange import CURRENT_EXCHANGE, Exchange, settle
from mcpx.core.servers.transport.link import Link
from mcpx.core.wire import envelope
from mcpx.core.wire.dispatcher import WireDispatcher
from mcpx.core.wire.enclosed import encode_read, one_line
from mcpx.core.wire.envelope import RequestId, escaped
from mcpx.core.wire.outgoing import OnAnswer, Outgoing

_MARK: Final = b"x-mcp-header"
MAX_LEARNT: Final = 10_000


class ToolSchemas:
    """The schemas of one server's tools: those of its `catalogue`, or else of a client's own listing."""

    def __init__(self, catalogue: Callable[[], Catalogue | None]) -> None:
        self._catalogue = catalogue
        self._learnt: dict[str, msgspec.Raw] = {}

    def learn(self, listing: msgspec.Raw) -> None:
        """Remember the schemas in a result of tools/list that want parameters in headers."""
        if _MARK not in bytes(listing):
            return
        for tool in elements_of(members_of(listing).get("tools", NOTHING)):
            members = members_of(tool)
            name, schema = value_of(members.get("name")), members.get("inputSchema", NOTHING)
            if isinstance(name, str) and (len(self._learnt) < MAX_LEARNT or name in self._learnt):
                self._learnt[name] = msgspec.Raw(bytes(schema))

    def of(self, tool: str) -> JSON | None:
        """The schema of a tool's arguments; None where it is not known."""
        catalogue = self._catalogue()
        found = catalogue.tools.get(tool) if catalogue is not None else None
        learnt = value_of(self._learnt.get(tool)) if found is None else found.input_schema
        return learnt if isinstance(learnt, dict) else None


class Headers:
    """The headers of one session's messages."""

    def __init__(self, schemas: ToolSchemas) -> None:
        self.version: str | None = None
        """The revision that `initialize` has settled on (before 2026-07-28)."""
        self._schemas = schemas

    def of(self, method: str, params: msgspec.Raw | bytes) -> dict[str, str]:
        """The headers of a message."""
        members = members_of(params)
        version = value_of(members_of(members.get("_meta", NOTHING)).get(PROTOCOL_VERSION_META_KEY))
        if not isinstance(version, str):
            is_first = self.version is None or method == "initialize"
            return {} if is_first else {MCP_PROTOCOL_VERSION_HEADER: str(self.version)}
        headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: method}
        named_by = "taskId" if method in TASK_METHODS else NAME_BEARING_METHODS.get(method, "")
        name = value_of(members.get(named_by))
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
        if method == "tools/call" and isinstance(name, str):
            headers |= self._of_arguments(name, value_of(members.get("arguments")))
        return headers

    def _of_arguments(self, tool: str, arguments: Any) -> dict[str, str]:
        schema = self._schemas.of(tool)
        if schema is None or not isinstance(arguments, Mapping):
            return {}
        try:
            if find_invalid_x_mcp_header(schema) is not None:
                return {}
            return mcp_param_headers(x_mcp_header_map(schema), arguments)
        except Exception:  # noqa: BLE001 - the SDK's reading of a schema that may be anything
            return {}


NOT_CANCELLABLE: Final = frozenset({"initialize", "server/discover"})
Context = DispatchContext[TransportContext]


class ServerMessages(Protocol):
    """Takes what a server sends of its own accord; `about` is the request on whose stream it came."""

    def take_notification(self, method: str, params: msgspec.Raw, about: Passed | None) -> None: ...

    def take_request(
        self,
        server_id: RequestId,
        method: str,
        params: msgspec.Raw,
        about: Passed | None,
        answer: OnRawAnswer,
    ) -> None: ...


class Carrier(Protocol):
    """One open link. Only `run` waits, and serves until the link ends."""

    def start(
        self,
        request_id: RequestId,
        method: str,
        params: msgspec.Raw | bytes,
        about: Passed | None,
        answer: OnAnswer,
    ) -> Sent:
        """Send a request. `answer` is called once; after a lost link perhaps not at all."""

    def notify(self, method: str, params: msgspec.Raw | bytes) -> None: ...

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = ...) -> None: ...


# --- streams


class WireCarrier:
    """Sends and takes bytes on a stream."""

    def __init__(self, wire: WireDispatcher, server: ServerMessages) -> None:
        self._wire = wire
        self._server = server
        wire.receiver.fast = self._take_request
        wire.receiver.on_notification = self._take_notification

    def start(
        self,
        request_id: RequestId,
        method: str,
        params: msgspec.Raw | bytes,
        _about: Passed | None,
        answer: OnAnswer,
    ) -> Sent:
        outgoing = self._wire.outgoing
        outgoing.call_as(request_id, escaped(method), bytes(params) if params else None, answer)
        return _SentOnWire(outgoing, request_id, method)

    def notify(self, method: str, params: msgspec.Raw | bytes) -> None:
        self._wire.channel.write(*envelope.notification(escaped(method), bytes(params) if params else None))

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        await self._wire.run(_no_request, _no_notification, task_status=task_status)

    def _take_request(
        self, wire: WireDispatcher, request_id: RequestId, method: str, params: msgspec.Raw
    ) -> bool:
        def answered(answer: msgspec.Raw) -> None:
            wire.channel.write(*answer_line(request_id, answer))

        self._server.take_request(request_id, method, params, None, answered)
        return True

    def _take_notification(self, method: str, params: msgspec.Raw) -> bool:
        self._server.take_notification(method, params, None)
        return True


def answer_line(request_id: RequestId, answer: msgspec.Raw) -> list[envelope.Bytes]:
    """The message with that answer."""
    return [b'{"jsonrpc":"2.0","id":' + envelope.encode(request_id) + b",", one_line(bytes(answer)), b"}\n"]


class _SentOnWire:
    __slots__ = ("_method", "_outgoing", "_request_id")

    def __init__(self, outgoing: Outgoing, request_id: RequestId, method: str) -> None:
        self._outgoing = outgoing
        self._request_id = request_id
        self._method = method

    def recall(self) -> bool:
        return False  # what the server has read is known by position

    def cancel(self, reason: str) -> None:
        if self._method in NOT_CANCELLABLE:
            self._outgoing.discard(self._request_id)
        else:
            self._outgoing.cancel(self._request_id, reason)


async def _no_request(_context: Context, method: str, _params: Mapping[str, Any] | None) -> dict[str, Any]:
    raise MCPError(METHOD_NOT_FOUND, method)  # never: the carrier takes them all before


async def _no_notification(_context: Context, _method: str, _params: Mapping[str, Any] | None) -> None:
    """Never called, as above."""


# --- HTTP


class HttpCarrier:
    """Sends through the SDK's dispatcher, with a task for each request."""

    def __init__(
        self,
        dispatcher: Dispatcher[TransportContext],
        server: ServerMessages,
        headers: Headers,
        tasks: anyio.abc.TaskGroup,
    ) -> None:
        self._dispatcher = dispatcher
        self._server = server
        self._headers = headers
        self._tasks = tasks

    def start(
        self,
        request_id: RequestId,
        method: str,
        params: msgspec.Raw | bytes,
        about: Passed | None,
        answer: OnAnswer,
    ) -> Sent:
        sent = _SentOverHttp(bytes(params) or b"{}", answer)
        opts: CallOptions = {
            "request_id": request_id,
            "headers": self._headers.of(method, params),
            "cancel_on_abandon": method not in NOT_CANCELLABLE,
        }
        self._tasks.start_soon(self._send, method, opts, sent, about)
        return sent

    async def _send(self, method: str, opts: CallOptions, sent: _SentOverHttp, about: Passed | None) -> None:
        CURRENT_EXCHANGE.set(sent.exchange)  # in this task only
        REQUEST.set(about)  # what comes in on its stream belongs to it
        with sent.scope:
            request = self._dispatcher.send_raw_request(method, None, opts)
            await settle(request, sent.exchange, sent.answer)

    def notify(self, method: str, params: msgspec.Raw | bytes) -> None:
        opts: CallOptions = {"headers": self._headers.of(method, params)}
        decoded = json.loads(bytes(params)) if params else None
        self._tasks.start_soon(partial(self._dispatcher.notify, method, decoded, opts))

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        await self._dispatcher.run(self._take_request, self._take_notification, task_status=task_status)

    async def _take_request(
        self, context: Context, method: str, params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        found: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()

        def answered(answer: msgspec.Raw) -> None:
            if not found.done():
                found.set_result(answer)

        self._server.take_request(context.request_id or 0, method, encode_read(params), _about(), answered)
        answer = await found
        result = result_of(answer)
        if result is not None:
            return dict(value_of(result) or {})
        error = value_of(members_of(b"{" + bytes(answer) + b"}").get("error")) or {}
        raise MCPError(error.get("code", 0), str(error.get("message")), error.get("data"))

    async def _take_notification(
        self, _context: Context, method: str, params: Mapping[str, Any] | None
    ) -> None:
        self._server.take_notification(method, encode_read(params), _about())


class _SentOverHttp:
    __slots__ = ("answer", "exchange", "scope")

    def __init__(self, params: bytes, answer: OnAnswer) -> None:
        self.answer = answer
        # the SDK keeps the exchange, and sees neither params nor result
        self.exchange = Exchange(lambda error: answer(None, error), encode_params=lambda _id: params)
        self.scope = anyio.CancelScope()

    def recall(self) -> bool:
        return self.exchange.recall()

    def cancel(self, _reason: str) -> None:
        self.exchange.abandon()
        self.scope.cancel()


def _about() -> Passed | None:
    request = REQUEST.get()
    return request if isinstance(request, Passed) else None


def open_carrier(link: Link, server: ServerMessages, headers: Headers, tasks: anyio.abc.TaskGroup) -> Carrier:
    """The carrier for a link."""
    if link.wire is not None:
        return WireCarrier(link.wire, server)
    return HttpCarrier(link.dispatcher, server, headers, tasks)
