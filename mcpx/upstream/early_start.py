"""Servers' processes that are started before MCPX is ready for them: it imports the SDK meanwhile.

Used by the commands that serve, around that import. Imports neither the SDK nor anyio itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mcpx.config import Config, Stdio
from mcpx.config.starting import processors
from mcpx.upstream.offers.remembered import CatalogueFiles, may_sleep
from mcpx.upstream.offers.server_identity import server_identity
from mcpx.upstream.transport.spawning import EARLY

MAX_EARLY: Final = 64  # processes: each has three pipes, and the limit of open files may be low yet


@contextmanager
def early_children(config: Config) -> Iterator[None]:
    """Start the processes that a fleet of this configuration needs first; end what it has not taken."""
    try:
        EARLY.start(needed_first(config), at_once=max(1, round(processors())))
        yield
    finally:
        EARLY.end()


def needed_first(config: Config) -> list[Stdio]:
    """The commands of the servers that start first, in the order of the fleet: unknown ones before others."""
    files = CatalogueFiles()
    needed: list[tuple[bool, Stdio]] = []
    for server in config.servers.values():
        if server.disabled is None and isinstance(server.transport, Stdio):
            listed_at = files.listed_at(server_identity(server))
            if not may_sleep(server, listed_at):
                needed.append((listed_at is not None, server.transport))
    needed.sort(key=lambda each: each[0])
    return [transport for _, transport in needed][:MAX_EARLY]
