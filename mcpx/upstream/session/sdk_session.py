"""The SDK's client session, with questions and log messages taken out before it parses them.

All touch points with the inside of the SDK's session are in this file. Questions pass as they came, not
through models that would drop what they do not know. What MCPX says that it can do: towards a server of the
older revisions everything, because it shakes hands before its clients come, and what a client cannot do is
refused when it is asked; towards 2026-07-28, in each request, exactly what the client behind it declared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final

import mcp_types as types
import msgspec
from mcp import ClientSession
from mcp.shared.dispatcher import CallOptions, DispatchContext, Dispatcher
from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map
from mcp.shared.transport_context import TransportContext
from mcp_types import CLIENT_CAPABILITIES_META_KEY, LOG_LEVEL_META_KEY
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_HANDSHAKE_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)

from mcpx.catalog.model import ToolInfo
from mcpx.upstream.context import QUESTIONS
from mcpx.upstream.relay.clients import LOG
from mcpx.upstream.relay.logs import LogRelay
from mcpx.upstream.relay.server_requests import COMPLETED, Asking, as_object
from mcpx.upstream.requests import Request
from mcpx.upstream.session.greeting import read_initialize
from mcpx.wire.dispatcher import WireDispatcher

REQUEST: ContextVar[Request | None] = ContextVar("REQUEST", default=None)
"""The request that a task sends over HTTP. The SDK hands the context of a request's task on to whatever comes
in on that request's stream, which is how a message is known to belong to it."""

CHANGES: Final = frozenset(f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts"))
UPDATED: Final = "notifications/resources/updated"
EVERYTHING: Final = types.ClientCapabilities(
    sampling=types.SamplingCapability(
        context=types.SamplingContextCapability(), tools=types.SamplingToolsCapability()
    ),
    elicitation=types.ElicitationCapability(
        form=types.FormElicitationCapability(), url=types.UrlElicitationCapability()
    ),
    roots=types.RootsCapability(list_changed=True),
)


class PassingSession(ClientSession):
    """A client session that answers for the clients behind it.

    `on_change` is called when a list has changed, `on_updated` with the URI of a resource that has.
    """

    def __init__(
        self,
        dispatcher: Dispatcher[TransportContext],
        *,
        client_info: types.Implementation,
        asking: Asking,
        logs: LogRelay,
        on_change: Callable[[], None],
        on_updated: Callable[[str], None],
    ) -> None:
        super().__init__(dispatcher=dispatcher, client_info=client_info)
        self._asking = asking
        self._logs = logs
        self._on_change = on_change
        self._on_updated = on_updated
        self._is_stream = isinstance(dispatcher, WireDispatcher)
        if isinstance(dispatcher, WireDispatcher):
            asking.watch(dispatcher)

    # --- the handshake

    async def initialize(self) -> types.InitializeResult:
        """As the SDK's, but takes what the official clients take from a server.

        Raises:
            MCPError: The server refused it, or the connection ended.
            RuntimeError: It names a revision that is not known.
            ValidationError: Its answer cannot be understood.
        """
        params = types.InitializeRequestParams(
            protocol_version=LATEST_HANDSHAKE_VERSION,
            capabilities=self._build_capabilities(LATEST_HANDSHAKE_VERSION),
            client_info=self._client_info,
        )
        said = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        result = read_initialize(await self.ask_raw("initialize", said))
        if result.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
            raise RuntimeError(f"the server speaks an unknown revision: {result.protocol_version[:100]}")
        self.adopt(result)
        await self.send_notification(types.InitializedNotification())
        return result

    # --- what it says of itself

    def _build_capabilities(self, version: str) -> types.ClientCapabilities:
        return types.ClientCapabilities() if version in MODERN_PROTOCOL_VERSIONS else EVERYTHING

    def adopt(self, result: types.InitializeResult | types.DiscoverResult) -> None:
        """As the SDK's; and each 2026-07-28 request says what the client behind it can do."""
        super().adopt(result)
        self._logs.modern = isinstance(result, types.DiscoverResult)
        if self._logs.modern:
            stamp = self._stamp

            def stamp_for_caller(data: dict[str, Any], opts: CallOptions) -> None:
                stamp(data, opts)
                request = REQUEST.get()
                if request is not None and request.origin.caller is not None:
                    meta = data["params"]["_meta"]
                    meta[CLIENT_CAPABILITIES_META_KEY] = msgspec.json.decode(
                        request.origin.caller.capabilities.encoded
                    )
                    if request.origin.caller.log_level is not None:
                        meta[LOG_LEVEL_META_KEY] = request.origin.caller.log_level

            self._stamp = stamp_for_caller

    # --- what has no model of its own

    @property
    def ended(self) -> bool:
        """Whether the connection has ended, where that is known: over HTTP each request has its own."""
        return isinstance(self._dispatcher, WireDispatcher) and self._dispatcher.outgoing.closed

    async def ask_raw(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request. Raises MCPError."""
        data: dict[str, Any] = {"method": method, "params": params}
        opts: CallOptions = {}
        self._stamp(data, opts)
        return await self._dispatcher.send_raw_request(method, data["params"], opts)

    async def ask_page(self, method: str, cursor: str | None) -> msgspec.Raw | dict[str, Any]:
        """Ask for a page of a list: its result, as it came where the transport is ours.

        Raises:
            MCPError: The server refused it, or the connection ended.
            MalformedMessage: The answer cannot be read; so for ResponseTooLarge.
        """
        data: dict[str, Any] = {"method": method}
        if cursor is not None:
            data["params"] = {"cursor": cursor}
        opts: CallOptions = {}
        self._stamp(data, opts)
        if isinstance(self._dispatcher, WireDispatcher):
            return await self._dispatcher.send_for_bytes(method, data.get("params"), opts)
        return await self._dispatcher.send_raw_request(method, data.get("params"), opts)

    def header_problem(self, tool: ToolInfo) -> str | None:
        """What is wrong with the parameters that this tool wants in HTTP headers (2026-07-28).

        A client must leave such a tool out. Those of a tool that is taken are known from now on.
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

    # --- what comes from the server

    async def _on_request(
        self, dctx: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        if method in QUESTIONS:
            return await self._asking.answer(dctx, method, as_object(params), REQUEST.get())
        return await super()._on_request(dctx, method, params)

    def _intercept_notification(self, method: str, params: Mapping[str, Any] | None) -> bool:
        """On a stream, messages are judged in the order in which they come, and none costs a task."""
        if not self._is_stream:
            return super()._intercept_notification(method, params)
        if not super()._intercept_notification(method, params):  # which is for `subscriptions/listen`
            self._take(method, params)
        return True

    async def _on_notify(
        self, _dctx: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> None:
        self._take(method, params)

    def _take(self, method: str, params: Mapping[str, Any] | None) -> None:
        """A notification; of those that are not named here MCPX has no use."""
        if method in CHANGES:
            self._on_change()
        elif params is None:
            return
        elif method == LOG:
            self._logs.take(dict(params), REQUEST.get())
        elif method == UPDATED and isinstance(uri := params.get("uri"), str):
            self._on_updated(uri)
        elif method == COMPLETED:
            self._asking.completed(dict(params))
