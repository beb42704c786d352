"""The carrier of a direct session's messages on a link, as bytes.

It sends under ids that its caller chose, and hands everything that the server sends of its own accord
to a `ServerMessages`, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
import anyio.abc
import msgspec
from mcp.shared import inbound

from mcpx.core.catalog.model import JSON, Catalogue
from mcpx.core.protocol.context import TASK_METHODS
from mcpx.core.protocol.requests import OnAnswer as OnRawAnswer
from mcpx.core.protocol.requests import Passed
from mcpx.core.servers.in_flight import Sent
from mcpx.core.servers.passthrough.messages import NOTHING, elements_of, members_of, value_of
from mcpx.core.wire import envelope
from mcpx.core.wire.dispatcher import WireDispatcher
from mcpx.core.wire.enclosed import one_line
from mcpx.core.wire.outgoing import OnAnswer, Outgoing

if TYPE_CHECKING:
    from mcp.shared.dispatcher import DispatchContext
    from mcp.shared.transport_context import TransportContext

    Context = DispatchContext[TransportContext]

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
    """The headers of one session's messages, where they have such (HTTP)."""

    def __init__(self, schemas: ToolSchemas) -> None:
        self._schemas = schemas

    def of(self, method: str, params: envelope.Bytes, _about: object = None) -> dict[str, str]:
        """The headers that repeat parts of a message (2026-07-28)."""
        members = members_of(bytes(params))
        version = value_of(members_of(members.get("_meta", NOTHING)).get(envelope.PROTOCOL_VERSION_META_KEY))
        if not isinstance(version, str):
            return {}
        headers = {envelope.MCP_PROTOCOL_VERSION_HEADER: version, envelope.MCP_METHOD_HEADER: method}
        named_by = "taskId" if method in TASK_METHODS else inbound.NAME_BEARING_METHODS.get(method, "")
        name = value_of(members.get(named_by))
        if isinstance(name, str):
            headers[envelope.MCP_NAME_HEADER] = inbound.encode_header_value(name)
        if method == "tools/call" and isinstance(name, str):
            headers |= self._of_arguments(name, value_of(members.get("arguments")))
        return headers

    def _of_arguments(self, tool: str, arguments: Any) -> dict[str, str]:
        schema = self._schemas.of(tool)
        if schema is None or not isinstance(arguments, Mapping):
            return {}
        try:
            if inbound.find_invalid_x_mcp_header(schema) is not None:
                return {}
            return inbound.mcp_param_headers(inbound.x_mcp_header_map(schema), arguments)
        except Exception:  # noqa: BLE001 - the SDK's reading of a schema that may be anything
            return {}


NOT_CANCELLABLE: Final = frozenset({"initialize", "server/discover"})


class ServerMessages(Protocol):
    """Takes what a server sends of its own accord; `about` is the request on whose stream it came."""

    def take_notification(self, method: str, params: msgspec.Raw, about: Passed | None) -> None: ...

    def take_request(
        self,
        server_id: envelope.RequestId,
        method: str,
        params: msgspec.Raw,
        about: Passed | None,
        answer: OnRawAnswer,
    ) -> None: ...


class Carrier:
    """One open link, on which messages go as bytes. Only `run` waits, and serves until the link ends."""

    def __init__(self, wire: WireDispatcher, server: ServerMessages, headers: Headers) -> None:
        self._wire = wire
        self._server = server
        wire.headers_of = headers.of
        wire.receiver.fast = self._take_request
        wire.receiver.on_notification = self._take_notification

    def start(
        self,
        request_id: envelope.RequestId,
        method: str,
        params: msgspec.Raw | bytes,
        about: Passed | None,
        answer: OnAnswer,
    ) -> Sent:
        """Send a request. `answer` is called once; after a lost link perhaps not at all."""
        outgoing = self._wire.outgoing
        given = bytes(params) if params else None
        outgoing.call_as(request_id, envelope.escaped(method), given, answer, about=about)
        return _SentOnWire(outgoing, request_id, method)

    def notify(self, method: str, params: msgspec.Raw | bytes) -> None:
        """Send a notification."""
        self._wire.send_notification(method, bytes(params) if params else None)

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        await self._wire.run(_no_request, _no_notification, task_status=task_status)

    def _take_request(
        self, wire: WireDispatcher, request_id: envelope.RequestId, method: str, params: msgspec.Raw
    ) -> bool:
        def answered(answer: msgspec.Raw) -> None:
            wire.channel.write(*answer_line(request_id, answer))

        self._server.take_request(request_id, method, params, wire.receiver.about, answered)
        return True

    def _take_notification(self, method: str, params: msgspec.Raw) -> bool:
        self._server.take_notification(method, params, self._wire.receiver.about)
        return True


def answer_line(request_id: envelope.RequestId, answer: msgspec.Raw) -> list[envelope.Bytes]:
    """The message with that answer."""
    return [b'{"jsonrpc":"2.0","id":' + envelope.encode(request_id) + b",", one_line(bytes(answer)), b"}\n"]


class _SentOnWire:
    __slots__ = ("_method", "_outgoing", "_request_id")

    def __init__(self, outgoing: Outgoing, request_id: envelope.RequestId, method: str) -> None:
        self._outgoing = outgoing
        self._request_id = request_id
        self._method = method

    def recall(self) -> bool:
        return self._outgoing.recall(self._request_id)

    def cancel(self, reason: str) -> None:
        if self._method in NOT_CANCELLABLE:
            self._outgoing.discard(self._request_id)
        else:
            self._outgoing.cancel(self._request_id, reason)


async def _no_request(_context: Context, method: str, _params: Mapping[str, Any] | None) -> dict[str, Any]:
    raise envelope.MCPError(envelope.METHOD_NOT_FOUND, method)  # never: the carrier takes them all before


async def _no_notification(_context: Context, _method: str, _params: Mapping[str, Any] | None) -> None:
    """Never called, as above."""
