"""`mcpx serve`: one process in the foreground.

Where it cannot start, its client is served as by `mcpx attach`, and the servers when they can be: in a
process of their own then, another `mcpx serve`, at the other end of a pair of sockets.
"""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from typing import Final

import anyio
import click
from msgspec.structs import replace

from mcpx.attach.command import WAITS_FOR_CLIENT, serve_client
from mcpx.attach.connecting import NO_CONFIG, Connecting, NoDaemon
from mcpx.cli.group import with_cure
from mcpx.cli.operations.foreground import started_here
from mcpx.cli.options import config_of, with_config
from mcpx.cli.printing import echo
from mcpx.core.config import Config, read_config
from mcpx.core.config.load import ConfigText
from mcpx.core.config.urls import is_loopback
from mcpx.core.daemon.launch import BAD_CONFIG, START_TIMEOUT_S, ConfigProblemError, StartFailedError
from mcpx.core.daemon.startup_report import STARTED, StartupReport, has_starter, report
from mcpx.core.policy.profiles import EndpointError, by_own_names, check_endpoint, select
from mcpx.core.running import begin
from mcpx.core.store.paths import DaemonPaths, check_state_folder, daemon_paths
from mcpx.core.system.endpoint import DEFAULT_ENDPOINT, EXPOSURES, Endpoint, Expose, only_of
from mcpx.core.system.light_imports import light_sdk
from mcpx.core.text.nearest import nearest
from mcpx.errors import ConfigError, DaemonError, MCPXError

# --- a client of a `mcpx serve` that cannot start

END_TIMEOUT_S: Final = 30.0  # for the process to end its servers, when the client has left


def serve_nevertheless(problem: str, config: str | None, endpoint: Endpoint, arguments: list[str]) -> bool:
    """Serve the client on standard input and output, though `mcpx ARGUMENTS` cannot, because of `problem`.

    Returns whether in the end it could.
    """
    try:
        paths = daemon_paths(config)
    except DaemonError as error:
        serve_client(NoDaemon(str(error)), endpoint)
        return False
    connecting = _Connecting(paths, arguments, problem)
    try:
        serve_client(connecting, endpoint)
    finally:
        connecting.close()
    return connecting.has_served


class _Connecting(Connecting):
    """Connections to processes of this shim's own, one after the other."""

    greets = False

    def __init__(self, paths: DaemonPaths, arguments: list[str], problem: str) -> None:
        super().__init__(paths)
        self._arguments = arguments
        self._processes: list[subprocess.Popen[bytes]] = []
        self._complained = problem  # the command has said it
        self.give_up(problem, trouble=NO_CONFIG)

    @property
    def has_served(self) -> bool:
        """True unless the last attempt failed."""
        return self._given_up is None

    def begin(self) -> None:
        """It has failed just now."""

    def existing(self) -> socket.socket | None:
        return None

    def was_stopped(self) -> bool:
        return False

    def _launch(self) -> _ServeLauncher:
        return _ServeLauncher(self._arguments, self._processes)

    def close(self) -> None:
        """Wait for the processes; their clients have left."""
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_TIMEOUT_S)


class _ServeLauncher:
    """One `mcpx ARGUMENTS`, which is added to `processes`."""

    def __init__(self, arguments: list[str], processes: list[subprocess.Popen[bytes]]) -> None:
        self._arguments = arguments
        self._processes = processes
        self._deadline = time.monotonic() + START_TIMEOUT_S
        self._report = StartupReport()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None

    def poll(self) -> socket.socket | None:
        """Return the connection once the process serves, else None, like `DaemonLauncher`."""
        if self._process is None:
            self._process = self._start()
            self._processes.append(self._process)
        reported = self._report.read()
        if reported == STARTED:
            connection, self._connection = self._connection, None
            return connection
        if (code := self._process.poll()) is not None:
            if code == BAD_CONFIG:
                raise ConfigProblemError(reported)
            raise StartFailedError(reported or f"mcpx serve ended at once (exit code {code})")
        if time.monotonic() > self._deadline:
            self._process.kill()
            raise StartFailedError(f"mcpx serve does not start within {START_TIMEOUT_S:g} s")
        return None

    def _start(self) -> subprocess.Popen[bytes]:
        self._connection, theirs = socket.socketpair()
        with theirs:
            try:
                return subprocess.Popen(
                    [sys.executable, "-P", "-m", "mcpx", *self._arguments],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    env={**os.environ, **self._report.environment},
                    pass_fds=(self._report.descriptor,),
                )
            except OSError as error:
                raise StartFailedError(f"cannot start {sys.executable}: {error.strerror}") from None

    def close(self) -> None:
        """Release what the caller was not given."""
        self._report.close()
        if self._connection is not None:
            self._connection.close()


@click.command(short_help="Serve a client over stdio, or many over HTTP.")
@click.argument("config", required=False, type=click.Path())
@with_config
@click.option("--transport", type=click.Choice(["stdio", "http"]), default="stdio", show_default=True)
@click.option("--host", help="Address to listen on (http).  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on (http).  [default: 8765]")
@click.option("--no-auth", is_flag=True, help="Ask HTTP clients for no token.")
@click.option("--expose", type=click.Choice(EXPOSURES), help="Show tools as the three, all, or both (stdio).")
@click.option("--profile", metavar="NAME", help="The servers and tools of a profile, no others (stdio).")
@click.option("--only", metavar="NAMES", help="These servers, separated by commas, no others (stdio).")
@click.option("--server", metavar="NAME", help="This server alone, exactly as it is (stdio).")
@click.option("--yes-everybody", is_flag=True, help="Ask for none on an address that others reach, too.")
def serve(
    *,
    config: str | None,
    config_path: str | None,
    transport: str,
    host: str | None,
    port: int | None,
    no_auth: bool,
    yes_everybody: bool,
    expose: Expose | None,
    profile: str | None,
    only: str | None,
    server: str | None,
) -> None:
    """Serve the servers of CONFIG in the foreground, until the client leaves or a signal comes.

    \b
    stdio: one client on standard input and output; this is what desktop clients start.
    http:  Streamable HTTP for any number of clients, on loopback, with a bearer token that is made at the
           first start and kept in the state folder.
    """  # noqa: D301 - click's own mark, not an escape
    gc.disable()  # as for a daemon (`foreground`)
    from mcpx.core.telemetry.log import configure  # first, as it has structlog imported without rich

    configure()
    from mcpx.core.servers.early_start import early_children  # after structlog

    shown = Endpoint(expose, server, None if only is None else only_of([only]), profile)
    try:
        text, loaded = _read(config_of(config, config_path))
        _check(loaded, shown, transport, host=host, port=port, auth=not no_auth, everybody=yes_everybody)
    except (MCPXError, OSError, click.UsageError) as error:
        if transport == "stdio":
            _serve_nevertheless(error, config_of(config, config_path), shown)
        raise
    report(STARTED)
    if transport == "stdio" and sys.stdin.isatty():
        echo(WAITS_FOR_CLIENT.format("serve"), err=True)
    # over HTTP a port or a token that cannot be had must end it before anything is started, or swept up
    early = server is None and transport == "stdio"

    def needed(config: Config) -> Config:
        return started_here(select(shown, config).config) if early else replace(config, servers={})

    with early_children(text.parse, needed, sweeps=early) as resolved:
        with light_sdk(serves_http=transport == "http"):
            from mcpx import app  # the SDK, while servers start

        if transport == "http":
            run = partial(app.serve_http, resolved(), host=host, port=port, auth=not no_auth)
        else:
            run = partial(app.serve_stdio, resolved(), shown)
        code = anyio.run(run, backend_options=app.LOOP)
    sys.exit(code)


def _read(config: str | None) -> tuple[ConfigText, Config]:
    """The configuration, unresolved, and its text; the person's login shell is asked meanwhile."""
    text = read_config(config)
    loaded = text.parse(resolve=False)
    if loaded.login_shell:
        begin()
    return text, loaded


def _check(
    config: Config,
    endpoint: Endpoint,
    transport: str,
    *,
    host: str | None,
    port: int | None,
    auth: bool,
    everybody: bool,
) -> None:
    """Refuse options that do not go together, or name what there is not, and a state folder of others."""
    address = host or config.http.host
    if transport == "http" and not auth and not everybody and not is_loopback(address):
        raise click.UsageError(
            f"--no-auth on {address} lets everybody who reaches that address run every tool;"
            " leave --no-auth out, listen on 127.0.0.1, or say --yes-everybody as well"
        )
    if transport == "http" and endpoint != DEFAULT_ENDPOINT:
        raise click.UsageError(
            "HTTP has these in its URL: /mcp?expose=all, /mcp/PROFILE, /mcp?only=NAMES, /mcp/servers/NAME"
        )
    if transport == "stdio" and (host or port is not None or not auth or everybody):
        raise click.UsageError("--host, --port, --no-auth and --yes-everybody go with --transport http")
    _check_endpoint(config, endpoint)
    check_state_folder()


def _check_endpoint(config: Config, endpoint: Endpoint) -> None:
    if endpoint.expose and endpoint.server:
        raise click.UsageError("--server shows one server as it is; --expose says how all are shown")
    if endpoint.server and (endpoint.profile or endpoint.only is not None):
        raise click.UsageError("--server shows one server as it is; --profile and --only choose among all")
    endpoint = by_own_names(endpoint, config)
    if endpoint.server is not None and endpoint.server not in config.servers:
        near = nearest(endpoint.server, config.servers)
        hint = f"; did you mean {near[0]}?" if near else f"; there is {', '.join(config.servers)}"
        raise click.UsageError(f"{config.source} has no server {endpoint.server!r}{hint}")
    try:
        check_endpoint(endpoint, config)
    except EndpointError as error:
        raise click.UsageError(f"{config.source}: {error}") from None


def _serve_nevertheless(
    error: MCPXError | OSError | click.UsageError, config: str | None, endpoint: Endpoint
) -> None:
    """Have a client that started this hear by MCP what is wrong, and exit when it leaves.

    Returns where nobody but a person, or the process that does this already, waits for an answer.
    """
    problem = error.format_message() if isinstance(error, click.UsageError) else str(error)
    report(problem)
    if has_starter() or sys.stdin.isatty():
        return
    echo(f"mcpx: {problem if isinstance(error, click.UsageError) else with_cure(problem, error)}", err=True)
    options = {"--expose": endpoint.expose, "--server": endpoint.server, "--profile": endpoint.profile}
    if endpoint.only is not None:
        options["--only"] = ",".join(endpoint.only)
    arguments = ["serve", *([] if config is None else ["--config", config])]
    for option, value in options.items():
        arguments += [] if value is None else [option, value]
    has_served = serve_nevertheless(problem.rstrip("."), config, endpoint, arguments)
    code = 2 if isinstance(error, ConfigError | click.UsageError) else 1
    sys.exit(0 if has_served else code)
