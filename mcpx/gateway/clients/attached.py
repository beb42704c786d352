"""The clients that are attached now, as they call themselves: what the page shows of them.

A client is noted with its first request, and forgotten when it leaves. One without a session (2026-07-28 over
HTTP) is attached to nothing, and is not here; the meter knows it by its name.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from mcpx.audit.origin import Transport
from mcpx.door import Door
from mcpx.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server.session import ServerSession
    from mcp_types import Implementation

    from mcpx.upstream.actor import Upstream
    from mcpx.upstream.direct.client import DirectClient

MAX_CHARS: Final = 64  # of what a client says of itself


class Attached(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One client: what it calls itself, how it came, by which door, and since when (seconds since 1970).

    `session` is absent where the client speaks to one server as it is, or has none (2026-07-28).
    """

    name: str | None
    version: str | None
    title: str | None
    transport: Transport
    door: Door
    since: float
    session: ServerSession | None = None


class _Joined(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    transport: Transport
    door: Door
    since: float
    session: ServerSession | None
    info: Implementation | None


class AttachedClients:
    """Those of one MCPX, by their identity."""

    def __init__(self) -> None:
        self._by_client: dict[object, _Joined] = {}

    def __contains__(self, client: object) -> bool:
        return client in self._by_client

    def join(self, client: object, session: ServerSession, transport: Transport, door: Door) -> None:
        """Note a client whose first request came.

        What it calls itself is in that request, or will be known of its session.
        """
        params = session.client_params
        self._by_client[client] = _Joined(
            transport=transport,
            door=door,
            since=time.time(),
            session=session if params is None else None,
            info=None if params is None else params.client_info,
        )

    def leave(self, client: object) -> None:
        """Forget a client."""
        self._by_client.pop(client, None)

    def all(self) -> list[Attached]:
        """Those that are there, in the order in which they came."""
        return [_attached(joined) for joined in self._by_client.values()]


def _attached(joined: _Joined) -> Attached:
    session, info = joined.session, joined.info
    if session is not None and session.client_params is not None:
        info = session.client_params.client_info
    return Attached(
        name=None if info is None else _text(info.name),
        version=None if info is None else _text(info.version),
        title=None if info is None else _text(info.title),
        transport=joined.transport,
        door=joined.door,
        since=joined.since,
        session=session,
    )


def of_transparent_doors(upstreams: Mapping[str, Upstream]) -> list[Attached]:
    """The clients that speak to one server as it is."""
    return [
        _direct(name, client)
        for name, upstream in upstreams.items()
        for client in list(upstream.direct)
        if client.peer is not None
    ]


def _direct(server: str, client: DirectClient) -> Attached:
    try:
        said = msgspec.json.decode(client.about)
    except (msgspec.DecodeError, RecursionError):
        said = None
    info = cast("dict[str, Any]", said) if isinstance(said, dict) else {}
    return Attached(
        name=_text(info.get("name")),
        version=_text(info.get("version")),
        title=_text(info.get("title")),
        transport="http" if client.may_vanish else "socket",
        door=Door(server=server),
        since=client.since,
    )


def _text(said: object) -> str | None:
    """What a client says of itself, made fit to be shown."""
    return one_line(said, MAX_CHARS) or None if isinstance(said, str) else None
