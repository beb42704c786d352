"""A session with a server: the handshake, requests beside the calls, and what the server sends by itself.

Calls go past it, as bytes (`mcpx.core.servers.session.senders`). Server requests and log messages are passed
on as they came. The capabilities that MCPX declares: to a server of the older revisions all of them, because
the handshake comes before the clients, and what a client cannot do is refused when it is asked; to one of
2026-07-28, in each request, exactly those of the client behind it, and in what MCPX asks by itself, above all
the lists, the extensions that it carries.

The SDK's client session does the same by models of every message, which a daemon had to import before its
first server was there. Of the SDK only the rules for headers are used, and these are run when a server over
HTTP needs them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec
from mcp.shared import inbound
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS

from mcpx.core.catalog.extensions import CARRIED
from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.protocol.context import QUESTIONS
from mcpx.core.protocol.requests import Request, TaskRequest
from mcpx.core.servers.relay.session_relay import SessionRelay
from mcpx.core.servers.session.greeting import (
    Greeting,
    ServerInfo,
    discover_params,
    initialize_params,
    read_discover,
    read_initialize,
    shared_version,
)
from mcpx.core.wire.dispatcher import NO_HEADERS, WireDispatcher
from mcpx.core.wire.envelope import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    METHOD_NOT_FOUND,
    SUBSCRIPTION_ID_META_KEY,
    Bytes,
    MCPError,
)

if TYPE_CHECKING:
    from mcp.shared.dispatcher import CallOptions, DispatchContext
    from mcp.shared.transport_context import TransportContext

DISCOVER_TIMEOUT_S: Final = 10.0  # over HTTP; a process has as long as the connect timeout
CHANGES: Final = frozenset(
    f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts", "skills")
)
"""The announcements that a list has changed; that of skills is no part of their extension."""
UPDATED: Final = "notifications/resources/updated"
LISTEN: Final = "subscriptions/listen"
EVERYTHING: Final[JSON] = {
    "sampling": {"context": {}, "tools": {}},
    "elicitation": {"form": {}, "url": {}},
    "roots": {"listChanged": True},
    "extensions": CARRIED,
}
_OF_NOBODY: Final[JSON] = {"extensions": CARRIED}
"""Those of MCPX's own requests in 2026-07-28: what it lists is for all clients."""
_numbers: Final = count(1)  # of streams: their ids are texts, and so no other request's

_decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class SubscriptionLost(Exception):
    """The server ended a stream of announcements before it had agreed to it."""


class _Stream:
    """An open `subscriptions/listen`: `scope` ends it, `agreed` is what the server has agreed to announce."""

    def __init__(self, on_open: Callable[[JSON], None], on_updated: Callable[[str], None]) -> None:
        self.scope = anyio.CancelScope()
        self.agreed: JSON | None = None
        self._on_open = on_open
        self._on_updated = on_updated

    def open(self, agreed: JSON) -> None:
        """Note what the server has agreed to; the first time counts."""
        if self.agreed is None:
            self.agreed = agreed
            self._on_open(agreed)

    def updated(self, uri: str) -> None:
        """Announce a change of a resource, or of a part of it, if any were agreed to."""
        if self.agreed and self.agreed.get("resourceSubscriptions"):
            self._on_updated(uri)


class PassingSession:
    """A session that passes server requests and log messages on to the clients behind it.

    `client_info` is what MCPX says of itself. `on_change` is called when a list has changed, `on_updated`
    with the URI of a resource that has. Both are called while a message is read: they must neither wait nor
    raise.
    """

    def __init__(
        self,
        dispatcher: WireDispatcher,
        *,
        client_info: JSON,
        relay: SessionRelay,
        on_change: Callable[[], None],
        on_updated: Callable[[str], None],
    ) -> None:
        self.greeting: Greeting | None = None
        """What the server has said of itself, once the handshake is done."""
        self._client_info = client_info
        self._relay = relay
        self._on_change = on_change
        self._on_updated = on_updated
        self._wire = dispatcher
        self._streams: dict[object, _Stream] = {}
        self._header_maps: dict[str, Any] = {}
        dispatcher.headers_of = self._headers_for
        relay.watch(dispatcher)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Take the server's messages; what is open when the body ends is cancelled."""
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._wire.run, self._on_request, self._on_notify, self._intercept)
            yield
            tasks.cancel_scope.cancel()

    # --- what the server has said

    @property
    def modern(self) -> bool:
        """True if the handshake has settled on 2026-07-28."""
        return self.greeting is not None and self.greeting.modern

    @property
    def protocol_version(self) -> str | None:
        """The revision that was agreed on; None before the handshake."""
        return None if self.greeting is None else self.greeting.version

    @property
    def server_capabilities(self) -> JSON:
        """The capabilities that the server declares; empty before the handshake."""
        return {} if self.greeting is None else self.greeting.capabilities

    @property
    def server_info(self) -> ServerInfo | None:
        """The server's name and version, if it has said them."""
        return None if self.greeting is None else self.greeting.info

    # --- the handshake

    async def request_initialize(self) -> Greeting:
        """Request a session of the handshake era.

        Raises:
            MCPError: The server refused it, or the connection ended.
            RuntimeError: It names a revision that is not known.
            NotMCP: Its answer is not a result of `initialize`.
        """
        params = initialize_params(self._client_info, self._capabilities(LATEST_HANDSHAKE_VERSION))
        return read_initialize(await self._request_greeting("initialize", params, {}))

    async def request_discover(self) -> Greeting:
        """Ask a server of 2026-07-28 what it offers; once more, if it refuses but names a revision we know.

        Raises:
            MCPError: The server refused it, did not answer over HTTP in time, or the connection ended.
            RuntimeError: It speaks no revision of that era that is known.
            NotMCP: Its answer is not a result of `server/discover`.
        """
        try:
            return await self._request_discover(LATEST_MODERN_VERSION)
        except MCPError as error:
            version = shared_version(error)
            if version is None:
                raise
        return await self._request_discover(version)

    async def _request_discover(self, version: str) -> Greeting:
        # a process may not have begun to read
        timeout_s = None if self._wire.is_stream else DISCOVER_TIMEOUT_S
        return read_discover(await self._discover(version, timeout_s))

    async def discover(self) -> None:
        """Ask a server of 2026-07-28 for a sign of life, for as long as the caller waits.

        Raises:
            MCPError: The server refused it, or the connection ended.
        """
        await self._discover(LATEST_MODERN_VERSION, None)

    async def _discover(self, version: str, timeout_s: float | None) -> JSON:
        method = "server/discover"
        params = discover_params(self._client_info, self._capabilities(version), version)
        opts: CallOptions = {"headers": {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: method}}
        if timeout_s is not None:
            opts["timeout"] = timeout_s
        return await self._request_greeting(method, params, opts)

    async def _request_greeting(self, method: str, params: JSON, opts: CallOptions) -> JSON:
        opts["cancel_on_abandon"] = False  # the protocol forbids it
        return await self._wire.send_raw_request(method, params, opts)

    async def accept(self, greeting: Greeting) -> None:
        """Adopt what the server said, and end the handshake."""
        self.greeting = greeting
        if not greeting.modern:
            await self.notify_raw("notifications/initialized")

    def _capabilities(self, version: str) -> JSON:
        return _OF_NOBODY if version in MODERN_PROTOCOL_VERSIONS else EVERYTHING

    # --- requests of MCPX's own

    @property
    def ended(self) -> bool:
        """True if the connection has ended; not over HTTP, where each request has its own."""
        return self._wire.outgoing.closed

    async def ask_raw(self, method: str, params: JSON | None) -> JSON:
        """Send a request and wait for its result, which is not looked at.

        Raises:
            MCPError: The server refused it, or the connection ended.
        """
        stamped, opts = self._stamped(method, params)
        return await self._wire.send_raw_request(method, stamped, opts)

    async def ask_page(self, method: str, cursor: str | None) -> msgspec.Raw:
        """Request a page of a list; return its result as it came.

        Raises:
            MCPError: The server refused it, or the connection ended.
            ResponseTooLarge: The answer is longer than a message may be.
            MalformedMessage: The answer is no message.
        """
        params, opts = self._stamped(method, None if cursor is None else {"cursor": cursor})
        return await self._wire.send_for_bytes(method, params, opts)

    async def notify_raw(self, method: str) -> None:
        """Send a notification without parameters of its own."""
        params, opts = self._stamped(method, None)
        await self._wire.notify(method, params, opts)

    def _stamped(self, method: str, params: JSON | None) -> tuple[JSON | None, CallOptions]:
        """The parameters with what every request of the revision brings, and the headers that repeat them."""
        if (greeting := self.greeting) is None:
            return params, {}
        if not greeting.modern:
            return params, {"headers": {MCP_PROTOCOL_VERSION_HEADER: greeting.version}}
        stamp = discover_params(self._client_info, self._capabilities(greeting.version), greeting.version)
        given = params or {}
        stamped = given | {"_meta": {**(given.get("_meta") or {}), **stamp["_meta"]}}
        headers = {MCP_PROTOCOL_VERSION_HEADER: greeting.version, MCP_METHOD_HEADER: method}
        if given and isinstance(name := given.get(inbound.NAME_BEARING_METHODS.get(method, "")), str):
            headers[MCP_NAME_HEADER] = inbound.encode_header_value(name)
        return stamped, {"headers": headers}

    async def listen(
        self,
        wanted: JSON,
        *,
        on_open: Callable[[JSON], None],
        on_updated: Callable[[str], None] = lambda _uri: None,
    ) -> None:
        """Hold a stream of announcements of 2026-07-28 open, until the server ends it.

        `wanted` is the filter of `subscriptions/listen`. `on_open` is called with what the server has agreed
        to of it, `on_updated` with each URI that it announces on the stream; changed lists are taken as ever.

        Raises:
            MCPError: The server refused it, or the connection ended.
            SubscriptionLost: The server ended it before it had agreed.
        """
        params, opts = self._stamped(LISTEN, {"notifications": wanted})
        opts["request_id"] = request_id = f"listen-{next(_numbers)}"
        stream = self._streams[request_id] = _Stream(on_open, on_updated)
        try:
            with stream.scope:
                await self._wire.send_raw_request(LISTEN, params, opts)
                stream.open({})  # it has ended in order: there was nothing to agree to
        finally:
            del self._streams[request_id]
        if stream.agreed is None:
            raise SubscriptionLost(f"the server ended {LISTEN} before it had agreed to it")

    # --- headers that repeat parts of a message (2026-07-28)

    def _headers_for(self, _method: str, _params: Bytes, request: Request | None) -> Mapping[str, str]:
        """The HTTP headers of a request or notification."""
        if request is None or (greeting := self.greeting) is None or not greeting.modern:
            return NO_HEADERS
        headers = {MCP_PROTOCOL_VERSION_HEADER: greeting.version, MCP_METHOD_HEADER: request.method}
        if isinstance(request, TaskRequest):
            headers[MCP_NAME_HEADER] = inbound.encode_header_value(request.task_id)
        elif (name_key := inbound.NAME_BEARING_METHODS.get(request.method)) is not None:
            given = _decode_members(b"".join((b"{", *request.params(), b"}")))
            name = msgspec.json.decode(given.get(name_key, b"null"))
            if isinstance(name, str):
                headers[MCP_NAME_HEADER] = inbound.encode_header_value(name)
                if (known := self._header_maps.get(name)) and request.method == "tools/call":
                    arguments = msgspec.json.decode(given.get("arguments", b"{}"))
                    headers |= inbound.mcp_param_headers(known, arguments or {})
        return headers

    def header_problem(self, tool: ToolInfo) -> str | None:
        """Find a problem with the parameters that a tool wants in HTTP headers (2026-07-28); None if none.

        A client must leave out a tool with a problem. The parameters of any other are remembered.
        """
        if not self.modern:
            return None
        try:
            problem = inbound.find_invalid_x_mcp_header(tool.input_schema)
            if problem is None:
                self._header_maps[tool.name] = inbound.x_mcp_header_map(tool.input_schema)
        except Exception as error:  # noqa: BLE001 - the SDK's reading of a schema that may be anything
            return f"its x-mcp-header cannot be read: {type(error).__name__}"
        return None if problem is None else f"invalid x-mcp-header: {problem}"

    def keep_headers(self, names: set[str]) -> None:
        """Forget the header parameters of all tools but these."""
        self._header_maps = {name: each for name, each in self._header_maps.items() if name in names}

    # --- from the server

    async def _on_request(
        self, context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> JSON:
        if method in QUESTIONS:
            return await self._relay.answer(context, method, params)
        if method == "ping" and not self.modern:
            return {}
        raise MCPError(METHOD_NOT_FOUND, "Method not found", method)

    async def _on_notify(self, *_notification: object) -> None:
        """Do nothing: `_intercept` has taken it."""

    def _intercept(self, method: str, params: Mapping[str, Any] | None) -> bool:
        """Take a notification at once: in the order of the messages, and without a task."""
        if self._streams and params is not None:
            self._take_for_stream(method, params)
        if method in CHANGES:
            self._on_change()
        elif params is None:
            return True
        elif method == UPDATED and isinstance(uri := params.get("uri"), str):
            self._on_updated(uri)
        else:
            named = self._wire.receiver.about
            self._relay.handle_notification(method, dict(params), named, logs_on_request=self.modern)
        return True

    def _take_for_stream(self, method: str, params: Mapping[str, Any]) -> None:
        """Take what an open stream brings: the server's agreement, an update, its end."""
        if method == "notifications/cancelled":
            named = params.get("requestId")
            if isinstance(named, str) and (ended := self._streams.get(named)) is not None:
                ended.scope.cancel()
            return
        meta = params.get("_meta")
        named = meta.get(SUBSCRIPTION_ID_META_KEY) if isinstance(meta, Mapping) else None
        if not isinstance(named, str) or (stream := self._streams.get(named)) is None:
            return
        agreed, uri = params.get("notifications"), params.get("uri")
        if method == "notifications/subscriptions/acknowledged" and isinstance(agreed, dict):
            stream.open(agreed)
        elif method == UPDATED and isinstance(uri, str):
            stream.updated(uri)
