"""A hub as the whole of a process: under the watchdog, and ended by signals, in order or at once."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, NoReturn

import anyio
import anyio.abc
import structlog

from mcpx.core.daemon.hub import Hub
from mcpx.core.servers.fleet.supervision import TEARDOWN_S
from mcpx.core.servers.transport.spawning import EARLY
from mcpx.core.system.input import Hangup
from mcpx.core.system.watchdog import EXIT_CODE, Patience, watching
from mcpx.core.telemetry.contained import containing
from mcpx.errors import ConfigError
from supervisors import SupervisorError

log = structlog.get_logger()
MARGIN_S: Final = 2.0  # beyond every grace time of the children


async def run_watched(
    hub: Hub,
    patience: Patience,
    *beside: Callable[[], Coroutine[Any, Any, None]],
    hangup: Hangup | None = None,
) -> int:
    """Run a hub to its end, under the watchdog and obeying signals; return the exit code of the process.

    What runs `beside` it is cancelled then.
    """
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_obey_signals, hub, hangup, tasks)
        for each in beside:
            tasks.start_soon(each)
        try:
            with watching(patience, lambda why: end_at_once(hub, why, EXIT_CODE)):
                await hub.run()
        except SupervisorError as failure:
            log.error("mcpx.failed", cause=str(failure), exc_info=failure.__cause__)  # noqa: TRY400
            return 1
        finally:
            tasks.cancel_scope.cancel()
    return 0


async def _obey_signals(hub: Hub, hangup: Hangup | None, tasks: anyio.abc.TaskGroup) -> None:
    """End all in order at the first signal, after `http.drain`; at once at the second, or the deadline.

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
    with containing("config"), suppress(ConfigError):  # noted where it was found
        await hub.file.reload()


def end_at_once(hub: Hub, why: str, code: int) -> NoReturn:
    """Kill every child with all that it has started, and leave. May be called in any thread."""
    upstreams = hub.fleet.children()
    stuck = [upstream.name for upstream in upstreams if upstream.pid is not None]
    log.error("mcpx.killed", reason=why, stuck=stuck)
    hub.fleet.ledger.end_children()
    EARLY.end()
    os._exit(code)
