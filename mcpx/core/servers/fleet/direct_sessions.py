"""The direct sessions of all servers: opened when a transparent client first needs one, and ended.

Owned by the fleet. A session lives until its client leaves, but for two bounds, because each may be a
process: one that clients of 2026-07-28 share ends when it has served none of them, and of the
sessions of clients that may have left without a word (over HTTP) only the latest are kept. Either is opened
again at its client's next request, with what the client had put in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from mcpx.core.catalog.model import EVERYTHING, Catalogue, Diff
from mcpx.core.servers.passthrough.carriers import ToolSchemas
from mcpx.core.servers.passthrough.client import DirectClient
from mcpx.core.servers.ports import Host
from mcpx.core.servers.server import Server
from mcpx.errors import CallError, Code

if TYPE_CHECKING:
    from mcpx.core.servers.passthrough.session import DirectSession

MAX_SESSIONS: Final = 256  # with one server
MAX_IDLE: Final = 16  # of them, of clients that may have left without a word
_LEFT: Final = "its client has left"
_IDLE: Final = "its client says nothing"


class DirectSessions:
    """Opens and ends the direct sessions with `upstreams`, the servers that there are now."""

    def __init__(self, upstreams: Mapping[str, Server], host: Host) -> None:
        self.sessionless = DirectClient(None)
        """Stands for all clients without a session with their server (2026-07-28) or a token with a name."""
        self._schemas: dict[str, ToolSchemas] = {}
        self._seen: dict[str, tuple[int, bool]] = {}  # the policy of each server that its clients know of
        self._upstreams = upstreams
        self._host = host

    def get_or_open(self, upstream: Server, client: DirectClient) -> DirectSession:
        """The session of a client with that server, opened now if it has none.

        Raises:
            CallError: `overloaded`: too many clients have one; `server_unavailable`: it runs once for each
                project, and the client is in none.
        """
        own = upstream.direct.get(client)
        if own is not None:
            return own
        if upstream.wants_project:
            upstream.projects.check(client.identity)
        self._end_idle(upstream)
        if len(upstream.direct) >= MAX_SESSIONS:
            text = f"{upstream.name} has {MAX_SESSIONS} clients already; nothing was sent"
            raise CallError(Code.OVERLOADED, text, server=upstream.name)
        on_idle = partial(self._end, upstream, client, _IDLE) if client.peer is None else None
        if not upstream.direct:
            self._seen[upstream.name] = upstream.policy.revision, upstream.policy.alters_lists
        from mcpx.core.servers.passthrough.session import DirectSession  # noqa: PLC0415 - for those who want one

        own = upstream.direct[client] = DirectSession(
            client, upstream, self._host, schemas=self.schemas(upstream.name), on_idle=on_idle
        )
        self._host.start(own)
        return own

    def schemas(self, server: str) -> ToolSchemas:
        """The schemas of a server's tools, as far as they are known."""
        if server not in self._schemas:
            self._schemas[server] = ToolSchemas(partial(self._catalogue, server))
        return self._schemas[server]

    def _catalogue(self, name: str) -> Catalogue | None:
        return self._upstreams[name].catalogue if name in self._upstreams else None

    def _end_idle(self, upstream: Server) -> None:
        """End the sessions that have been idle for longest, where there are too many."""
        idle = [each for each in upstream.direct.values() if each.client.may_vanish and each.is_idle]
        for session in sorted(idle, key=lambda each: each.used_at)[: max(0, len(idle) - MAX_IDLE)]:
            self._end(upstream, session.client, _IDLE)

    def leave(self, client: DirectClient) -> None:
        """End the sessions of a client that has left, without waiting for them."""
        for upstream in self._upstreams.values():
            for each in (client, *client.named.values()):
                self._end(upstream, each, _LEFT)

    def _end(self, upstream: Server, client: DirectClient, why: str) -> None:
        if (own := upstream.direct.pop(client, None)) is not None:
            self._host.dismiss(own, why)

    def carry_over(self, old: Server, new: Server) -> None:
        """Open the sessions of a server with the next one in its place, whose configuration has changed."""
        for client in old.direct:
            self.get_or_open(new, client).announce_lists()

    def announce_rules(self, name: str, changed: Diff) -> None:
        """Tell the clients of a server's sessions that lists are shown differently, where they are."""
        upstream = self._upstreams.get(name)
        if upstream is None or not upstream.direct:
            return
        policy, before = upstream.policy, self._seen.get(name)
        self._seen[name] = now = policy.revision, policy.alters_lists
        if now == before and changed is not EVERYTHING:
            return
        alters = now[1] or (before is not None and before[1])
        for session in list(upstream.direct.values()):
            if alters or session.client.profile is not None:
                session.announce_lists()
