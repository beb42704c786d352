"""The incarnations of one upstream: each is a child of the `upstreams` supervisor, one at a time.

An incarnation connects, shakes hands, lists, and says that it is ready; then it serves the queue, follows
list changes, and ends the moment the connection does. Owned by the `Upstream`, which outlives them; nothing
here decides about restarts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import anyio

from mcpx.core.config import Era
from mcpx.core.servers.calls import Calls
from mcpx.core.servers.health import open_health
from mcpx.core.servers.idleness import Idleness
from mcpx.core.servers.malformed_log import MalformedLog
from mcpx.core.servers.offers.catalogue_cache import CatalogueCache
from mcpx.core.servers.relay.clients import ConnectedClients
from mcpx.core.servers.relay.session_relay import SessionRelay
from mcpx.core.servers.relay.suspended import SuspendedCalls
from mcpx.core.servers.session.handshake import Attempts, Handshake
from mcpx.core.servers.session.upstream_session import UpstreamSession, open_session
from mcpx.core.servers.transport.ledger import Ledger
from mcpx.core.servers.transport.link import Hooks, Link
from mcpx.core.servers.transport.placement import Placing
from supervisors import Incarnation, Signal

if TYPE_CHECKING:
    from mcpx.core.servers.actor import Upstream


class Incarnations:
    """Runs an upstream, and keeps its `pid` and `health`. `eras` gives those in which to ask, in order."""

    def __init__(
        self,
        upstream: Upstream,
        cache: CatalogueCache,
        clients: ConnectedClients,
        suspended: SuspendedCalls,
        *,
        ledger: Ledger,
        max_message_bytes: int,
        eras: Callable[[], tuple[Era, ...]],
    ) -> None:
        self._upstream = upstream
        self._config = upstream.config
        self._cache = cache
        self._clients = clients
        self._suspended = suspended
        self._ledger = ledger
        self._limit = max_message_bytes
        self._attempts = Attempts(upstream.name, eras)
        self._malformed = MalformedLog(upstream.config, upstream.counters)
        self._placing = Placing(upstream.placement, upstream.config, upstream.child)
        self._changes = Signal()

    def relist(self) -> None:
        """Have the one that lives list again."""
        self._changes.set()

    async def run(self, incarnation: Incarnation) -> None:
        """Connect and serve, until the connection ends or the supervisor asks to leave."""
        self._cache.begin()
        await self._attempts.run(incarnation, partial(self._live, incarnation))

    async def _live(self, incarnation: Incarnation, handshake: Handshake) -> None:
        upstream, of_main = self._upstream, self._upstream.main is None
        if of_main:
            upstream.known_eras.forget()  # whatever fails now, the next attempt asks in the usual order
        changes = self._changes = Signal()
        server_log = upstream.server_log
        calls = Calls(self._config, upstream.counters, upstream.queue, incarnation.proven)
        relay = SessionRelay(
            upstream.name,
            calls,
            self._clients,
            self._suspended,
            server_log,
            client=upstream.client,
            from_mcpx=self._config.is_remote_mcpx,
        )
        try:
            async with open_session(
                self._config,
                handshake=handshake,
                limit=self._limit,
                hooks=Hooks(self._on_open, self._malformed.record, server_log.write, changes.set),
                changes=changes,
                on_updated=self._on_updated,
                relay=relay,
                account=upstream.account,
                placing=self._placing,
            ) as session:
                await self._cache.list_all(session.client, incarnation.generation)
                session.established()
                upstream.known_eras.learn(handshake, of_main=of_main)
                incarnation.ready()
                await self._serve(session, incarnation, calls, changes)
        finally:  # only now: the process has been terminated
            upstream.pid = None
            self._ledger.remove(upstream.child)
            server_log.close()

    async def _serve(
        self, session: UpstreamSession, incarnation: Incarnation, calls: Calls, changes: Signal
    ) -> None:
        """Serve the queue; when asked to leave, finish what is running."""
        upstream, generation = self._upstream, incarnation.generation
        health = open_health(self._config.health, calls, session.probe, session.link)
        async with anyio.create_task_group() as tasks:
            try:
                calls.open(session.link, session.sender(tasks))
                upstream.health = health
                tasks.start_soon(calls.drain_until_closed)
                tasks.start_soon(session.listen)
                tasks.start_soon(session.log_level.follow)
                tasks.start_soon(session.probe_when_suspicious)
                tasks.start_soon(self._cache.follow, session.client, generation, changes)
                tasks.start_soon(self._cache.describe, session.client)
                tasks.start_soon(upstream.subscriptions.serve, session)
                tasks.start_soon(health.watch)
                upstream.idleness = Idleness(upstream, calls, self._suspended, changes)
                tasks.start_soon(upstream.idleness.watch)
                await incarnation.stopping.wait()
                self._cache.confirm()
                await calls.drain()
            finally:
                upstream.health = upstream.idleness = None
                calls.close()
            tasks.cancel_scope.cancel()

    # --- called back

    def _on_open(self, link: Link) -> None:
        self._upstream.pid = link.pid
        if link.pid is not None:
            self._ledger.add(self._upstream.child, link.pid, link.mark)

    def _on_updated(self, uri: str) -> None:
        upstream = self._upstream
        upstream.subscriptions.handle_update(uri)
        if upstream.main is not None and upstream.client is None:  # what the companion hears concerns all
            upstream.main.subscriptions.updated(uri)
