"""The faults of a server over HTTP: those it tells by a status, and sessions that end."""

from __future__ import annotations

from typing import Any

import anyio

from mcpx.core.catalog.snapshot import State
from mcpx.errors import Code, Outcome
from tests.faults.stage import Seen
from tests.faults.stage_http import PAGE, PROBING, SMALL, http_stage
from tests.faults.table import Faults

faults = Faults()
UNKNOWN, NOT_SENT, FAILED = Outcome.UNKNOWN, Outcome.NOT_SENT, Outcome.FAILED
RESTART: Any = SMALL["restart"]

# --- at connect


@faults.row("HTTP: refused")
async def refused(seen: Seen) -> None:
    """Attempts are backed off, then it is parked; a call is told at once; mended, the next call works."""
    restart: Any = {**RESTART, "park_after": 3, "park_probe": 0.2}
    async with http_stage(seen, restart=restart) as on:
        await on.server.kill()
        await on.failing("cannot be reached")
        await on.parked("cannot be reached")
        on.now()
        await on.caught(Code.SERVER_UNAVAILABLE, NOT_SENT, "cannot be reached", within=1)
        await on.server.start()
        await on.recovered(2)


@faults.row("HTTP 401 at connect")
async def unauthorised(seen: Seen) -> None:
    await never_let_in(seen, 401, "Unauthorized")


@faults.row("HTTP 403 at connect")
async def forbidden(seen: Seen) -> None:
    await never_let_in(seen, 403, "Forbidden")


async def never_let_in(seen: Seen, status: int, phrase: str) -> None:
    restart: Any = {**RESTART, "park_probe": 0.3}
    async with http_stage(seen, "status", rule={"status": status}, restart=restart) as on:
        await on.parked(f"HTTP {status}", phrase)
        on.now()
        says = (f"HTTP {status}", "nothing was sent")
        await on.caught(Code.SERVER_UNAVAILABLE, NOT_SENT, *says, within=1)
        on.check(await on.counted() == 0, "the call ran")
        await on.wicked(None)
        await on.recovered(2)


@faults.row("HTTP 503 for a while, then fine")
async def unavailable_for_a_while(seen: Seen) -> None:
    async with http_stage(seen, "status", rule={"status": 503, "times": 6}) as on:
        await on.answered()
        await on.recovered(3)


@faults.row("HTTP 503 at connect")
async def unavailable(seen: Seen) -> None:
    rule = {"status": 503, "headers": {"retry_after": "7"}}
    async with http_stage(seen, "status", rule=rule) as on:
        await on.failing("HTTP 503", "asks to wait 7 s")
        says = ("HTTP 503", "nothing was sent")
        await on.caught(Code.SERVER_UNAVAILABLE, NOT_SENT, *says, within=3)
        await on.wicked(None)
        await on.recovered(2)


@faults.row("HTTP 429 at connect")
async def limited_at_connect(seen: Seen) -> None:
    async with http_stage(seen, "status", rule={"status": 429, "times": 2}) as on:
        await on.answered()
        await on.recovered(2)


@faults.row("HTTP: redirects elsewhere")
async def redirected(seen: Seen) -> None:
    rule = {"status": 307, "headers": {"location": "http://127.0.0.2:9/mcp"}}
    async with http_stage(seen, "status", rule=rule) as on:
        await on.failing("HTTP 307", "redirects to http://127.0.0.2:9/mcp")
        await on.caught(Code.SERVER_UNAVAILABLE, NOT_SENT, "127.0.0.2", within=3)
        await on.wicked(None)
        await on.recovered(2)


@faults.row("HTTP: accepts and never answers, at connect")
async def silent_at_connect(seen: Seen) -> None:
    async with http_stage(seen, "hang", connect_timeout=0.4) as on:
        await on.failing("no answer to the handshake within 0.4 s")
        await on.wicked(None)
        await on.answered()
        await on.recovered(2)


@faults.row("HTTP: a web page in place of MCP, at connect")
async def page_at_connect(seen: Seen) -> None:
    async with http_stage(seen, "status", rule=PAGE) as on:
        await on.failing("text/html")
        await on.caught(Code.SERVER_UNAVAILABLE, NOT_SENT, "text/html", within=3)
        await on.wicked(None)
        await on.recovered(2)


# --- the session


@faults.row("HTTP: the server is gone, and back")
async def gone_and_back(seen: Seen) -> None:
    async with http_stage(seen, queue_timeout=5) as on:
        await on.answered("echo")
        on.again()
        await on.server.kill()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(on.answered)
            await on.watch.leaves(State.READY, "w")
            await on.server.start()
        await on.recovered(2)
        on.check(await on.counted() == 1, "the call did not run once")


@faults.row("HTTP: the port is closed after being up")
async def closed(seen: Seen) -> None:
    async with http_stage(seen) as on:
        await on.server.order(listen=False)
        on.now()
        await on.caught(Code.SERVER_UNAVAILABLE, NOT_SENT, "cannot be reached", within=4)
        on.check(await on.counted() == 0, "the call ran")
        await on.server.order(listen=True)
        await on.recovered(2)


@faults.row("HTTP: the server is being stopped in a call")
async def stopped(seen: Seen) -> None:
    """It takes nothing new, but finishes what it has; other calls wait for the next one."""
    async with http_stage(seen, queue_timeout=5, call_timeout=10) as on:
        await on.wicked("wait")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(on.answered)
            while not (await on.server.order())["seen"].get("tools/call"):  # the server has the call
                pass
            await on.server.order(leave=True)
            tasks.start_soon(on.answered, "act_read_only")
            await on.waiting(1)
            await on.server.order(release=True, rule=None)
            await on.watch.leaves(State.READY, "w")
            await on.server.order(listen=True)
        await on.recovered(2)
        on.check(await on.counted() == 1, "the call did not run once")
        on.check(await on.counted("act_read_only") == 1, "the other call did not run once")


@faults.row("HTTP 403 after being up")
async def forbidden_later(seen: Seen) -> None:
    await locked_out_later(seen, 403)


@faults.row("HTTP 404: the session is forgotten")
async def forgotten(seen: Seen) -> None:
    """The request was not run: it goes out again, whatever its annotations."""
    async with http_stage(seen) as on:
        await on.server.order(forget=True)
        on.now()
        await on.answered()
        await on.recovered(2)
        on.check(await on.counted() == 1, "the call did not run once")


@faults.row("HTTP 404: every session is forgotten at once")
async def always_forgotten(seen: Seen) -> None:
    async with http_stage(seen) as on:
        await on.wicked("status", status=404)
        says = "does not know the session any more (HTTP 404)"
        await on.caught(Code.SERVER_UNAVAILABLE, NOT_SENT, says, within=4)
        seen_calls = (await on.server.order())["seen"]["tools/call"]
        on.check(seen_calls == 2, f"the call was sent {seen_calls} times")
        await on.wicked(None)
        await on.recovered(2)


@faults.row("HTTP 401 after being up")
async def unauthorised_later(seen: Seen) -> None:
    await locked_out_later(seen, 401)


async def locked_out_later(seen: Seen, status: int) -> None:
    restart: Any = {**RESTART, "park_probe": 0.3}
    async with http_stage(seen, restart=restart) as on:
        await on.wicked("status", "*", status=status)
        says = (f"HTTP {status}", "nothing was sent")
        await on.caught(Code.SERVER_UNAVAILABLE, NOT_SENT, *says)
        await on.parked(f"HTTP {status}")
        on.check(await on.counted() == 0, "the call ran")
        await on.wicked(None)
        await on.recovered(2)


NO_SESSION = '{"jsonrpc": "2.0", "error": {"code": -32000, "message": "No valid session"}}'
UNREAD: dict[str, Any] = {
    "status": 400,
    "body": NO_SESSION,
    "headers": {"content_type": "application/json"},
}


@faults.row("HTTP 400: the session is not valid any more")
async def invalid_session(seen: Seen) -> None:
    """What servers answer that do not know the 404; a ping in the session finds it over."""
    async with http_stage(seen) as on:
        await on.wicked("status", "*", times=2, **UNREAD)
        await on.answered()
        await on.recovered(2)
        on.check(await on.counted() == 1, "the call did not run once")


@faults.row("HTTP 400: one call is not read")
async def unread(seen: Seen) -> None:
    async with http_stage(seen) as on:
        await on.wicked("status", **UNREAD)
        await on.caught(Code.UPSTREAM_ERROR, FAILED, "HTTP 400 (Bad Request): No valid session")
        await on.untouched()


# --- refusals of one call


@faults.row("HTTP 429 for a call, with Retry-After")
async def limited(seen: Seen) -> None:
    async with http_stage(seen) as on:
        rule = {"status": 429, "headers": {"retry_after": "7", "content_type": "text/plain"}, "body": "quota"}
        await on.wicked("status", **rule)
        says = ("HTTP 429 (Too Many Requests)", "quota", "asks to wait 7 s", "was not run")
        error = await on.caught(Code.OVERLOADED, NOT_SENT, *says)
        on.check(error.details.get("retry_after_s") == 7, f"the details are {error.details}")
        await on.untouched()


@faults.row("HTTP 429 for a call, without Retry-After")
async def limited_without_a_time(seen: Seen) -> None:
    async with http_stage(seen) as on:
        await on.wicked("status", status=429)
        error = await on.caught(Code.OVERLOADED, NOT_SENT, "HTTP 429")
        on.check(error.details == {"http_status": 429}, f"the details are {error.details}")
        await on.untouched()


@faults.row("HTTP 503 for a call")
async def failing(seen: Seen) -> None:
    async with http_stage(seen) as on:
        await on.wicked("status", status=503, headers={"retry_after": "3"})
        error = await on.caught(Code.UPSTREAM_ERROR, FAILED, "HTTP 503 (Service Unavailable)", "wait 3 s")
        on.check(error.details.get("http_status") == 503, f"the details are {error.details}")
        await on.untouched()


@faults.row("HTTP 503 for everything, after being up")
async def down(seen: Seen) -> None:
    async with http_stage(seen, **PROBING) as on:
        await on.wicked("status", "*", status=503)
        await on.caught(Code.UPSTREAM_ERROR, FAILED, "HTTP 503")
        await on.watch.leaves(State.READY, "w")
        await on.failing("HTTP 503")
        await on.wicked(None)
        await on.recovered(2)


@faults.row("HTTP: redirects a call elsewhere")
async def redirected_call(seen: Seen) -> None:
    async with http_stage(seen) as on:
        await on.wicked("status", status=302, headers={"location": "/login"})
        await on.caught(Code.UPSTREAM_ERROR, FAILED, "HTTP 302 (Found)", "/login", "not followed")
        await on.untouched()
