"""The topic `server`: the card of one server, its timeline, and when what it offers has changed.

State goes out at once, gathered for `GATHER_S`; figures once a second, where they have changed. `offers` is a
number that is another one whenever the page has to ask again what the server offers.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import anyio

from mcpx.core.catalog.model import JSON
from mcpx.core.servers.fleet.observers import NO_SERVER
from mcpx.page.cards import card, settled

if TYPE_CHECKING:
    from mcpx.core.daemon.hub import Hub
    from mcpx.page.page import Page

GATHER_S: Final = 0.1  # in which changes come together
FIGURES_S: Final = 1.0  # between two looks at the figures
OFFERS_S: Final = 1.0  # between two versions of what is offered


async def server(page: Page, name: str) -> AsyncGenerator[Any, None]:
    """`{card, offers, timeline}`, then what of these has changed: of `timeline` the new entries, as `new`.

    Raises:
        CallError: `unknown_server`.
    """
    hub = page.hub
    hub.registry.upstream(name)
    offers = _Offers(hub, name)
    with ExitStack() as stack:
        stack.callback(hub.observe(offers.note))
        before: JSON = {}
        seen = 0
        while name in hub.upstreams:
            version, timeline = hub.fleet.version, hub.fleet.timelines[name]
            card = card_of(page, name)
            now: JSON = {"card": settled(card), "offers": offers.version()}
            news = {key: value for key, value in now.items() if before.get(key) != value}
            if "card" in news:
                news["card"] = card
            if not before:
                news["timeline"] = timeline.entries()
            elif timeline.count != seen:
                news["new"] = timeline.entries(seen)
            before, seen = now, timeline.count
            if news:
                yield news
            await anyio.sleep(GATHER_S)
            with anyio.move_on_after(FIGURES_S - GATHER_S):
                while hub.fleet.version == version and not offers.wants:
                    await hub.fleet.news.wait()


def card_of(page: Page, name: str) -> JSON:
    """The card of a server, as the overview has it.

    Raises:
        CallError: `unknown_server`.
    """
    pids = (upstream.pid for upstream in page.hub.upstreams.values())
    page.processes.refresh([pid for pid in pids if pid is not None])  # all: others look at them, too
    return card(page.hub, name, page.processes.uses)


class _Offers:
    """When a server offers something else. The version begins with the time, so that none comes twice."""

    def __init__(self, hub: Hub, name: str) -> None:
        self._hub = hub
        self._name = name
        self._version = time.time_ns() // 1_000_000
        self._is_new = False
        self._due = 0.0

    def note(self, name: str, _changed: object) -> None:
        """For `Hub.observe`."""
        if name in {self._name, NO_SERVER}:
            self._is_new = True
            self._hub.fleet.news.pulse()

    @property
    def wants(self) -> bool:
        """Whether there is another version that may be told of."""
        return self._is_new and time.monotonic() >= self._due

    def version(self) -> int:
        """The version, another one at most each `OFFERS_S`: a page asks for all that is offered then."""
        if self.wants:
            self._version += 1
            self._is_new = False
            self._due = time.monotonic() + OFFERS_S
        return self._version
