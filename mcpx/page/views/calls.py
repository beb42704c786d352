"""The view `calls`: the calls as they run, one of them whole, and the same again.

What runs is always told: `running` are the ids of the calls that do, `more_running` how many others do, and
each of them comes with its end. What is sent at a time is bounded: quick calls that there is no room for are
counted. Of arguments the names are shown, and the values where the audit log has them. Calls that ended
before somebody looked are those that the audit log tells of.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec
from starlette.requests import Request
from starlette.routing import Route

from mcpx.core.catalog.model import JSON
from mcpx.core.daemon.hub import Hub
from mcpx.core.events.audit.reading import Line, tail
from mcpx.core.events.call_watch import last_of
from mcpx.core.events.records import end_of
from mcpx.core.events.watched_call import Call, shown_call
from mcpx.core.protocol.context import page_origin
from mcpx.core.rendering.results import ToolResult
from mcpx.core.text import cut
from mcpx.errors import MCPXError
from mcpx.page.answers import BadRequestError, get, post
from mcpx.page.cards import OpenPage
from mcpx.page.events import Topic

EVERY_S: Final = 0.25
MAX_SENT: Final = 50  # at a time
MAX_LINES: Final = 1000  # of the audit log, that are looked at for the last calls
MAX_TEXT_CHARS: Final = 200_000  # of what a repeated call gives
_ID: Final = re.compile(r"[0-9]{1,20}")
Shown = dict[str, Any]


def routes(page: OpenPage) -> list[Route]:
    """Its requests."""
    return [get("/calls/{id}", _call, page), post("/calls/{id}/repeat", _repeat, page)]


# --- the list


async def calls(page: OpenPage, _argument: str) -> AsyncGenerator[Shown, None]:
    """The last calls that are known, then those that are new or have changed."""
    watch = page.hub.call_watch
    with watch.following():
        earlier = await _from_log(page.hub)
        version, skipped = watch.version, watch.skipped
        known = {call["id"]: call for call in earlier} | {
            call.shown["id"]: call.shown for call in watch.calls()
        }
        ended = sorted((call for call in known.values() if call["end"] is not None), key=_ended_at)
        runs = [call for call in known.values() if call["end"] is None]
        told = _running(page.hub)
        yield {"calls": [*last_of(ended), *runs], "whole": True, **told}
        while True:
            await anyio.sleep(EVERY_S)
            watch.find_running()
            changed, now = watch.changed(version, MAX_SENT), _running(page.hub)
            if changed or watch.skipped != skipped or now != told:
                version = max((call.version for call in changed), default=version)
                news = {"calls": [call.shown for call in changed], "skipped": watch.skipped - skipped, **now}
                skipped, told = watch.skipped, now
                yield news


def _running(hub: Hub) -> Shown:
    """List what runs, whether it was sent already or not."""
    kept = hub.call_watch.running
    return {"running": kept, "more_running": len(hub.records.running) - len(kept)}


def _ended_at(call: Shown) -> float:
    ended_ms: float = call["id"] / 1000 + (call["ms"] or 0.0)
    return ended_ms


async def _from_log(hub: Hub) -> list[Shown]:
    """The last calls of the audit log; none where it cannot be read."""
    folder = hub.audit.folder
    if folder is None:
        return []
    hub.audit.flush()  # calls that have ended just now wait to be written together
    try:
        lines = await anyio.to_thread.run_sync(tail, folder, MAX_LINES)
    except OSError:
        return []
    shown = [call for line in _whole_calls(lines) if (call := _of_line(line)) is not None]
    return last_of(sorted(shown, key=_ended_at))  # lines come in the order of their beginnings


def _whole_calls(lines: Iterable[Line]) -> list[Line]:
    """The lines without those of calls that asked something, and went on with the answer on a later one."""
    found: list[Line] = []
    later: set[tuple[Any, ...]] = set()
    for line in reversed(list(lines)):
        about = line.client, line.transport, line.server, line.kind, line.name
        asks = line.approval == "asked" or line.outcome == "input_required"
        if not (asks and about in later):
            found.append(line)
        later.add(about)
    return found[::-1]


def _of_line(line: Line) -> Shown | None:
    """A call that the audit log tells of; None for a line on the log itself."""
    if line.kind == "audit":
        return None
    try:
        at_us = round(datetime.fromisoformat(line.time).timestamp() * 1_000_000)
    except (ValueError, OverflowError):
        return None
    shown = shown_call(
        at_us,
        client=line.client,
        transport=line.transport,
        profile=line.profile,
        server=line.server,
        kind=line.kind,
        name=line.name,
    )
    said = ("ms", "outcome", "code", "approval", "rule", "bytes_out")
    end = end_of(line.outcome or "unknown", line.code)
    return shown | {name: getattr(line, name) for name in said} | {"end": end}


# --- one call


async def _call(page: OpenPage, request: Request) -> Shown:
    """One call, with its arguments: their values where the audit log has them (`values_kept`), else names."""
    number = _number(request)
    call = page.hub.call_watch.call(number)
    if call is None:
        return await _call_of_log(page.hub, number)
    values = None if call.arguments is None else page.hub.audit.shown_values(call.arguments)
    return _whole(call.shown, call.bytes_in, call.argument_names(), values)


def _number(request: Request) -> int:
    """Read the number of a call from an address, or raise MCPXError."""
    named: str = request.path_params["id"]
    if not _ID.fullmatch(named):
        raise MCPXError("this call is not known any more")
    return int(named)


def _whole(shown: Shown, bytes_in: int | None, names: list[str] | None, values: Any) -> Shown:
    is_kept = values is not None
    return {**shown, "bytes_in": bytes_in, "arguments": values if is_kept else names, "values_kept": is_kept}


async def _call_of_log(hub: Hub, number: int) -> Shown:
    """Find a call in the audit log, whole, or raise MCPXError."""
    folder = hub.audit.folder
    lines = [] if folder is None else await anyio.to_thread.run_sync(tail, folder, MAX_LINES)
    for line in lines:
        shown = _of_line(line)
        if shown is not None and shown["id"] == number:
            return _whole(shown, line.bytes_in, line.arguments, _values(line))
    raise MCPXError("this call is not known any more")


def _values(line: Line) -> Any:
    try:
        return msgspec.json.decode(line.raw).get("values")
    except (msgspec.DecodeError, RecursionError):
        return None


async def _repeat(page: OpenPage, request: Request) -> Shown:
    """Run a call again that changes nothing."""
    call = page.hub.call_watch.call(_number(request))
    if call is None:
        raise MCPXError("this call is not known any more")
    if not call.shown["read_only"]:
        raise BadRequestError("only a call that changes nothing can be repeated")
    is_whole = call.shown["repeatable"] or call.kind not in {"tool", "resource"}
    if call.arguments is None or not is_whole:
        raise MCPXError("what it was called with is not kept any more")
    result = await _again(page.hub, call)
    text = "\n".join(map(_text, result.content))
    return {"text": cut(text, MAX_TEXT_CHARS), "is_error": result.is_error}


async def _again(hub: Hub, call: Call) -> ToolResult:
    if call.kind == "resource":
        return await hub.calls.read(call.server, call.name, origin=page_origin())
    if call.kind != "tool":
        raise BadRequestError(f"a call of this kind ({call.kind}) cannot be repeated")
    arguments = msgspec.json.decode(call.arguments) if call.arguments else None
    done = await hub.calls.exec(call.server, call.name, arguments, origin=page_origin(), read_only=True)
    return done.as_it_came


def _text(block: JSON) -> str:
    """A content block in words."""
    resource = block.get("resource")
    text = resource.get("text") if isinstance(resource, dict) else block.get("text")
    return text if isinstance(text, str) else f"[{block.get('type')} {block.get('mimeType', '')}]"


TOPICS: Final[Mapping[str, Topic]] = {"calls": calls}
