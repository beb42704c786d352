"""The client behind direct sessions: what it has put in force, repeated to the server after a restart.

Outlives the sessions: a server that was restarted, or whose configuration has changed, gets from `replay`
what the client has said to the one before, and the client is notified of what has changed meanwhile.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from mcpx.core.catalog.lists import LISTS, PROMPTS, RESOURCES, TOOLS
from mcpx.core.protocol.context import ClientId
from mcpx.core.protocol.requests import Passed, Peer
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.servers.passthrough.messages import (
    NOTHING,
    members_of,
    subscription_of,
    value_of,
    with_subscription,
)
from mcpx.core.system.endpoint import PROBE_KEY
from mcpx.core.wire import envelope
from mcpx.core.wire.envelope import SUBSCRIPTION_ID_META_KEY, MCPError

MAX_NAMED: Final = 1024
STANDING: Final = frozenset({"subscriptions/listen"})
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_CHANGED: Final = {
    "toolsListChanged": TOOLS.changed,
    "promptsListChanged": PROMPTS.changed,
    "resourcesListChanged": RESOURCES.changed,
}


class Standing:
    """A request that stays open for good (`subscriptions/listen`): sent to each connection until answered."""

    def __init__(self, request: Passed, reply: RawReply) -> None:
        self.request = request
        self._reply = reply
        self._cancel: Callable[[], None] = lambda: None
        self._id = msgspec.Raw(envelope.encode(request.id))
        self._acknowledged = False

    @property
    def over(self) -> bool:
        """True if it was answered or cancelled."""
        return self._reply.settled

    def sent(self, cancel: Callable[[], None]) -> None:
        """Note that it was sent; `cancel` cancels it at the server."""
        self._cancel = cancel
        self._reply.on_abandon = self._withdraw

    def _withdraw(self) -> bool:
        self._cancel()
        return True

    def lost(self) -> None:
        """Note that the connection has ended; there is nothing to cancel."""
        self._reply.on_abandon = None

    def answer(self, answer: msgspec.Raw) -> None:
        """Pass the server's answer on."""
        self._reply.resolve(answer)

    def refuse(self, error: Exception) -> None:
        """Fail it: there will be no answer."""
        self._reply.reject(error)

    def notify(self, method: str, params: msgspec.Raw) -> None:
        """Pass on a notification of its stream, under the client's own id."""
        if method == ACKNOWLEDGED and self._acknowledged:
            self.announce_lists()
            self._announce_resources()
            return
        self._acknowledged = self._acknowledged or method == ACKNOWLEDGED
        is_own = subscription_of(params) == self.request.id
        self.request.origin.notify(method, params if is_own else with_subscription(params, self._id))

    def announce_lists(self) -> None:
        """Notify the client of the lists that it has subscribed to: they may have changed."""
        for kind, method in _CHANGED.items():
            if self._wanted().get(kind) is True:
                self._announce(method, {})

    def _announce_resources(self) -> None:
        """Notify the client of the resources that it has subscribed to: they may have changed meanwhile."""
        uris = self._wanted().get("resourceSubscriptions")
        for uri in uris if isinstance(uris, list) else []:
            self._announce("notifications/resources/updated", {"uri": uri})

    def _announce(self, method: str, params: dict[str, Any]) -> None:
        meta = {SUBSCRIPTION_ID_META_KEY: self.request.id}
        self.request.origin.notify(method, msgspec.Raw(envelope.encode({"_meta": meta, **params})))

    def _wanted(self) -> dict[str, Any]:
        wanted = value_of(members_of(self.request.raw).get("notifications"))
        return wanted if isinstance(wanted, dict) else {}


INITIALIZE: Final = "initialize"
INITIALIZED: Final = "notifications/initialized"
SET_LEVEL: Final = "logging/setLevel"
SUBSCRIBE: Final = "resources/subscribe"
UNSUBSCRIBE: Final = "resources/unsubscribe"
Ask = Callable[[str, msgspec.Raw | bytes], Awaitable[msgspec.Raw]]
"""Sends a request and returns the result.

Raises:
    MCPError: The server's error.
"""
Notify = Callable[[str, msgspec.Raw | bytes], None]


class DirectClient:
    """One client of direct sessions. `peer` takes the messages that belong to none of its requests.

    Without a peer it stands for all clients of one token that have no session with the server (2026-07-28),
    or for those of one name among them (`of_name`). One that `may_vanish` need not say that it leaves.
    """

    def __init__(
        self, peer: Peer | None, *, may_vanish: bool = False, identity: ClientId | None = None
    ) -> None:
        self.peer = peer
        self.identity = identity or ClientId()
        """The project that it is in, where that is known."""
        self.may_vanish = may_vanish
        self.connected = True
        self.since = time.monotonic()
        self.profile: str | None = None
        """The profile that narrows what it is shown, by its token; None for none."""
        self.token: str | None = None
        """The name of its token, if that has one."""
        self.about: bytes = b""
        """Its name and version for itself in its handshake, in JSON."""
        self.is_probe = False
        """True if MCPX itself asks in a client's name."""
        self.named: dict[str, DirectClient] = {}
        """Those that stand for the clients of one name; the latest used last."""
        self.capabilities: bytes = b"{}"
        """Its capabilities there, in JSON."""
        self.version: str | None = None
        """The revision that the server answered `initialize` with."""
        self._initialize: bytes | None = None
        self._initialized: bytes | None = None
        self._level: bytes | None = None
        self._subscriptions: dict[str, bytes] = {}
        self._lists: dict[str, tuple[bytes, bytes]] = {}  # the params and the digest of each first page

    @property
    def greeted(self) -> bool:
        """True if the server has accepted its `initialize`."""
        return self._initialize is not None

    def of_name(self, name: str) -> DirectClient:
        """The stand-in for the clients of that name, for a server that gives each client a session."""
        known = self.named.pop(name, None) or DirectClient(None, may_vanish=True)
        self.named[name] = known
        if len(self.named) > MAX_NAMED:
            del self.named[next(iter(self.named))]
        return known

    def note_request(self, method: str, params: msgspec.Raw | bytes) -> None:
        """Remember what the client says of itself, and declares."""
        if method == INITIALIZE:
            members = members_of(params)
            self.about = bytes(members.get("clientInfo", b""))
            self.is_probe = PROBE_KEY in members_of(members.get("_meta", NOTHING))
            self.capabilities = bytes(members.get("capabilities", b"{}"))

    def note_result(self, method: str, params: msgspec.Raw | bytes, result: msgspec.Raw) -> None:
        """Remember what a request that succeeded has put in force."""
        if self.peer is None:
            return
        if method == INITIALIZE:
            self._initialize = bytes(params)
            version = value_of(members_of(result).get("protocolVersion"))
            self.version = version if isinstance(version, str) else None
        elif method == SET_LEVEL:
            self._level = bytes(params)
        elif method in {SUBSCRIBE, UNSUBSCRIBE}:
            uri = bytes(members_of(params).get("uri", b"")).decode(errors="replace")
            if method == SUBSCRIBE:
                self._subscriptions[uri] = bytes(params)
            else:
                self._subscriptions.pop(uri, None)
        elif method in LISTS and "cursor" not in members_of(params):
            self._lists[method] = (bytes(params), _digest(result))

    def note_notification(self, method: str, params: msgspec.Raw | bytes) -> None:
        """Remember that the client has confirmed the handshake."""
        if method == INITIALIZED:
            self._initialized = bytes(params) or b"{}"

    # --- after a restart

    async def replay(self, ask: Ask, notify: Notify) -> None:
        """Put in force again what was in force.

        Raises:
            MCPError: The server does not accept the handshake any more.
        """
        if self._initialize is None:
            return
        result = await ask(INITIALIZE, self._initialize)
        self.note_result(INITIALIZE, self._initialize, result)
        if self._initialized is None:
            return
        notify(INITIALIZED, self._initialized if self._initialized != b"{}" else b"")
        in_force = [(SET_LEVEL, self._level)] if self._level is not None else []
        for method, params in [*in_force, *((SUBSCRIBE, each) for each in self._subscriptions.values())]:
            await _tried(ask, method, params)

    async def announce_changes(self, ask: Ask) -> None:
        """Tell the client which of its lists have changed, and that its resources may have."""
        if self.peer is None or self._initialized is None:
            return
        changed: dict[str, None] = {}
        for method, (params, digest) in list(self._lists.items()):
            result = await _tried(ask, method, params)
            if result is not None and _digest(result) != digest:
                self.note_result(method, params, result)
                changed[LISTS[method].changed] = None
        for method in changed:
            self.peer.notify(method, msgspec.Raw())
        for uri in list(self._subscriptions):
            self.peer.notify("notifications/resources/updated", msgspec.Raw(b'{"uri":' + uri.encode() + b"}"))

    def announce_lists(self) -> None:
        """Tell the client that the lists that it has got are shown differently."""
        if self.peer is not None and self._initialized is not None:
            for method in dict.fromkeys(LISTS[listed].changed for listed in self._lists):
                self.peer.notify(method, msgspec.Raw())


async def _tried(ask: Ask, method: str, params: bytes) -> msgspec.Raw | None:
    try:
        return await ask(method, params)
    except MCPError:
        return None


def _digest(result: msgspec.Raw) -> bytes:
    return hashlib.blake2b(result, digest_size=16).digest()
