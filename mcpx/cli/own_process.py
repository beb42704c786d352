"""Running servers for the length of one command, with progress on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

import anyio
from msgspec.structs import replace
from rich.console import Console

from mcpx.config import Config, load
from mcpx.hub import Hub, open_hub
from mcpx.observe.log import configure

Work = Callable[[Hub], Awaitable[bool]]


def run_with_servers(config_path: str | None, server: str | None, work: Work) -> bool:
    """Start the servers of a configuration (or the one named), do `work`, and end them all.

    Raises:
        ConfigError: The configuration cannot be used.
        MCPXError: What the work raised.
    """
    configure("error")  # what fails is told by the command itself
    config = _only(load(config_path), server)
    return anyio.run(_work, config, work)


def _only(config: Config, server: str | None) -> Config:
    """The configuration without the servers that are not needed. An unknown name starts none."""
    if server is None:
        return config
    # the others stay listed, so that a misspelt name finds its nearest
    servers = {
        name: one if name == server else replace(one, disabled=one.disabled or "not needed for this command")
        for name, one in config.servers.items()
    }
    return replace(config, servers=servers)


async def _work(config: Config, work: Work) -> bool:
    async with open_hub(config) as hub:
        await _wait(hub)
        return await work(hub)


async def _wait(hub: Hub) -> None:
    """Wait for the servers, saying so on a terminal; no longer than the slowest may take to connect."""
    seconds = max(up.config.limits.connect_timeout for up in hub.upstreams.values())
    if not sys.stderr.isatty():
        await hub.settled(seconds)
        return
    console = Console(stderr=True)
    waiting = [name for name, up in hub.upstreams.items() if up.config.disabled is None]
    with console.status(f"starting {', '.join(waiting)} ..."):
        await hub.settled(seconds)
