"""The daemon in the foreground, and what its start shares with that of `mcpx serve`.

A client may be waiting for the daemon, so `mcpx.__main__` runs it by `main` without the rest of the command
line, which a daemon never uses. `mcpx daemon run` is the same for people.
"""

from __future__ import annotations

import gc
import os
import sys
from functools import partial
from typing import NoReturn

from mcpx.core.config import Config, read_config
from mcpx.core.config.load import cluster_link
from mcpx.core.daemon.startup_report import take_starter
from mcpx.core.running import begin
from mcpx.core.store.listening import listening
from mcpx.core.store.paths import acquire_lock, daemon_paths
from mcpx.core.system.light_imports import light_sdk
from mcpx.errors import MCPXError
from mcpx.paths import STATE_VARIABLE, configuration_folder, home


def main(arguments: list[str]) -> None:
    """Run `mcpx daemon run ARGUMENTS`; return at once for words that a daemon is not started with."""
    config_path: str | None = None
    match arguments:
        case []:
            pass
        case ["--config", given] if given:
            config_path = given
        case _:
            return
    take_starter()
    try:
        run(config_path)
    except (KeyboardInterrupt, MCPXError, OSError, ExceptionGroup) as error:
        from mcpx.cli.group import end  # click, for a daemon that cannot start

        end(error, as_json=False)


def run(config_path: str | None) -> NoReturn:
    """Run the daemon until a signal comes, and exit with its code.

    Raises:
        ConfigError: The configuration cannot be used.
        DaemonError: One runs already, or its folders cannot be used.
    """
    gc.disable()  # until `app` freezes what is imported: a look through it takes 50 ms, and finds nothing
    from mcpx.core.telemetry.log import configure  # first, as it has structlog imported without rich

    configure()
    from mcpx.core.system.input import outlive_early_hangup  # after structlog

    outlive_early_hangup()
    from mcpx.core.servers.early_start import early_children  # likewise

    paths = daemon_paths(config_path)
    _go_home()
    text = read_config(paths.config)
    loaded = text.parse(resolve=False)
    lock = acquire_lock(paths)  # before the SDK is imported: of many, all but one end quickly
    if loaded.login_shell:
        begin()
    paths.stopped.unlink(missing_ok=True)
    try:
        with listening(paths) as listener, early_children(text.parse, started_here) as resolved:
            with light_sdk(serves_http=loaded.http_served):
                import anyio  # likewise

                from mcpx.app import LOOP, serve_daemon  # the SDK, while servers start

            code = anyio.run(partial(serve_daemon, resolved(), paths, listener), backend_options=LOOP)
    finally:
        os.close(lock)
    sys.exit(code)


def _go_home() -> None:
    """Work in the home folder from now on: servers without a `cwd` do so, whoever has started the daemon."""
    if folder := os.environ.get(STATE_VARIABLE):
        os.environ[STATE_VARIABLE] = os.path.abspath(folder)
    if os.path.isdir(where := home()):
        os.chdir(where)


def is_clustered(config: Config) -> bool:
    """Return True if the servers of this configuration run on the nodes of a cluster.

    Raises:
        DaemonError: That cannot be read.
    """
    return cluster_link(config, configuration_folder(config.source)) is not None


def started_here(config: Config) -> Config:
    """The configuration as its servers run, so that none is started here that belongs on a node.

    Raises:
        DaemonError: It cannot be read whether there is a cluster.
    """
    if not is_clustered(config):
        return config
    from mcpx.cluster.node.spec import cluster_config  # what runs on nodes, where there are any

    return cluster_config(config)
