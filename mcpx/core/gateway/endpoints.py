"""The endpoints of one MCPX: the server that a client of each endpoint speaks to, and clients on streams.

Made once by the composition root and shared by all frontends, so that the clients of an endpoint get the same
server, whichever way they come. A server is made when its first client comes; one that does not show all
servers lasts for as long as somebody holds it, because there may be any number of such endpoints.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread
import structlog

from mcpx.core.daemon.hub import Hub
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.eras import EraServer
from mcpx.core.gateway.fast.path import FastPath
from mcpx.core.gateway.offer import Offer
from mcpx.core.policy.profiles import by_own_names
from mcpx.core.protocol.context import ClientId, Transport
from mcpx.core.system.endpoint import Endpoint
from mcpx.core.system.light_imports import light_sdk
from mcpx.core.wire.channel import Channel
from mcpx.core.wire.dispatcher import WireDispatcher
from supervisors import Incarnation

if TYPE_CHECKING:
    from mcpx.core.gateway.peer.server import PeerServer
    from mcpx.core.gateway.server import GatewayServer

log = structlog.get_logger()
MAX_MALFORMED_LOGGED: Final = 3  # lines of one client that are no messages; each is answered
MIN_GRACE_S: Final = 1.0  # for a client's own end at the end of MCPX
MAX_UNSENT_BYTES: Final = 30 << 20  # that a client leaves unread, but for large results
DRAIN_POLL_S: Final = 0.01  # between looks for open requests, once the client has closed its end


class Endpoints:
    """Gives clients their servers."""

    def __init__(self, hub: Hub, clients: ClientSessions) -> None:
        self.hub = hub
        self.clients = clients
        self._servers: WeakValueDictionary[Endpoint, GatewayServer] = WeakValueDictionary()
        self._peers: WeakValueDictionary[Endpoint, PeerServer] = WeakValueDictionary()
        self._of_all: dict[Endpoint, GatewayServer] = {}  # those that show all servers
        self._offers: WeakValueDictionary[Endpoint, Offer] = WeakValueDictionary()
        self._offered_to_all: dict[Endpoint, Offer] = {}  # likewise

    def gateway(self, endpoint: Endpoint) -> GatewayServer:
        """Return the server of an endpoint at which servers are shown to clients."""
        server = self._servers.get(endpoint)
        if server is None:
            make = _imported("server").GatewayServer
            server = self._servers[endpoint] = make(self.hub, self.clients, endpoint, self.offer(endpoint))
            if endpoint.shows_all:
                self._of_all[endpoint] = server
        return server

    def offer(self, endpoint: Endpoint) -> Offer:
        """Return the offer of an endpoint at which servers are shown to clients."""
        offer = self._offers.get(endpoint)
        if offer is None:
            offer = self._offers[endpoint] = Offer(self.hub, self.clients, endpoint, self._loaded)
            if endpoint.shows_all:
                self._offered_to_all[endpoint] = offer
        return offer

    async def _loaded(self, endpoint: Endpoint) -> GatewayServer:
        """Return the SDK's server of an endpoint, imported in a thread: others are served meanwhile."""
        await anyio.to_thread.run_sync(_imported, "server")
        return self.gateway(endpoint)

    def peer(self, endpoint: Endpoint) -> PeerServer:
        """Return the server of an endpoint for other MCPX."""
        server = self._peers.get(endpoint)
        if server is None:
            server = self._peers[endpoint] = _imported("peer.server").PeerServer(self.clients, endpoint)
        return server

    def stream_client(
        self,
        endpoint: Endpoint,
        channel: Channel,
        transport: Transport = "stdio",
        client: ClientId | None = None,
    ) -> StreamClient:
        """Return what serves a client on a stream of that kind; `client` is what is known of it."""
        client = client or ClientId()
        self.hub.projects.enter(client)
        endpoint = by_own_names(endpoint, self.hub.config)
        if endpoint.server is not None:
            connect = _imported("transparent.clients").TransparentConnection
            serve = partial(connect, self.hub, endpoint.server, transport, client=client)
        elif endpoint.peer is not None:
            connect = _imported("peer.fast_path").peer_connection
            serve = partial(connect, self.peer(endpoint), transport, client=client)
        else:
            serve = partial(ClientPlace(self, endpoint, client).connect, transport)
        return StreamClient(self.hub, channel, serve)


def _imported(module: str) -> ModuleType:
    """Import a module of this folder that needs the SDK's server: 10 MB, for those who want it."""
    with light_sdk():
        return import_module(f"mcpx.core.gateway.{module}")


class ClientPlace:
    """The endpoint of one client on a stream: the one it came to, with the servers of its project."""

    def __init__(self, endpoints: Endpoints, endpoint: Endpoint, client: ClientId) -> None:
        self.hub = endpoints.hub
        self._endpoints = endpoints
        self._endpoint = endpoint
        self._client = client
        self._wire: WireDispatcher | None = None

    def offer(self) -> Offer:
        """Return the offer of the endpoint where the client belongs now."""
        return self._endpoints.offer(self.hub.projects.endpoint_for(self._endpoint, self._client))

    def connect(self, transport: Transport, wire: WireDispatcher) -> EraServer:
        """Make what serves the client."""
        offer, self._wire = self.offer(), wire
        connection = EraServer(offer, wire, transport, self._client, self)
        self.serve(offer, connection)
        wire.receiver.takes_batches = connection.takes_batches
        return connection

    def serve(self, offer: Offer, connection: EraServer) -> None:
        """Have calls on a connection served by the fast path of that endpoint from now on."""
        assert self._wire is not None  # the connection's
        fast_path, receiver = FastPath(offer, connection, connection.take), self._wire.receiver
        receiver.fast, receiver.too_deep = fast_path.take, fast_path.refuse_too_deep


class StreamConnection(Protocol):
    """Serves the messages of one connection."""

    async def run(self) -> None:
        """Serve until the channel ends."""


class StreamClient:
    """Serves one connection on a pair of descriptors, with what `connect` makes for it.

    When the client closes its end, or the supervisor asks the frontend to leave, open requests are still
    answered, within the grace time. If the client has vanished altogether, they are cancelled upstream at
    once. Nothing more is read from a client that does not read what it is sent, until it does: log and
    progress messages for it are dropped meanwhile, and with too much unread it counts as gone.
    """

    def __init__(
        self, hub: Hub, channel: Channel, connect: Callable[[WireDispatcher], StreamConnection]
    ) -> None:
        self._hub = hub
        self._input_ended = anyio.Event()
        self._wire = WireDispatcher(
            channel,
            limit=hub.config.max_message_bytes,
            on_malformed=self._note_malformed,
            on_end=self._input_ended.set,
            refuses=True,
        )
        self._leaving = False
        self._dropped = 0
        self._malformed = 0
        channel.max_unsent = MAX_UNSENT_BYTES
        channel.on_broken = self._end_broken
        channel.on_congested = channel.pause_reading
        self._wire.on_drained = self._resume_reading
        self._wire.on_dropped = self._count_dropped
        self._connection = connect(self._wire)

    async def serve(self, incarnation: Incarnation) -> None:
        """Serve until the client is done, or the supervisor asks to leave."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._end_in_order, incarnation)
            await self._connection.run()
            tasks.cancel_scope.cancel()
        if self._dropped:
            log.info("client.went_without", messages=self._dropped)

    async def _end_in_order(self, incarnation: Incarnation) -> None:
        """After the last message, wait until open requests are answered, and end the session."""
        await incarnation.while_wanted(self._input_ended.wait)
        wire = self._wire
        self._leaving = True
        wire.channel.pause_reading()
        with anyio.move_on_after(self._grace_s()):
            while (wire.busy or wire.channel.unsent) and not wire.channel.hung_up():  # noqa: ASYNC110 - at the end only
                await anyio.sleep(DRAIN_POLL_S)
        wire.end()

    def _grace_s(self) -> float:
        """The grace time; at the end of MCPX, what other frontends have left of it and a moment at least."""
        return max(self._hub.leaving.grace_left_s, min(MIN_GRACE_S, self._hub.config.shutdown_grace))

    def _resume_reading(self) -> None:
        """Read again: the client has read what it was sent."""
        if not self._leaving:
            self._wire.channel.start_reading()

    def _count_dropped(self) -> None:
        if not self._dropped:
            unsent = self._wire.channel.unsent
            log.warning("client.not_reading", unsent=unsent, dropped="its log and progress messages")
        self._dropped += 1
        self._hub.clients.dropped += 1

    def _end_broken(self, error: OSError) -> None:
        """End the session: the client reads no more."""
        log.warning("client.gone", reason=error.strerror)
        self._wire.end()

    def _note_malformed(self, line: bytes, problem: str) -> None:
        self._malformed += 1
        if self._malformed <= MAX_MALFORMED_LOGGED:
            log.warning("client.rubbish", problem=problem, line=line.decode(errors="replace"))
        if self._malformed == MAX_MALFORMED_LOGGED:
            log.warning("client.rubbish_continues", hint="further lines of this client are not logged")
