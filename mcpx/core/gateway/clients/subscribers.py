"""The clients that are subscribed to resources, and the delivery of updates to each.

Before 2026-07-28 a client subscribes to one URI at a time and is notified on its session; since then it opens
a `subscriptions/listen` stream and gets events there. Either way each subscriber is a listener of the
upstream's `Subscriptions`, which subscribe once for all of them; its listeners end when the client leaves. A
client that does not read delays only itself: an update that it has not taken is kept once for each URI.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, NamedTuple

import anyio
import anyio.abc
import structlog
from mcp.shared import subscriptions as sdk

from mcpx.core.gateway.clients.identity import Connection
from mcpx.core.gateway.clients.tool_lists import Bus, ListChange
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.telemetry.contained import containing
from mcpx.errors import CallError
from supervisors import Signal

log = structlog.get_logger()

UPDATED: Final = "notifications/resources/updated"
DELIVERY_TIMEOUT_S: Final = 5.0  # a client that does not take a notification in this time goes without


class ResourceTarget(NamedTuple):
    """A resource of one server, and what the client calls it."""

    upstream: VisibleServer
    own_uri: str
    """The server's own URI."""
    client_uri: str
    """The URI that the client gave."""
    rename: Callable[[str], str]
    """Gives the client's name for a URI of that server."""
    is_shown: Callable[[str], bool] = lambda _own_uri: True
    """Says whether the client sees a resource of the server: one that it is not shown any more is silent."""

    def shown_as(self, own_uri: str) -> str | None:
        """Return the client's name for a resource of the server; None for one that it is not shown."""
        return self.rename(own_uri) if self.is_shown(own_uri) else None


class _Subscriber:
    """A client of the handshake era: its subscriptions, and the updates that it has not been sent."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.subscriptions: dict[str, Callable[[], None]] = {}
        """Callables that end each subscription, by the client's URI."""
        self.pending: dict[str, None] = {}
        """The URIs of the updates that it has not been sent."""
        self.sending = False


class Subscribers:
    """The clients and streams that are subscribed to a resource."""

    def __init__(self) -> None:
        self._subscribers: dict[Connection, _Subscriber] = {}
        self._due: dict[_Subscriber, None] = {}
        self._updated = Signal()
        self._streams = 0

    def __len__(self) -> int:
        """The number of clients and streams with at least one subscription."""
        return sum(bool(each.subscriptions) for each in self._subscribers.values()) + self._streams

    # --- before 2026-07-28

    async def subscribe(self, connection: Connection, target: ResourceTarget, meta: bytes) -> None:
        """Notify this client of updates from now on. `meta` goes to the server (`RequestContext.meta`).

        Raises:
            CallError: The server refuses the subscription.
        """
        subscriber = self._of(connection)
        if target.client_uri in subscriber.subscriptions:
            return

        def updated(own_uri: str) -> None:
            if not target.is_shown(own_uri):
                return
            subscriber.pending[target.rename(own_uri)] = None
            self._due[subscriber] = None
            self._updated.set()

        end = await target.upstream.subscribe(target.own_uri, updated, meta, modern=False)
        if target.client_uri in subscriber.subscriptions:  # it asked twice at once
            end()
        else:
            subscriber.subscriptions[target.client_uri] = end

    def unsubscribe(self, connection: Connection, uri: str) -> None:
        """End this subscription of the client; without one, do nothing."""
        if end := self._of(connection).subscriptions.pop(uri, None):
            end()

    def _of(self, connection: Connection) -> _Subscriber:
        if connection not in self._subscribers:
            self._subscribers[connection] = _Subscriber(connection)
            connection.exit_stack.callback(self._forget, connection)
        return self._subscribers[connection]

    def _forget(self, connection: Connection) -> None:
        subscriber = self._subscribers.pop(connection)
        subscriber.pending.clear()
        for end in subscriber.subscriptions.values():
            end()
        subscriber.subscriptions.clear()

    async def run(self) -> None:
        """Deliver updates to the clients of the handshake era, until cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                await self._updated.wait()
                self._updated.clear()
                due, self._due = self._due, {}
                for subscriber in due:
                    if not subscriber.sending:
                        subscriber.sending = True
                        tasks.start_soon(self._send, subscriber)

    async def _send(self, subscriber: _Subscriber) -> None:
        try:
            while subscriber.pending:
                uri = next(iter(subscriber.pending))
                del subscriber.pending[uri]
                with anyio.move_on_after(DELIVERY_TIMEOUT_S) as scope:
                    with containing("resource update"):  # a server chose the URI
                        await subscriber.connection.notify(UPDATED, {"uri": uri})
                if scope.cancelled_caught:
                    log.warning("client.deaf", uri=uri, waited_s=DELIVERY_TIMEOUT_S)
        finally:
            subscriber.sending = False

    # --- from 2026-07-28 on

    @asynccontextmanager
    async def open_stream(self, bus: Bus, targets: list[ResourceTarget]) -> AsyncIterator[ListenStream]:
        """A stream of the events on a bus, with its subscriptions, which last as long as the context.

        Resources whose servers refuse are not among its `uris`.
        """
        stream = ListenStream(bus)
        try:
            async with anyio.create_task_group() as tasks:
                for target in targets:
                    tasks.start_soon(stream.add, target)
            self._streams += bool(stream.uris)
            try:
                yield stream
            finally:
                self._streams -= bool(stream.uris)
        finally:
            stream.close()


class ListenStream:
    """The events of one `subscriptions/listen` stream: list changes, and updates of its own resources.

    To the SDK's handler it is a `SubscriptionBus`, to which the handler subscribes once.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._subscriptions: dict[str, Callable[[], None]] = {}
        self._early: list[sdk.ServerEvent] = []
        self._deliver: Callable[[sdk.ServerEvent], None] = self._early.append

    @property
    def uris(self) -> list[str]:
        """The client's URIs of the resources that it is subscribed to."""
        return list(self._subscriptions)

    async def add(self, target: ResourceTarget) -> None:
        """Subscribe to one resource, unless its server refuses."""
        event = sdk.ResourceUpdated(target.client_uri)  # the SDK passes on exactly what was subscribed to

        def updated(own_uri: str) -> None:
            if target.is_shown(own_uri):
                self._deliver(event)

        subscriptions = target.upstream.subscriptions
        with suppress(CallError):
            await subscriptions.subscribe(target.own_uri, updated)
            end = partial(subscriptions.unsubscribe, target.own_uri, updated)
            self._subscriptions[target.client_uri] = end

    def close(self) -> None:
        """End the subscriptions."""
        for end in self._subscriptions.values():
            end()

    async def publish(self, event: sdk.ServerEvent) -> None:
        """Deliver an event on this stream alone."""
        self._deliver(event)

    def subscribe(self, listener: Callable[[sdk.ServerEvent], None]) -> Callable[[], None]:
        """Pass events to the handler from now on, the earlier ones first."""
        for event in self._early:
            listener(event)
        self._deliver = listener
        events: dict[ListChange, sdk.ServerEvent] = {
            "tools": sdk.ToolsListChanged(),
            "resources": sdk.ResourcesListChanged(),
            "prompts": sdk.PromptsListChanged(),
        }

        def announce(change: ListChange) -> None:
            listener(events[change])

        return self._bus.subscribe(announce)
