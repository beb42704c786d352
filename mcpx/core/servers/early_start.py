"""Work during the import of the SDK: the configuration is resolved, and servers' processes are started.

Used by the commands that serve, around that import. Imports neither the SDK nor anyio itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Lock, Thread
from typing import Final

from mcpx.core.config import Config, Stdio
from mcpx.core.config.load import cluster_link
from mcpx.core.running import put_in_force
from mcpx.core.servers.offers.remembered import CatalogueFiles, may_sleep
from mcpx.core.servers.offers.server_identity import server_identity
from mcpx.core.servers.transport.spawning import EARLY
from mcpx.core.system.processes import processors
from mcpx.paths import configuration_folder

MAX_EARLY: Final = 64  # processes: each has three pipes, and the limit of open files may be low yet


@contextmanager
def early_children(
    resolve: Callable[[], Config],
    needed: Callable[[Config], Config] = lambda config: config,
    *,
    sweeps: bool = True,
) -> Iterator[Callable[[], Config]]:
    """In a thread, `resolve` the configuration, which may wait for the login shell, and start processes.

    What an earlier MCPX has left behind is ended before that, where it `sweeps`. They are those that a fleet
    of the servers that are `needed` starts first; what it has not taken is ended. What it yields waits for
    the configuration and returns it, or raises what `resolve` has raised.
    """
    resolved = Future[Config]()
    lock, is_over = Lock(), False

    def work() -> None:
        try:
            if sweeps:
                EARLY.sweep()
            config = resolve()
            with lock:
                if not is_over:
                    put_in_force(config.environment)
                    EARLY.start(needed_first(needed(config)), at_once=max(1, round(processors())))
            resolved.set_result(config)
        except BaseException as error:  # noqa: BLE001 - the boundary of the thread: it is raised where it is waited for
            resolved.set_exception(error)

    Thread(target=work, name="early start", daemon=True).start()
    try:
        yield resolved.result
    finally:
        with lock:  # an interrupted start does not wait for a shell that hangs
            is_over = True
        EARLY.end()


def needed_first(config: Config) -> list[Stdio]:
    """The commands of the servers that start first, in the order of the fleet: unknown ones before others.

    In a cluster there are none: nodes start them.
    """
    if cluster_link(config, configuration_folder(config.source)) is not None:
        return []
    files = CatalogueFiles()
    needed: list[tuple[bool, Stdio]] = []
    for server in config.servers.values():
        if server.disabled is None and isinstance(server.transport, Stdio):
            listed_at = files.listed_at(server_identity(server))
            if not may_sleep(server, listed_at):
                needed.append((listed_at is not None, server.transport))
    needed.sort(key=lambda each: each[0])
    return [transport for _, transport in needed][:MAX_EARLY]
