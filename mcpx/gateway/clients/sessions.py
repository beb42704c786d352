"""The clients that are connected now, what they were shown, and the notifications that the lists changed.

Before 2026-07-28 that is a notification on each client's session; since then an event on the
`subscriptions/listen` streams that clients opened. A burst of changes becomes one notification. Runs
`subscribers` and `outbox` as well, as a child of the root supervisor.
"""

from __future__ import annotations

from typing import Any, Final

import anyio
import structlog
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ServerEvent, ToolsListChanged
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpx.catalog.diff import Diff
from mcpx.core.hub import Hub
from mcpx.gateway.clients.handles import ConnectionHandle
from mcpx.gateway.clients.identity import client_of, connection_of
from mcpx.gateway.clients.known_clients import known_client
from mcpx.gateway.clients.outbox import NotificationOutbox
from mcpx.gateway.clients.subscribers import Subscribers
from mcpx.observe.contained import contain
from mcpx.rendering.descriptions import Descriptions, describe
from supervisors import Incarnation, Signal

log = structlog.get_logger()

DEBOUNCE_S: Final = 0.2
DELIVERY_TIMEOUT_S: Final = 5.0  # a client that does not read its notification in this time goes without


def client_name(session: ServerSession) -> str | None:
    """What the client called itself in `initialize`, or in the request's envelope."""
    params = session.client_params
    return params.client_info.name if params else None


class ClientSessions:
    """The sessions of connected clients."""

    def __init__(self, hub: Hub) -> None:
        self.bus = InMemorySubscriptionBus()
        self.subscribers = Subscribers(self.bus)
        self._hub = hub
        self.outbox = NotificationOutbox(hub.clients)
        self._sessions: dict[Connection, ServerSession] = {}
        self._changed = Signal()
        self._due: dict[ServerEvent, None] = {}
        self._shown: set[tuple[int | None, Descriptions]] = set()  # by limit, since the last announcement
        self._limits_logged: set[str] = set()

    # --- what the three tools say of themselves

    def describe(self, name: str | None) -> Descriptions:
        """The descriptions for a client of that name (None: unknown), which counts as shown to it."""
        client = known_client(name)
        limit = client.description_chars if client else None
        shown = self._describe(limit)
        self._shown.add((limit, shown))
        if client and (shown.server_name or shown.uri) and client.prefix not in self._limits_logged:
            self._limits_logged.add(client.prefix)
            log.info("client.description_limit", client=name, shows_chars=limit, lists="in parameters")
        return shown

    def _describe(self, limit: int | None) -> Descriptions:
        config = self._hub.config
        return describe(
            self._hub.registry.list_servers(),
            budget=config.catalog_token_budget,
            max_description_len=config.max_description_len,
            limit=limit,
        )

    def _tools_changed(self) -> bool:
        """Whether a client that lists the tools now gets another list than one before it was given."""
        return not self._shown or any(shown != self._describe(limit) for limit, shown in self._shown)

    # --- the sessions

    async def track(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """A middleware for the SDK's server: remembers each session until it ends."""
        connection = connection_of(ctx.session)
        if connection.protocol_version not in MODERN_PROTOCOL_VERSIONS and connection not in self._sessions:
            self._sessions[connection] = ctx.session
            self._hub.clients.join(ConnectionHandle(connection, self._hub, self.outbox))
            connection.exit_stack.callback(self._forget, connection)
        return await call_next(ctx)

    def _forget(self, connection: Connection) -> None:
        self._sessions.pop(connection, None)
        self._hub.clients.leave(client_of(connection, self._hub))

    def __len__(self) -> int:
        return len(self._sessions)

    async def run(self, incarnation: Incarnation) -> None:
        """Announce changes of the catalogues, until asked to leave."""
        unobserve = self._hub.observe(self._note)
        incarnation.ready()
        try:
            await incarnation.while_wanted(self._deliver)
        finally:
            unobserve()

    def _note(self, server: str, changed: Diff) -> None:
        """Tools, resources and what servers say about themselves all appear in our tools' descriptions."""
        upstream = self._hub.upstreams.get(server)
        native = upstream is None or upstream.config.native
        if changed.tools or changed.resources or changed.about:
            self._due[ToolsListChanged()] = None
        if changed.resources and native:
            self._due[ResourcesListChanged()] = None
        if changed.prompts and native:
            self._due[PromptsListChanged()] = None
        if self._due:
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
            due, self._due = self._due, {}
            if ToolsListChanged() in due and not self._tools_changed():
                del due[ToolsListChanged()]
            elif ToolsListChanged() in due:
                self._shown.clear()
            for event in due:
                try:
                    await self.bus.publish(event)
                except Exception as error:  # noqa: BLE001 - one stream must not end the announcements
                    contain(error, "list changed")
            async with anyio.create_task_group() as tasks:
                for connection, session in list(self._sessions.items()):
                    if connection.initialized.is_set():
                        tasks.start_soon(self._notify, session, list(due))

    async def _notify(self, session: ServerSession, events: list[ServerEvent]) -> None:
        """Notify one client, which must neither delay the others nor end the announcements."""
        with anyio.move_on_after(DELIVERY_TIMEOUT_S) as scope:
            try:
                for event in events:
                    await _send(session, event)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                log.debug("client.gone", client=client_name(session))
            except Exception as error:  # noqa: BLE001 - the docstring's promise
                contain(error, "list changed")
        if scope.cancelled_caught:
            log.warning("client.deaf", client=client_name(session), waited_s=DELIVERY_TIMEOUT_S)


async def _send(session: ServerSession, event: ServerEvent) -> None:
    match event:
        case ToolsListChanged():
            await session.send_tool_list_changed()
        case ResourcesListChanged():
            await session.send_resource_list_changed()
        case PromptsListChanged():
            await session.send_prompt_list_changed()
