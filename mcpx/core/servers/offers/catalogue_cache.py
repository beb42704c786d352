"""The last known catalogue of one server, and how it is kept current.

Owned by the server's `Upstream`, whose incarnations come and go: each lists once before it serves, and again
when the server says that a list changed. A listing that fails keeps what was known. Where there is a store,
what is known at first is what the server offered last time, and each listing is noted there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio
import structlog
from mcp import MCPError
from msgspec.structs import replace

from mcpx.core.catalog.diff import Diff, diff
from mcpx.core.catalog.model import Catalogue
from mcpx.core.config import ServerConfig, redactor_of
from mcpx.core.servers.errors import BadListing
from mcpx.core.servers.offers.auto_describe import Describer
from mcpx.core.servers.offers.catalogue_store import TOUCH_INTERVAL_S, CatalogueStore
from mcpx.core.servers.offers.left_out import OmissionLog
from mcpx.core.servers.offers.listing import Lister
from mcpx.core.servers.session.sdk_session import PassingSession
from mcpx.core.telemetry.metrics import Counters
from mcpx.core.wire.outgoing import MalformedMessage, ResponseTooLarge
from supervisors import Signal

log = structlog.get_logger()
RELIST_DEBOUNCE_S: Final = 0.2  # list_changed within this time is one listing
MAX_RELIST_PAUSE_S: Final = 10.0  # between the listings of a server that never stops changing


class CatalogueCache:
    """Keeps `current`. `on_change` is called after it was replaced, with what differs; it must not raise.

    `on_listing` is called with each whole listing before it is taken in. `max_message_bytes` bounds each page
    of a list. `admits` says whether there is a resource for clients: no other is read for a description.
    """

    def __init__(
        self,
        config: ServerConfig,
        counters: Counters,
        *,
        max_message_bytes: int,
        on_change: Callable[[Diff], None],
        on_listing: Callable[[Catalogue], None] = lambda _listed: None,
        admits: Callable[[str], bool] = lambda _uri: True,
        store: CatalogueStore | None = None,
    ) -> None:
        remembered = store.load(config) if store is not None else None
        self.current: Catalogue | None = remembered.catalogue if remembered else None
        """None before the first listing; of generation 0 as long as it is from last time."""
        self.described = anyio.Event()
        """Set when the resources of the first listing have got their descriptions, or will not get them."""
        self._config = config
        self._counters = counters
        self._limit = max_message_bytes
        self._on_change = on_change
        self._on_listing = on_listing
        self._admits = admits
        self._store = store
        self._identity: str | None = None  # in the store, of what is running now
        self._omission_log = OmissionLog(config.name)
        self._describer = Describer(remembered.descriptions if remembered else None)
        if remembered:
            self.described.set()
        self._redact = redactor_of(config)
        self._log = log.bind(server=config.name)

    def inherit_from(self, old: CatalogueCache) -> None:
        """Go on with what another cache of the same server knows, until the first listing of this one.

        What this very server has offered last time is better, and what the other one did is not known to be
        right.
        """
        if self.current is not None or old.current is None or old.current.generation == 0:
            return
        self.current = old.current
        if self._config.auto_describe:
            self._describer = old._describer  # else what was made is gone until it is made again

    def begin(self) -> None:
        """Note that the server is about to be started: what it is then is what lists."""
        self._identity = self._store.identity(self._config) if self._store is not None else None

    def confirm(self) -> None:
        """Note that the server still offers what it listed last."""
        if self._store is not None and self._identity is not None:
            self._store.touch(self._identity)

    async def list_all(self, session: PassingSession, generation: int) -> None:
        """List what the server offers.

        Raises:
            BadListing: Its lists cannot be used.
            MCPError: It refused to list its tools, or the connection ended.
            ResponseTooLarge: A page is longer than a message may be.
            MalformedMessage: A page is no message.
        """
        lister = Lister(
            session,
            self._config.name,
            limit=self._limit,
            patience=self._config.call_limits.connect_timeout,
            last=self.current,
        )
        catalogue = await lister.list_all(generation)
        self._counters.listings += 1
        self._omission_log.record(catalogue.left_out)
        self._on_listing(catalogue)
        self._replace(self._describer.apply(catalogue))
        self._keep()

    async def follow(self, session: PassingSession, generation: int, changes: Signal) -> None:
        """List again whenever `changes` is set; a storm of changes is a few listings.

        Each listing that more changes follow at once doubles the pause before the next.
        """
        pause = RELIST_DEBOUNCE_S
        while True:
            with anyio.move_on_after(TOUCH_INTERVAL_S):
                await changes.wait()
            if not changes.is_set():
                self.confirm()
                continue
            await anyio.sleep(pause)
            changes.clear()
            if await self._list_again(session, generation):
                await self.describe(session)
            with anyio.move_on_after(pause):
                await changes.wait()
            pause = min(2 * pause, MAX_RELIST_PAUSE_S) if changes.is_set() else RELIST_DEBOUNCE_S

    async def _list_again(self, session: PassingSession, generation: int) -> bool:
        """List during the session; a listing that fails or never ends costs neither it nor its calls."""
        reason = f"no answer within {self._config.call_limits.connect_timeout:g} s"
        with anyio.move_on_after(self._config.call_limits.connect_timeout):
            try:
                await self.list_all(session, generation)
            except (MCPError, BadListing, MalformedMessage, ResponseTooLarge) as error:
                reason = str(error).partition("\n")[0]
            else:
                known = self.current or Catalogue(generation=generation)
                self._log.info("upstream.listed", tools=len(known.tools), resources=len(known.resources))
                return True
        self._log.warning("upstream.unlisted", reason=self._redact(reason), kept="the last known lists")
        return False

    async def describe(self, session: PassingSession) -> None:
        """Read resources without a description for the beginning of their text, where that is configured."""
        try:
            if self._config.auto_describe and self.current is not None:
                await self._describer.read_missing(session, self._admits)
                self._replace(self._describer.renew(self.current))
                self._keep()
        finally:
            self.described.set()

    def _keep(self) -> None:
        if self._store is not None and self._identity is not None and self.current is not None:
            self._store.keep(self._config, self._identity, self.current, dict(self._describer.made))

    def _replace(self, catalogue: Catalogue) -> None:
        """Take the catalogue; of lists that are equal the old ones, whatever order the server has now."""
        changed = diff(self.current, catalogue)
        if self.current is not None:
            kept = {
                name: getattr(self.current, name)
                for name, differs in (("tools", changed.tools), ("prompts", changed.prompts))
                if not differs
            }
            if not changed.resources:
                kept |= {"resources": self.current.resources, "templates": self.current.templates}
            catalogue = replace(catalogue, **kept)
        self.current = catalogue
        self._on_change(changed)
