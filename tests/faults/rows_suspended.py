"""The faults that a suspend leaves behind: the machine has slept, or MCPX was stopped with its servers."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import anyio

from mcpx.core.catalog.snapshot import State
from mcpx.core.telemetry.suspend import MIN_AWAY_S, TICK_S
from tests.faults import traces
from tests.faults.served import entry, open_served
from tests.faults.stage import Seen, stage
from tests.faults.stage_http import HttpStage, http_stage
from tests.faults.table import Faults

faults = Faults()
NIGHT_S = 8 * 3600.0
STOPPED_S = TICK_S + MIN_AWAY_S + 0.5
MISSES_S = 2 * 0.2
NOTICED_S = TICK_S + MISSES_S + 0.15


@contextmanager
def a_night() -> Iterator[None]:
    """Set the wall clock forward, as it is seen after the machine has slept."""
    real = time.time
    with patch.object(time, "time", lambda: real() + NIGHT_S):
        yield


@faults.row("the machine sleeps, and a server does not wake")
async def does_not_wake(seen: Seen) -> None:
    """It is probed at once, though it has just answered; its neighbour is, too, and is left alone."""
    async with stage(seen, health_check_timeout=MISSES_S / 2) as on:
        await on.answered("echo")
        seen.caller_saw, seen.error_s = "", None
        on.signal(signal.SIGSTOP)
        with a_night():
            await on.watch.until(lambda: on.watch.state() is not State.READY)
            seen.caller_saw, seen.error_s = "nothing", time.monotonic() - on.fault_at
            await on.recovered()
        seen.error_within_s = NOTICED_S


async def with_dead_connections(on: HttpStage, opened: str) -> None:
    """What was connected is dead and nobody says so; calls and the server's own messages come through."""
    await on.listening()
    await on.answered("echo")
    on.again()
    await on.server.order(deaden=True)
    before = (await on.server.order())["seen"][opened]
    with a_night(), anyio.fail_after(10):
        while (await on.server.order())["seen"][opened] == before:
            pass
        await on.listening()
        await on.answered("act")
        await on.server.order(add_tool="came_later")
        await on.has_tool("came_later")
        await on.untouched()


@faults.row("HTTP: the machine sleeps, and its connections are dead")
async def dead_connections(seen: Seen) -> None:
    async with http_stage(seen) as on:
        await with_dead_connections(on, "GET")


@faults.row("HTTP, 2026-07-28: the machine sleeps, and its connections are dead")
async def dead_modern_connections(seen: Seen) -> None:
    async with http_stage(seen, era="modern") as on:
        await with_dead_connections(on, "subscriptions/listen")


@faults.row("HTTP+SSE: the machine sleeps, and the event stream is dead")
async def dead_event_stream(seen: Seen) -> None:
    """All answers come on that stream, so the session is over: it is found out at once."""
    async with http_stage(seen, era="sse", health_check_timeout=MISSES_S / 2) as on:
        await on.answered("echo")
        on.again()
        await on.server.order(deaden=True)
        with a_night():
            await on.watch.until(lambda: on.watch.state("w") is not State.READY)
            seen.caller_saw, seen.error_s = "nothing", time.monotonic() - on.fault_at
            await on.recovered(2)
        seen.error_within_s = NOTICED_S


@faults.row("MCPX and its servers are stopped mid-call for longer than the call may take")
async def stopped_together(seen: Seen) -> None:
    """Time in which nobody could run does not count: the call is answered, nobody is restarted."""
    mark = uuid.uuid4().hex
    with TemporaryDirectory(prefix="mcpx-fault-") as name:
        servers = {each: entry("good", Path(name, each), mark) for each in ("s", "neighbour")}
        async with open_served(servers, Path(name), call_timeout=STOPPED_S / 2) as served:
            children = set(traces.marked(mark)) - {served.pid}

            async def call() -> None:
                answer = await served.call("s", "busy", seconds=STOPPED_S / 4)
                seen.caller_saw = "the answer" if answer.code is None else f"{answer.code}, {answer.outcome}"
                seen.error_s = time.monotonic() - begun
                seen.check(answer.code is None, f"it was not answered: {answer.text}")

            async with anyio.create_task_group() as tasks:
                begun = time.monotonic()
                tasks.start_soon(call)
                await served.call("neighbour", "echo")  # so the call before has been sent as well
                for pid in (served.pid, *children):
                    os.kill(pid, signal.SIGSTOP)
                try:
                    await anyio.sleep(STOPPED_S)  # that is the fault
                finally:
                    for pid in (*children, served.pid):
                        os.kill(pid, signal.SIGCONT)
                begun = time.monotonic()
            seen.check((await served.call("neighbour", "echo")).code is None, "the neighbour is gone")
            seen.check(children == set(traces.marked(mark)) - {served.pid}, "a server was restarted")
            seen.check("suspend.over" in served.last_words(), "it was not noticed")
            seen.ended = "untouched"
        seen.left = len(await traces.left_over(mark))
        seen.check(not seen.left, f"{seen.left} processes are left")
