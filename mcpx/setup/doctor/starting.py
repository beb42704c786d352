"""Starting each server once, apart from any daemon, to see whether it works, and what it takes.

A hub of this process's own does it, so that a server is started and ended exactly as it always is. What it
keeps in files goes to a temporary folder, but for the tokens of sign-ins.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
import msgspec
from msgspec.structs import replace

from mcpx.core.config import Config, ServerConfig, starting_limit
from mcpx.core.servers.fleet.process_figures import group_memory
from mcpx.paths import state_folder

if TYPE_CHECKING:
    from mcpx.core.daemon.hub import Hub
    from mcpx.core.servers.actor import Upstream

MARGIN_S: Final = 3.0  # beyond the time of one start, for the machine
NOWHERE: Final = Path("/nowhere/mcpx")  # where nothing can be kept, nothing is


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """How a server's start went. `problem` is None if it is ready; `memory` is in bytes, None if unknown."""

    problem: str | None
    seconds: float | None = None
    tools: int = 0
    memory: int | None = None
    needs_sign_in: bool = False


def start_once(config: Config, names: Iterable[str], *, timeout_s: float) -> dict[str, Start]:
    """Start these servers side by side, and end them; how each start went, by name.

    `timeout_s` is what one of them gets at most, where its `connect_timeout` is not shorter.
    """
    wanted = set(names)
    if not wanted:
        return {}
    servers = {name: _eager(server, timeout_s) for name, server in config.servers.items() if name in wanted}
    with _temporary_state() as state:
        return anyio.run(_start, replace(config, servers=servers), state, timeout_s)


def _eager(server: ServerConfig, timeout_s: float) -> ServerConfig:
    limits = server.call_limits
    shorter = replace(limits, connect_timeout=min(limits.connect_timeout, timeout_s))
    return replace(server, call_limits=shorter, start="eager", idle_stop=0.0, auto_describe=False)


@contextmanager
def _temporary_state() -> Iterator[Path]:
    try:
        folder = tempfile.TemporaryDirectory(prefix="mcpx-doctor-", ignore_cleanup_errors=True)
    except OSError:  # a full disk, or one that cannot be written to
        yield NOWHERE
        return
    with folder as name:
        yield Path(name)


async def _start(config: Config, state: Path, timeout_s: float) -> dict[str, Start]:
    from mcpx.core.daemon.hub import open_hub  # noqa: PLC0415 - the SDK

    async with open_hub(config, state=state, tokens=state_folder()) as hub:
        rounds = 1 + (len(config.servers) - 1) // starting_limit(config)
        await hub.settled(timeout_s * rounds + MARGIN_S)
        return await _results(hub, timeout_s)


async def _results(hub: Hub, timeout_s: float) -> dict[str, Start]:
    pids = [upstream.pid for upstream in hub.upstreams.values() if upstream.pid is not None]
    memory = await anyio.to_thread.run_sync(group_memory, pids)
    return {
        name: _result(upstream, memory.get(upstream.pid or 0), timeout_s)
        for name, upstream in hub.upstreams.items()
    }


def _result(upstream: Upstream, memory: int | None, timeout_s: float) -> Start:
    info, life = upstream.info(), upstream.queue.lifecycle_or_none()
    if not info.ready or life is None or life.up_since is None:
        late = f"not ready within {timeout_s:g} s"
        return Start(
            problem=upstream.last_error or info.cause or late, needs_sign_in=info.sign_in is not None
        )
    return Start(problem=None, seconds=life.up_since - life.attempt_at, tools=len(info.tools), memory=memory)
