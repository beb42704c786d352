"""The clients that are subscribed to resources, and telling them: each its own, at once, and nobody else.

Before 2026-07-28 a client subscribes URI by URI and is told on its session; from then on it opens a
`subscriptions/listen` stream and is told there. Either way each subscriber is a listener of the upstream's
`Subscriptions`, which subscribe once for all of them; when a client leaves, its listeners do. A client that
does not read holds up nobody but itself: what it has not taken yet is kept once for each URI.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio
import anyio.abc
import structlog
from mcp.server.connection import Connection
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.subscriptions import ResourceUpdated, ServerEvent

from mcpx.errors import CallError
from mcpx.gateway.clients.identity import connection_of
from mcpx.observe.contained import contain
from mcpx.upstream.actor import Upstream
from supervisors import Signal

log = structlog.get_logger()

DELIVERY_S: Final = 5.0  # a client that does not take its notice in this time goes without


class Target:
    """A resource to subscribe to: whose it is, what that server calls it, and how the client names it.

    `shown` gives the client's name for a URI of that server.
    """

    def __init__(self, upstream: Upstream, own: str, uri: str, shown: Callable[[str], str]) -> None:
        self.upstream = upstream
        self.own = own
        self.uri = uri
        self.shown = shown


class _Subscriber:
    """One client of the handshake era: what it is subscribed to, and what it is still to be told."""

    def __init__(self, session: ServerSession) -> None:
        self.session = session
        self.leaving: dict[str, Callable[[], None]] = {}
        """By the URI as the client named it: what ends the subscription."""
        self.pending: dict[str, None] = {}
        self.sending = False


class Subscribers:
    """Everybody who is subscribed to a resource."""

    def __init__(self, bus: InMemorySubscriptionBus) -> None:
        self._bus = bus
        self._subscribers: dict[Connection, _Subscriber] = {}
        self._due: dict[_Subscriber, None] = {}
        self._news = Signal()
        self._streams = 0

    def __len__(self) -> int:
        """How many clients and streams are subscribed to something."""
        return sum(bool(each.leaving) for each in self._subscribers.values()) + self._streams

    # --- before 2026-07-28

    async def subscribe(self, session: ServerSession, target: Target) -> None:
        """Tell this client of changes from now on. Raises CallError where the server does not agree."""
        subscriber = self._of(session)
        if target.uri in subscriber.leaving:
            return

        def updated(own: str) -> None:
            subscriber.pending[target.shown(own)] = None
            self._due[subscriber] = None
            self._news.set()

        await target.upstream.subscriptions.subscribe(target.own, updated)

        def leave() -> None:
            target.upstream.subscriptions.unsubscribe(target.own, updated)

        if target.uri in subscriber.leaving:  # it asked twice at once
            leave()
        else:
            subscriber.leaving[target.uri] = leave

    def unsubscribe(self, session: ServerSession, uri: str) -> None:
        """Tell this client of that URI no more; nothing where it was not subscribed."""
        if leave := self._of(session).leaving.pop(uri, None):
            leave()

    def _of(self, session: ServerSession) -> _Subscriber:
        connection = connection_of(session)
        if connection not in self._subscribers:
            self._subscribers[connection] = _Subscriber(session)
            connection.exit_stack.callback(self._part, connection)
        return self._subscribers[connection]

    def _part(self, connection: Connection) -> None:
        subscriber = self._subscribers.pop(connection)
        subscriber.pending.clear()
        for leave in subscriber.leaving.values():
            leave()
        subscriber.leaving.clear()

    async def deliver_for_ever(self) -> None:
        """Pass updates on to the clients of the handshake era."""
        async with anyio.create_task_group() as tasks:
            while True:
                await self._news.wait()
                self._news.clear()
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
                with anyio.move_on_after(DELIVERY_S) as scope:
                    try:
                        await subscriber.session.send_resource_updated(uri)
                    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                        pass  # it has left
                    except Exception as error:  # noqa: BLE001 - a server chose the URI: it must not end the telling
                        contain(error, "resource update")
                if scope.cancelled_caught:
                    log.warning("client.deaf", uri=uri, waited_s=DELIVERY_S)
        finally:
            subscriber.sending = False

    # --- from 2026-07-28 on

    @asynccontextmanager
    async def stream(self, targets: list[Target]) -> AsyncIterator[Stream]:
        """A stream's subscriptions, while it is open. `refused` of the result says which are none."""
        made = Stream(self._bus)
        try:
            async with anyio.create_task_group() as tasks:
                for target in targets:
                    tasks.start_soon(made.join, target)
            self._streams += bool(made.leaving)
            try:
                yield made
            finally:
                self._streams -= bool(made.leaving)
        finally:
            for leave in made.leaving.values():
                leave()


class Stream:
    """The events of one `subscriptions/listen` stream: the changed lists of all, and its own resources.

    The SDK's `SubscriptionBus` to its handler, which subscribes to it once.
    """

    def __init__(self, bus: InMemorySubscriptionBus) -> None:
        self.leaving: dict[str, Callable[[], None]] = {}
        """By the URI as the client named it: what ends the subscription."""
        self.refused: dict[str, CallError] = {}
        self._bus = bus
        self._early: list[ServerEvent] = []
        self._deliver: Callable[[ServerEvent], None] = self._early.append

    async def join(self, target: Target) -> None:
        """Subscribe to one resource, unless its server does not agree."""
        event = ResourceUpdated(target.uri)  # the SDK passes on exactly what was subscribed to

        def updated(_own: str) -> None:
            self._deliver(event)

        subscriptions = target.upstream.subscriptions
        try:
            await subscriptions.subscribe(target.own, updated)
        except CallError as error:
            self.refused[target.uri] = error
        else:
            self.leaving[target.uri] = lambda: subscriptions.unsubscribe(target.own, updated)

    async def publish(self, event: ServerEvent) -> None:
        """Deliver an event on this stream alone."""
        self._deliver(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Have the handler told, of what came before it first."""
        for event in self._early:
            listener(event)
        self._deliver = listener
        return self._bus.subscribe(listener)
