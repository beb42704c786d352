"""A client's connection: who the client is, what ends with it, and which connection a request came over.

The SDK's server takes a `Connection` in the place of its own, of which it has every member that is used; so a
client is the same one before and after that server has been loaded. The params of an ordinary `initialize`
are an `Opening`, and those that only the SDK reads are a model of its; both have the same names. A stream
connection (stdio, socket) has one client for its whole life, and so does a session over HTTP. Later revisions
have no sessions over HTTP, and their requests belong to no client, but to their `Bearer`. All that touches
the inside of the SDK's server session is here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import msgspec
from mcp_types.version import LATEST_HANDSHAKE_VERSION

from mcpx.core.catalog.model import JSON
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.protocol.context import ClientId, Origin, client_text, name_kept
from mcpx.core.servers.passthrough.client import DirectClient
from mcpx.core.system.endpoint import PROBE_KEY
from mcpx.core.system.users import this_user
from mcpx.core.telemetry.contained import containing
from mcpx.core.wire.context import WireContext

if TYPE_CHECKING:
    from mcp.server.session import ServerSession
    from mcp.shared.dispatcher import Outbound
    from mcp_types import ClientCapabilities, InitializeRequestParams

    from mcpx.core.policy.tokens import NamedToken
    from mcpx.core.protocol.context import Transport

CLOSE_TIMEOUT_S: Final = 5.0  # for what belongs to a connection to end with it

# --- the params of an ordinary opening; of others the SDK's models judge


class _Roots(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    list_changed: bool | None = None


class _Modes(msgspec.Struct, gc=False, omit_defaults=True):
    """The parts of sampling and elicitation."""

    context: JSON | None = None
    tools: JSON | None = None
    form: JSON | None = None
    url: JSON | None = None


class Declared(msgspec.Struct, gc=False, omit_defaults=True):
    """The capabilities that a client declares."""

    roots: _Roots | None = None
    sampling: _Modes | None = None
    elicitation: _Modes | None = None
    experimental: dict[str, JSON] | None = None
    tasks: None = None  # of 2025-11-25 alone
    extensions: None = None


class _About(msgspec.Struct, rename="camel", gc=False):
    name: str
    version: str
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: None = None


class Opening(msgspec.Struct, rename="camel", gc=False):
    """The params of `initialize`."""

    protocol_version: str
    capabilities: Declared
    client_info: _About
    meta: JSON | None = msgspec.field(name="_meta", default=None)


class _Ends(list[tuple[Any, ...]]):
    """The callbacks for the end of a connection, for a fraction of the memory of an `AsyncExitStack`."""

    __slots__ = ()

    def callback(self, function: Callable[..., object], *arguments: object) -> None:
        """Call this at the end, before what was given earlier."""
        self.append((function, *arguments))

    async def aclose(self) -> None:
        """Call them all, whatever one raises."""
        with ExitStack() as stack:
            for end in self:
                stack.callback(*end)
            self.clear()


class _Happened:
    """An event that nobody waits for, in the place of one with a queue for those who do."""

    __slots__ = ("_is_set",)

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Note that it has happened."""
        self._is_set = True

    def is_set(self) -> bool:
        """Return True if it has."""
        return self._is_set


class Bearer:
    """The HTTP clients that use one token with a name, taken together, and what is theirs.

    No other token's clients get at that. Clients of the default token have no bearer. It is on each request
    that was let in with such a token, and gets from there onto the SDK's connection of the request.
    """

    def __init__(self, token: NamedToken) -> None:
        self.token = token
        self.principal = f"{token.sha256}\0"
        """Tells it from all others, also from a later token of its name (`ClientId.principal`)."""
        self.sessionless = ClientId(sessionless=True, principal=self.principal)
        """Stands for its requests without a session (2026-07-28)."""
        self.direct = DirectClient(None)
        """Stands for the same at transparent endpoints."""


class Connection:
    """The connection of one client. There may be thousands of them that do nothing.

    `client` is the one behind it, for good. Before the handshake nothing is known of it: `client_params` and
    `client_capabilities` are None, and `protocol_version` is the newest of that era.
    """

    __slots__ = (
        "__weakref__",
        "_client_params",
        "bearer",
        "client",
        "client_capabilities",
        "exit_stack",
        "initialized",
        "outbound",
        "protocol_version",
        "session_id",
        "transport",
    )

    def __init__(
        self,
        outbound: Outbound,
        client: ClientId,
        transport: Transport,
        *,
        bearer: Bearer | None = None,
        session_id: str | None = None,
    ) -> None:
        """`outbound` reaches the client between its requests; the bearer was let in for the client."""
        self.outbound = outbound
        self.client = client
        self.transport: Transport = transport
        self.bearer = bearer
        self.session_id = session_id
        self.protocol_version: str = LATEST_HANDSHAKE_VERSION
        self.client_capabilities: Declared | ClientCapabilities | None = None
        self._client_params: Opening | InitializeRequestParams | None = None
        self.initialized = _Happened()
        self.exit_stack = _Ends()

    @property
    def client_params(self) -> Opening | InitializeRequestParams | None:
        """The client's description of itself; setting it sets its capabilities, too."""
        return self._client_params

    @client_params.setter
    def client_params(self, value: Opening | InitializeRequestParams | None) -> None:
        self._client_params = value
        if value is not None:
            self.client_capabilities = value.capabilities

    @property
    def client_name(self) -> str | None:
        """The client's name for itself, from `initialize` or the request's envelope."""
        return None if self._client_params is None else self._client_params.client_info.name

    @property
    def initialize_accepted(self) -> bool:
        """True once the client may send other requests."""
        return self._client_params is not None or self.initialized.is_set()

    async def notify(self, method: str, params: JSON | None = None) -> None:
        """Send a notification, unless the client has left."""
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self.outbound.notify(method, params)

    async def close(self) -> None:
        """End what belongs to the connection, for a bounded time, whatever ends it."""
        with anyio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
            with containing("client left"):  # the boundary: the client has left all the same
                await self.exit_stack.aclose()


def as_sdk(connection: Connection) -> Any:
    """Return the connection as the SDK's server takes it."""
    return connection


# --- the client behind a request


def origin_of(connection: Connection, hub: HubView) -> Origin:
    """Return who is behind a connection, for the audit log."""
    params, bearer = connection.client_params, connection.bearer
    info = None if params is None else params.client_info
    return Origin(
        transport=connection.transport,
        client=None if info is None else client_text(info.name, info.version),
        name=None if info is None else name_kept(info.name),
        user=this_user(),
        profile=hub.endpoint.profile,
        token=None if bearer is None else bearer.token.name,
    )


def is_probe(connection: Connection) -> bool:
    """Return True if MCPX itself is behind the connection, asking in a client's name."""
    params = connection.client_params
    return params is not None and bool(params.meta and params.meta.get(PROBE_KEY))


def connection_of(session: ServerSession) -> Connection:
    """The connection that a request came over."""
    return cast("Connection", session._connection)  # noqa: SLF001 - the SDK has no other way to it


def request_outbound(session: ServerSession) -> Outbound:
    """Return what sends to the client along with the request that is being handled."""
    return session._request_outbound  # noqa: SLF001 - the typed methods drop what they do not know


def wire_context(session: ServerSession) -> WireContext | None:
    """The context of the current request; None where it did not come over a wire of ours."""
    channel = request_outbound(session)
    return channel if isinstance(channel, WireContext) else None


def as_sent(session: ServerSession) -> bytes | msgspec.Raw:
    """The params of the request that is being handled, as the client has sent them.

    The SDK reads them, and of two members by one name it keeps one.
    """
    context = wire_context(session)
    return b"" if context is None else context.raw


def is_of_this_machine(session: ServerSession) -> bool:
    """Return True if the request that is being handled came from this machine."""
    context = wire_context(session)
    return context is None or context.is_local


def client_of(connection: Connection) -> object:
    """Return what identifies the client from request to request.

    Without a session (2026-07-28 over HTTP) each request is a client of its own.
    """
    return connection if connection.client.sessionless else connection.client
