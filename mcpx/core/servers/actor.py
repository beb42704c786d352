"""The upstream actor: one task that owns one server's session, queue and caches.

`Upstream` is what the rest of MCPX holds: the queue and the last known catalogue outlive the incarnations
(`mcpx.core.servers.incarnations`), so callers wait through a restart and descriptions stay. Nothing here
decides about restarts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec.structs import replace

from mcpx.core.catalog.diff import Diff
from mcpx.core.catalog.model import Catalogue
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.config import Era, ServerConfig
from mcpx.core.policy.narrowed_policy import NarrowedPolicy
from mcpx.core.policy.policy import ServerPolicy
from mcpx.core.protocol.context import ClientId
from mcpx.core.protocol.requests import Request, tool_of
from mcpx.core.servers.admission import refusal_of
from mcpx.core.servers.call_errors import without_link
from mcpx.core.servers.call_queue import CallQueue, RawReply
from mcpx.core.servers.call_rate import CallRate
from mcpx.core.servers.companion import Companion
from mcpx.core.servers.health import Health
from mcpx.core.servers.idleness import Idleness
from mcpx.core.servers.incarnations import Incarnations
from mcpx.core.servers.offers.catalogue_cache import CatalogueCache
from mcpx.core.servers.offers.catalogue_store import CatalogueStore
from mcpx.core.servers.offers.subscriptions import Subscriptions
from mcpx.core.servers.per_client import PerClientSessions
from mcpx.core.servers.relay.clients import ConnectedClients
from mcpx.core.servers.relay.suspended import SuspendedCalls
from mcpx.core.servers.server_info import server_info
from mcpx.core.servers.session.handshake import KnownEras
from mcpx.core.servers.transport.ledger import Ledger
from mcpx.core.servers.transport.placement import PlacedUse, Placement
from mcpx.core.telemetry.log_files import ServerLog
from mcpx.core.telemetry.metrics import Counters
from mcpx.errors import CallError
from supervisors import Incarnation, Phase, Supervisor

if TYPE_CHECKING:
    from mcpx.core.servers.accounts import Account
    from mcpx.core.servers.passthrough.client import DirectClient
    from mcpx.core.servers.passthrough.session import DirectSession

_WARMED: Final = frozenset({Phase.IDLE, Phase.STARTING, Phase.UP})
OnCatalogue = Callable[[str, Diff], None]
"""Called with the server's name and what changed, after the catalogue was replaced. Must not raise."""


class Upstream:
    """One upstream server, for as long as its configuration is in force.

    `child` is its name at the supervisor and in the ledger, where that is not the server's. A session beside
    the server's `main` one shares what is known of the server; it asks in `eras`, if that is given, and
    belongs to `client`, where each client has its own.
    """

    def __init__(
        self,
        config: ServerConfig,
        supervisor: Supervisor,
        *,
        ledger: Ledger,
        server_log: ServerLog,
        max_message_bytes: int,
        child: str | None = None,
        main: Upstream | None = None,
        account: Account | None = None,
        client: ClientId | None = None,
        eras: Callable[[], tuple[Era, ...]] | None = None,
        on_catalogue: OnCatalogue = lambda _name, _diff: None,
        clients: ConnectedClients | None = None,
        catalogues: CatalogueStore | None = None,
        has_open_tasks: Callable[[], bool] = lambda: False,
        placement: Placement | None = None,
    ) -> None:
        self.config = config
        self.placement = placement
        """Says on which node its sessions are, where it is placed on one."""
        self.name = config.name
        self.child = child or config.name
        self.policy: ServerPolicy = main.policy if main is not None else ServerPolicy(config)
        self.narrowing: NarrowedPolicy | None = None
        """The policy of a profile's clients, where they see the server through one."""
        self.account: Account | None = main.account if main is not None else account
        """The one that MCPX has at the server, where it signs in."""
        self.main = main
        """The server's main session; None if this is it."""
        self.client = client
        self.private: PerClientSessions[Upstream] | None = None
        """The sessions that belong to one client each, where the server gives them."""
        self.direct: dict[DirectClient, DirectSession] = {}
        """The sessions of clients of its transparent endpoint."""
        self.companion: Companion | None = None
        """The session in the other era; None where there can be none."""
        self.serves_all = True
        """Whether the requests of all clients take this session; else there is a choice to make."""
        self.counters: Counters = main.counters if main is not None else Counters()
        self.rate: CallRate = main.rate if main is not None else CallRate(config, self.counters)
        self.queue = CallQueue(
            config, supervisor, self.counters, self.own_info, child=self.child, refusal=self.refusal_of
        )
        self._cache = CatalogueCache(
            config,
            self.counters,
            max_message_bytes=max_message_bytes,
            on_change=self._on_change,
            on_listing=self._on_listing,
            admits=lambda uri: self.policy.admits_resource(uri, listed=True),
            store=catalogues,
        )
        self.has_listed = False
        """Whether the catalogue is from this run of MCPX; else there is none, or it is from last time."""
        patience = config.call_limits.queue_timeout
        self.subscriptions = Subscriptions(
            config.name,
            self.submit,
            lambda: self.catalogue,
            self.queue.wait_awake,
            patience=patience,
            admits=self.admits_resource,
            from_mcpx=config.is_remote_mcpx,
            peer=config.peer,
        )
        self.as_peer_says: Callable[[ServerInfo], ServerInfo] | None = None
        """Adds to the view what the other MCPX says that the server is one of; None for one of our own."""
        self.pid: int | None = None
        self.health: Health | None = None
        """The health check, while it serves."""
        self.idleness: Idleness | None = None
        """Knows whether it is in use, while it serves."""
        self.last_error: str | None = None
        """Why it last failed, also after it has recovered; set by the fleet, which sees the failures."""
        self.rests = 0
        """How often it was put to sleep; counted by the fleet."""
        self.has_open_tasks = has_open_tasks
        self._leaving: str | None = None
        self._on_catalogue = on_catalogue
        self.known_eras: KnownEras = main.known_eras if main is not None else KnownEras(config)
        self.server_log = server_log
        self._clients = clients or ConnectedClients()
        self._suspended = SuspendedCalls(config.name, config.call_limits.call_timeout)
        self._clients.add_left_callback(self._suspended.cancel_for)
        self._incarnations = Incarnations(
            self,
            self._cache,
            self._clients,
            self._suspended,
            ledger=ledger,
            max_message_bytes=max_message_bytes,
            eras=eras or partial(self.known_eras.in_order, None),
        )

    # --- for the rest of MCPX

    @property
    def catalogue(self) -> Catalogue | None:
        """What there is of the server's last listing, by an earlier MCPX for all that; None before."""
        return self.policy.shown(self._cache.current)

    @property
    def listed(self) -> Catalogue | None:
        """The server's last listing, whatever the policy says: not for clients."""
        return self._cache.current

    def info(self) -> ServerInfo:
        """A frozen view of the server as it is now, as its peer says where it is one of another MCPX."""
        return self.own_info() if self.as_peer_says is None else self.as_peer_says(self.own_info())

    def own_info(self) -> ServerInfo:
        """The same by this session alone."""
        return server_info(self.config, self.queue, self.catalogue, self._leaving, self.account)

    @property
    def node(self) -> str | None:
        """The node of the cluster that it is on; None for one that is on none."""
        return None if self.placement is None else self.placement.node_of(self.child)

    @property
    def placed_use(self) -> PlacedUse | None:
        """What it uses on the nodes of the cluster; None for one that is on none."""
        return None if self.placement is None else self.placement.use_of(self.config)

    @property
    def era(self) -> Era | None:
        """The era of the session, as last agreed; None before the first listing."""
        if self.catalogue is None:
            return None
        return "modern" if self.catalogue.protocol_version in MODERN_PROTOCOL_VERSIONS else "handshake"

    @property
    def needs_sign_in(self) -> bool:
        """Whether a person has to sign in before a call can run, whatever the state of this session."""
        return self.queue.is_held or (self.account is not None and not self.account.is_usable)

    def sessions(self) -> list[Upstream | DirectSession]:
        """This one, and those with the same server beside it: the companion, and those of one client each."""
        companion = self.companion.session if self.companion is not None else None
        beside = () if companion is None else (companion,)
        return [self, *(self.private or ()), *beside, *self.direct.values()]

    @property
    def queued(self) -> int:
        """The requests that wait, at all sessions with the server."""
        return sum(session.queue.waiting for session in self.sessions())

    def in_era(self, modern: bool) -> Upstream:  # noqa: FBT001 - as a client's handle has it
        """The session for a client of that era, to `submit` a request to; may be this one.

        Does not wait: one that has to be opened first queues requests. If the server does not speak the era,
        this session serves it. Over stdio, and where the configuration says the era, all clients share it.
        """
        era: Era = "modern" if modern else "handshake"
        return self if self.companion is None else self.companion.session_in(era)

    def relist(self) -> None:
        """List again what the server offers: it told another session that it has changed."""
        self._incarnations.relist()
        if self.queue.is_asleep:
            self.queue.wake(for_use=False)

    def warm(self) -> None:
        """Start the server if it is asleep and all clients share it: a call is likely to follow."""
        if self.private is None and self.queue.lifecycle_phase() in _WARMED:
            self.queue.wake()

    def refusal_of(self, request: Request) -> CallError | None:
        """Why a request may not be sent, or not any more; None where it may be."""
        return None if request.context.own else refusal_of(request, self.policy, self.info())

    def admits_resource(self, uri: str) -> bool:
        """Whether there is a resource with that URI for clients, if the server has it."""
        known = self.catalogue
        return self.policy.admits_resource(uri, listed=known is not None and uri in known.resources)

    def policy_changed(self) -> None:
        """Hold what waits, and what is subscribed to, against the policy in force."""
        for each in self.sessions():
            each.queue.recheck()
            if isinstance(each, Upstream):
                each.subscriptions.policy_changed()

    def retire(self, why: str) -> None:
        """Refuse new requests and fail the waiting ones, because of `why`; the running ones may finish."""
        self._leaving = why
        self._clients.remove_left_callback(self._suspended.cancel_for)
        self.queue.close()

    def submit(self, request: Request, reply: RawReply) -> None:
        """Send or queue a request, or resume the suspended call that it names.

        Raises:
            CallError: `not_sent`, where none of that is possible; or the suspended call is over.
        """
        context = request.context
        if context.answers is not None:
            if self._suspended.resume(request, reply):
                return
            if not self._asks_likewise:  # else the link may be one of its own
                context = replace(context, answers=without_link(context.answers))
                request = replace(request, context=context)
        if self.rate.per_minute is not None and not request.context.own:
            self.rate.admit(tool_of(request))
        self.queue.submit(request, reply)

    @property
    def _asks_likewise(self) -> bool:
        """Whether it is at another MCPX, which asks in results, as this one does."""
        known = self.listed
        return (
            self.config.is_remote_mcpx
            and known is not None
            and known.protocol_version in MODERN_PROTOCOL_VERSIONS
        )

    def inherit_from(self, old: Upstream) -> None:
        """Take the place of another upstream of the same name, with its subscriptions.

        Its catalogue is shown until this one has listed for itself, unless this one is disabled.
        """
        self.subscriptions = old.subscriptions
        self.subscriptions.move_to(
            self.submit, lambda: self.catalogue, self.queue.wait_awake, self.admits_resource
        )
        if self.config.disabled is None:
            self._cache.inherit_from(old._cache)
            self.has_listed = self.catalogue is not None and self.catalogue.generation > 0
        if self.companion is not None and old.companion is not None:
            self.companion.inherit_from(old.companion)

    async def await_descriptions(self) -> None:
        """Wait while descriptions are made for the resources of the first listing."""
        if self.info().ready:
            await self._cache.described.wait()

    async def await_catalogue(self, suffices: Callable[[Catalogue], bool] = lambda _known: True) -> None:
        """Wait for the first listing, if it is on its way; unless what is known from last time `suffices`."""
        await self.queue.wait_for(
            lambda: self.has_listed or (self.catalogue is not None and suffices(self.catalogue))
        )

    async def await_first_attempt(self) -> None:
        """Wait until it has listed or failed for the first time, if it has not yet."""

        def attempted() -> bool:
            failed = not self.queue.pending_reason and self.info().cause is not None
            return failed or self.catalogue is not None

        await self.queue.wait_for(attempted, for_use=False)

    # --- one incarnation

    async def run(self, incarnation: Incarnation) -> None:
        """Connect and serve, until the connection ends or the supervisor asks to leave."""
        await self._incarnations.run(incarnation)

    # --- called back

    def _on_listing(self, listed: Catalogue) -> None:
        if self.policy.pins is not None:
            self.policy.pins.note(listed, whole=self.main is None)

    def _on_change(self, changed: Diff) -> None:
        is_first, self.has_listed = not self.has_listed, True
        self.queue.wake_waiters()
        self.queue.recheck()
        if changed and not (is_first and self.client is not None):  # what all clients see is known then
            self._on_catalogue(self.name, changed)
