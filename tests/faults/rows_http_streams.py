"""The faults of a server over HTTP: hanging, going deaf, and those of the other era and older transport."""

from __future__ import annotations

import anyio

from mcpx.core.catalog.snapshot import State
from mcpx.errors import Code, Outcome
from tests.faults.stage import Seen
from tests.faults.stage_http import LIMIT, PROBING, http_stage
from tests.faults.table import Faults

faults = Faults()
UNKNOWN, NOT_SENT, FAILED = Outcome.UNKNOWN, Outcome.NOT_SENT, Outcome.FAILED

# --- a server that hangs


@faults.row("HTTP: hangs in a call")
async def hangs(seen: Seen) -> None:
    """The server is well otherwise: the call costs itself."""
    async with http_stage(seen, call_timeout=0.5) as on:
        await on.wicked("hang")
        await on.caught(Code.TIMEOUT, UNKNOWN, "did not answer within 0.5 s")
        await on.untouched()


@faults.row("HTTP: hangs altogether")
async def hangs_altogether(seen: Seen) -> None:
    async with http_stage(seen, call_timeout=0.5, **PROBING) as on:
        await on.wicked("hang", "*")
        await on.caught(Code.TIMEOUT, UNKNOWN, "did not answer within 0.5 s")
        await on.watch.leaves(State.READY, "w", within=3)
        await on.failing("hangs")
        await on.wicked(None)
        await on.recovered(2)


# --- the server's own messages


@faults.row("HTTP: the listening stream is dropped")
async def deaf(seen: Seen) -> None:
    """Death between calls: it is opened again, and what changed meanwhile is seen."""
    async with http_stage(seen) as on:
        await on.listening()
        await on.server.order(hang_up=True)
        on.now()
        await on.server.order(add_tool="came_meanwhile")
        await on.has_tool("came_meanwhile")
        await on.listening()
        await on.server.order(add_tool="came_later")
        await on.has_tool("came_later")
        await on.answered()
        await on.untouched()


@faults.row("HTTP: the listening stream is refused for a while (503)")
async def deaf_for_a_while(seen: Seen) -> None:
    async with http_stage(seen, "status", "GET", rule={"status": 503, "times": 3}) as on:
        await on.listening()
        await on.server.order(add_tool="came_later")
        await on.has_tool("came_later")
        await on.answered()
        await on.untouched()


@faults.row("HTTP: no listening stream (405)")
async def never_listens(seen: Seen) -> None:
    async with http_stage(seen, "status", "GET", rule={"status": 405}) as on:
        await on.answered()
        await on.untouched()


@faults.row("HTTP, 2026-07-28: the listening stream is dropped")
async def modern_deaf(seen: Seen) -> None:
    async with http_stage(seen, era="modern") as on:
        await on.listening()
        await on.server.order(hang_up=True)
        on.now()
        await on.server.order(add_tool="came_meanwhile")
        await on.has_tool("came_meanwhile")
        await on.answered()
        await on.untouched()


# --- the other era, and the older transport


@faults.row("HTTP, 2026-07-28: the server is gone, and back")
async def modern_gone(seen: Seen) -> None:
    async with http_stage(seen, era="modern", queue_timeout=5) as on:
        await on.answered("echo")
        on.again()
        await on.server.kill()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(on.answered)
            await on.watch.leaves(State.READY, "w")
            await on.server.start()
        await on.recovered(2)


@faults.row("HTTP, 2026-07-28: dropped in the middle of the event stream")
async def modern_dropped(seen: Seen) -> None:
    async with http_stage(seen, era="modern") as on:
        await on.wicked("drop_stream", counted=1)
        await on.caught(Code.SERVER_DIED, UNKNOWN, "the event stream ended before the answer")
        on.check(await on.counted() == 1, "the call did not run once")
        await on.untouched()


@faults.row("HTTP, 2026-07-28: a method that is not known (404)")
async def modern_not_found(seen: Seen) -> None:
    """There is no session to be forgotten: the server's own error is passed on."""
    error = '{"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "no such method"}}'
    async with http_stage(seen, era="modern") as on:
        rule = {"status": 404, "body": error, "headers": {"content_type": "application/json"}}
        await on.wicked("status", **rule)
        await on.caught(Code.UPSTREAM_ERROR, FAILED, "no such method")
        await on.untouched()


@faults.row("SSE: refused")
async def sse_refused(seen: Seen) -> None:
    async with http_stage(seen, era="sse") as on:
        await on.answered("echo")
        on.again()
        await on.server.kill()
        on.now()
        await on.caught(Code.SERVER_UNAVAILABLE, NOT_SENT, "cannot be reached", within=4)
        await on.server.start()
        await on.recovered(2)


@faults.row("SSE: the event stream is dropped mid-call")
async def sse_dropped(seen: Seen) -> None:
    async with http_stage(seen, era="sse") as on:
        await on.wicked("status", status=202, counted=1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(on.caught, Code.SERVER_DIED, UNKNOWN, "the event stream ended")
            while not await on.counted():  # the server has the call
                pass
            await on.server.order(hang_up=True)
        on.check(await on.counted() == 1, "the call did not run once")
        await on.wicked(None)
        await on.recovered(2)


@faults.row("SSE: HTTP 503 for a call")
async def sse_failing(seen: Seen) -> None:
    async with http_stage(seen, era="sse") as on:
        await on.wicked("status", status=503)
        await on.caught(Code.UPSTREAM_ERROR, FAILED, "HTTP 503")
        await on.untouched()


@faults.row("SSE: an event over the limit")
async def sse_large(seen: Seen) -> None:
    async with http_stage(seen, era="sse", call_timeout=10) as on:
        await on.wicked("large", bytes=LIMIT + 1000)
        await on.caught(Code.RESPONSE_TOO_LARGE, UNKNOWN, f"over {LIMIT} bytes", within=5)
        await on.untouched()
