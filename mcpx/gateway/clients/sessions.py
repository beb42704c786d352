"""The clients that are connected now, and the notifications that the lists changed.

Before 2026-07-28 that is a notification on each client's session; since then an event on the
`subscriptions/listen` streams that clients opened. A burst of changes becomes one notification. Runs
`subscribers` and `outbox` as well, as a child of the root supervisor.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import anyio
import structlog
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ServerEvent, ToolsListChanged
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpx.catalog.diff import Diff
from mcpx.core.exposure import unused_pins
from mcpx.core.hub import Hub
from mcpx.door import Expose
from mcpx.gateway.clients.handles import ConnectionHandle
from mcpx.gateway.clients.identity import client_of, connection_of
from mcpx.gateway.clients.outbox import NotificationOutbox
from mcpx.gateway.clients.subscribers import Subscribers
from mcpx.gateway.clients.tool_lists import ToolList
from mcpx.observe.contained import contain
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
        self.subscribers = Subscribers()
        self.outbox = NotificationOutbox(hub.clients)
        self._hub = hub
        self._lists: dict[Expose | None, ToolList] = {}
        self._sessions: dict[Connection, tuple[ServerSession, ToolList]] = {}
        self._changed = Signal()
        self._due: dict[ServerEvent, None] = {}
        self._pins_logged: set[str] = set()

    def tool_list(self, choice: Expose | None) -> ToolList:
        """What clients of that choice get as the list of tools."""
        if choice not in self._lists:
            self._lists[choice] = ToolList(self._hub, choice)
        return self._lists[choice]

    # --- the sessions

    def tracking(self, tools: ToolList) -> ServerMiddleware[Any]:
        """A middleware for the SDK's server: remembers each session, with its list, until it ends."""

        async def track(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
            connection = connection_of(ctx.session)
            if (
                connection.protocol_version not in MODERN_PROTOCOL_VERSIONS
                and connection not in self._sessions
            ):
                self._sessions[connection] = ctx.session, tools
                self._hub.clients.join(ConnectionHandle(connection, self._hub, self.outbox))
                connection.exit_stack.callback(self._forget, connection)
            return await call_next(ctx)

        return track

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
        """Tools, resources and what servers say about themselves all appear in the list of tools."""
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
            self._log_unused_pins()
            due_of = {tools: self._due_of(tools, due) for tools in self._lists.values()}
            for tools, events in due_of.items():
                for event in events:
                    try:
                        await tools.bus.publish(event)
                    except Exception as error:  # noqa: BLE001 - one stream must not end the announcements
                        contain(error, "list changed")
            async with anyio.create_task_group() as notifying:
                for connection, (session, tools) in list(self._sessions.items()):
                    if connection.initialized.is_set() and due_of.get(tools):
                        notifying.start_soon(self._notify, session, due_of[tools])

    def _due_of(self, tools: ToolList, due: Iterable[ServerEvent]) -> list[ServerEvent]:
        """What is announced to the clients of a list: whether that differs."""
        differs = ToolsListChanged() in due and tools.differs()
        if differs:
            tools.announced()
        return [event for event in due if event != ToolsListChanged() or differs]

    def _log_unused_pins(self) -> None:
        for pattern in unused_pins(self._hub.config, self._hub.upstreams):
            if pattern not in self._pins_logged:
                self._pins_logged.add(pattern)
                log.info("config.notice", notice=f"pinned: no server has a tool that fits {pattern!r}")

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
