"""The hub as the clients of one endpoint see it: the servers and tools that they are shown, and no others.

Everything in the gateway looks through a `HubView`, never at the hub itself: what lists, searches, reads,
calls, completes, subscribes or notifies asks its `upstreams`, `registry`, `calls` and `config`, so that a
server or a tool that is hidden is unknown there exactly as one that does not exist, also in what errors
suggest. The view is made of the configuration in force at each look, so a reload changes it at once. At an
endpoint that shows all the faces are the hub's own, and looking through the view costs nothing. What results
become (`views`), the records and the meter are the hub's own in every view, and go by the hub's settings.

The requests of a view's clients go down a pipeline of its own (`mcpx.core.calls.pipeline`), which knows no
other servers. A server that is seen through a profile stands in the view as a `NarrowedServer`, whether the
profile narrows it or not: it may do so by the time that a call that waits is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import anyio

from mcpx.core.calls.results.large_requests import LargeRequests
from mcpx.core.config import Config
from mcpx.core.daemon.hub import Hub
from mcpx.core.policy.catalogue_rules import NO_RULES, Rules
from mcpx.core.policy.policy import NarrowedPolicy
from mcpx.core.policy.profiles import Selection, select
from mcpx.core.protocol.context import ClientId, asking
from mcpx.core.servers.fleet.observers import await_descriptions
from mcpx.core.servers.server import Server
from mcpx.core.servers.visible_server import NarrowedServer, VisibleServer
from mcpx.core.system.endpoint import DEFAULT_ENDPOINT, Endpoint
from mcpx.errors import CallError, Code


class HubView:
    """The part of a hub that the clients of `endpoint` have."""

    def __init__(self, hub: Hub, endpoint: Endpoint = DEFAULT_ENDPOINT) -> None:
        self.endpoint = endpoint
        self.clients = hub.clients
        self.views = hub.views
        self.large_requests = LargeRequests(hub.workers)
        self.records = hub.records
        self.meter = hub.meter
        self.tracing = hub.tracing
        self._hub = hub
        self._reloads = hub.reloads
        self._selected: tuple[Config, Selection] | None = None
        self.upstreams: Mapping[str, VisibleServer] = hub.fleet.common
        """The servers that are shown, by name."""
        self.registry, self.calls = hub.registry, hub.calls
        if not endpoint.shows_all:
            self.upstreams = ShownServers(hub.upstreams, lambda: self.selection)
            self.registry, self.calls = hub.faces.among(self.upstreams)

    @property
    def config(self) -> Config:
        """The configuration in force, with the servers that are shown, as the profile has them."""
        return self.selection.config

    @property
    def selection(self) -> Selection:
        """The servers and tools that are shown by the configuration in force."""
        config = self._reloads.config
        if self._selected is None or self._selected[0] is not config:
            self._selected = config, select(self.endpoint, config)
        return self._selected[1]

    @property
    def has_native(self) -> bool:
        """True if a server is offered natively, or may be later: of a peer, or at an endpoint for some."""
        entries = (*self.config.servers.values(), *self.config.peers.values())
        return not self.endpoint.shows_all or any(server.native for server in entries)

    @property
    def keeps_reads(self) -> bool:
        """True if results of a server that is shown are kept, so that calls can ask for fresh ones."""
        return any(server.cache for server in self.config.servers.values())

    def hides(self, server: str) -> bool:
        """Return True if a server is not shown at this endpoint, whether it exists or not."""
        return server not in self.upstreams and (not self.endpoint.shows_all or server in self._hub.upstreams)

    @property
    def started(self) -> float:
        """The time when the hub was run, by `anyio.current_time()`; now, if it was not."""
        return anyio.current_time() if self._hub.started is None else self._hub.started

    async def listed(self, seconds: float, server: str | None = None) -> None:
        """Wait until it is known what the servers that are shown offer, or one of them; see `Hub.listed`."""
        with anyio.move_on_after(seconds):
            if server is None:
                await self._hub.peers.listed()
            among = self.upstreams if server is None else {server: self.upstreams[server]}
            await self._hub.fleet.readiness.listed(seconds, among)

    async def described(self, seconds: float) -> None:
        """Wait until the servers that are shown have descriptions for their resources, at most `seconds`."""
        await await_descriptions(self.upstreams, seconds)

    def explained(self, error: CallError) -> CallError:
        """An error, which says of a server that is unknown if one of that name waits for a person."""
        client = asking.get()
        if error.code is not Code.UNKNOWN_SERVER or client is None:
            return error
        note = self._hub.projects.note_on(error.server, client.project)
        if note is None:
            return error
        text = f"{error} ({note}. Tell the user)"
        return CallError(error.code, text, server=error.server, tool=error.tool, details=error.details)

    def client_left(self, client: ClientId) -> None:
        """End what belongs to this client alone."""
        self._hub.client_left(client)


class ShownServers(Mapping[str, VisibleServer]):
    """The servers that are selected at the moment, in the order of the configuration."""

    def __init__(self, all_upstreams: Mapping[str, Server], selection: Callable[[], Selection]) -> None:
        self._all = all_upstreams
        self._selection = selection
        self._made_of: Selection | None = None
        self._rules: dict[str, Rules | None] = {}
        self._narrowed: dict[str, NarrowedServer] = {}

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
        """Return the rules beside a server's own at the moment; None where no profile is looked through."""
        selection = self._selection()
        if selection is not self._made_of:
            self._made_of = selection
            self._rules = {}
        if name not in self._rules:
            self._rules[name] = selection.rules(name)
        return self._rules[name]

    def _narrow(self, upstream: Server) -> VisibleServer:
        known = self._narrowed.get(upstream.name)
        if known is None or not known.is_of(upstream):
            self._narrowed = {name: each for name, each in self._narrowed.items() if name in self._all}
            policy = NarrowedPolicy(upstream.policy, partial(self._rules_in_force, upstream.name))
            known = self._narrowed[upstream.name] = NarrowedServer(upstream, policy)
        return known

    def _rules_in_force(self, name: str) -> Rules:
        return self.rules(name) or NO_RULES
