"""What a reference server keeps of its streams. For the Python of either SDK."""

from __future__ import annotations

from typing import Any

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore


class Events(EventStore):
    """All events of all streams, for a stream that is taken up again."""

    def __init__(self) -> None:
        self._events: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events) - 1)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        last = int(last_event_id)
        stream_id = self._events[last][0]
        for number, (stream, message) in enumerate(self._events[last + 1 :], last + 1):
            if stream == stream_id and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream_id
