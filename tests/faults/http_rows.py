"""The faults of a server that is reached over HTTP: a row of the table each.

`faults` has the coroutines under the words for their faults; each notes in `Seen` what it showed, and takes
a few seconds at most.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from mcpx.catalog.model import State
from mcpx.errors import Code, Outcome
from tests.faults.http_stage import LIMIT, PROBING, SMALL, Seen, http_stage

Play = Callable[[Seen], Awaitable[None]]
faults: dict[str, Play] = {}
UNKNOWN, NOT_SENT, FAILED = Outcome.UNKNOWN, Outcome.NOT_SENT, Outcome.FAILED
RESTART = SMALL["restart"]


def row(fault: str) -> Callable[[Play], Play]:
    """Register a row."""

    def register(play: Play) -> Play:
        faults[fault] = play
        return play

    return register


# --- at connect


@row("HTTP: refused")
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


@row("HTTP 401 at connect")
async def unauthorised(seen: Seen) -> None:
    await never_let_in(seen, 401, "Unauthorized")


@row("HTTP 403 at connect")
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


@row("HTTP 503 for a while, then fine")
async def unavailable_for_a_while(seen: Seen) -> None:
    async with http_stage(seen, "status", rule={"status": 503, "times": 6}) as on:
        await on.answered()
        await on.recovered(3)


@row("HTTP 503 at connect")
async def unavailable(seen: Seen) -> None:
    rule = {"status": 503, "headers": {"retry_after": "7"}}
    async with http_stage(seen, "status", rule=rule) as on:
        await on.failing("HTTP 503", "asks to wait 7 s")
        says = ("HTTP 503", "nothing was sent")
        await on.caught(Code.SERVER_UNAVAILABLE, NOT_SENT, *says, within=3)
        await on.wicked(None)
        await on.recovered(2)


@row("HTTP 429 at connect")
async def limited_at_connect(seen: Seen) -> None:
    async with http_stage(seen, "status", rule={"status": 429, "times": 2}) as on:
        await on.answered()
        await on.recovered(2)


@row("HTTP: redirects elsewhere")
async def redirected(seen: Seen) -> None:
    rule = {"status": 307, "headers": {"location": "http://127.0.0.2:9/mcp"}}
    async with http_stage(seen, "status", rule=rule) as on:
        await on.failing("HTTP 307", "redirects to http://127.0.0.2:9/mcp")
        await on.caught(Code.SERVER_UNAVAILABLE, NOT_SENT, "127.0.0.2", within=3)
        await on.wicked(None)
        await on.recovered(2)


@row("HTTP: accepts and never answers, at connect")
async def silent_at_connect(seen: Seen) -> None:
    async with http_stage(seen, "hang", connect_timeout=0.4) as on:
        await on.failing("no answer to the handshake within 0.4 s")
        await on.wicked(None)
        await on.answered()
        await on.recovered(2)


@row("HTTP: a web page in place of MCP, at connect")
async def page_at_connect(seen: Seen) -> None:
    async with http_stage(seen, "status", rule=PAGE) as on:
        await on.failing("text/html")
        await on.caught(Code.SERVER_UNAVAILABLE, NOT_SENT, "text/html", within=3)
        await on.wicked(None)
        await on.recovered(2)


PAGE: dict[str, Any] = {
    "status": 200,
    "body": "<html>Please log in</html>",
    "headers": {"content_type": "text/html; charset=utf-8"},
}

# --- the session


@row("HTTP: the server is gone, and back")
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


@row("HTTP: the port is closed after being up")
async def closed(seen: Seen) -> None:
    async with http_stage(seen) as on:
        await on.server.order(listen=False)
        on.now()
        await on.caught(Code.SERVER_UNAVAILABLE, NOT_SENT, "cannot be reached", within=4)
        on.check(await on.counted() == 0, "the call ran")
        await on.server.order(listen=True)
        await on.recovered(2)


@row("HTTP 404: the session is forgotten")
async def forgotten(seen: Seen) -> None:
    """The request was not run: it goes out again, whatever its annotations."""
    async with http_stage(seen) as on:
        await on.server.order(forget=True)
        on.now()
        await on.answered()
        await on.recovered(2)
        on.check(await on.counted() == 1, "the call did not run once")


@row("HTTP 404: every session is forgotten at once")
async def always_forgotten(seen: Seen) -> None:
    async with http_stage(seen) as on:
        await on.wicked("status", status=404)
        says = "does not know the session any more (HTTP 404)"
        await on.caught(Code.SERVER_UNAVAILABLE, NOT_SENT, says, within=4)
        seen_calls = (await on.server.order())["seen"]["tools/call"]
        on.check(seen_calls == 2, f"the call was sent {seen_calls} times")
        await on.wicked(None)
        await on.recovered(2)


@row("HTTP 401 after being up")
async def locked_out(seen: Seen) -> None:
    restart: Any = {**RESTART, "park_probe": 0.3}
    async with http_stage(seen, restart=restart) as on:
        await on.wicked("status", "*", status=401)
        says = ("the server refuses", "HTTP 401", "nothing was sent")
        await on.caught(Code.SERVER_UNAVAILABLE, NOT_SENT, *says)
        await on.parked("HTTP 401")
        on.check(await on.counted() == 0, "the call ran")
        await on.wicked(None)
        await on.recovered(2)


@row("HTTP 400: the session is not valid any more")
async def invalid_session(seen: Seen) -> None:
    """What servers answer that do not know the 404: a look at the session finds it over."""
    error = '{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "No valid session"}}'
    async with http_stage(seen) as on:
        rule = {"status": 400, "body": error, "headers": {"content_type": "application/json"}}
        await on.wicked("status", "*", times=2, **rule)
        await on.caught(Code.UPSTREAM_ERROR, FAILED, "HTTP 400 (Bad Request): No valid session")
        on.check(await on.counted() == 0, "the call ran")
        await on.recovered(2)


# --- refusals of one call


@row("HTTP 429 for a call, with Retry-After")
async def limited(seen: Seen) -> None:
    async with http_stage(seen) as on:
        rule = {"status": 429, "headers": {"retry_after": "7", "content_type": "text/plain"}, "body": "quota"}
        await on.wicked("status", **rule)
        says = ("HTTP 429 (Too Many Requests)", "quota", "asks to wait 7 s", "was not run")
        error = await on.caught(Code.OVERLOADED, NOT_SENT, *says)
        on.check(error.details.get("retry_after_s") == 7, f"the details are {error.details}")
        await on.untouched()


@row("HTTP 429 for a call, without Retry-After")
async def limited_without_a_time(seen: Seen) -> None:
    async with http_stage(seen) as on:
        await on.wicked("status", status=429)
        error = await on.caught(Code.OVERLOADED, NOT_SENT, "HTTP 429")
        on.check(error.details == {"http_status": 429}, f"the details are {error.details}")
        await on.untouched()


@row("HTTP 503 for a call")
async def failing(seen: Seen) -> None:
    async with http_stage(seen) as on:
        await on.wicked("status", status=503, headers={"retry_after": "3"})
        error = await on.caught(Code.UPSTREAM_ERROR, FAILED, "HTTP 503 (Service Unavailable)", "wait 3 s")
        on.check(error.details.get("http_status") == 503, f"the details are {error.details}")
        await on.untouched()


@row("HTTP 503 for everything, after being up")
async def down(seen: Seen) -> None:
    async with http_stage(seen, **PROBING) as on:
        await on.wicked("status", "*", status=503)
        await on.caught(Code.UPSTREAM_ERROR, FAILED, "HTTP 503")
        await on.watch.leaves(State.READY, "w")
        await on.failing("HTTP 503")
        await on.wicked(None)
        await on.recovered(2)


@row("HTTP: redirects a call elsewhere")
async def redirected_call(seen: Seen) -> None:
    async with http_stage(seen) as on:
        await on.wicked("status", status=302, headers={"location": "/login"})
        await on.caught(Code.UPSTREAM_ERROR, FAILED, "HTTP 302 (Found)", "/login", "not followed")
        await on.untouched()


# --- connections that break


@row("HTTP: dropped before the answer")
async def dropped(seen: Seen) -> None:
    await lost_alone(seen, "drop", "before the answer", effects=0)


@row("HTTP: dropped before the answer, after the effect")
async def dropped_after(seen: Seen) -> None:
    await lost_alone(seen, "drop", "before the answer", effects=1)


@row("HTTP: dropped in the middle of the JSON")
async def dropped_body(seen: Seen) -> None:
    await lost_alone(seen, "drop_body", "in the middle of the answer", effects=1)


@row("HTTP: dropped in the middle of the event stream")
async def dropped_stream(seen: Seen) -> None:
    await lost_alone(seen, "drop_stream", "event stream ended before the answer", effects=1)


async def lost_alone(seen: Seen, do: str, says: str, *, effects: int) -> None:
    async with http_stage(seen) as on:
        await on.wicked(do, counted=effects)
        await on.caught(Code.SERVER_DIED, UNKNOWN, says, "may or may not have taken effect")
        on.check(await on.counted() == effects, "the call did not run as often as it should")
        await on.untouched()


@row("HTTP: dropped in the middle, the tool being read-only")
async def dropped_read_only(seen: Seen) -> None:
    await replayed(seen, "act_read_only")


@row("HTTP: dropped in the middle, the tool being idempotent")
async def dropped_idempotent(seen: Seen) -> None:
    await replayed(seen, "act_idempotent")


async def replayed(seen: Seen, tool: str) -> None:
    async with http_stage(seen) as on:
        await on.wicked("drop_stream", times=1, counted=1)
        await on.answered(tool)
        on.check(await on.counted(tool) == 2, "it was not sent twice")
        await on.wicked("drop_body", times=2, counted=1)
        await on.caught(Code.SERVER_DIED, UNKNOWN, "in the middle", tool=tool)
        on.check(await on.counted(tool) == 4, "it was sent more than twice")
        await on.untouched()


@row("HTTP: a resumable stream is dropped, and cannot be taken up again")
async def dropped_resumable(seen: Seen) -> None:
    async with http_stage(seen, call_timeout=10) as on:
        await on.wicked("drop_stream", id="7", counted=1)
        await on.caught(Code.SERVER_DIED, UNKNOWN, "may or may not", within=5)
        on.check(await on.counted() == 1, "the call did not run once")
        await on.untouched()


# --- answers without an end, or too large


@row("HTTP: a stream of comments without an end")
async def endless_comments(seen: Seen) -> None:
    await without_an_end(seen, notes=False)


@row("HTTP: a stream of other messages without an end")
async def endless_notes(seen: Seen) -> None:
    await without_an_end(seen, notes=True)


async def without_an_end(seen: Seen, *, notes: bool) -> None:
    async with http_stage(seen, call_timeout=0.5) as on:
        await on.wicked("endless", notes=notes)
        await on.caught(Code.TIMEOUT, UNKNOWN, "did not answer within 0.5 s")
        await on.untouched()


@row("HTTP: a JSON body without an end")
async def flood(seen: Seen) -> None:
    await too_large(seen, "flood", content_type="application/json")


@row("HTTP: an event without an end")
async def flood_of_one_event(seen: Seen) -> None:
    await too_large(seen, "flood", content_type="text/event-stream")


@row("HTTP: a JSON answer over the limit")
async def large(seen: Seen) -> None:
    await too_large(seen, "large", bytes=LIMIT + 1000)


@row("HTTP: an event over the limit")
async def large_event(seen: Seen) -> None:
    await too_large(seen, "large", bytes=LIMIT + 1000, stream=True)


@row("HTTP: a small answer that unpacks to over the limit")
async def bomb(seen: Seen) -> None:
    await too_large(seen, "large", bytes=50 * LIMIT, packed=True)


async def too_large(seen: Seen, do: str, **rule: Any) -> None:
    async with http_stage(seen, call_timeout=10) as on:
        await on.wicked(do, **rule)
        await on.caught(Code.RESPONSE_TOO_LARGE, UNKNOWN, f"over {LIMIT} bytes", within=5)
        await on.untouched()


# --- answers that are not MCP


@row("HTTP: a web page for an answer")
async def page(seen: Seen) -> None:
    await no_mcp(seen, "status", "text/html", **PAGE)


@row("HTTP: an answer that is not JSON")
async def no_json(seen: Seen) -> None:
    rule = {"status": 200, "body": "{nonsense", "headers": {"content_type": "application/json"}}
    await no_mcp(seen, "status", "not a JSON-RPC message", **rule)


@row("HTTP: an event that is not JSON")
async def no_json_event(seen: Seen) -> None:
    await no_mcp(seen, "stream", "not a JSON-RPC message", data="{nonsense")


@row("HTTP: JSON of 1,000 levels")
async def deep_json(seen: Seen) -> None:
    body = '{"jsonrpc": "2.0", "id": 1, "result": ' + "[" * 1000 + "]" * 1000 + "}"
    rule = {"status": 200, "body": body, "headers": {"content_type": "application/json"}}
    await no_mcp(seen, "status", "recursion limit", **rule)


@row("HTTP: the answer to another request")
async def other_id(seen: Seen) -> None:
    await no_mcp(seen, "other_id", "to another request")


@row("HTTP 202 for a call")
async def accepted(seen: Seen) -> None:
    await no_mcp(seen, "status", "HTTP 202, without a message", status=202)


async def no_mcp(seen: Seen, do: str, says: str, **rule: Any) -> None:
    async with http_stage(seen) as on:
        await on.wicked(do, **rule)
        await on.caught(Code.PROTOCOL_ERROR, UNKNOWN, says)
        await on.untouched()


# --- a server that hangs


@row("HTTP: hangs in a call")
async def hangs(seen: Seen) -> None:
    """The server is well otherwise: the call costs itself."""
    async with http_stage(seen, call_timeout=0.5) as on:
        await on.wicked("hang")
        await on.caught(Code.TIMEOUT, UNKNOWN, "did not answer within 0.5 s")
        await on.untouched()


@row("HTTP: hangs altogether")
async def hangs_altogether(seen: Seen) -> None:
    async with http_stage(seen, call_timeout=0.5, **PROBING) as on:
        await on.wicked("hang", "*")
        await on.caught(Code.TIMEOUT, UNKNOWN, "did not answer within 0.5 s")
        await on.watch.leaves(State.READY, "w", within=3)
        await on.failing("hangs")
        await on.wicked(None)
        await on.recovered(2)


# --- the server's own messages


@row("HTTP: the listening stream is dropped")
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


@row("HTTP: the listening stream is refused for a while (503)")
async def deaf_for_a_while(seen: Seen) -> None:
    async with http_stage(seen, "status", "GET", rule={"status": 503, "times": 3}) as on:
        await on.listening()
        await on.server.order(add_tool="came_later")
        await on.has_tool("came_later")
        await on.answered()
        await on.untouched()


@row("HTTP: no listening stream (405)")
async def never_listens(seen: Seen) -> None:
    async with http_stage(seen, "status", "GET", rule={"status": 405}) as on:
        await on.answered()
        await on.untouched()


@row("HTTP, 2026-07-28: the listening stream is dropped")
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


@row("HTTP, 2026-07-28: the server is gone, and back")
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


@row("HTTP, 2026-07-28: dropped in the middle of the event stream")
async def modern_dropped(seen: Seen) -> None:
    async with http_stage(seen, era="modern") as on:
        await on.wicked("drop_stream", counted=1)
        await on.caught(Code.SERVER_DIED, UNKNOWN, "event stream ended before the answer")
        on.check(await on.counted() == 1, "the call did not run once")
        await on.untouched()


@row("HTTP, 2026-07-28: a method that is not known (404)")
async def modern_not_found(seen: Seen) -> None:
    """There is no session to be forgotten: the server's own error is passed on."""
    error = '{"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "no such method"}}'
    async with http_stage(seen, era="modern") as on:
        rule = {"status": 404, "body": error, "headers": {"content_type": "application/json"}}
        await on.wicked("status", **rule)
        await on.caught(Code.UPSTREAM_ERROR, FAILED, "no such method")
        await on.untouched()


@row("SSE: refused")
async def sse_refused(seen: Seen) -> None:
    async with http_stage(seen, era="sse") as on:
        await on.answered("echo")
        on.again()
        await on.server.kill()
        on.now()
        await on.caught(Code.SERVER_UNAVAILABLE, NOT_SENT, "cannot be reached", within=4)
        await on.server.start()
        await on.recovered(2)


@row("SSE: the event stream is dropped mid-call")
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


@row("SSE: HTTP 503 for a call")
async def sse_failing(seen: Seen) -> None:
    async with http_stage(seen, era="sse") as on:
        await on.wicked("status", status=503)
        await on.caught(Code.UPSTREAM_ERROR, FAILED, "HTTP 503")
        await on.untouched()
