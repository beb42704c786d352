"""What is judged of every row of the hostile table, whatever it plays."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import anyio
import anyio.to_thread

from tests.faults import traces
from tests.faults.hostile_client import Client
from tests.faults.hostile_mcpx import Mcpx, McpxError, Memory
from tests.faults.hostile_seen import HostileSeen

SOON_S = 2.0  # the neighbour's slowest call on a machine that is loaded
CALLS = 10  # of the neighbour in a row, at least
CALLS_S = 10.0  # for them
ENDING_S = 5.0  # for a process whose connections are gone to be waited for
FRESH_S = 5.0  # for a fresh client to be served
LINE_BYTES = 10_000  # of a line of the log: a traceback may be long


class Stage(Protocol):
    """What is judged: the stage of a row."""

    seen: HostileSeen
    mcpx: Mcpx

    def client(self) -> AbstractAsyncContextManager[Client]: ...
    async def control(self, what: str, **more: Any) -> dict[str, Any]: ...
    async def close(self) -> None: ...


def judge_memory(seen: HostileSeen, risen_mb: float, bound_mb: float | None = None) -> None:
    """Note how far memory rose, and whether that is within the row's bound or this one."""
    bound = seen.memory_bound_mb if bound_mb is None else bound_mb
    seen.memory_mb = max(seen.memory_mb, risen_mb)
    seen.check(risen_mb <= bound, f"memory rose by {risen_mb:.0f} MB, more than {bound:g}")


@asynccontextmanager
async def judged(on: Stage, log_lines: int, *, calls: int = CALLS) -> AsyncIterator[None]:
    """Judge what every row promises when the context is left, also where the row itself has failed."""
    seen, mcpx = on.seen, on.mcpx
    if not mcpx.runs():
        raise McpxError(f"MCPX has ended at once with exit code {mcpx.exit_code()}")
    memory, log_began = Memory(mcpx.pid), mcpx.log.stat().st_size
    await anyio.to_thread.run_sync(mcpx.neighbour.order, "mark")
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):  # every wait below is bounded
            with suppress(OSError, LookupError):
                judge_memory(seen, memory.risen_mb())
            await _judge_neighbour(seen, mcpx, calls)
            if await _has_ended(seen, mcpx):
                seen.check(False, f"MCPX has ended with exit code {mcpx.exit_code()}")
            else:
                await _judge_service(on)
            await on.close()
            _judge_log(seen, mcpx.log, log_began, log_lines)
            if mcpx.runs() and not seen.problems:
                await _judge_remains(seen, mcpx)


async def _judge_neighbour(seen: HostileSeen, mcpx: Mcpx, calls: int) -> None:
    report = await anyio.to_thread.run_sync(mcpx.neighbour.called, calls, CALLS_S)
    seen.neighbour_calls += report["calls"]
    seen.neighbour_p99_s = max(seen.neighbour_p99_s, report["p99_s"])
    seen.neighbour_slowest_s = max(seen.neighbour_slowest_s, report["slowest_s"])
    for problem in report["problems"]:
        seen.check(False, problem)
    slowest = seen.neighbour_slowest_s
    seen.check(slowest < SOON_S, f"the neighbour waited {slowest:.1f} s")


async def _has_ended(seen: HostileSeen, mcpx: Mcpx) -> bool:
    """A neighbour who lost its connection knows it before the process can be waited for."""
    if not seen.problems:
        return not mcpx.runs()
    return await anyio.to_thread.run_sync(mcpx.has_ended, ENDING_S)


async def _judge_service(on: Stage) -> None:
    """A fresh client is served, and `status` is answered."""
    begun = time.monotonic()
    try:
        await on.control("status", within_s=FRESH_S)
        async with on.client() as client:
            listed = await client.request("tools/list", within_s=FRESH_S)
            on.seen.check(listed.result.get("tools"), f"a fresh client got no tools but {listed.in_words}")
            answer = await client.exec("neighbour", "echo", within_s=FRESH_S)
            on.seen.check(answer.text.startswith("echo by"), f"a fresh client got {answer.in_words}")
    except (McpxError, OSError, TimeoutError) as error:
        on.seen.check(False, f"a fresh client is not served: {error}")
        return
    took = time.monotonic() - begun
    on.seen.check(took < FRESH_S, f"a fresh client waited {took:.1f} s")


def _judge_log(seen: HostileSeen, log: Path, began: int, most: int) -> None:
    with log.open("rb") as file:
        file.seek(began)
        lines = file.read().splitlines()
    seen.log_lines += len(lines)
    seen.check(len(lines) <= most, f"{len(lines)} lines of log, more than {most}: {lines[-1:]}")
    longest = max(map(len, lines), default=0)
    seen.check(longest <= LINE_BYTES, f"a line of {longest} bytes in the log")


async def _judge_remains(seen: HostileSeen, mcpx: Mcpx) -> None:
    """The row's servers are taken away: nothing of theirs may be left."""
    mark = mcpx.mark
    await anyio.to_thread.run_sync(mcpx.clear)
    left = await traces.left_over(mark, mcpx.pid)
    seen.left += len(left)
    seen.check(not left, f"processes or zombies are left: {left}")
