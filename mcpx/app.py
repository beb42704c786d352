"""The composition root: a hub, its frontends, and the signals.

Each `serve_*` is the whole life of one MCPX process: it builds the tree, opens the frontends (standard
streams, HTTP, or the socket of the daemon and, where the configuration says `http`, HTTP beside it), and ends
in order when a signal comes, when the stdio client leaves, or when a child of the root fails for good. A
second signal, or the total deadline, ends it at once, children included. SIGHUP has the configuration read
again. Returns the exit code; never leaves a child process behind.
"""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.abc
import anyio.to_thread
import structlog
from msgspec.structs import replace

from mcpx.core.catalog.snapshot import State
from mcpx.core.config import Config, Http, Sse
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.launch import MAX_LOG_BYTES
from mcpx.core.daemon.leaving import IdleExit
from mcpx.core.daemon.ports import OpenForwarder
from mcpx.core.daemon.signals import run_watched
from mcpx.core.daemon.status import HttpStatus
from mcpx.core.events.search_history import HistoryFile
from mcpx.core.events.stats_file import StatsWriter, stats_file
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.streams import SocketFrontend, StdioFrontend
from mcpx.core.policy.profiles import by_own_names, serving_only
from mcpx.core.policy.tokens import load_token
from mcpx.core.servers.transport.spawning import EARLY
from mcpx.core.store.paths import DaemonPaths, check_state_folder
from mcpx.core.store.stale import claim_configuration_folder, clean_up
from mcpx.core.system.endpoint import DEFAULT_ENDPOINT, Endpoint
from mcpx.core.system.input import Hangup
from mcpx.core.system.light_imports import light_sdk
from mcpx.core.system.limits import raise_limit
from mcpx.core.system.systemd import Notifier
from mcpx.core.system.watchdog import Patience
from mcpx.core.telemetry.log_files import LogRotation
from mcpx.core.telemetry.tracing_setup import open_tracing
from mcpx.core.wire.turn import ChannelLoop
from mcpx.parts import cluster_of, part, ports
from supervisors import ChildSpec, Incarnation, Policy, Restart, Shutdown

if TYPE_CHECKING:
    from mcpx.core.gateway.frontends.http.supervision import SupervisedHttp

log = structlog.get_logger()
PATIENCE: Final = Patience()
CLEAN_UP_AFTER_S: Final = 60.0  # of running: the start is busy enough
SETTLED_TIMEOUT_S: Final = 60.0  # of the start; what no server needs until then is not needed
LOOP: Final = {"loop_factory": ChannelLoop}
"""The options of `anyio.run` for each `serve_*`."""

Frontends = Callable[[Endpoints], list[ChildSpec]]
"""Makes what serves clients, for a hub that is about to run."""


async def serve_stdio(
    config: Config, endpoint: Endpoint = DEFAULT_ENDPOINT, *, patience: Patience = PATIENCE
) -> int:
    """Serve one client, at that endpoint, on standard input and output until it leaves.

    Only the servers that it is shown are started.

    Raises:
        DaemonError: Others may change the state folder.
    """
    check_state_folder()
    raise_limit()
    endpoint = by_own_names(endpoint, config)

    def frontends(endpoints: Endpoints) -> list[ChildSpec]:
        # a stdio session cannot be resumed: when its frontend ends or fails, so does the process
        gateway = ChildSpec(
            name="gateway",
            run=StdioFrontend(endpoints, endpoint).run,
            policy=Policy(restart=Restart.TEMPORARY),
            shutdown=Shutdown(grace=config.shutdown_grace + 1.0),
            significant=True,
        )
        return [gateway]

    if endpoint.server is None:
        return await _run(config, frontends, prepare=partial(serving_only, endpoint), patience=patience)
    alone = replace(config, servers={endpoint.server: config.servers[endpoint.server]}, peers={})
    return await _run(alone, frontends, patience=patience, starts=False, watches=False)


async def serve_http(config: Config, *, host: str | None, port: int | None, auth: bool) -> int:
    """Serve any number of clients over HTTP until a signal.

    Raises:
        BindError: The address cannot be listened on.
        DaemonError: Others may change the state folder.
        TokenError: There is no usable token.
    """
    check_state_folder()
    raise_limit()
    with _http(config, host=host, port=port, auth=auth) as frontends:
        return await _run(config, frontends, patience=PATIENCE)


async def serve_daemon(
    config: Config, paths: DaemonPaths, listener: socket.socket, *, patience: Patience = PATIENCE
) -> int:
    """Serve any number of clients on that socket, and over HTTP if the configuration says so, until a signal.

    The caller holds the lock of `paths`.
    """
    raise_limit()
    with ExitStack() as stack:
        http = _supervised_http(config) if config.http_served else None
        if http is not None:
            stack.callback(http.close)

        def frontends(endpoints: Endpoints) -> list[ChildSpec]:
            page = part("page")(endpoints.hub, endpoints.clients)
            frontend = SocketFrontend(endpoints, listener, paths, page.link)
            uses = [frontend.use, page.use, *([http.use] if http is not None else ())]
            hub = endpoints.hub
            end = partial(frontend.end, "idle")
            idle = IdleExit(lambda: hub.config.idle_exit, hub.is_working, uses, end)
            # it drains within the grace time, and then its clients are owed a moment to take the rest
            shutdown = Shutdown(grace=config.shutdown_grace + 1.0)
            return [
                ChildSpec(name="log", run=LogRotation(paths.log, MAX_LOG_BYTES).run),
                ChildSpec(name="gateway", run=frontend.run, shutdown=shutdown),
                ChildSpec(name="stale files", run=_clean_up, policy=Policy(restart=Restart.TEMPORARY)),
                ChildSpec(name="idle exit", run=idle.run),
                *([http.serve(endpoints, page)] if http is not None else ()),
                page.child(),  # after what serves it, so that it is closed first
            ]

        status = None if http is None else http.status
        return await _run(config, frontends, patience=patience, http=status)


async def _clean_up(incarnation: Incarnation) -> None:
    """Clean up after daemons that are gone, once this one has started its servers."""
    incarnation.ready()
    with anyio.move_on_after(CLEAN_UP_AFTER_S):
        await incarnation.stopping.wait()
        return
    await anyio.to_thread.run_sync(clean_up)


def _supervised_http(config: Config) -> SupervisedHttp:
    http: SupervisedHttp = _http_module("supervision").SupervisedHttp(
        config, open_forwarder=_forwarders(config)
    )
    return http


def _http_module(name: str) -> Any:
    """Import a module of the HTTP frontend, and the SDK's server, which its clients need: 12 MB in all."""
    with light_sdk(serves_http=True):
        import_module("mcpx.core.gateway.server")
        return import_module(f"mcpx.core.gateway.frontends.http.{name}")


def _forwarders(config: Config) -> OpenForwarder | None:
    return part("replicas") if config.http.replica.url else None


@contextmanager
def _http(config: Config, *, host: str | None, port: int | None, auth: bool) -> Iterator[Frontends]:
    """Listen at once, so that a wrong address is an error at once; the frontend follows with the hub."""
    http = _http_module("frontend")
    listener = http.listen(host or config.http.host, config.http.port if port is None else port)
    with listener:
        token = load_token() if auth else None

        def frontends(endpoints: Endpoints) -> list[ChildSpec]:
            limit = config.max_message_bytes
            forwarders = _forwarders(config)
            frontend = http.HttpFrontend(
                endpoints, listener, config.http, token=token, limit=limit, open_forwarder=forwarders
            )
            return [ChildSpec(name="http", run=frontend.run, shutdown=http.http_shutdown(config))]

        yield frontends


async def _run(
    config: Config,
    frontends: Frontends,
    *,
    patience: Patience,
    starts: bool = True,
    watches: bool = True,
    prepare: Callable[[Config], Config] = lambda config: config,
    http: Callable[[], HttpStatus] | None = None,
) -> int:
    notifier, hangup = Notifier(), Hangup()
    tracing = open_tracing()
    hub = Hub(
        config,
        ports(config, cluster=cluster_of(config) if watches else None),
        reloading=notifier.reloading,
        starts=starts,
        tracing=tracing,
        prepare=prepare,
        http=http,
    )
    clients = ClientSessions(hub)
    folder = claim_configuration_folder(config.source)
    hub.root.add(ChildSpec(name="stats", run=StatsWriter(hub.meter, stats_file(folder)).run))
    searches = HistoryFile(hub.searches, folder, lambda: hub.config.search_history)
    hub.root.add(ChildSpec(name="searches", run=searches.run))
    hub.root.add(ChildSpec(name="clients", run=clients.run))
    for child in frontends(Endpoints(hub, clients)):
        hub.root.add(child)
    if watches:
        hub.root.add(ChildSpec(name="config", run=hub.file.watch))
    hub.root.add(ChildSpec(name="notify", run=notifier.announce))  # the last, so that it says so first
    for notice in config.notices:
        log.info("config.notice", notice=notice)
    gc.freeze()  # a full collection looks through all modules for 60 ms; what is there now stays anyway
    gc.enable()  # which the start had no use for
    beside = partial(_finish_start, hub), partial(notifier.watch, lambda: _describe(hub))
    with closing(tracing):
        return await run_watched(hub, patience, *beside, hangup=hangup if watches else None)


async def _finish_start(hub: Hub) -> None:
    """Do what can wait until the servers have settled."""
    await hub.settled(SETTLED_TIMEOUT_S)
    EARLY.end()
    if any(isinstance(server.transport, Http | Sse) for server in hub.config.servers.values()):
        # 50 ms, for which the first call of one that sleeps would wait
        await anyio.to_thread.run_sync(import_module, "mcpx.core.servers.transport.http_link")


def _describe(hub: Hub) -> str:
    """One line for the service manager."""
    servers = hub.registry.list_servers()
    asleep = sum(info.state is State.ASLEEP for info in servers)
    signed_out = sum(info.state is State.NEEDS_SIGN_IN for info in servers)
    text = f"{sum(info.ready for info in servers)} of {len(servers)} servers ready"
    if asleep:
        text += f", {asleep} asleep"
    if signed_out:
        text += f", {signed_out} to sign in to"
    if hub.file.problem is not None:
        text += "; the configuration file cannot be used"
    if hub.http is not None and hub.http().error is not None:
        text += "; HTTP is not served"
    text += "".join(f"; {each.name} is parked" for each in hub.parked())
    return text
