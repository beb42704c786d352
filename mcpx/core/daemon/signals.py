"""What signals do to a process of MCPX: they end it, in order or at once, or have it read its file again.

A task of the composition root for as long as the hub runs.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final, NoReturn

import anyio
import anyio.abc
import structlog

from mcpx.core.daemon.hub import Hub
from mcpx.core.servers.fleet.supervision import TEARDOWN_S
from mcpx.core.servers.transport.spawning import EARLY
from mcpx.core.telemetry.contained import contain
from mcpx.core.telemetry.hangup import Hangup
from mcpx.errors import ConfigError

# The end of a MCPX process without another step, when the one in order takes too long or cannot be had.


def end_at_once(hub: Hub, why: str, code: int) -> NoReturn:
    """Kill every child's process group and leave. May be called in any thread."""
    upstreams = hub.fleet.children()
    stuck = [upstream.name for upstream in upstreams if upstream.pid is not None]
    log.error("mcpx.killed", reason=why, stuck=stuck)
    for upstream in upstreams:
        if upstream.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(upstream.pid, signal.SIGKILL)
    EARLY.end()
    os._exit(code)


log = structlog.get_logger()
MARGIN_S: Final = 2.0  # beyond every grace time of the children


async def obey_signals(hub: Hub, hangup: Hangup | None, tasks: anyio.abc.TaskGroup) -> None:
    """The first signal ends everything in order, after `http.drain`; the second, or the deadline, at once.

    SIGHUP reloads, as one of `tasks`, unless `hangup` says that it is the end; without `hangup` it is.
    """
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for number in signals:
            if number == signal.SIGHUP and hangup is not None and not hangup.is_end():
                tasks.start_soon(_reload, hub)
                continue
            log.info("mcpx.stopping", signal=number.name)
            break
        hub.leaving.begin()
        with anyio.move_on_after(hub.leaving.drain_s):
            await _second_signal(hub, signals)
        hub.stop()
        deadline = hub.config.shutdown_grace + TEARDOWN_S + MARGIN_S
        with anyio.move_on_after(deadline):
            await _second_signal(hub, signals)
        end_at_once(hub, f"not stopped within {deadline:g} s", 1)


async def _second_signal(hub: Hub, signals: AsyncIterator[signal.Signals]) -> None:
    """Wait for a signal that ends everything at once."""
    async for number in signals:
        if number != signal.SIGHUP:
            end_at_once(hub, f"a second signal ({number.name})", 128 + number)


async def _reload(hub: Hub) -> None:
    log.info("config.reload_requested", signal="SIGHUP")
    try:
        await hub.file.reload()
    except ConfigError:
        pass  # noted where it was found
    except Exception as error:  # noqa: BLE001 - the boundary: what a file may hold does not end the daemon
        contain(error, "config")
