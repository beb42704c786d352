"""Servers that run for the length of one command, with progress on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final, Self

import anyio
import msgspec
from msgspec.structs import replace
from rich.text import Text

from mcpx.cli.printing import console
from mcpx.core.catalog.model import JSON
from mcpx.core.config import Config, read_config
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.gateway.frontends.operations import ControlRequest, ReportStep, server_entry
from mcpx.core.gateway.frontends.operations import perform as perform_on_hub
from mcpx.core.policy.profiles import check_endpoint, serving_only
from mcpx.core.text import one_line
from mcpx.parts import open_hub

MAX_WAIT_FOR_ALL_S: Final = 15.0  # where no server is named: one that hangs must not hide the others
NOT_NEEDED: Final = "not needed for this command"


def perform(config_path: str | None, control_request: JSON, report: ReportStep) -> JSON:
    """Start the servers of a configuration (or the one that is needed), carry out a request, and end them.

    `report` takes the progress of a call. Where all servers are listed, it takes each as soon as it is known
    what it offers: `{"server": ENTRY, "of": NAMES}`. With `start` in the request a server starts, though its
    offers are known from last time.

    Raises:
        ConfigError: The configuration cannot be used.
        CallError: As `perform` on the hub of a daemon.
        EndpointError: Likewise.
    """
    request = msgspec.convert(control_request, ControlRequest)
    config = _needed(config_path, request)
    if control_request.get("start"):
        servers = {name: replace(server, start="eager") for name, server in config.servers.items()}
        config = replace(config, servers=servers)
    lists_all = request.mcpx == "inspect" and request.server is None and not request.query
    return anyio.run(_list if lists_all else _perform, config, request, report)


def _needed(config_path: str | None, request: ControlRequest) -> Config:
    """The configuration without the servers that are not needed, whose secrets are not fetched either."""
    text = read_config(config_path)
    looked_at = _only(text.parse(resolve=False), request).servers
    needed = [name for name, server in looked_at.items() if server.disabled != NOT_NEEDED]
    return _only(text.parse(secrets_of=needed), request)


def _only(config: Config, request: ControlRequest) -> Config:
    """The configuration without the servers that are not needed. An unknown name starts none."""
    check_endpoint(request.endpoint, config)
    config, server = serving_only(request.endpoint, config), request.server
    if server is None:
        return config
    server = config.server_named(server)
    if server not in config.servers and not request.tool:  # `git.git_status`, or the name of a tool alone
        server = max((name for name in config.servers if server.startswith(name)), key=len, default=None)
        if server is None and request.mcpx == "exec":
            return config
    # the others stay listed, so that a misspelt name finds its nearest
    servers = {
        name: one if name == server else replace(one, disabled=one.disabled or NOT_NEEDED)
        for name, one in config.servers.items()
    }
    return replace(config, servers=servers)


async def _perform(config: Config, request: ControlRequest, report: ReportStep) -> JSON:
    async with open_hub(config) as hub:
        with _Spinner([name for name, up in hub.upstreams.items() if up.config.disabled is None]):
            await hub.settled(_patience(hub, request))
        return await perform_on_hub(hub, request, report)


async def _list(config: Config, request: ControlRequest, report: ReportStep) -> JSON:
    servers: dict[str, JSON] = {}
    async with open_hub(config) as hub:
        view = HubView(hub, request.endpoint)
        shown = [name for name, up in view.upstreams.items() if not up.config.is_switched_off]
        left = list(shown)

        def show(name: str) -> None:
            servers[name] = server_entry(view, name)
            report({"server": servers[name], "of": list(config.servers)})

        async def watch(name: str) -> None:
            await hub.upstreams[name].await_first_attempt()
            left.remove(name)
            spinner.interrupt(lambda: show(name), left)

        with _Spinner(left) as spinner, anyio.move_on_after(_patience(hub, request)):
            async with anyio.create_task_group() as tasks:
                for name in shown:
                    tasks.start_soon(watch, name)
        for name in left:
            show(name)
    return {"servers": [servers[name] for name in config.servers if name in servers]}


def _patience(hub: Hub, request: ControlRequest) -> float:
    """Seconds to wait for servers: the time of the one that is named, or a while for all."""
    limits = [up.config.call_limits for up in hub.upstreams.values()]
    if request.server is not None:  # a first start may be a download
        return max((max(each.connect_timeout, each.first_start_timeout) for each in limits), default=0.0)
    slowest = max((each.connect_timeout for each in limits), default=0.0)
    return min(slowest, MAX_WAIT_FOR_ALL_S)


class _Spinner:
    """Says on a terminal which servers are being started; a context manager."""

    def __init__(self, names: list[str]) -> None:
        self._status = console(err=True).status(self._text(names)) if sys.stderr.isatty() else None

    @staticmethod
    def _text(names: list[str]) -> Text:
        return Text(one_line(f"starting {', '.join(names)} ..."), no_wrap=True, overflow="ellipsis")

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def interrupt(self, show: Callable[[], None], names: list[str]) -> None:
        """Print something where the spinner stood, and go on with the names that are left."""
        self.__exit__()
        show()
        if self._status is not None and names:
            self._status.update(self._text(names))
            self._status.start()
