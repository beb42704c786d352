"""The hub: everything behind the frontends, as one supervised tree.

A record of parts, built at once from a configuration: the servers under their own supervisor (`fleet`), the
registry and the calls over them (`faces`), the records of calls and their sinks, the configuration in force
(`reloads`), and what hangs on the ports. Frontends (stdio, socket, HTTP) are added by the composition root,
`mcpx.app`. The tree is `root` (one for one; too many failures of essential parts end it, `SIDE_PARTS` are
parked) over `upstreams` (never escalates); what was added last is stopped first, so that the frontends close
before the servers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import structlog

from mcpx.core.calls.calls import Executor
from mcpx.core.calls.registry import Faces
from mcpx.core.calls.results.shaping import ResultRenderer
from mcpx.core.calls.results.views import ResultViews
from mcpx.core.calls.sign_in_links import SignInLinks
from mcpx.core.calls.tasks import Tasks
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.config import Config, ServerConfig
from mcpx.core.daemon.leaving import Leaving
from mcpx.core.daemon.ports import NO_PEERS, Cluster, NoSignIns, Peers, SignIns
from mcpx.core.daemon.project_files import ProjectFiles
from mcpx.core.daemon.reload import Reloads, log_environment, warn_of_disabled
from mcpx.core.daemon.status import HttpStatus, PartStatus
from mcpx.core.events.audit.audit import Audit
from mcpx.core.events.call_watch import CallWatch
from mcpx.core.events.history import History
from mcpx.core.events.meter import Meter
from mcpx.core.events.records import Records
from mcpx.core.events.search_history import SearchHistory
from mcpx.core.policy.approvals import Approvals
from mcpx.core.protocol.context import ClientId, asking
from mcpx.core.servers.accounts import OpenAccounts, no_accounts
from mcpx.core.servers.fleet.fleet import Fleet
from mcpx.core.servers.fleet.observers import Observer, await_descriptions
from mcpx.core.servers.fleet.supervision import TEARDOWN_S
from mcpx.core.servers.health import distrust_all
from mcpx.core.servers.relay.clients import ConnectedClients
from mcpx.core.servers.server import Server
from mcpx.core.telemetry.log_files import last_lines
from mcpx.core.telemetry.suspend import SuspendWatch
from mcpx.core.telemetry.tracing import Tracing, ambient
from mcpx.errors import MCPXError
from mcpx.paths import AUDIT_FOLDER, state_folder
from supervisors import (
    ChildFailed,
    ChildParked,
    ChildSpec,
    ChildStuck,
    Event,
    Intensity,
    Shutdown,
    Supervisor,
)

log = structlog.get_logger()
INFRASTRUCTURE: Final = Intensity(restarts=3, within=60.0)
SIDE_PARTS: Final = {
    "accounts": "tokens of servers are renewed when they are needed, no earlier",
    "catalogues": "what servers offer is not remembered for the next start",
    "clients": "clients are not told of changed lists and resources",
    "cluster": "servers are not placed on other nodes",
    "config": "a changed configuration is put in force by `mcpx reload` alone",
    "gateways": "nothing is shared with the other gateways of the cluster",
    "idle exit": "MCPX does not end when nobody uses it",
    "log": "the log grows without bound",
    "notify": "the service manager is not told of the end",
    "page": "the page is not served on a port of its own",
    "peers": "the servers of other MCPX are not available",
    "pins": "what is new of servers is not pinned",
    "projects": "servers that the files of projects name are not looked for",
    "ray": "servers are not placed on other nodes",
    "reports": "gateways are not told how this node is",
    "searches": "what was used after which search is not kept",
    "sign-in links": "clients are not given links to sign in by",
    "sign-ins": "nobody can sign in to a server",
    "stats": "counts of calls are not kept for the next start",
    "suspend": "sessions are not looked at when the machine wakes",
}
"""The parts that calls can do without, and what is missing while one is parked. All others are essential."""


@dataclass(frozen=True)
class Ports:
    """The optional parts of a hub; each may be left out."""

    open_accounts: OpenAccounts = no_accounts
    open_sign_ins: Callable[[Hub], SignIns] = lambda _hub: NoSignIns()
    peers: Peers[Hub] = NO_PEERS
    cluster: Cluster[Hub] | None = None


NO_PORTS: Final = Ports()


class Hub:
    """The tree and its faces. Run it with `run`, or use `mcpx.parts.open_hub`.

    `state` is the folder for the ledger and the servers' logs, if not the usual one. `reloading` makes a
    context that is entered while a configuration is put in force; `prepare` says what is made of each one
    before. `tokens` and `starts` are those of `Fleet`. `http` says how the HTTP side is, where a daemon has
    one. `tracing` makes the spans of calls; without it, the provider that the program has set does, if there
    is one.
    """

    def __init__(
        self,
        config: Config,
        ports: Ports = NO_PORTS,
        *,
        state: Path | None = None,
        tokens: Path | None = None,
        reloading: Callable[[], AbstractContextManager[None]] = nullcontext,
        starts: bool = True,
        tracing: Tracing | None = None,
        prepare: Callable[[Config], Config] = lambda config: config,
        http: Callable[[], HttpStatus] | None = None,
    ) -> None:
        async def renew() -> None:
            await self.readapt()

        self.projects = ProjectFiles(state, renew, lambda: self.config.approve_timeout)
        """The servers that the files of projects name."""

        def expand(given: Config) -> Config:
            found = self.projects.expand(prepare(ports.peers.expand(given)))
            return found if ports.cluster is None else ports.cluster.expand(found)

        config = expand(config)
        self.peers, self.cluster, self.http = ports.peers, ports.cluster, http
        self.started: float | None = None
        """When it was run, by `anyio.current_time()`; None before."""
        self.root = Supervisor(intensity=INFRASTRUCTURE, expendable=SIDE_PARTS, observe=_log_event)
        self.clients = ConnectedClients()
        self.leaving = Leaving(lambda: self.config.shutdown_grace)
        tasks = Tasks()
        self.fleet = Fleet(
            config,
            state=state,
            tokens=tokens,
            clients=self.clients,
            starts=starts,
            placement=None if ports.cluster is None else ports.cluster.placement,
            open_accounts=ports.open_accounts,
            elsewhere=ports.peers,
            has_open_tasks=tasks.has_open,
            renew=self._renew,
            refusal_of=self.projects.refusal_of,
        )
        self.supervisor = self.fleet.supervisor
        self.upstreams = self.fleet.upstreams
        self.results = ResultRenderer(config)
        self.approvals = Approvals(lambda: self.config.approve_timeout)
        self.meter = Meter(self.upstreams, self.fleet.activity)
        self.audit = Audit(lambda: (state or state_folder()) / AUDIT_FOLDER)
        self.records = Records(self.audit, self.meter, cuts_off=lambda: self.leaving.is_over)
        """The stream of the records of calls."""
        self.records.uses = self.searches = SearchHistory()
        """What was used after which search; empty unless that is remembered."""
        self.history = History(self.upstreams, self.meter, self.fleet.activity)
        """The calls of the last hour."""
        self.call_watch = CallWatch(self.records, self.meter, self.upstreams)
        """The calls as they run, for those who watch."""
        self.reloads = Reloads(
            config,
            self.fleet,
            self.results,
            self.approvals,
            self.audit,
            records=self.records,
            expand=expand,
            joined=self._join,
            reloading=reloading,
        )
        self.reload, self.readapt = self.reloads.reload, self.reloads.readapt
        self.file, self.applied = self.reloads.file, self.reloads.applied
        self.sign_ins = ports.open_sign_ins(self)
        """The sign-ins of people that are under way."""
        self.links = SignInLinks(self.sign_ins.begin, self.clients, lambda: self.config.approve_timeout)
        self.tracing = ambient() if tracing is None else tracing
        self.faces = Faces(
            self.fleet.common,
            self.results,
            approvals=self.approvals,
            records=self.records,
            links=self.links,
            tracing=self.tracing,
            notes=self._notes,
            await_peers=self._await_peers,
            history=lambda: self.searches if self.config.search_history else None,
        )
        self.calls, self.registry, self.workers = self.faces.calls, self.faces.registry, self.faces.workers
        self.executor = Executor(self.calls)
        self.views = ResultViews(self.results, self.upstreams, self.workers, tasks)
        self.fleet.observers.add(lambda _name, _changed: self.faces.inspector.indexing.start())
        self.fleet.observers.add(lambda _name, _changed: self.approvals.reconsider())
        self._add_children()
        ports.peers.configure(config, self)
        if ports.cluster is not None:
            ports.cluster.join(self)

    def _add_children(self) -> None:
        """Add the parts to the root: what is kept in files is written when the servers have ended."""
        fleet, root = self.fleet, self.root
        shutdown = Shutdown(grace=self.config.shutdown_grace + TEARDOWN_S, limit=TEARDOWN_S)
        suspend = SuspendWatch(lambda _seconds: distrust_all(fleet.children()))
        root.add(ChildSpec(name="catalogues", run=fleet.catalogues.run))
        root.add(ChildSpec(name="pins", run=fleet.pins.run))
        root.add(ChildSpec(name="accounts", run=fleet.accounts.run))
        root.add(ChildSpec(name="sign-ins", run=self.sign_ins.run))
        root.add(ChildSpec(name="sign-in links", run=self.links.run))
        root.add(ChildSpec(name="upstreams", run=self.supervisor.run_as_child, shutdown=shutdown))
        root.add(ChildSpec(name="suspend", run=suspend.run))
        root.add(ChildSpec(name="projects", run=self.projects.run))

    def parked(self) -> list[PartStatus]:
        """The parts that are parked now."""
        now = anyio.current_time()
        return [
            PartStatus(
                name=each.child,
                missing=SIDE_PARTS[each.child],
                cause=each.cause.text if each.cause else "",
                failing_s=round(now - each.failing_since, 3),
                next_attempt_in_s=round(max(0.0, (each.next_attempt_at or now) - now), 3),
            )
            for each in self.root.parked()
        ]

    def need(self, part: str) -> None:
        """Have a part that is parked tried now, for a person who needs it.

        Raises:
            MCPXError: It was tried just now, and is parked.
        """
        if not self.root.demand(part):
            raise MCPXError(next(each.text for each in self.parked() if each.name == part))

    def _join(self, config: Config) -> None:
        """Take in a configuration that is in force now: it may mend what keeps failing."""
        self.peers.configure(config, self)
        for each in self.root.parked():
            self.root.demand(each.child)

    @property
    def config(self) -> Config:
        """The configuration in force; look settings up when they are used."""
        return self.reloads.config

    def upstream(self, name: str) -> Server:
        """Return a server for MCPX's own work; clients get theirs from the registry of their view.

        Raises:
            CallError: `unknown_server`, with the nearest names.
        """
        return self.upstreams.get(name) or self.upstreams[self.registry.upstream(name).name]

    def _notes(self) -> dict[str, str]:
        """The notes at the end of each answer of inspect, by their member for programs."""
        client, problem = asking.get(), self.file.problem
        waiting = self.projects.note(None if client is None else client.project)
        broken = {} if problem is None else {"config_error": problem}
        return broken if waiting is None else {**broken, "waiting": waiting}

    async def _await_peers(self) -> None:
        """Wait until each peer has said which servers it has, or has failed once, at most `startup_wait`."""
        with anyio.move_on_after(self.config.startup_wait):
            await self.peers.listed()

    # --- its life

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run the tree until `stop`.

        Raises:
            SupervisorError: The infrastructure failed too often.
        """
        with self.fleet.environment.entered():
            await self._run(task_status)

    async def _run(self, task_status: anyio.abc.TaskStatus[None]) -> None:
        self.started = anyio.current_time()
        log_environment(self.config)
        warn_of_disabled(self.config, self.upstreams)
        try:
            self.audit.open()
            if orphans := await anyio.to_thread.run_sync(self.fleet.ledger.sweep):
                log.warning("orphans.ended", process_groups=orphans)
            await self.root.run(task_status=task_status)
        finally:
            self.workers.close()
            self.audit.close()

    def stop(self) -> None:
        """Refuse new calls, let the running ones finish within the grace time, and end."""
        self.leaving.stop()
        self.fleet.stop()
        self.sign_ins.stop()
        self.root.stop()

    async def settled(self, seconds: float) -> bool:
        """Wait until every server is ready or has failed once, at most `seconds`; whether they all have."""
        return await self.fleet.readiness.settled(seconds)

    async def listed(self, seconds: float) -> None:
        """Wait until it is known of every server what it offers, or it has failed once, at most `seconds`.

        What it offered last time is known from the start.
        """
        with anyio.move_on_after(seconds):
            await self.peers.listed()
            await self.fleet.readiness.listed(seconds, self.upstreams)

    async def described(self, seconds: float) -> None:
        """Wait until the servers that are ready have descriptions for their resources, at most `seconds`."""
        await await_descriptions(self.upstreams, seconds)

    async def log_tail(self, name: str, lines: int) -> list[str]:
        """Return the last lines of a server's log, wherever it is.

        Raises:
            CallError: `unknown_server`, with the nearest names; or its peer does not tell.
        """
        upstream, placement = self.upstream(name), self.fleet.placement
        if (found := await self.peers.log_tail(name, lines)) is not None:
            return found
        if placement is not None and (found := await placement.log_tail(upstream.config, lines)) is not None:
            return found
        return await anyio.to_thread.run_sync(last_lines, upstream.server_log.path, lines)

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Have `observer` called with the name of a server whose catalogue changed, and the difference.

        Call the result to end that. A server that was removed is reported too, once it has gone. The observer
        is called in the turn of the change: it must not wait, and what it raises is logged.
        """
        return self.fleet.observers.add(observer)

    def is_working(self) -> bool:
        """Return True if a server has a call or a task, of whoever, or a person is about to sign in."""
        return self.sign_ins.are_waited_for or any(
            upstream.counters.in_flight
            or upstream.has_open_tasks()
            or any(each.queue.has_callers for each in upstream.sessions())
            for upstream in self.upstreams.values()
        )

    def enter(self, client: ClientId) -> None:
        """Take in which project a client is in, as far as is known now."""
        self.projects.enter(client)
        self.fleet.enter(client)

    def client_left(self, client: ClientId) -> None:
        """End what belongs to this client alone: sessions, suspended calls, and kept results."""
        self.fleet.leave(client)
        self.projects.leave(client)
        self.views.kept.drop(client)
        self.clients.leave(client)
        self.approvals.client_left(client)
        self.meter.client_left(client)

    # --- its changes

    async def restart(self, name: str) -> ServerInfo:
        """End a server in order and start it again, whatever its state; see `Reloads.restart`.

        Raises:
            CallError: `unknown_server`, with the nearest names; `server_unavailable` for a disabled one.
        """
        upstream = self.upstream(name)
        await self.peers.restart(upstream.name)
        return await self.reloads.restart(upstream)

    async def _renew(self, name: str) -> ServerConfig | None:
        return await self.reloads.renew(name)


@asynccontextmanager
async def running(hub: Hub) -> AsyncIterator[Hub]:
    """Run a hub; it is stopped in order when this is left. What the body raises comes out as it is."""
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        await tasks.start(hub.run)
        try:
            yield hub
        except Exception as error:  # noqa: BLE001 - carried out of the task group, which would wrap it
            failure = error
        finally:
            hub.stop()
    if failure is not None:
        raise failure


def _log_event(event: Event) -> None:
    match event:
        case ChildFailed(child, _, cause, failures, retry_in):
            log.error("part.failed", part=child, cause=cause.text, failures=failures, exc_info=cause.error)
            log.info("part.restarting", part=child, retry_in_s=retry_in)
        case ChildParked(child, _, cause, _, probe_in):
            log.error(
                "part.parked", part=child, missing=SIDE_PARTS[child], cause=cause.text, retry_in_s=probe_in
            )
        case ChildStuck(child, _, waited):
            log.error("part.stuck", part=child, waited_s=waited)
        case _:
            log.debug("part.event", event_type=type(event).__name__, part=event.child)
