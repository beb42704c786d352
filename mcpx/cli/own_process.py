"""Running servers for the length of one command, with progress on a terminal."""

from __future__ import annotations

import sys
from typing import Any

import anyio
import msgspec
from msgspec.structs import replace
from rich.text import Text

from mcpx.cli.printing import console
from mcpx.config import Config, load
from mcpx.core.hub import Hub, open_hub
from mcpx.core.profiles import check_door, serving_only
from mcpx.daemon.paths import check_state_folder
from mcpx.gateway.frontends.control import ControlRequest, ReportStep, perform
from mcpx.observe.log import configure
from mcpx.text import one_line


def perform_alone(
    config_path: str | None, control_request: dict[str, Any], report: ReportStep = lambda _step: None
) -> dict[str, Any]:
    """Start the servers of a configuration (or the one that is needed), perform a request, and end them.

    `report` takes the progress of a call.

    Raises:
        ConfigError: The configuration cannot be used.
        DaemonError: Others may change the state folder.
        CallError: What `perform` raises.
        DoorError: Likewise.
    """
    configure("error")  # the command itself prints what fails
    check_state_folder()
    request = msgspec.convert(control_request, ControlRequest)
    return anyio.run(_perform, _only(load(config_path), request), request, report)


def _only(config: Config, request: ControlRequest) -> Config:
    """The configuration without the servers that are not needed. An unknown name starts none.

    Raises:
        DoorError: The request names a profile that there is not.
    """
    check_door(request.door, config)
    config, server = serving_only(request.door, config), request.server
    if server is None:
        return config
    if server not in config.servers and not request.tool:  # `git.git_status`, or the name of a tool alone
        server = max((name for name in config.servers if server.startswith(name)), key=len, default=None)
        if server is None and request.mcpx == "exec":
            return config
    # the others stay listed, so that a misspelt name finds its nearest
    servers = {
        name: one if name == server else replace(one, disabled=one.disabled or "not needed for this command")
        for name, one in config.servers.items()
    }
    return replace(config, servers=servers)


async def _perform(config: Config, request: ControlRequest, report: ReportStep) -> dict[str, Any]:
    async with open_hub(config) as hub:
        await _wait(hub)
        return await perform(hub, request, report)


async def _wait(hub: Hub) -> None:
    """Wait for the servers, saying so on a terminal; no longer than the slowest may take to connect."""
    seconds = max((up.config.limits.connect_timeout for up in hub.upstreams.values()), default=0.0)
    if not sys.stderr.isatty():
        await hub.settled(seconds)
        return
    waiting = [name for name, up in hub.upstreams.items() if up.config.disabled is None]
    with console(err=True).status(Text(one_line(f"starting {', '.join(waiting)} ..."))):
        await hub.settled(seconds)
