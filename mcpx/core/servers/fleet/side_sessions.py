"""The sessions beside the main one of a server: the companion in the other era, and those of one client each.

Part of the fleet, which supervises them like any other. Their catalogues are not announced: that of the main
session is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import structlog
from msgspec.structs import replace

from mcpx.core.config import Era
from mcpx.core.protocol.context import ClientId
from mcpx.core.servers.actor import Upstream
from mcpx.core.servers.companion import Companion
from mcpx.core.servers.per_client import PerClientSessions
from supervisors import ChildFailed, ChildParked, ChildReady, Event

log = structlog.get_logger()

Make = Callable[..., Upstream]
"""Makes an upstream of a configuration; the keywords are those of `Upstream`."""


class SideSessions:
    """Opens side sessions. `start` has one supervised; `dismiss` ends one, and does not wait for that."""

    def __init__(
        self, make: Make, start: Callable[[Upstream], None], dismiss: Callable[[Upstream, str], None]
    ) -> None:
        self._make = make
        self._start = start
        self._dismiss = dismiss

    def allow(self, main: Upstream) -> None:
        """Let a server have sessions beside its main one, as its configuration says."""
        config = main.config
        if config.disabled is not None:
            return
        if config.sessions == "per_client":
            main.private = PerClientSessions(
                config.name, lambda client, era: self._open_private(main, client, era)
            )
        if config.era == "auto" and config.transport.kind == "http":
            main.companion = Companion(main, lambda era: self._open_companion(main, era), self._dismiss)
        main.serves_all = main.private is None and main.companion is None

    def _open_private(self, main: Upstream, client: ClientId, era: Era | None) -> Upstream:
        """A client's own session, in its era if the server speaks it."""
        config = replace(main.config, auto_describe=False)

        def relist(*_: object) -> None:
            if main.queue.is_asleep:  # else it is told on its own session
                main.relist()

        eras = partial(main.known_eras.in_order, era)
        own = self._make(config, main=main, client=client, eras=eras, on_catalogue=relist)
        self._start(own)
        return own

    def _open_companion(self, main: Upstream, era: Era) -> Upstream:
        """The session in the other era. It must be open before the calls that wait for it give up."""
        limits = main.config.call_limits
        limits = replace(limits, connect_timeout=min(limits.connect_timeout, limits.queue_timeout / 2))
        config = replace(main.config, auto_describe=False, call_limits=limits)
        own = self._make(config, main=main, eras=lambda: (era,), on_catalogue=lambda *_: main.relist())
        self._start(own)
        return own

    def take(self, event: Event, upstream: Upstream) -> bool:
        """Pass an event on to its companion; return whether it only says that the server speaks one era."""
        if isinstance(event, ChildReady) and upstream.companion is not None:
            upstream.companion.main_is_ready()
        companion = upstream.main.companion if upstream.main is not None else None
        if companion is None or not isinstance(event, ChildFailed | ChildParked):
            return False
        refused = companion.is_refused(upstream, event.cause)
        if refused:
            log.info("upstream.one_era", server=upstream.name, cause=event.cause.text)
        return refused
