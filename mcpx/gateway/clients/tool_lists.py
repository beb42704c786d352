"""The list of tools that the clients of one choice get, what of it they were given, and whether it differs.

A client with another limit of its descriptions gets another list. What was given is remembered until the
change is announced: a client that has not listed since then gets a list that it does not know anyway.
"""

from __future__ import annotations

import structlog
from mcp.server.subscriptions import InMemorySubscriptionBus

from mcpx.catalog.model import ToolInfo
from mcpx.core.exposure import Exposure
from mcpx.core.hub import Hub
from mcpx.door import Expose
from mcpx.gateway.clients.known_clients import known_client
from mcpx.rendering.descriptions import Descriptions, describe

log = structlog.get_logger()
Given = tuple[Descriptions | None, dict[str, ToolInfo]]
"""What the three tools say of themselves, where they are listed, and the native tools by their names."""


class ToolList:
    """One for each choice. `bus` carries the events of the clients' `subscriptions/listen` streams."""

    def __init__(self, hub: Hub, choice: Expose | None) -> None:
        self.exposure = Exposure(choice, lambda: hub.config, hub.upstreams)
        self.bus = InMemorySubscriptionBus()
        self._hub = hub
        self._given: list[tuple[int | None, Given]] = []  # by limit, since the last announcement
        self._limits_logged: set[str] = set()
        hub.observe(self.exposure.catalogue_changed)

    def give(self, name: str | None) -> Given:
        """What a client of that name (None: unknown) gets, which counts as given to it."""
        client = known_client(name)
        limit = client.description_chars if client else None
        given = self._made(limit)
        if (limit, given) not in self._given:
            self._given.append((limit, given))
        shown = given[0]
        aside = shown is not None and (shown.server_name or shown.uri)
        if client and aside and client.prefix not in self._limits_logged:
            self._limits_logged.add(client.prefix)
            log.info("client.description_limit", client=name, shows_chars=limit, lists="in parameters")
        return given

    def differs(self) -> bool:
        """Whether a client that lists the tools now gets another list than one before it was given."""
        return not self._given or any(given != self._made(limit) for limit, given in self._given)

    def announced(self) -> None:
        """All clients know that the list differs."""
        self._given.clear()

    def _made(self, limit: int | None) -> Given:
        shown = self.exposure.shown
        return (self._describe(limit) if shown.three else None), shown.native

    def _describe(self, limit: int | None) -> Descriptions:
        config = self._hub.config
        return describe(
            self.exposure.described(self._hub.registry.list_servers()),
            budget=config.catalog_token_budget,
            max_description_len=config.max_description_len,
            limit=limit,
        )
