"""One line out and one line back on a channel, before anything else is said on it.

For the two ways of asking a node: a connection that only asks, and one that goes on as an MCP session.
"""

from __future__ import annotations

import anyio

from mcpx.core.wire.channel import Channel


async def answer_to(channel: Channel, request: bytes, *, limit: int) -> bytes:
    """What comes until a line ends, the peer closes the connection, or more than `limit` bytes have come.

    The channel is not read any further then; what came behind the line is in the result.
    """
    answer = bytearray()
    answered = anyio.Event()

    def on_data(data: bytes) -> None:
        answer.extend(data)
        if b"\n" in data or len(answer) > limit:
            channel.pause_reading()
            answered.set()

    channel.on_data = on_data
    channel.on_end = answered.set
    channel.write(request)
    channel.start_reading()
    await answered.wait()
    return bytes(answer)
