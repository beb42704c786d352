"""Instructions and the list of tools for the clients of an endpoint, and what of them the clients know.

A client with another limit of its descriptions gets another list. What was given is remembered until the
change is announced: a client that has not listed since then gets a list that it does not know anyway.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ServerEvent, ToolsListChanged

from mcpx.core.calls.exposure import Exposure, Shown
from mcpx.core.catalog.diff import Diff, diff
from mcpx.core.catalog.model import Catalogue, ToolInfo, is_read_only
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.gateway.clients.known_clients import known_client
from mcpx.core.rendering.descriptions import (
    Descriptions,
    QueryTool,
    describe,
    instructions,
    native_instructions,
)
from mcpx.core.servers.fleet.observers import NO_SERVER
from mcpx.core.servers.visible_server import VisibleServer

log = structlog.get_logger()
Given = tuple[Descriptions | None, dict[str, ToolInfo]]
"""Descriptions of the three tools, where they are listed, and the native tools by their names."""


class ToolList:
    """One for each endpoint; `hub` is what it shows.

    `bus` carries the events of the clients' `subscriptions/listen` streams.
    """

    def __init__(self, hub: HubView) -> None:
        self.hub = hub
        self.exposure = Exposure(hub.endpoint.expose, lambda: hub.config, hub.upstreams)
        self.bus = InMemorySubscriptionBus()
        self._given: list[tuple[int | None, Given]] = []  # by limit, since the last announcement
        self._limits_logged: set[str] = set()
        self._shown = frozenset(hub.upstreams)  # the names of the servers, at the last announcement

    def give(self, name: str | None) -> Given:
        """Give a client of that name (None: unknown) its list, which it is now known to have."""
        client = known_client(name)
        limit = client.description_chars if client else None
        given = self.look(name)
        if (limit, given) not in self._given:
            self._given.append((limit, given))
        shown = given[0]
        aside = shown is not None and (shown.server_name or shown.uri)
        if client and aside and client.prefix not in self._limits_logged:
            self._limits_logged.add(client.prefix)
            log.info("client.description_limit", client=name, shows_chars=limit, lists="in parameters")
        return given

    def look(self, name: str | None) -> Given:
        """The same, for somebody else who looks."""
        client = known_client(name)
        return self._made(client.description_chars if client else None)

    def instructions(self) -> str:
        """Explain how to use the tools, and the servers as they are now."""
        servers = self.hub.registry.list_servers()
        if not self.exposure.shown.three:
            return native_instructions(servers)
        return instructions(self.exposure.described(servers), query=self.exposure.shown.query)

    def due(
        self, changes: Mapping[str, Diff], all_upstreams: Mapping[str, VisibleServer]
    ) -> list[ServerEvent]:
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
        events: list[ServerEvent] = []
        if self._tools_may_differ(lists) and self._differs():
            self._given.clear()  # all clients know that it differs
            events.append(ToolsListChanged())
        if of_native.resources:
            events.append(ResourcesListChanged())
        if of_native.prompts:
            events.append(PromptsListChanged())
        return events

    def _is_native(self, upstream: VisibleServer) -> bool:
        """Return True if resources and prompts of a server are listed."""
        return upstream.config.native

    def _tools_may_differ(self, changed: Diff) -> bool:
        """Return True if a change may be one of the list of tools."""
        return bool(changed.tools or changed.resources or changed.about)  # all that is in descriptions

    def _differs(self) -> bool:
        """Return True if a client that lists the tools now gets another list than a client got before."""
        return not self._given or any(given != self._made(limit) for limit, given in self._given)

    def _made(self, limit: int | None) -> Given:
        shown = self.exposure.shown
        return (self._describe(limit, shown) if shown.three else None), shown.native

    def _describe(self, limit: int | None, shown: Shown) -> Descriptions:
        config = self.hub.config
        return describe(
            self.exposure.described(self.hub.registry.list_servers()),
            budget=config.catalog_token_budget,
            max_description_len=config.max_description_len,
            limit=limit,
            query=QueryTool(is_read_only, shown.query_open_world) if shown.query else None,
        )


class PeerLists(ToolList):
    """Lists of one server for another MCPX, as they are. Each change of one is announced."""

    def _is_native(self, _upstream: VisibleServer) -> bool:
        return True

    def _tools_may_differ(self, changed: Diff) -> bool:
        return bool(changed.tools or changed.about)

    def _differs(self) -> bool:
        return True
