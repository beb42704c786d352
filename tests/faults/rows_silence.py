"""The faults of a server over HTTP of which nothing comes any more while a call is in flight.

The way to it may be gone, or it hangs, or it is only busy: a server that is busy is left alone, also one that
answers nobody meanwhile.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from mcpx.errors import Code, Outcome
from tests.faults.stage import Seen
from tests.faults.stage_http import HttpStage, http_stage
from tests.faults.table import Faults, Play

faults = Faults()
SILENCE_S: Final = 1.0
PROBE_S: Final = 0.8
NOTICED_S: Final = SILENCE_S + PROBE_S + 4.0  # on a loaded machine
PATIENCE_S: Final = 10.0
BUSY_S: Final = 2 * (SILENCE_S + PROBE_S)
ERAS: Final = {"HTTP": "legacy", "HTTP, 2026-07-28": "modern", "HTTP+SSE": "sse"}
SETTINGS: Final = {
    "silence_probe": SILENCE_S,
    "health_check_timeout": PROBE_S,
    "call_timeout": 20.0,
    "queue_timeout": 10.0,
}


def in_each_era(fault: str) -> Callable[[Callable[[HttpStage], Awaitable[None]]], None]:
    """Register a row for each of the eras and transports."""

    def register(play: Callable[[HttpStage], Awaitable[None]]) -> None:
        def row(era: str) -> Play:
            async def played(seen: Seen) -> None:
                async with http_stage(seen, era=era, **SETTINGS) as on:
                    await play(on)

            played.__doc__ = play.__doc__
            return played

        for name, era in ERAS.items():
            faults[f"{name}: {fault}"] = row(era)

    return register


async def lost(on: HttpStage, fault: Callable[[], Awaitable[object]], *says: str, before: bool) -> None:
    """A call is lost by a fault that happens before it, or while it runs."""

    async def call() -> None:
        await on.caught(Code.SERVER_DIED, Outcome.UNKNOWN, "nothing has come", *says, within=NOTICED_S)

    async with anyio.create_task_group() as tasks:
        if not before:
            probed = await probes(on)
            tasks.start_soon(call)
            with anyio.fail_after(PATIENCE_S):
                while await probes(on) == probed:
                    pass
            await on.server.order()  # by now it has answered
        on.now()
        await fault()
        if before:
            tasks.start_soon(call)


async def probes(on: HttpStage) -> int:
    """The number of probes that the server has seen."""
    seen = (await on.server.order())["seen"]
    return int(seen.get("ping", 0)) + int(seen.get("server/discover", 0))


@in_each_era("the way to the server is gone in a call, for a while")
async def way_gone(on: HttpStage) -> None:
    """A VPN has fallen: nothing comes, and no connection can be made."""
    await on.wicked("hang")
    await lost(on, lambda: on.server.order(vanish=True), "it cannot be reached", before=False)
    await on.server.order(rule=None, listen=True)
    await on.recovered(2)


@in_each_era("stopped in a call (SIGSTOP): connections are taken, nothing is answered")
async def stopped(on: HttpStage) -> None:
    """The server has shown that it answers others while the tool runs."""

    async def stop() -> None:
        on.server.signal(signal.SIGSTOP)

    await on.wicked("hang")
    await lost(on, stop, "it does not answer a probe", before=False)
    on.server.signal(signal.SIGCONT)
    await on.wicked(None)
    await on.recovered(2)


@in_each_era("stopped before a call (SIGSTOP) of a tool that always answered at once")
async def stopped_before(on: HttpStage) -> None:
    async def stop() -> None:
        on.server.signal(signal.SIGSTOP)

    await on.answered()
    on.again()
    await lost(on, stop, "it does not answer a probe", before=True)
    on.server.signal(signal.SIGCONT)
    await on.recovered(2)


async def busy(on: HttpStage, at: str) -> None:
    """A call of a server that is busy for long is answered in the end."""
    await on.wicked("wait", at)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(on.answered)
        await anyio.sleep(BUSY_S)
        on.check(not on.seen.caller_saw, "the call is over before the server has answered")
        on.now()
        await on.server.order(rule=None, release=True)
    await on.untouched()


@in_each_era("busy with a call for long, and answers probes meanwhile")
async def busy_and_answers(on: HttpStage) -> None:
    await busy(on, "tools/call")


@in_each_era("busy with a call for long, and answers nobody meanwhile")
async def busy_alone(on: HttpStage) -> None:
    """Many servers do one thing at a time: one that may be such a server gets the benefit of the doubt."""
    await busy(on, "*")
