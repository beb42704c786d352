"""Instructions and the list of tools for the clients of an endpoint, and what of them the clients know.

A client that is known to need another list gets another (`known_clients`). What was given is remembered until
the change is announced: a client that has not listed since then gets a list that it does not know anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

import anyio.lowlevel
import structlog

from mcpx.core.calls.exposure import Exposure, Shown
from mcpx.core.catalog.model import Catalogue, Diff, ToolInfo, diff, is_read_only
from mcpx.core.config import ArgumentsForm
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.gateway.clients.known_clients import (
    KnownClient,
    form_of_arguments,
    known_client,
    mends_for,
    wants_query,
)
from mcpx.core.protocol.context import ClientId
from mcpx.core.rendering.descriptions import (
    Descriptions,
    QueryTool,
    describe,
    instructions,
    native_instructions,
)
from mcpx.core.rendering.mending import Mend
from mcpx.core.servers.fleet.observers import NO_SERVER
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.telemetry.contained import containing

log = structlog.get_logger()
Given = tuple[Descriptions | None, dict[str, ToolInfo]]
"""Descriptions of the three tools, where they are listed, and the native tools by their names."""


ListChange = Literal["tools", "resources", "prompts"]
"""A list that has changed, as clients are told."""


class Bus:
    """Carries changes of the lists of one endpoint to the `subscriptions/listen` streams of its clients."""

    def __init__(self) -> None:
        self._listeners: dict[object, Callable[[ListChange], None]] = {}

    def subscribe(self, listener: Callable[[ListChange], None]) -> Callable[[], None]:
        """Call this with each change, until what is returned is called."""
        token = object()
        self._listeners[token] = listener
        return lambda: self._listeners.pop(token, None) and None

    async def publish(self, change: ListChange) -> None:
        """Announce a change on every stream, and let them take it before the next."""
        for listener in list(self._listeners.values()):
            with containing("list changed"):  # one stream must not end the announcements
                listener(change)
        await anyio.lowlevel.checkpoint()


class _Needs(NamedTuple):
    """All that the list of a client depends on, by the client and the settings."""

    limit: int | None
    query: bool
    arguments: ArgumentsForm
    fresh: bool
    apps: bool
    mends: frozenset[Mend]


class ToolList:
    """One for each endpoint; `hub` is what it shows.

    `bus` carries the events of the clients' `subscriptions/listen` streams.
    """

    def __init__(self, hub: HubView) -> None:
        self.hub = hub
        self.exposure = Exposure(hub.endpoint.expose, lambda: hub.config, hub.upstreams)
        self.bus = Bus()
        self._followed: dict[ClientId, set[Bus]] = {}
        self._given: list[tuple[KnownClient | None, bool, Given, frozenset[Mend]]] = []
        """By client, and whether it shows apps, since the last announcement."""
        self._limits_logged: set[str] = set()
        self._shown = frozenset(hub.upstreams)  # the names of the servers, at the last announcement

    def give(self, name: str | None, *, with_apps: bool = False) -> Given:
        """Give a client of that name (None: unknown) its list, which it is now known to have.

        `with_apps` is for one that shows apps, and so keeps their own tools from its model.
        """
        client = known_client(name)
        needs = self._needs(client, apps=with_apps)
        given = self._made(needs)
        if (client, with_apps, given, needs.mends) not in self._given:
            self._given.append((client, with_apps, given, needs.mends))
        shown = given[0]
        aside = shown is not None and (shown.server_name or shown.uri)
        if client and aside and client.prefix not in self._limits_logged:
            self._limits_logged.add(client.prefix)
            shows = client.description_chars
            log.info("client.description_limit", client=name, shows_chars=shows, lists="in parameters")
        return given

    def look(self, name: str | None) -> Given:
        """The same, for somebody else who looks."""
        return self._made(self._needs(known_client(name)))

    def shows_query(self, name: str | None) -> bool:
        """Return True if a client of that name has the query tool beside the three."""
        return wants_query(self.hub.config.tiers, known_client(name))

    def mends(self, name: str | None) -> frozenset[Mend]:
        """The mends of native tools that a client of that name is shown."""
        return self._needs(known_client(name)).mends

    def instructions(self, name: str | None) -> str:
        """Explain how a client of that name uses the tools, and the servers as they are now."""
        servers = self.hub.registry.list_servers()
        if not self.exposure.shown.three:
            return native_instructions(servers)
        return instructions(self.exposure.described(servers), query=self.shows_query(name))

    def due(
        self, changes: Mapping[str, Diff], all_upstreams: Mapping[str, VisibleServer]
    ) -> list[ListChange]:
        """Return what to announce to the clients after these changes of servers; then they know it.

        Only what they see counts: changes of a server that is shown now or was before, and what a server
        offers that is shown from now on, or no more.
        """
        before, self._shown = self._shown, frozenset(self.hub.upstreams)
        lists = of_native = Diff()
        for name in before | self._shown | {NO_SERVER}:
            changed, upstream = changes.get(name, Diff()), all_upstreams.get(name)
            if (name in before) is not (name in self._shown):
                offered = upstream.catalogue if upstream is not None else None
                changed |= diff(None, offered or Catalogue(generation=0)) | Diff(about=True)
            lists |= changed
            if upstream is None or self._is_native(upstream):
                of_native |= changed
        events: list[ListChange] = []
        if self._tools_may_differ(lists) and self._differs():
            self._given.clear()  # all clients know that it differs
            events.append("tools")
        if of_native.resources:
            events.append("resources")
        if of_native.prompts:
            events.append("prompts")
        return events

    async def publish(self, events: Iterable[ListChange]) -> None:
        """Publish events to the streams of the clients."""
        for event in events:
            for bus in {self.bus}.union(*self._followed.values()):
                await bus.publish(event)

    def follow(self, client: ClientId, before: ToolList) -> None:
        """Publish on the streams, too, that a client has opened at the endpoint where it was before."""
        self._followed[client] = (before.unfollow(client) | {before.bus}) - {self.bus}

    def unfollow(self, client: ClientId) -> set[Bus]:
        """End that; return the buses of its streams elsewhere."""
        return self._followed.pop(client, set())

    def _is_native(self, upstream: VisibleServer) -> bool:
        """Return True if resources and prompts of a server are listed."""
        return upstream.config.native

    def _tools_may_differ(self, changed: Diff) -> bool:
        """Return True if a change may be one of the list of tools."""
        return bool(changed.tools or changed.resources or changed.about)  # all that is in descriptions

    def _differs(self) -> bool:
        """Return True if a client that lists the tools now gets another list than a client got before."""
        made: dict[_Needs, Given] = {}
        for client, apps, given, mends in self._given:
            needs = self._needs(client, apps=apps)
            if needs not in made:
                made[needs] = self._made(needs)
            if made[needs] != given or needs.mends != mends:
                return True
        return not self._given

    def _needs(self, client: KnownClient | None, *, apps: bool = False) -> _Needs:
        config = self.hub.config
        return _Needs(
            None if client is None else client.description_chars,
            wants_query(config.tiers, client),
            form_of_arguments(config.exec_arguments, client),
            self.hub.keeps_reads,
            apps,
            mends_for(config, None if client is None else client.prefix),
        )

    def _made(self, needs: _Needs) -> Given:
        shown = self.exposure.shown
        three = self._describe(needs, shown) if shown.three else None
        return three, shown.natively(with_apps=needs.apps)

    def _describe(self, needs: _Needs, shown: Shown) -> Descriptions:
        config = self.hub.config
        return describe(
            self.exposure.described(self.hub.registry.list_servers()),
            budget=config.catalog_token_budget,
            max_description_len=config.max_description_len,
            limit=needs.limit,
            query=QueryTool(is_read_only, shown.query_open_world) if needs.query else None,
            arguments=needs.arguments,
            fresh=needs.fresh,
        )


class PeerLists(ToolList):
    """Lists of one server for another MCPX, as they are. Each change of one is announced."""

    def _is_native(self, _upstream: VisibleServer) -> bool:
        return True

    def _tools_may_differ(self, changed: Diff) -> bool:
        return bool(changed.tools or changed.about)

    def _differs(self) -> bool:
        return True
