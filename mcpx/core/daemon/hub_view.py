"""The hub as the clients of one endpoint see it: the servers and tools that they are shown, and no others.

Everything in the gateway looks through a `HubView`, never at the hub itself: what lists, searches, reads,
calls, completes, subscribes or notifies asks its `upstreams`, `registry`, `calls` and `config`, so that a
server or a tool that is hidden is unknown there exactly as one that does not exist, also in what errors
suggest. The view is made of the configuration in force at each look, so a reload changes it at once. At a
endpoint that shows all the faces are the hub's own, and looking through the view costs nothing.

The requests of a view's clients go down a pipeline of its own (`mcpx.core.calls.pipeline`), which knows no
other servers. A server that is seen through a profile stands in the
view as a `NarrowedUpstream`, whether the profile narrows it or not: it may do so by the time that a call that
waits is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from mcpx.core.calls.results.large_requests import LargeRequests
from mcpx.core.catalog.model import Catalogue
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.config import Config, Era
from mcpx.core.daemon.hub import Hub
from mcpx.core.policy.catalogue_rules import NO_RULES, Rules
from mcpx.core.policy.narrowed_policy import NarrowedPolicy
from mcpx.core.protocol.context import ClientId
from mcpx.core.protocol.requests import Request
from mcpx.core.servers.admission import refusal_of
from mcpx.core.servers.call_queue import CallQueue, RawReply
from mcpx.core.servers.call_rate import CallRate
from mcpx.core.servers.fleet.observers import await_descriptions
from mcpx.core.servers.fleet.profiles import Selection, select
from mcpx.core.servers.offers.resource_updates import Listener
from mcpx.core.servers.offers.subscriptions import Subscriptions
from mcpx.core.servers.server import Server
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.system.endpoint import DEFAULT_ENDPOINT, Endpoint
from mcpx.errors import CallError

if TYPE_CHECKING:
    from mcpx.core.servers.accounts import Account


class HubView:
    """What the clients of `endpoint` have of a hub."""

    def __init__(self, hub: Hub, endpoint: Endpoint = DEFAULT_ENDPOINT) -> None:
        self.endpoint = endpoint
        self.clients = hub.clients
        self.views = hub.views
        self.large_requests = LargeRequests(hub.workers)
        self.records = hub.records
        self.meter = hub.meter
        self.tracing = hub.tracing
        self._hub = hub
        self._selected: tuple[Config, Selection] | None = None
        self.upstreams: Mapping[str, VisibleServer] = hub.upstreams
        """The servers that are shown, by name."""
        self.registry, self.calls = hub.registry, hub.calls
        if not endpoint.shows_all:
            self.upstreams = ShownUpstreams(hub.upstreams, lambda: self.selection)
            self.registry, self.calls = hub.faces(self.upstreams)

    @property
    def config(self) -> Config:
        """The configuration in force, with the servers that are shown, as the profile has them."""
        return self.selection.config

    @property
    def selection(self) -> Selection:
        """What is shown by the configuration in force."""
        config = self._hub.config
        if self._selected is None or self._selected[0] is not config:
            self._selected = config, select(self.endpoint, config)
        return self._selected[1]

    def hides(self, server: str) -> bool:
        """Whether a server is not shown at this endpoint, whether it exists or not."""
        return not self.endpoint.shows_all and server not in self.upstreams

    @property
    def started(self) -> float:
        """When the hub was run, by `anyio.current_time()`; now, if it was not."""
        return anyio.current_time() if self._hub.started is None else self._hub.started

    async def listed(self, seconds: float, server: str | None = None) -> None:
        """As `Hub.listed`, for the servers that are shown, or one of them."""
        with anyio.move_on_after(seconds):
            if server is None:
                await self._hub.peers.listed()
            among = self.upstreams if server is None else {server: self.upstreams[server]}
            await self._hub.fleet.readiness.listed(seconds, among)

    async def described(self, seconds: float) -> None:
        """As `Hub.described`, for the servers that are shown."""
        await await_descriptions(self.upstreams, seconds)

    def client_left(self, client: ClientId) -> None:
        """End what belongs to this client alone."""
        self._hub.client_left(client)


class ShownUpstreams(Mapping[str, VisibleServer]):
    """Those of all servers that are selected at the moment, in the order of the configuration."""

    def __init__(self, all_upstreams: Mapping[str, Server], selection: Callable[[], Selection]) -> None:
        self._all = all_upstreams
        self._selection = selection
        self._made_of: Selection | None = None
        self._rules: dict[str, Rules | None] = {}
        self._narrowed: dict[str, NarrowedUpstream] = {}

    def __getitem__(self, name: str) -> VisibleServer:
        if name not in self._selection().config.servers:
            raise KeyError(name)
        upstream = self._all[name]
        return upstream if self.rules(name) is None else self._narrow(upstream)

    def __iter__(self) -> Iterator[str]:
        shown = self._selection().config.servers
        return iter([name for name in shown if name in self._all])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def rules(self, name: str) -> Rules | None:
        """The rules beside a server's own at the moment; None where no profile is looked through."""
        selection = self._selection()
        if selection is not self._made_of:
            self._made_of = selection
            self._rules = {}
        if name not in self._rules:
            self._rules[name] = selection.rules(name)
        return self._rules[name]

    def _narrow(self, upstream: Server) -> VisibleServer:
        known = self._narrowed.get(upstream.name)
        if known is None or known.upstream is not upstream:
            self._narrowed = {name: each for name, each in self._narrowed.items() if name in self._all}
            policy = NarrowedPolicy(upstream.policy, partial(self._rules_in_force, upstream.name))
            known = self._narrowed[upstream.name] = NarrowedUpstream(upstream, policy)
        return known

    def _rules_in_force(self, name: str) -> Rules:
        return self.rules(name) or NO_RULES


class NarrowedUpstream:
    """A server of which there is what a policy shows: exactly the members of `VisibleServer`.

    The requests that it submits carry the policy with them (`RequestContext.policy`).
    """

    __slots__ = ("config", "name", "narrowing", "policy", "upstream")

    def __init__(self, upstream: Server, policy: NarrowedPolicy) -> None:
        self.upstream = upstream
        self.name = upstream.name
        self.config = upstream.config
        self.policy = self.narrowing = policy

    # --- narrowed

    @property
    def catalogue(self) -> Catalogue | None:
        """The part of the upstream's catalogue that is shown; the same object while that is the same."""
        return self.policy.narrowed(self.upstream.catalogue)

    def info(self) -> ServerInfo:
        """Return the upstream's information, with the catalogue that is shown."""
        info = self.upstream.info()
        return info if info.catalogue is None else replace(info, catalogue=self.catalogue)

    def refusal_of(self, request: Request) -> CallError | None:
        """Say why a request may not be sent."""
        return None if request.context.own else refusal_of(request, self.policy, self.info())

    async def await_catalogue(self, suffices: Callable[[Catalogue], bool] = lambda _known: True) -> None:
        """Wait for the first listing, unless the known part that is shown `suffices`."""

        def shown_suffices(_whole: Catalogue) -> bool:
            shown = self.catalogue
            return shown is not None and suffices(shown)

        await self.upstream.await_catalogue(shown_suffices)

    async def await_descriptions(self) -> None:
        """Wait while descriptions are made for the resources of the first listing."""
        await self.upstream.await_descriptions()

    # --- passed on

    @property
    def era(self) -> Era | None:
        """The era of the session."""
        return self.upstream.era

    @property
    def has_listed(self) -> bool:
        """If the catalogue is from this run of MCPX."""
        return self.upstream.has_listed

    @property
    def needs_sign_in(self) -> bool:
        """If a person has to sign in before a call can run."""
        return self.upstream.needs_sign_in

    @property
    def account(self) -> Account | None:
        """The account that MCPX has at the server."""
        return self.upstream.account

    @property
    def rate(self) -> CallRate:
        """The rate of calls that the server is allowed."""
        return self.upstream.rate

    @property
    def queue(self) -> CallQueue:
        """The requests that wait."""
        return self.upstream.queue

    @property
    def per_client(self) -> bool:
        """If each client has a session of its own."""
        return self.upstream.per_client

    @property
    def subscriptions(self) -> Subscriptions:
        """The subscriptions to resources; who may have one is decided before."""
        return self.upstream.subscriptions

    async def await_first_attempt(self) -> None:
        """Wait until it has listed or failed for the first time."""
        await self.upstream.await_first_attempt()

    def warm(self) -> None:
        """Start the server if it is asleep."""
        self.upstream.warm()

    async def subscribe(
        self, uri: str, listener: Listener, meta: bytes, *, modern: bool
    ) -> Callable[[], None]:
        """Have `listener` called with changes of `uri`, until the result is called."""
        return await self.upstream.subscribe(uri, listener, meta, modern=modern)

    @property
    def submit(self) -> Callable[[Request, RawReply], None]:
        """Sends or queues a request."""
        return self.upstream.submit
