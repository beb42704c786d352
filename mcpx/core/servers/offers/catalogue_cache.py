"""The last known catalogue of one session's server, and how it is kept current.

Owned by a session, whose incarnations come and go: each lists once before it serves, and again
when the server says that a list changed. A listing that fails keeps what was known. Where there is a store,
what is known at first is what the server offered last time, and each listing is noted there.

Text resources without a description get the first words of their content, in quotes, from the `Describer`. It
remembers what it has read over reconnects, so that an unchanged resource is not read twice; what an earlier
MCPX has made is shown at once, and read once more. It runs beside the calls, reads a few at a time and none
that is known to be large, and gives up on a resource that cannot be read. A resource counts as changed when
its URI, type, size or `lastModified` do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import anyio
import structlog
from msgspec.structs import replace

from mcpx.core.catalog.model import Catalogue, Diff, ResourceInfo, ToolInfo, diff
from mcpx.core.config import ServerConfig, redactor_of
from mcpx.core.servers.causes import BadListing
from mcpx.core.servers.offers.catalogue_store import TOUCH_INTERVAL_S, CatalogueStore
from mcpx.core.servers.offers.listing import Lister, OmissionLog
from mcpx.core.servers.offers.remembered import DescriptionKey, Descriptions
from mcpx.core.servers.session.client_session import PassingSession
from mcpx.core.telemetry.metrics import Counters
from mcpx.core.text import one_line, quoted
from mcpx.core.wire.envelope import MCPError
from mcpx.core.wire.outgoing import MalformedMessage, ResponseTooLarge
from supervisors import Signal

log = structlog.get_logger()

MAX_CONCURRENT_READS: Final = 4
MAX_LOGGED: Final = 20  # names of tools that have come, gone or changed
DESCRIPTION_CHARS: Final = 100  # of the content make a description
MAX_READ_BYTES: Final = 256 * 1024  # the protocol cannot read a part, so larger ones are not read
READ_TIMEOUT_S: Final = 10.0  # for one resource: a description is not worth more

_TEXT_TYPES: Final = frozenset(
    {
        "application/json",
        "application/xml",
        "application/javascript",
        "application/ecmascript",
        "application/yaml",
        "application/x-yaml",
        "application/x-sh",
        "application/x-shellscript",
        "application/x-python",
        "application/x-python-code",
        "application/toml",
        "application/sql",
    }
)
RELIST_DEBOUNCE_S: Final = 0.2  # list_changed within this time is one listing
MAX_RELIST_PAUSE_S: Final = 10.0  # between the listings of a server that never stops changing


def is_text(mime_type: str | None) -> bool:
    """True if the MIME type is text: `text/*`, `+json`, `+xml`, and the usual ones under `application/`."""
    if mime_type is None:
        return False
    kind = mime_type.split(";", 1)[0].strip().lower()
    return kind.startswith("text/") or kind.endswith(("+json", "+xml")) or kind in _TEXT_TYPES


def first_words(text: str) -> str:
    """`begins: "..."` with the first characters on one line, and `...` where there are more.

    In quotes, because it is content by an unknown author, not what the resource is for.
    """
    return "begins: " + quoted(
        one_line(text[:DESCRIPTION_CHARS]) + ("..." if len(text) > DESCRIPTION_CHARS else "")
    )


class Describer:
    """The descriptions made for the resources of one server; `recalled` are those of an earlier MCPX."""

    def __init__(self, recalled: Descriptions | None = None) -> None:
        self.made: Descriptions = dict(recalled or {})
        self._recalled = set(self.made)
        self._undescribed: dict[str, ResourceInfo] = {}

    def apply(self, listed: Catalogue) -> Catalogue:
        """A catalogue, as it was listed, with the descriptions that were made."""
        named = listed.named_uris  # pages of apps, and files of skills: others say what they are
        self._undescribed = {
            uri: item for uri, item in listed.resources.items() if not item.description and uri not in named
        }
        self._forget_all_but(self._undescribed)
        return self.renew(listed)

    def renew(self, catalogue: Catalogue) -> Catalogue:
        """The last catalogue that was listed, with the descriptions that have been made since."""
        described = {
            uri: replace(item, description=known)
            for uri, item in self._undescribed.items()
            if (known := self.made.get(_key(item)))
        }
        return replace(catalogue, resources=catalogue.resources | described) if described else catalogue

    async def read_missing(self, session: PassingSession, admits: Callable[[str], bool]) -> None:
        """Read the text resources that have no description and are not too large; a few at a time.

        `admits` says whether there is a resource for clients: no other is read.
        """
        wanted = [item for item in self._undescribed.values() if self._wants(item)]
        queue = iter(wanted)

        async def work() -> None:
            for item in queue:
                if not admits(item.uri):
                    continue
                await self._describe(item, session)

        async with anyio.create_task_group() as tasks:
            for _ in range(min(MAX_CONCURRENT_READS, len(wanted))):
                tasks.start_soon(work)

    def _wants(self, item: ResourceInfo) -> bool:
        key = _key(item)
        if not is_text(item.mime_type) or (key in self.made and key not in self._recalled):
            return False
        return item.size is None or item.size <= MAX_READ_BYTES

    def _forget_all_but(self, resources: Mapping[str, ResourceInfo]) -> None:
        current = {_key(item) for item in resources.values()}
        self.made = {key: text for key, text in self.made.items() if key in current}

    async def _describe(self, item: ResourceInfo, session: PassingSession) -> None:
        description: str | None = None
        with anyio.move_on_after(READ_TIMEOUT_S):
            try:
                contents = (await session.ask_raw("resources/read", {"uri": item.uri})).get("contents")
            except MCPError:
                contents = None
            texts = [each.get("text") for each in contents or () if isinstance(each, dict)]
            text = next((each for each in texts if isinstance(each, str)), None)
            description = first_words(text) if text else None
        key = _key(item)
        self.made[key] = description or (self.made.get(key) if key in self._recalled else None)
        self._recalled.discard(key)


def _key(item: ResourceInfo) -> DescriptionKey:
    modified = (item.annotations or {}).get("lastModified")
    return item.uri, item.mime_type, item.size, modified


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

    def adopt(self, listed: Catalogue) -> None:
        """Take what another session with the same server has listed as the listing of this one."""
        self.begin()
        self._replace(listed)
        self.described.set()
        self._keep()

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

    def _log_tools(self, before: Mapping[str, ToolInfo], now: Mapping[str, ToolInfo]) -> None:
        differs = [name for name in now if name in before and before[name] != now[name]]
        self._log.info(
            "upstream.tools_changed",
            added=[name for name in now if name not in before][:MAX_LOGGED],
            removed=[name for name in before if name not in now][:MAX_LOGGED],
            changed=differs[:MAX_LOGGED],
        )

    def _replace(self, catalogue: Catalogue) -> None:
        """Take the catalogue; of lists that are equal the old ones, whatever order the server has now."""
        changed = diff(self.current, catalogue)
        if self.current is not None:
            if changed.tools:
                self._log_tools(self.current.tools, catalogue.tools)
            kept = {
                name: getattr(self.current, name)
                for name, differs in (("tools", changed.tools), ("prompts", changed.prompts))
                if not differs
            }
            if not changed.resources:
                kept |= {name: getattr(self.current, name) for name in ("resources", "templates", "skills")}
            catalogue = replace(catalogue, **kept)
        self.current = catalogue
        self._on_change(changed)
