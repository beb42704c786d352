"""The client behind a call (`Caller`), and handles to the connected ones (`ClientHandle`).

There are three ways to reach a client: directly on its stream (the fast path), with the request that the
SDK's server is handling, and between requests over its connection. Notifications never wait: the channel or a
task of their own delivers them in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpx.core.catalog.extensions import UI, carried
from mcpx.core.catalog.model import JSON
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.gateway.clients.identity import (
    Connection,
    Declared,
    client_of,
    connection_of,
    is_of_this_machine,
    request_outbound,
)
from mcpx.core.gateway.clients.outbox import NotificationOutbox, RequestQueue, size_of
from mcpx.core.protocol.context import (
    NO_CAPABILITIES,
    Caller,
    Capabilities,
    InputAnswers,
    OnStep,
    read_capabilities,
)
from mcpx.core.protocol.messages import encode_for_server
from mcpx.core.servers.relay.clients import LOG, ConnectedClients
from mcpx.core.text import kind_of
from mcpx.core.wire import envelope

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.shared.dispatcher import CallOptions, Outbound
    from mcp_types import ClientCapabilities


def capabilities_of(declared: Declared | ClientCapabilities | None) -> Capabilities:
    """The capabilities in a client's declaration before 2026-07-28: of the extensions, those of both eras."""
    if declared is None:
        return NO_CAPABILITIES
    if isinstance(declared, Declared):
        return read_capabilities(envelope.encode(declared))
    given = declared.model_dump(by_alias=True, mode="json", exclude_none=True)
    if (extensions := given.pop("extensions", None)) and (kept := carried(extensions)):
        given["extensions"] = kept
    return read_capabilities(envelope.encode(given))


def shows_apps(connection: Connection) -> bool:
    """Return True if a client has declared that it shows apps: it keeps their tools apart."""
    declared = connection.client_capabilities
    return declared is not None and UI in (declared.extensions or {})


def capabilities_in(params: Mapping[str, Any] | None) -> Capabilities:
    """The capabilities in the envelope of a request of 2026-07-28."""
    given = ((params or {}).get("_meta") or {}).get(envelope.CLIENT_CAPABILITIES_META_KEY)
    return NO_CAPABILITIES if given is None else read_capabilities(envelope.encode(given))


def _options(on_progress: OnStep | None) -> CallOptions | None:
    """The options of a request to a client."""
    if on_progress is None:
        return None

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        await on_progress(progress, total, message)

    return {"on_progress": progressed}


def own_logger(params: JSON, peer: str | None) -> JSON:
    """A log message as a peer at the endpoint of that server gets it: the logger as the server named it."""
    if peer is None:
        return params
    shown = str(params.get("logger", ""))
    if shown.startswith(f"{peer}/"):
        return {**params, "logger": shown[len(peer) + 1 :]}
    return {name: value for name, value in params.items() if name != "logger"} if shown == peer else params


async def _ask_over(outbound: Outbound, method: str, params: JSON, on_progress: OnStep | None) -> JSON:
    return await outbound.send_raw_request(method, params, _options(on_progress))


class ConnectionHandle:
    """A client of the revisions before 2026-07-28, between its requests."""

    def __init__(self, connection: Connection, hub: HubView, outbox: NotificationOutbox) -> None:
        self.client = client_of(connection)
        self.log_level: str | None = None
        self._hub = hub
        self._connection = connection
        self._outbox = outbox

    def caller(self) -> Caller:
        """The client as it is asked outside its calls, which alone know where they come from."""
        return Caller(
            client=self.client,
            capabilities=capabilities_of(self._connection.client_capabilities),
            modern=False,
            is_peer=self._hub.endpoint.peer is not None,
            level=self.log_level,
            log=partial(self.notify, LOG),
            ask=partial(_ask_over, self._connection.outbound),
        )

    def move(self, hub: HubView) -> None:
        """Note that it is at another endpoint."""
        self._hub = hub

    @property
    def confined(self) -> bool:
        return self._connection.bearer is not None

    def sees(self, server: str) -> bool:
        return not self._hub.hides(server)

    def notify(self, method: str, params: JSON) -> None:
        if method == LOG:
            params = own_logger(params, self._hub.endpoint.peer)
        self._outbox.send(self._connection, method, params)


class Writer(Protocol):
    """Takes answers."""

    def write(self, *pieces: envelope.Bytes) -> None:
        """Send an answer in pieces."""


class Wire(Protocol):
    """The carrier of requests: a stream, or one POST of HTTP. See `WireDispatcher`."""

    fast_cancels: dict[envelope.RequestId, Callable[[], None]]

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> JSON:
        """Ask the client, and wait for its answer."""

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Send a notification."""

    @property
    def channel(self) -> Writer:
        """The channel for answers."""

    @property
    def take_slowly(self) -> Callable[[envelope.RequestId, str, msgspec.Raw], None]:
        """Has the SDK's handlers serve a request that the fast path has had."""

    def spawn(self, function: Callable[..., Any], *arguments: object) -> None:
        """Run a coroutine function."""

    def notify_lossy(self, method: str, params: envelope.Bytes | None) -> None:
        """Send a progress or log message."""

    def notify_progress(self, token: envelope.RequestId, members: bytes) -> None:
        """Send progress on a request."""


class StreamLog(msgspec.Struct):
    """A sender of log messages with a request of ours; at 2026-07-28 open until that is answered."""

    wire: Wire
    peer: str | None
    is_open: bool = True

    def __call__(self, params: JSON) -> None:
        if self.is_open:
            self.wire.notify_lossy(LOG, envelope.encode(own_logger(params, self.peer)))


def stream_caller(
    wire: Wire,
    client: object,
    capabilities: Capabilities,
    *,
    clients: ConnectedClients | None = None,
    level: str | None = None,
    peer: str | None = None,
    is_local: bool = True,
) -> Caller:
    """The client on a wire of ours: for all its calls, or without `clients` (2026-07-28) for one.

    With `peer` it is another MCPX, at the endpoint of that server. Its calls may come from several clients
    there, so at 2026-07-28 each counts as one of its own: no question goes to the wrong person. Nor is it
    known where that person sits.
    """
    return Caller(
        client=client if peer is None or clients is not None else object(),
        capabilities=capabilities,
        modern=clients is None,
        is_local=is_local and peer is None,
        is_peer=peer is not None,
        level=level,
        sessions=None if clients is None else clients.handles,
        log=StreamLog(wire, peer),
        ask=partial(_ask_over, wire),
    )


def answers_in(given: Mapping[str, Any] | None) -> InputAnswers | None:
    """Read the answers that the client brings to a request that it repeats, in its params.

    Raises:
        MCPError: It cannot be read.
    """
    params = given or {}
    responses, state = params.get("inputResponses"), params.get("requestState")
    if responses is None and state is None:
        return None
    if state is not None and not isinstance(state, str):
        raise envelope.MCPError(
            envelope.INVALID_PARAMS, f"requestState must be a string, got {kind_of(state)}; nothing was sent"
        )
    encoded = b"" if responses is None else encode_for_server(responses, "inputResponses")
    return InputAnswers(encoded, state)


def asked_caller(
    client: object,
    connection: Connection,
    outbound: Outbound,
    params: Mapping[str, Any] | None,
    *,
    is_local: bool = True,
) -> Caller:
    """The client as it is asked before its request is served; `params` has those of 2026-07-28."""
    modern = params is not None
    return Caller(
        client=client,
        capabilities=capabilities_in(params) if modern else capabilities_of(connection.client_capabilities),
        modern=modern,
        is_local=is_local,
        ask=partial(_ask_over, outbound),
    )


def request_caller(ctx: ServerRequestContext[Any, Any], hub: HubView, queue: RequestQueue) -> Caller:
    """The client whose request the SDK's server is handling; as peer it is as on streams."""
    session, peer = ctx.session, hub.endpoint.peer
    connection, outbound = connection_of(session), request_outbound(session)
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS

    def log(params: JSON) -> None:
        params = own_logger(params, peer)
        queue.put(partial(outbound.notify, LOG, params), size_of(params))

    is_near = connection.bearer is None and is_of_this_machine(session)
    return Caller(
        client=object() if modern and peer is not None else client_of(connection),
        capabilities=capabilities_in(ctx.params)
        if modern
        else capabilities_of(connection.client_capabilities),
        modern=modern,
        is_local=peer is None and is_near,
        is_peer=peer is not None,
        level=((ctx.params or {}).get("_meta") or {}).get(envelope.LOG_LEVEL_META_KEY),
        sessions=None if modern else hub.clients.handles,
        log=log,
        ask=partial(_ask_over, outbound),
    )
