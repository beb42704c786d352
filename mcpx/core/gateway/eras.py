"""One stream connection in the protocol era that its client opens with.

There are two eras. Before 2026-07-28 a connection opens with a handshake (`initialize`), which settles the
revision and what each side can do; the server may then ask the client by requests of its own, and announces
changes to the session. Since then there is neither handshake nor session: each request brings the revision,
the client's name and its capabilities in its `_meta` (the envelope), questions go back as results, and
changes are announced on streams that the client opens (`subscriptions/listen`).

On a stream the first request decides: with the envelope it opens a modern connection, otherwise one with the
handshake; a later request of the other era is refused with the SDK's codes. Over HTTP each request decides
for itself (`mcpx.core.gateway.frontends.http`). Between a client and a server of different eras MCPX
translates: `mcpx.core.servers.actor` opens a session in the client's era where the server speaks both, and
`mcpx.core.calls.asking` takes questions across. At a transparent endpoint nothing is translated, and the era
is a matter between client and server (`mcpx.core.gateway.transparent.sessions`).

The SDK serves both for its own message streams; here it is for a dispatcher that carries bytes
(`mcpx.core.gateway.endpoint_server.StreamServing`). It is loaded when it is needed: `EraServer.take` answers
what most clients begin with, the greeting of the handshake era, its lists and pings, by the `Offer` of the
endpoint, and with the same bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
import msgspec
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS

from mcpx.core.catalog.model import JSON
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.gateway.clients.handles import stream_caller
from mcpx.core.gateway.clients.identity import Connection, Opening
from mcpx.core.gateway.clients.projects import Arrival, arrive, ask_person, may_be_asked
from mcpx.core.gateway.native.lists import LISTS
from mcpx.core.gateway.offer import Offer, SdkServer, Serving
from mcpx.core.protocol.context import ClientId, Transport, asked_by
from mcpx.core.rendering.result_members import enveloped
from mcpx.core.wire import envelope
from mcpx.core.wire.batch import BATCH_REVISION
from mcpx.core.wire.context import WireContext
from mcpx.core.wire.dispatcher import WireDispatcher
from mcpx.core.wire.enclosed import enclose
from mcpx.core.wire.incoming import encoded_error

if TYPE_CHECKING:
    from mcp.shared.dispatcher import Outbound

    from mcpx.core.gateway.offer import Received

Params = Mapping[str, Any] | None
INITIALIZE: Final = "initialize"
LIST_TOOLS: Final = "tools/list"
PING: Final = "ping"
GREETINGS: Final = frozenset({INITIALIZE, "server/discover"})
INITIALIZED: Final = "notifications/initialized"
ROOTS_CHANGED: Final = "notifications/roots/list_changed"
UNHANDLED: Final = frozenset({"notifications/cancelled", "notifications/progress"})
"""Notifications that the dispatcher has dealt with, and no server."""
AT_WORK: Final = frozenset({LIST_TOOLS, "tools/call"})
"""Methods of a client that will go on, and can show its person a question."""


class Era(Enum):
    """The protocol era of a connection."""

    UNDECIDED = auto()
    HANDSHAKE = auto()
    MODERN = auto()


class _Listing(msgspec.Struct, gc=False):
    cursor: str | None = None
    meta: JSON | None = msgspec.field(name="_meta", default=None)


_decode_opening: Final = msgspec.json.Decoder(Opening).decode
_decode_listing: Final = msgspec.json.Decoder(_Listing).decode


class Serves(Protocol):
    """An endpoint as its connections need it: an `Offer`, or the SDK's server itself."""

    hub: HubView

    @property
    def opening(self) -> Offer | None:
        """The opening of sessions without the SDK's server, if there is one."""

    def loaded_server(self) -> SdkServer | None:
        """The SDK's server of the endpoint, if it has been loaded."""

    async def load_server(self) -> SdkServer:
        """The same, once it is loaded."""


class Place(Protocol):
    """The endpoint of one client, which follows its project."""

    hub: Hub

    def offer(self) -> Offer:
        """Return the offer of the endpoint where the client belongs now."""

    def serve(self, offer: Offer, connection: EraServer) -> None:
        """Have calls on a connection served by the fast path of that endpoint from now on."""


class EraServer:
    """Serves one connection. `era` and `connection` tell the fast path what it may take."""

    token: str | None = None
    has_one_wire = True
    agrees: Callable[[Any, Any], bool] | None = None
    caller = staticmethod(stream_caller)

    def __init__(
        self,
        serves: Serves,
        dispatcher: WireDispatcher,
        transport: Transport = "stdio",
        client: ClientId | None = None,
        place: Place | None = None,
    ) -> None:
        """With a `place` it goes to another endpoint when its client belongs there; `serves` is the first."""
        self.era = Era.UNDECIDED
        self.identity = client or ClientId()
        self.transport: Transport = transport
        self.connection = Connection(dispatcher, self.identity, transport)
        dispatcher.receiver.on_notification = self._hear
        self._serves = serves
        self._place = place
        self._dispatcher = dispatcher
        self._serving: Serving | None = None  # by the SDK, once it is needed
        self._loading: anyio.Event | None = None
        self._is_opened = False  # here

    def takes_batches(self) -> bool:
        """Return True after `initialize` in the one revision that has batches."""
        connection = self.connection
        return connection.initialize_accepted and connection.protocol_version == BATCH_REVISION

    def _hear(self, method: str, _params: object) -> bool:
        """Note at once what counts for the next line; the notification is served as any other."""
        if method == ROOTS_CHANGED:
            self.identity.roots_changed()
            self._dispatcher.spawn(self._arrive, self._dispatcher, method, None)
        return False

    async def run(self) -> None:
        """Serve until the dispatcher's channel ends."""
        try:
            if self._place is not None and isinstance(self._serves, Offer):
                self._serves.clients.place(self.identity, self.move)
            await self._dispatcher.run(self._on_request, self._on_notify)
        finally:
            await self.connection.close()
            self._serves.hub.client_left(self.identity)

    # --- the endpoint where the client belongs

    def move(self) -> None:
        """Go to the endpoint where the client belongs now."""
        before = self._serves
        if self._place is None or not isinstance(before, Offer) or (offer := self._place.offer()) is before:
            return
        self._serves, self._serving = offer, None
        self._place.serve(offer, self)
        modern = self.era is Era.MODERN
        lists = before.tool_list, offer.tool_list
        offer.clients.moved(self.connection, self.identity, *lists, modern=modern)

    async def _arrive(self, context: Outbound, method: str, params: Params) -> JSON | None:
        """Ready a request, as `arrive`; the client is at the endpoint where it belongs then."""
        if self._place is None:
            return None
        asked = await arrive(self._place.hub, self._arrival(context, method, params))
        self.move()
        return asked

    def _arrival(self, context: Outbound, method: str, params: Params) -> Arrival:
        modern = self.era is Era.MODERN
        return Arrival(self.identity, self.connection, context, method, params or {}, modern=modern)

    def _served(self, method: str) -> None:
        """Have the client's person asked about the files of its project, once it is at work."""
        if self._place is not None and method in AT_WORK and self.era is Era.HANDSHAKE:
            arrival = self._arrival(self._dispatcher, method, None)
            if may_be_asked(questions := self._place.hub.projects.questions, arrival):
                self._dispatcher.spawn(ask_person, questions, arrival)

    # --- an ordinary opening

    def take(self, request_id: envelope.RequestId, method: str, raw: msgspec.Raw) -> bool:
        """Serve a request without the SDK's server; or leave it to that, with False and nothing done."""
        if (offer := self._serves.opening) is None:
            return False
        if self.era is Era.UNDECIDED:
            return method == INITIALIZE and self._open_session(offer, request_id, raw)
        if not self._is_opened:
            return False
        if method == PING and not raw:
            self._dispatcher.channel.write(*envelope.answer(request_id, [b"{}"]))
            return True
        if method != LIST_TOOLS and not (method in LISTS and offer.has_native):
            return False
        return self._list(request_id, method, raw)

    def _open_session(self, offer: Offer, request_id: envelope.RequestId, raw: msgspec.Raw) -> bool:
        """Answer `initialize`, and commit what it agrees to, as the SDK's runner does."""
        try:
            asked = _decode_opening(raw)
        except (msgspec.DecodeError, RecursionError):
            return False
        if not _is_token((asked.meta or {}).get("progressToken")):
            return False
        known = asked.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS
        revision = asked.protocol_version if known else LATEST_HANDSHAKE_VERSION
        greeting = envelope.encode(offer.greeting(revision, asked.client_info.name))
        self.era = Era.HANDSHAKE
        self.connection.client_params, self.connection.protocol_version = asked, revision
        self._is_opened = True
        offer.clients.opened(self.connection, offer.tool_list)
        self._dispatcher.channel.write(*envelope.answer(request_id, [greeting]))
        return True

    def _list(self, request_id: envelope.RequestId, method: str, raw: msgspec.Raw) -> bool:
        try:
            asked = _decode_listing(raw) if raw else _Listing()
        except (msgspec.DecodeError, RecursionError):
            return False
        if not _is_token((asked.meta or {}).get("progressToken")):
            return False
        scope = anyio.CancelScope()
        self._dispatcher.fast_cancels[request_id] = scope.cancel

        async def answer() -> None:
            with scope:
                try:
                    await self._arrive(self._dispatcher, method, None)
                    with asked_by(self.identity):
                        listed = await self._listed(method, asked.meta, asked.cursor)
                    response = envelope.answer(request_id, [listed])
                except Exception as error:  # noqa: BLE001 - as in `Incoming`: whatever it raises is the answer
                    response = envelope.failure(request_id, encoded_error(error, method))
            if not scope.cancelled_caught:
                del self._dispatcher.fast_cancels[request_id]
                self._dispatcher.channel.write(*response)
                self._served(method)

        self._dispatcher.spawn(answer)
        return True

    async def _listed(self, method: str, meta: JSON | None, cursor: str | None) -> bytes:
        offer = self._serves.opening  # of the endpoint where the client is by now
        assert offer is not None  # as before: all endpoints are traced, or none
        if method == LIST_TOOLS:
            return await offer.list_tools(self.connection, meta, cursor, None)
        return await offer.list_entries(method, meta, cursor)

    # --- everything else, by the SDK's server

    async def _by_sdk(self) -> Serving:
        while self._serving is None:
            if (server := self._serves.loaded_server()) is not None:
                self._serving = server.serving(self.connection)
            elif self._loading is not None:
                await self._loading.wait()
            else:
                await self._load()
        return self._serving

    async def _load(self) -> None:
        """Load the SDK's server. What the client sends meanwhile comes after what waits for it now."""
        self._loading = loaded = anyio.Event()
        release = self._dispatcher.receiver.incoming.hold()
        try:
            await self._serves.load_server()
        finally:
            self._loading = None
            loaded.set()
            asyncio.get_running_loop().call_soon(release)  # after those that this has woken

    async def _on_request(self, context: Received, method: str, params: Params) -> dict[str, Any]:
        modern = method != INITIALIZE and _has_envelope(params)
        if self.era is Era.UNDECIDED:
            self.era = Era.MODERN if modern else Era.HANDSHAKE
            if method in GREETINGS:
                return await self._open(context, method, params)
        return await self._serve(context, method, params, modern=modern)

    async def _open(self, context: Received, method: str, params: Params) -> dict[str, Any]:
        """Serve a greeting; one that fails opens nothing, and its client may ask in the other era."""
        try:
            return await self._serve(context, method, params, modern=self.era is Era.MODERN)
        except BaseException:
            self.era = Era.UNDECIDED
            raise

    async def _serve(self, context: Received, method: str, params: Params, *, modern: bool) -> dict[str, Any]:
        if self.era is Era.MODERN:
            if method == INITIALIZE:
                versions = list(MODERN_PROTOCOL_VERSIONS)
                data = {"supported": versions, "requested": (params or {}).get("protocolVersion")}
                text = "this connection speaks the 2026-07-28 revision; there is no initialize"
                raise envelope.MCPError(envelope.UNSUPPORTED_PROTOCOL_VERSION, text, data)
            asked = await self._arrive(context, method, params)
            if asked is not None:
                return self._as_result(asked)
            return await (await self._by_sdk()).modern_request(_one_way(context), method, params)
        if modern:
            text = (
                "this connection speaks the handshake era; requests with the 2026-07-28 envelope are refused"
            )
            raise envelope.MCPError(envelope.INVALID_REQUEST, text)
        await self._arrive(context, method, params)
        result = await (await self._by_sdk()).request(context, method, params)
        self._served(method)
        return result

    def _as_result(self, asked: JSON) -> dict[str, Any]:
        """A question to the client's person, as the result of a request."""
        return enclose([enveloped(asked, self._serves.stamp if isinstance(self._serves, Offer) else None)])

    async def _on_notify(self, context: Received, method: str, params: Params) -> None:
        if self._serving is None and self._is_opened and self._is_noted(method, params):
            return
        serving = await self._by_sdk()
        if self.era is Era.MODERN:
            await serving.modern_notification(_one_way(context), method, params)
        else:
            await serving.notification(context, method, params)

    def _is_noted(self, method: str, params: Params) -> bool:
        """Take a notification that needs no server, of a session that was opened here."""
        if method == INITIALIZED and not params:
            self.connection.initialized.set()
        elif method == ROOTS_CHANGED and not params and (offer := self._serves.opening) is not None:
            offer.hub.clients.roots_changed()
        else:
            return method in UNHANDLED
        return True


def _is_token(value: object) -> bool:
    """Return True for a progress token, or none."""
    return value is None or (isinstance(value, int | str) and not isinstance(value, bool))


def _has_envelope(params: Params) -> bool:
    """Return True if the request has the reserved key of the modern envelope."""
    meta = (params or {}).get("_meta")
    return isinstance(meta, Mapping) and envelope.PROTOCOL_VERSION_META_KEY in meta


def _one_way(context: Received) -> Received:
    """The context without requests from server to client, which the modern revision does not have."""
    if isinstance(context, WireContext):
        context.forbid_requests()
    return context
