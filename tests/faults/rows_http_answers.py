"""The faults of a server over HTTP: answers that break off, never end, are too large, or are not MCP."""

from __future__ import annotations

from typing import Any

from mcpx.errors import Code, Outcome
from tests.faults.stage import Seen
from tests.faults.stage_http import LIMIT, PAGE, http_stage
from tests.faults.table import Faults

faults = Faults()
UNKNOWN = Outcome.UNKNOWN

# --- connections that break


@faults.row("HTTP: dropped before the answer")
async def dropped(seen: Seen) -> None:
    await lost_alone(seen, "drop", "before the answer", effects=0)


@faults.row("HTTP: dropped before the answer, after the effect")
async def dropped_after(seen: Seen) -> None:
    await lost_alone(seen, "drop", "before the answer", effects=1)


@faults.row("HTTP: dropped in the middle of the JSON")
async def dropped_body(seen: Seen) -> None:
    await lost_alone(seen, "drop_body", "in the middle of the answer", effects=1)


@faults.row("HTTP: dropped in the middle of the event stream")
async def dropped_stream(seen: Seen) -> None:
    await lost_alone(seen, "drop_stream", "event stream ended before the answer", effects=1)


async def lost_alone(seen: Seen, do: str, says: str, *, effects: int) -> None:
    async with http_stage(seen) as on:
        await on.wicked(do, counted=effects)
        await on.caught(Code.SERVER_DIED, UNKNOWN, says, "may or may not have taken effect")
        on.check(await on.counted() == effects, "the call did not run as often as it should")
        await on.untouched()


@faults.row("HTTP: dropped in the middle, the tool being read-only")
async def dropped_read_only(seen: Seen) -> None:
    await replayed(seen, "act_read_only")


@faults.row("HTTP: dropped in the middle, the tool being idempotent")
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


@faults.row("HTTP: a resumable stream is dropped, and cannot be taken up again")
async def dropped_resumable(seen: Seen) -> None:
    async with http_stage(seen, call_timeout=10) as on:
        await on.wicked("drop_stream", id="7", counted=1)
        await on.caught(Code.SERVER_DIED, UNKNOWN, "may or may not", within=5)
        on.check(await on.counted() == 1, "the call did not run once")
        await on.untouched()


# --- answers without an end, or too large


@faults.row("HTTP: a stream of comments without an end")
async def endless_comments(seen: Seen) -> None:
    await without_an_end(seen, notes=False)


@faults.row("HTTP: a stream of other messages without an end")
async def endless_notes(seen: Seen) -> None:
    await without_an_end(seen, notes=True)


async def without_an_end(seen: Seen, *, notes: bool) -> None:
    async with http_stage(seen, call_timeout=0.5) as on:
        await on.wicked("endless", notes=notes)
        await on.caught(Code.TIMEOUT, UNKNOWN, "did not answer within 0.5 s")
        await on.untouched()


@faults.row("HTTP: a JSON body without an end")
async def flood(seen: Seen) -> None:
    await too_large(seen, "flood", content_type="application/json")


@faults.row("HTTP: an event without an end")
async def flood_of_one_event(seen: Seen) -> None:
    await too_large(seen, "flood", content_type="text/event-stream")


@faults.row("HTTP: a JSON answer over the limit")
async def large(seen: Seen) -> None:
    await too_large(seen, "large", bytes=LIMIT + 1000)


@faults.row("HTTP: an event over the limit")
async def large_event(seen: Seen) -> None:
    await too_large(seen, "large", bytes=LIMIT + 1000, stream=True)


@faults.row("HTTP: a small answer that unpacks to over the limit")
async def bomb(seen: Seen) -> None:
    await too_large(seen, "large", bytes=50 * LIMIT, packed=True)


async def too_large(seen: Seen, do: str, **rule: Any) -> None:
    async with http_stage(seen, call_timeout=30) as on:
        await on.wicked(do, **rule)
        await on.caught(Code.RESPONSE_TOO_LARGE, UNKNOWN, f"over {LIMIT} bytes", within=30)
        await on.untouched()


# --- answers that are not MCP


@faults.row("HTTP: a web page for an answer")
async def page(seen: Seen) -> None:
    await no_mcp(seen, "status", "text/html", **PAGE)


@faults.row("HTTP: an answer that is not JSON")
async def no_json(seen: Seen) -> None:
    rule = {"status": 200, "body": "{nonsense", "headers": {"content_type": "application/json"}}
    await no_mcp(seen, "status", "not a JSON-RPC message", **rule)


@faults.row("HTTP: an event that is not JSON")
async def no_json_event(seen: Seen) -> None:
    await no_mcp(seen, "stream", "not a JSON-RPC message", data="{nonsense")


@faults.row("HTTP: JSON of 1,000 levels")
async def deep_json(seen: Seen) -> None:
    body = '{"jsonrpc": "2.0", "id": 1, "result": ' + "[" * 1000 + "]" * 1000 + "}"
    rule = {"status": 200, "body": body, "headers": {"content_type": "application/json"}}
    await no_mcp(seen, "status", "nested too deeply", **rule)


@faults.row("HTTP: the answer to another request")
async def other_id(seen: Seen) -> None:
    await no_mcp(seen, "other_id", "to another request")


@faults.row("HTTP 202 for a call")
async def accepted(seen: Seen) -> None:
    await no_mcp(seen, "status", "HTTP 202, without a message", status=202)


async def no_mcp(seen: Seen, do: str, says: str, **rule: Any) -> None:
    async with http_stage(seen) as on:
        await on.wicked(do, **rule)
        await on.caught(Code.PROTOCOL_ERROR, UNKNOWN, says)
        await on.untouched()
