"""The SDK's client session, with server requests and log messages taken out before it parses them.

The only module that uses private parts of the SDK's session. Server requests are passed on as they came, not
through models that would drop unknown members. The capabilities that MCPX declares: to a server of the older
revisions all of them, because the handshake comes before the clients, and what a client cannot do is refused
when it is asked; to one of 2026-07-28, in each request, exactly those of the client behind it, and in what
MCPX asks by itself, above all the lists, the extensions that it carries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import mcp_types as types
import msgspec
from mcp import ClientSession, MCPError
from mcp.shared.dispatcher import CallOptions, DispatchContext
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    find_invalid_x_mcp_header,
    x_mcp_header_map,
)
from mcp.shared.transport_context import TransportContext
from mcp_types.version import (
    LATEST_HANDSHAKE_VERSION,
    LATEST_MODERN_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)

from mcpx.core.catalog.extensions import CARRIED
from mcpx.core.catalog.model import ToolInfo
from mcpx.core.protocol.context import QUESTIONS
from mcpx.core.protocol.requests import Request, TaskRequest
from mcpx.core.servers.relay.session_relay import SessionRelay
from mcpx.core.servers.session.greeting import (
    Greeting,
    discover_params,
    initialize_params,
    read_discover,
    read_initialize,
    shared_version,
)
from mcpx.core.wire.dispatcher import NO_HEADERS, WireDispatcher
from mcpx.core.wire.envelope import Bytes

DISCOVER_TIMEOUT_S: Final = 10.0  # over HTTP; a process has as long as the connect timeout
CHANGES: Final = frozenset(
    f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts", "skills")
)
"""The announcements that a list has changed; that of skills is no part of their extension."""
UPDATED: Final = "notifications/resources/updated"
EVERYTHING: Final = types.ClientCapabilities(
    sampling=types.SamplingCapability(
        context=types.SamplingContextCapability(), tools=types.SamplingToolsCapability()
    ),
    elicitation=types.ElicitationCapability(
        form=types.FormElicitationCapability(), url=types.UrlElicitationCapability()
    ),
    roots=types.RootsCapability(list_changed=True),
    extensions=CARRIED,
)
_OF_NOBODY: Final = types.ClientCapabilities(extensions=CARRIED)
"""Those of MCPX's own requests in 2026-07-28: what it lists is for all clients."""


_decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class PassingSession(ClientSession):
    """A client session that passes server requests and log messages on to the clients behind it.

    `on_change` is called when a list has changed, `on_updated` with the URI of a resource that has. Both are
    called while a message is read: they must neither wait nor raise.
    """

    def __init__(
        self,
        dispatcher: WireDispatcher,
        *,
        client_info: types.Implementation,
        relay: SessionRelay,
        on_change: Callable[[], None],
        on_updated: Callable[[str], None],
    ) -> None:
        super().__init__(dispatcher=dispatcher, client_info=client_info)
        self._relay = relay
        self._modern = False
        self._on_change = on_change
        self._on_updated = on_updated
        self._wire = dispatcher
        dispatcher.headers_of = self._headers_for
        relay.requests.watch(dispatcher)

    # --- the handshake

    async def request_initialize(self) -> types.InitializeResult:
        """Request a session of the handshake era.

        Raises:
            MCPError: The server refused it, or the connection ended.
            RuntimeError: It names a revision that is not known.
            ValidationError: Its answer is not a result of `initialize`.
        """
        capabilities = self._build_capabilities(LATEST_HANDSHAKE_VERSION)
        params = initialize_params(self._client_info, capabilities)
        return read_initialize(await self._request_greeting("initialize", params, {}))

    async def request_discover(self) -> types.DiscoverResult:
        """Ask a server of 2026-07-28 what it offers; once more, if it refuses but names a revision we know.

        Raises:
            MCPError: The server refused it, did not answer over HTTP in time, or the connection ended.
            RuntimeError: It speaks no revision of that era that is known.
            ValidationError: Its answer is not a result of `server/discover`.
        """
        try:
            return await self._request_discover(LATEST_MODERN_VERSION)
        except MCPError as error:
            version = shared_version(error)
            if version is None:
                raise
        return await self._request_discover(version)

    async def _request_discover(self, version: str) -> types.DiscoverResult:
        method = "server/discover"
        params = discover_params(self._client_info, self._build_capabilities(version), version)
        opts: CallOptions = {"headers": {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: method}}
        if not self._wire.is_stream:  # a process may not have begun to read
            opts["timeout"] = DISCOVER_TIMEOUT_S
        return read_discover(await self._request_greeting(method, params, opts))

    async def _request_greeting(
        self, method: str, params: dict[str, Any], opts: CallOptions
    ) -> dict[str, Any]:
        opts["cancel_on_abandon"] = False  # the protocol forbids it
        return await self._dispatcher.send_raw_request(method, params, opts)

    async def accept(self, greeting: Greeting) -> None:
        """Adopt what the server said, and end the handshake."""
        self.adopt(greeting)
        if isinstance(greeting, types.InitializeResult):
            await self.send_notification(types.InitializedNotification())

    # --- what it declares

    def _build_capabilities(self, version: str) -> types.ClientCapabilities:
        return _OF_NOBODY if version in MODERN_PROTOCOL_VERSIONS else EVERYTHING

    def adopt(self, result: types.InitializeResult | types.DiscoverResult) -> None:
        """Adopt a handshake as the SDK does."""
        super().adopt(result)
        self._modern = isinstance(result, types.DiscoverResult)

    # --- requests without a model of the SDK

    @property
    def ended(self) -> bool:
        """True if the connection has ended; not over HTTP, where each request has its own."""
        return self._wire.outgoing.closed

    async def ask_raw(self, method: str, params: dict[str, Any] | None) -> dict[str, Any]:
        """Send a request and wait for its result, which is not looked at.

        Raises:
            MCPError: The server refused it, or the connection ended.
        """
        data: dict[str, Any] = {"method": method} if params is None else {"method": method, "params": params}
        opts: CallOptions = {}
        self._stamp(data, opts)
        return await self._dispatcher.send_raw_request(method, data.get("params"), opts)

    def _headers_for(self, _method: str, _params: Bytes, request: Request | None) -> Mapping[str, str]:
        """The HTTP headers that repeat parts of a request (2026-07-28)."""
        if not self._modern or request is None:
            return NO_HEADERS
        params: dict[str, Any] = {}
        if (name_key := NAME_BEARING_METHODS.get(request.method)) is not None:
            given = _decode_members(b"".join((b"{", *request.params(), b"}")))
            params[name_key] = name = msgspec.json.decode(given.get(name_key, b"null"))
            if isinstance(name, str) and name in self._x_mcp_header_maps:
                params["arguments"] = msgspec.json.decode(given.get("arguments", b"{}"))
        opts: CallOptions = {}
        self._stamp({"method": request.method, "params": params}, opts)
        headers = opts["headers"]
        if isinstance(request, TaskRequest):
            headers[MCP_NAME_HEADER] = encode_header_value(request.task_id)
        return headers

    async def ask_page(self, method: str, cursor: str | None) -> msgspec.Raw:
        """Request a page of a list; return its result as it came.

        Raises:
            MCPError: The server refused it, or the connection ended.
            ResponseTooLarge: The answer is longer than a message may be.
            MalformedMessage: The answer is no message.
        """
        data: dict[str, Any] = {"method": method}
        if cursor is not None:
            data["params"] = {"cursor": cursor}
        opts: CallOptions = {}
        self._stamp(data, opts)
        return await self._wire.send_for_bytes(method, data.get("params"), opts)

    def header_problem(self, tool: ToolInfo) -> str | None:
        """Find a problem with the parameters that a tool wants in HTTP headers (2026-07-28); None if none.

        A client must leave out a tool with a problem. The parameters of any other are remembered.
        """
        if self.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return None
        try:
            problem = find_invalid_x_mcp_header(tool.input_schema)
            if problem is None:
                self._x_mcp_header_maps[tool.name] = x_mcp_header_map(tool.input_schema)
        except Exception as error:  # noqa: BLE001 - the SDK's reading of a schema that may be anything
            return f"its x-mcp-header cannot be read: {type(error).__name__}"
        return None if problem is None else f"invalid x-mcp-header: {problem}"

    def keep_headers(self, names: set[str]) -> None:
        """Forget the header parameters of all tools but these."""
        kept = {name: each for name, each in self._x_mcp_header_maps.items() if name in names}
        self._x_mcp_header_maps = kept

    async def notify_raw(self, method: str) -> None:
        """Send a notification without parameters."""
        data: dict[str, Any] = {"method": method}
        opts: CallOptions = {}
        self._stamp(data, opts)
        await self._dispatcher.notify(method, None, opts)

    # --- from the server

    async def _on_request(
        self, dctx: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        if method in QUESTIONS:
            return await self._relay.requests.answer(dctx, method, params)
        if method == "ping" and not self._modern:  # without the SDK's models, which nothing else here needs
            return {}
        return await super()._on_request(dctx, method, params)

    def _intercept_notification(self, method: str, params: Mapping[str, Any] | None) -> bool:
        """Take a notification at once: in the order of the messages, and without a task."""
        if not super()._intercept_notification(method, params):  # which is for `subscriptions/listen`
            self._take(method, params)
        return True

    def _take(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Pass a notification on; MCPX has no use for others than these."""
        if method in CHANGES:
            self._on_change()
        elif params is None:
            return
        elif method == UPDATED and isinstance(uri := params.get("uri"), str):
            self._on_updated(uri)
        else:
            named = self._wire.receiver.about
            self._relay.handle_notification(method, dict(params), named, logs_on_request=self._modern)
