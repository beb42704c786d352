"""The hub: everything behind the doors, as one supervised tree.

Builds, from a configuration, the upstream actors under their own supervisor, the router actor, and the faces
over them (registry, executor, router). Doors (stdio, HTTP, the command line) are added by whoever runs it.
The tree is `root` (one for one; too many failures of the infrastructure end it) over `upstreams` (never
escalates) and `router`; what was added last is stopped first, so that the doors close before the servers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import structlog

from mcpx.catalog.diff import Diff
from mcpx.config import Config, ServerConfig
from mcpx.executor import Executor
from mcpx.inspection import Inspector
from mcpx.ledger import Ledger
from mcpx.observe.log import configure
from mcpx.observe.server_log import ServerLog
from mcpx.registry import Registry
from mcpx.router import MAILBOX_SIZE, Message, Router, RouterActor
from mcpx.upstream.actor import Upstream
from mcpx.upstream.audience import Audience
from mcpx.upstream.faults import cause_of
from supervisors import (
    ActorRef,
    Backoff,
    ChildFailed,
    ChildParked,
    ChildReady,
    ChildSpec,
    ChildStarting,
    ChildStopped,
    ChildStuck,
    Event,
    Intensity,
    Parking,
    Policy,
    Shutdown,
    Supervisor,
)

log = structlog.get_logger()
INFRASTRUCTURE: Final = Intensity(restarts=3, within=60.0)
TEARDOWN_S: Final = 8.0  # an SDK session and its process take up to 6.5 s to leave; then it is stuck

Observer = Callable[[str, Diff], None]


class Hub:
    """The tree and its faces. Run it with `run`, or use `open_hub`.

    `state` is where it keeps the ledger and the servers' logs, if not in the state folder.
    """

    def __init__(self, config: Config, *, state: Path | None = None) -> None:
        self.config = config
        self._state = state
        self._ledger = Ledger(state)
        self.audience = Audience()
        self.root = Supervisor(intensity=INFRASTRUCTURE, observe=_log_infrastructure)
        self.supervisor = Supervisor(
            max_starting=config.max_starting, stop_together=True, observe=self._on_event
        )
        self.upstreams = {name: self._upstream(server) for name, server in config.servers.items()}
        self.registry = Registry(self.upstreams)
        self.executor = Executor(
            self.registry,
            toon=config.toon_compression_enabled,
            toon_min_size=config.toon_compression_min_size,
        )
        self._observers: list[Observer] = []
        self._unsettled = {name for name, up in self.upstreams.items() if up.config.disabled is None}
        self._settled = anyio.Event()
        self._build_tree()

    def _upstream(self, server: ServerConfig) -> Upstream:
        return Upstream(
            server,
            self.supervisor,
            ledger=self._ledger,
            server_log=ServerLog(server.name, self._state),
            max_message_bytes=self.config.max_message_bytes,
            on_catalogue=self._on_catalogue,
            audience=self.audience,
        )

    def _build_tree(self) -> None:
        for upstream in self.upstreams.values():
            if upstream.config.disabled is None:
                self.supervisor.add(self._spec(upstream))
        config = self.config
        inspector = Inspector(
            self.registry,
            schema_compression=config.schema_compression_enabled,
            toon=config.toon_compression_enabled,
            max_description_len=config.max_description_len,
        )
        self.router_ref = ref = ActorRef[Message]("router", MAILBOX_SIZE)
        actor = RouterActor(ref, self.registry, self.executor, inspector)
        self.router = Router(ref, self.registry, self.executor)
        shutdown = Shutdown(grace=config.shutdown_grace + TEARDOWN_S, limit=TEARDOWN_S)
        self.root.add(ChildSpec(name="upstreams", run=self.supervisor.run_as_child, shutdown=shutdown))
        self.root.add(ChildSpec(name="router", run=actor.run))

    def _spec(self, upstream: Upstream) -> ChildSpec:
        restart = upstream.config.restart
        backoff = Backoff(initial=restart.initial, cap=restart.cap, healthy_after=restart.healthy_after)
        parking = Parking(after=restart.park_after, probe=restart.park_probe)
        return ChildSpec(
            name=upstream.name,
            run=upstream.run,
            policy=Policy(backoff=backoff, parking=parking),
            shutdown=Shutdown(grace=self.config.shutdown_grace, limit=TEARDOWN_S),
            classify=lambda error: cause_of(error, upstream.config),
            urgent=lambda: upstream.queue.has_callers,
        )

    # --- its life

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run the tree until `stop`, or until it fails. Raises SupervisorError."""
        for upstream in self.upstreams.values():
            if upstream.config.disabled is not None:
                log.warning("upstream.disabled", server=upstream.name, cause=upstream.config.disabled)
        if not self._unsettled:
            self._settled.set()
        if orphans := await anyio.to_thread.run_sync(self._ledger.sweep):
            log.warning("orphans.ended", process_groups=orphans)
        await self.root.run(task_status=task_status)

    def stop(self) -> None:
        """Refuse new calls, let the running ones finish within the grace time, and end."""
        for upstream in self.upstreams.values():
            upstream.queue.close()
        self.root.stop()

    async def settled(self, seconds: float) -> bool:
        """Wait until every server is ready or has failed once, at most `seconds`; whether they all have."""
        with anyio.move_on_after(seconds):
            await self._settled.wait()
        return self._settled.is_set()

    # --- what the tree tells

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Be told of changed catalogues: the server's name and what differs. Call the result to end it."""
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    def _on_catalogue(self, name: str, changed: Diff) -> None:
        for observer in list(self._observers):
            observer(name, changed)

    def _on_event(self, event: Event) -> None:
        """An upstream's lifecycle: into the log, and to the callers who wait for it."""
        upstream = self.upstreams[event.child]
        _log_upstream(event, upstream)
        if isinstance(event, ChildReady | ChildFailed | ChildParked | ChildStopped):
            self._unsettled.discard(event.child)
            if not self._unsettled:
                self._settled.set()
        if isinstance(event, ChildFailed) and upstream.queue.has_callers:
            self.supervisor.demand(event.child)
        elif isinstance(event, ChildParked):
            upstream.queue.refuse_waiting()


@asynccontextmanager
async def open_hub(config: Config, *, state: Path | None = None) -> AsyncIterator[Hub]:
    """A running hub; stopped in order when left. What the body raises comes out as it is.

    A program that has not configured structlog gets warnings on standard error.
    """
    if not structlog.is_configured():
        configure("warning")
    hub = Hub(config, state=state)
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


def _log_infrastructure(event: Event) -> None:
    match event:
        case ChildFailed(child, _, cause, failures, retry_in):
            log.error("part.failed", part=child, cause=cause.text, failures=failures, exc_info=cause.error)
            log.info("part.restarting", part=child, retry_in_s=retry_in)
        case ChildStuck(child, _, waited):
            log.error("part.stuck", part=child, waited_s=waited)
        case _:
            log.debug("part.event", event_type=type(event).__name__, part=event.child)


def _log_upstream(event: Event, upstream: Upstream) -> None:
    server = event.child
    match event:
        case ChildStarting(_, generation):
            log.debug("upstream.starting", server=server, incarnation=generation)
        case ChildReady(_, generation, took):
            known = upstream.catalogue
            log.info(
                "upstream.ready",
                server=server,
                took_s=round(took, 3),
                incarnation=generation,
                tools=len(known.tools) if known else 0,
                resources=len(known.resources) if known else 0,
                protocol=known.protocol_version if known else None,
                pid=upstream.pid,
            )
        case ChildFailed(_, _, cause, failures, retry_in):
            fields = {"cause": cause.text, "failures": failures, "retry_in_s": round(retry_in, 2)}
            log.warning("upstream.failed", server=server, **fields)
        case ChildParked(_, _, cause, failures, probe_in):
            fields = {"cause": cause.text, "failures": failures, "probe_in_s": round(probe_in, 2)}
            log.warning("upstream.parked", server=server, **fields)
        case ChildStopped():
            log.debug("upstream.stopped", server=server)
        case ChildStuck(_, _, waited):
            log.error("upstream.stuck", server=server, waited_s=waited)
