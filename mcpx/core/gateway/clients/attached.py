"""The clients that are attached: who each is, since when, and at which endpoint, for those who look at them.

Owned by `ClientSessions`, which notes each message that takes the SDK's path; every client sends some, its
listing of tools at the least. A probe of MCPX itself is no client. One with a session, or on a stream, stays
until it leaves. Those of 2026-07-28 over HTTP have neither: each is known by its name and its token, and
stays for `SESSIONLESS_S` after its last request. The clients of transparent endpoints are found by their
direct sessions. What a client says of itself is shown cut and on one line.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import count
from typing import Final
from weakref import WeakKeyDictionary

import msgspec
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpx.core.daemon.hub_view import HubView
from mcpx.core.gateway.clients.identity import Connection, is_probe
from mcpx.core.protocol.context import Transport
from mcpx.core.servers.passthrough.client import DirectClient
from mcpx.core.servers.passthrough.messages import members_of, value_of
from mcpx.core.servers.server import Server
from mcpx.core.system.endpoint import Endpoint
from mcpx.core.text import one_line

SESSIONLESS_S: Final = 300.0  # after its last request a client without a session counts as gone
MAX_SESSIONLESS: Final = 64
_NAME_CHARS: Final = 64


class AttachedClient(msgspec.Struct, frozen=True, kw_only=True):
    """A client that is attached now, as it is shown.

    `name`, `version` and `title` are what it says of itself, "" where it does not. `revision` is that of the
    protocol, "" before the handshake is done. `since_s` is for how long it has been there.
    """

    id: str
    name: str
    version: str
    title: str
    revision: str
    transport: Transport
    endpoint: Endpoint
    token: str | None
    since_s: float


class _About(msgspec.Struct, frozen=True):
    """A client's name and version for itself."""

    name: str
    version: str
    title: str
    revision: str


class _Known:
    """A client that has sent something.

    `connection` is that of a handshake, which may still be under way; None for a client of 2026-07-28, each
    of whose requests says anew who it is (`about`).
    """

    __slots__ = ("_connection", "about", "endpoint", "last", "number", "since", "token", "transport")

    def __init__(self, number: int, connection: Connection, endpoint: Endpoint) -> None:
        modern, bearer = connection.protocol_version in MODERN_PROTOCOL_VERSIONS, connection.bearer
        self.number = number
        self.about = _read_about(connection)
        self.endpoint = endpoint
        self.token = None if bearer is None else bearer.token.name
        self.transport = connection.transport
        self.since = self.last = time.monotonic()
        self._connection = None if modern else connection

    def shown(self, now: float) -> AttachedClient:
        about = self.about if self._connection is None else _read_about(self._connection)
        return AttachedClient(
            id=f"c{self.number}",
            name=about.name,
            version=about.version,
            title=about.title,
            revision=about.revision,
            transport=self.transport,
            endpoint=self.endpoint,
            token=self.token,
            since_s=now - self.since,
        )


class AttachedClients:
    """The attached clients of one MCPX; `upstreams` are its servers."""

    def __init__(self, upstreams: Mapping[str, Server]) -> None:
        self._upstreams = upstreams
        self._known: dict[object, _Known] = {}
        self._sessionless: dict[tuple[str, str, str, Endpoint], _Known] = {}  # the latest last
        self._numbers = count(1)
        self._direct: WeakKeyDictionary[DirectClient, int] = WeakKeyDictionary()

    def note(self, connection: Connection, hub: HubView) -> None:
        """Note a message of a client at the endpoint that `hub` is seen through."""
        if is_probe(connection):
            return
        client = connection.client
        if client.sessionless:
            self._note_sessionless(connection, client.principal, hub.endpoint)
            return
        known = self._known.get(client)
        if known is None:
            self._known[client] = _Known(next(self._numbers), connection, hub.endpoint)
        elif connection.protocol_version in MODERN_PROTOCOL_VERSIONS:
            known.about = _read_about(connection)

    def _note_sessionless(self, connection: Connection, principal: str, endpoint: Endpoint) -> None:
        about = _read_about(connection)
        key = principal, about.name, about.version, endpoint
        now, known = time.monotonic(), self._sessionless.pop(key, None)
        if known is None or known.last < now - SESSIONLESS_S:
            known = _Known(next(self._numbers), connection, endpoint)
        known.last = now
        self._sessionless[key] = known
        if len(self._sessionless) > MAX_SESSIONLESS:
            del self._sessionless[next(iter(self._sessionless))]

    def move(self, client: object, endpoint: Endpoint) -> None:
        """Note that a client is at another endpoint."""
        if (known := self._known.get(client)) is not None:
            known.endpoint = endpoint

    def leave(self, client: object) -> None:
        """Forget a client that has left."""
        self._known.pop(client, None)

    def all(self) -> list[AttachedClient]:
        """List the clients that are attached now, the longest there first."""
        now = time.monotonic()
        for key in [key for key, known in self._sessionless.items() if known.last < now - SESSIONLESS_S]:
            del self._sessionless[key]
        shown = [known.shown(now) for known in (*self._known.values(), *self._sessionless.values())]
        for name, upstream in self._upstreams.items():
            direct = [client for client in list(upstream.direct) if not client.is_probe]
            shown += [self._transparent(name, client, now) for client in direct]
        return sorted(shown, key=lambda each: -each.since_s)

    def _transparent(self, server: str, client: DirectClient, now: float) -> AttachedClient:
        """A client of a transparent endpoint, or all those that share its session."""
        if client not in self._direct:
            self._direct[client] = next(self._numbers)
        about = members_of(msgspec.Raw(client.about)) if client.about else {}
        name, version, title = (
            value_of(about[key]) if key in about else None for key in ("name", "version", "title")
        )
        return AttachedClient(
            id=f"c{self._direct[client]}-{server}" if client.peer is None else f"c{self._direct[client]}",
            name=_line(name),
            version=_line(version),
            title=_line(title),
            revision=_line(client.version),
            transport="http" if client.peer is None or client.may_vanish else "socket",
            endpoint=Endpoint(server=server, profile=client.profile),
            token=client.token,
            since_s=now - client.since,
        )


def _read_about(connection: Connection) -> _About:
    params = connection.client_params
    if params is None:  # it is at the handshake, or does not say who it is
        modern = connection.protocol_version in MODERN_PROTOCOL_VERSIONS
        return _About("", "", "", connection.protocol_version if modern else "")
    info = params.client_info
    return _About(_line(info.name), _line(info.version), _line(info.title), connection.protocol_version)


def _line(text: object) -> str:
    return one_line(text, _NAME_CHARS) if isinstance(text, str) else ""
