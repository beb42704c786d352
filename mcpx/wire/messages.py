"""Lines of JSON to and from the SDK's message streams: the one place where the two meet.

`read_messages` and `write_messages` are the two halves of any stdio-like transport; who owns the bytes
(a child's pipes, this process's standard streams) passes a receive or a send function. Neither promises
order across the two. A line that is no JSON-RPC message is reported and skipped, and the session lives on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from mcpx.wire.lines import LineSplitter, TooLong

MessageOut = MemoryObjectSendStream[SessionMessage | Exception]
MessageIn = MemoryObjectReceiveStream[SessionMessage]
Rubbish = Callable[[bytes, str], None]
"""Told of a line that was skipped: its first bytes, and what is wrong with it."""
Note = Callable[[mcp_types.JSONRPCMessage], None]
"""Told of each message that passes: before it is handed on, after it was written."""

_SHOWN = 200  # bytes of a bad line that are worth showing


async def read_messages(
    receive: Callable[[], Awaitable[bytes]],
    out: MessageOut,
    *,
    limit: int,
    on_rubbish: Rubbish,
    note: Note = lambda _message: None,
) -> None:
    """Read chunks with `receive` until it gives `b""`; send each message to `out`, which stays open."""
    splitter = LineSplitter(limit)
    while chunk := await receive():
        for line in splitter.feed(chunk):
            message = _parse(line, on_rubbish)
            if message is None:
                continue
            note(message.message)
            try:
                await out.send(message)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return  # the session is gone


def _parse(line: bytes | TooLong, on_rubbish: Rubbish) -> SessionMessage | None:
    if isinstance(line, TooLong):
        on_rubbish(line.head[:_SHOWN], f"a line over {line.limit} bytes")
        return None
    try:
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        on_rubbish(line[:_SHOWN], "not a JSON-RPC message")
        return None


async def write_messages(
    messages: MessageIn,
    send: Callable[[bytes], Awaitable[None]],
    *,
    note: Note = lambda _message: None,
) -> None:
    """Send each message as one line, until `messages` ends. Raises what `send` raises."""
    async with messages:
        async for item in messages:
            await send(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            note(item.message)
