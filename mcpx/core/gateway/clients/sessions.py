"""The clients that are connected now, and the notifications that the lists changed.

Before 2026-07-28 that is a notification on each client's session; since then an event on the
`subscriptions/listen` streams that clients opened. A burst of changes becomes one notification. Runs
`subscribers` and `outbox` as well, as a child of the root supervisor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

import anyio
import structlog
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpx.core.calls.exposure import unused_pins, unused_tools
from mcpx.core.catalog.model import Diff
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.gateway.clients.attached import AttachedClients
from mcpx.core.gateway.clients.handles import ConnectionHandle
from mcpx.core.gateway.clients.identity import (
    Connection,
    client_of,
    connection_of,
    is_probe,
    request_outbound,
)
from mcpx.core.gateway.clients.outbox import NotificationOutbox
from mcpx.core.gateway.clients.projects import OPENINGS, know_project
from mcpx.core.gateway.clients.subscribers import Subscribers
from mcpx.core.gateway.clients.tool_lists import ListChange, PeerLists, ToolList
from mcpx.core.policy.catalogue_rules import unused_rules
from mcpx.core.protocol.context import ClientId, asked_by
from mcpx.core.system.endpoint import Endpoint
from mcpx.core.telemetry.contained import containing
from supervisors import Incarnation, Signal

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext

log = structlog.get_logger()

DEBOUNCE_S: Final = 0.2
DELIVERY_TIMEOUT_S: Final = 5.0  # a client that does not read its notification in this time goes without


class ClientSessions:
    """The sessions of connected clients."""

    def __init__(self, hub: Hub) -> None:
        self.subscribers = Subscribers()
        self.outbox = NotificationOutbox(hub.clients)
        self.attached = AttachedClients(hub.upstreams)
        hub.clients.add_left_callback(self.attached.leave)
        hub.clients.add_left_callback(self._leave)
        self._hub = hub
        self._lists: WeakValueDictionary[Endpoint, ToolList] = (
            WeakValueDictionary()
        )  # of the endpoints in use
        self._sessions: dict[Connection, ToolList] = {}
        self._moves: dict[ClientId, Callable[[], None]] = {}
        self._places = hub.projects.version
        self._moved: dict[Connection, list[ListChange]] = {}  # those whose lists are others now
        self._streams_moved: list[tuple[ToolList, list[ListChange]]] = []  # likewise, of 2026-07-28
        self._changed = Signal()
        self._changes: dict[str, Diff] = {}
        self._noticed: set[str] = set()
        hub.observe(self._discard_shown)
        hub.observe(self._note)  # while it does not run, too: what changes then is announced when it does

    def tool_list(self, endpoint: Endpoint) -> ToolList:
        """The list of tools for clients of that endpoint, one for as long as it is in use."""
        tools = self._lists.get(endpoint)
        if tools is None:
            lists = ToolList if endpoint.peer is None else PeerLists
            tools = self._lists[endpoint] = lists(HubView(self._hub, endpoint))
        return tools

    def _discard_shown(self, server: str, changed: Diff) -> None:
        for tools in list(self._lists.values()):
            tools.exposure.catalogue_changed(server, changed)

    # --- the sessions

    def tracking(self, tools: ToolList) -> ServerMiddleware[Any]:
        """A middleware for the SDK's server: remembers each session, with its list, until it ends."""

        async def track(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
            connection = connection_of(ctx.session)
            if ctx.request_id is not None:
                self.attached.note(connection, tools.hub)
            if connection.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                self._remember(connection, tools)
            if ctx.method in OPENINGS or is_probe(connection):
                return await call_next(ctx)
            client = connection.client
            if tools.hub.endpoint.peer is not None and ctx.request_id is not None:
                await self._learn_project(ctx, client)
            with asked_by(client):
                return await call_next(ctx)

        return track

    def opened(self, connection: Connection, tools: ToolList) -> None:
        """Remember a session of the handshake era on a stream, which was opened without the SDK's server."""
        self.attached.note(connection, tools.hub)
        self._remember(connection, tools)

    def _remember(self, connection: Connection, tools: ToolList) -> None:
        if connection not in self._sessions:
            self._sessions[connection] = tools
            self._hub.clients.join(ConnectionHandle(connection, tools.hub, self.outbox))
            connection.exit_stack.callback(self._forget, connection, tools.hub)

    async def _learn_project(self, ctx: ServerRequestContext[Any, Any], client: ClientId) -> None:
        """Learn in which project another MCPX is, where a server wants to know; see `arrive` for clients."""
        wanted = any(each.wants_project for each in self._hub.upstreams.values())
        wanted = wanted or any(each.overrides for each in self._hub.config.servers.values())
        if client.roots_known or not wanted:
            return
        connection, modern = connection_of(ctx.session), ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        await know_project(client, connection, request_outbound(ctx.session), modern=modern)
        self._hub.fleet.enter(client)

    def _forget(self, connection: Connection, hub: HubView) -> None:
        self._sessions.pop(connection, None)
        self._moved.pop(connection, None)
        hub.clients.leave(client_of(connection))

    def __len__(self) -> int:
        return len(self._sessions)

    # --- clients whose endpoint follows their project

    def place(self, client: ClientId, move: Callable[[], None]) -> None:
        """Have `move` called when a client may belong to another endpoint, until it leaves."""
        self._moves[client] = move

    def moved(
        self, connection: Connection, client: ClientId, before: ToolList, after: ToolList, *, modern: bool
    ) -> None:
        """Take in that a client is at another endpoint, and announce that it sees other lists."""
        self.attached.move(client, after.hub.endpoint)
        events: list[ListChange] = ["tools"]
        if after.hub.has_native or before.hub.has_native:
            events += ["resources", "prompts"]
        if modern:
            after.follow(client, before)
            self._streams_moved.append((before, events))
        elif connection in self._sessions:
            self._sessions[connection] = after
            self._moved[connection] = events
            handle = self._hub.clients.handles.get(client)
            if isinstance(handle, ConnectionHandle):
                handle.move(after.hub)
        self._changed.set()

    def _leave(self, client: object) -> None:
        if isinstance(client, ClientId):
            self._moves.pop(client, None)
            for tools in list(self._lists.values()):
                tools.unfollow(client)

    async def run(self, incarnation: Incarnation) -> None:
        """Announce changes of the catalogues, until asked to leave."""
        incarnation.ready()
        await incarnation.while_wanted(self._deliver)

    def _note(self, server: str, changed: Diff) -> None:
        if self._places != self._hub.projects.version:
            self._places = self._hub.projects.version
            for move in list(self._moves.values()):
                move()
        if changed:
            self._changes[server] = self._changes.get(server, Diff()) | changed
            self._changed.set()

    async def _deliver(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.subscribers.run)
            tasks.start_soon(self.outbox.run)
            await self._announce_changes()

    async def _announce_changes(self) -> None:
        while True:
            await self._changed.wait()
            await anyio.sleep(DEBOUNCE_S)
            self._changed.clear()
            changes, self._changes = self._changes, {}
            moved, self._moved = self._moved, {}
            streams_moved, self._streams_moved = self._streams_moved, []
            self._log_unused_patterns()
            due_of = {tools: tools.due(changes, self._hub.upstreams) for tools in self._lists.values()}
            for tools, events in (*due_of.items(), *streams_moved):
                await tools.publish(events)
            async with anyio.create_task_group() as notifying:
                for connection, tools in list(self._sessions.items()):
                    events = moved.get(connection) or due_of.get(tools) or []
                    if connection.initialized.is_set() and events:
                        notifying.start_soon(self._notify, connection, events)

    def _log_unused_patterns(self) -> None:
        config, upstreams = self._hub.config, self._hub.upstreams
        unused = unused_pins(config, upstreams)
        notices = [f"pinned: no server has a tool that fits {pattern!r}" for pattern in unused]
        listed = {name: upstream.listed for name, upstream in upstreams.items()}
        for notice in (*notices, *unused_tools(config, upstreams), *unused_rules(config, listed)):
            if notice not in self._noticed:
                self._noticed.add(notice)
                log.info("config.notice", notice=notice)

    async def _notify(self, connection: Connection, events: list[ListChange]) -> None:
        """Notify one client, which must neither delay the others nor end the announcements."""
        with anyio.move_on_after(DELIVERY_TIMEOUT_S) as scope:
            with containing("list changed"):  # the docstring's promise
                for event in events:
                    await connection.notify(f"notifications/{event}/list_changed")
        if scope.cancelled_caught:
            log.warning("client.deaf", client=connection.client_name, waited_s=DELIVERY_TIMEOUT_S)
