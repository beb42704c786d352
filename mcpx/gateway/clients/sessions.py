"""The clients that are connected now: who they are, and telling them that the lists changed.

The one module that knows how to reach a client between requests. Before 2026-07-28 that is a notification
on the client's own session; from then on an event on the `subscriptions/listen` streams that it opened.
A burst of changes becomes one notice. Who is subscribed to a resource is in `subscribers`. Runs as a child of
the root supervisor.
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
from mcpx.config import StructuredContent
from mcpx.core.hub import Hub
from mcpx.gateway.clients.handles import ConnectionMember, client_of
from mcpx.gateway.clients.identity import connection_of
from mcpx.gateway.clients.outbox import PostOffice
from mcpx.gateway.clients.subscribers import Subscribers
from mcpx.observe.contained import contain
from supervisors import Incarnation, Signal

log = structlog.get_logger()

DEBOUNCE_S: Final = 0.2
DELIVERY_S: Final = 5.0  # a client that does not read its notice in this time goes without
FEEDS_STRUCTURED_CONTENT: Final = ("claude-code", "cursor", "github-copilot", "copilot")
"""How the names of clients begin that give `structuredContent` to the model in place of `content`, or beside
it, which undoes the saving: Claude Code, Cursor, Copilot CLI."""


def wants_structured_content(policy: StructuredContent, client: str | None) -> bool:
    """Whether a client of that name (None: it did not say) is given `structuredContent`."""
    if policy != "auto":
        return policy == "always"
    name = (client or "").lower().replace(" ", "-")
    return not name.startswith(FEEDS_STRUCTURED_CONTENT)


def client_name(session: ServerSession) -> str | None:
    """What the client called itself in `initialize`, or in the request's envelope."""
    params = session.client_params
    return params.client_info.name if params else None


class Clients:
    """Everybody who is to hear of changed lists."""

    def __init__(self, hub: Hub) -> None:
        self.bus = InMemorySubscriptionBus()
        self.subscribers = Subscribers(self.bus)
        self._hub = hub
        self.post = PostOffice(hub.audience)
        self._sessions: dict[Connection, ServerSession] = {}
        self._changed = Signal()
        self._due: dict[ServerEvent, None] = {}

    async def meet(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """A middleware for the SDK's server: remembers each session until it ends."""
        connection = connection_of(ctx.session)
        if connection.protocol_version not in MODERN_PROTOCOL_VERSIONS and connection not in self._sessions:
            self._sessions[connection] = ctx.session
            self._hub.audience.join(ConnectionMember(connection, self._hub, self.post))
            connection.exit_stack.callback(self._part, connection)
        return await call_next(ctx)

    def _part(self, connection: Connection) -> None:
        self._sessions.pop(connection, None)
        self._hub.audience.leave(client_of(connection, self._hub))

    def __len__(self) -> int:
        return len(self._sessions)

    async def run(self, incarnation: Incarnation) -> None:
        """Pass changes of the catalogues on, until asked to leave."""
        unobserve = self._hub.observe(self._note)
        incarnation.ready()
        try:
            await incarnation.while_wanted(self._reach_them_for_ever)
        finally:
            unobserve()

    def _note(self, server: str, changed: Diff) -> None:
        """Tools, resources and what servers say of themselves all stand in our tools' descriptions."""
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

    async def _reach_them_for_ever(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.subscribers.run)
            tasks.start_soon(self.post.run)
            await self._announce_for_ever()

    async def _announce_for_ever(self) -> None:
        while True:
            await self._changed.wait()
            await anyio.sleep(DEBOUNCE_S)
            self._changed.clear()
            due, self._due = self._due, {}
            for event in due:
                try:
                    await self.bus.publish(event)
                except Exception as error:  # noqa: BLE001 - one stream must not end the announcing
                    contain(error, "list changed")
            async with anyio.create_task_group() as tasks:
                for connection, session in list(self._sessions.items()):
                    if connection.initialized.is_set():
                        tasks.start_soon(self._tell, session, list(due))

    async def _tell(self, session: ServerSession, events: list[ServerEvent]) -> None:
        """One client must not hold up the others, nor end the announcing."""
        with anyio.move_on_after(DELIVERY_S) as scope:
            try:
                for event in events:
                    await _send(session, event)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                log.debug("client.gone", client=client_name(session))
            except Exception as error:  # noqa: BLE001 - the docstring's promise
                contain(error, "list changed")
        if scope.cancelled_caught:
            log.warning("client.deaf", client=client_name(session), waited_s=DELIVERY_S)


async def _send(session: ServerSession, event: ServerEvent) -> None:
    match event:
        case ToolsListChanged():
            await session.send_tool_list_changed()
        case ResourcesListChanged():
            await session.send_resource_list_changed()
        case PromptsListChanged():
            await session.send_prompt_list_changed()
