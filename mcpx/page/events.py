"""The stream of server-sent events: a page names the topics that it follows, and gets each one's news.

`GET /ui/api/events?topic=NAME[:ARGUMENT]&page=ID`, with `topic` more than once. A topic is a function that is
given the page and the argument and yields its news for as long as somebody follows it; each becomes an event
of the topic's name, with JSON. The first event, `daemon`, says which daemon answers. One stream serves a
whole page, and takes the place of the one that it had. Of a session, which is that of one browser, there are
`MAX_OF_SESSION` at a time, and `MAX_STREAMS` of all: the oldest makes room, and ends with an event `paused`,
so that its page does not come back until somebody turns to it.

A topic is asked for its next news once its last ones are on their way, so that what a slow browser misses is
for the topic to sum up; a browser that takes nothing for `STALLED_S` loses its stream. A stream has its
session go on, and ends with it. A topic that fails ends alone, with an event `failed` of
`{"topic", "error"}`.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from mcpx.core.gateway.frontends.http.asgi import TAKEN, cancel_when_gone
from mcpx.core.telemetry.contained import contain
from mcpx.errors import MCPXError
from mcpx.page.answers import encode
from mcpx.page.cards import OpenPage
from mcpx.page.guard import SESSION
from mcpx.version import __version__

Topic = Callable[[OpenPage, str], AsyncGenerator[Any, None]]
"""Given the page and the argument; may raise an MCPXError, whose text the page shows."""
MAX_STREAMS: Final = 16  # of all sessions
MAX_OF_SESSION: Final = 4  # a browser opens six connections to a server, and needs some for the rest
MAX_TOPICS: Final = 8  # of one stream
PING_S: Final = 15.0  # of silence, after which a comment shows both sides that they are still there
STALLED_S: Final = 30.0  # that a browser may take nothing
_PING: Final = b": still here\n\n"


class _Stream:
    """One that is open."""

    def __init__(self, session: bytes, page: str) -> None:
        self.session = session
        self.page = page
        self.scope = anyio.CancelScope()
        self.is_paused = False

    def pause(self) -> None:
        """End it, so that others have its place."""
        self.is_paused = True
        self.scope.cancel()


class Streams:
    """The open streams of a page, and the topics that they can follow, by name."""

    def __init__(self, page: OpenPage, topics: Mapping[str, Topic]) -> None:
        self.topics = topics
        self._page = page
        self.id = secrets.token_hex(8)  # of this daemon: a window notices when another one answers
        self._open: list[_Stream] = []  # the oldest first

    def __len__(self) -> int:
        return len(self._open)

    def end(self, session: bytes) -> None:
        """End the streams of a session."""
        for stream in self._open:
            if stream.session == session:
                stream.scope.cancel()

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one stream until its page leaves."""
        asked = Request(scope).query_params
        stream = _Stream(scope[SESSION], asked.get("page", ""))
        self._make_room(stream)
        self._open.append(stream)
        try:
            with stream.scope:
                headers = [(b"content-type", b"text/event-stream")]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                about = _event("daemon", {"id": self.id, "version": __version__})
                await send({"type": "http.response.body", "body": about, "more_body": True})
                await self._serve_topics(asked.getlist("topic")[:MAX_TOPICS], scope, receive, send)
        finally:
            self._open.remove(stream)
        last = _event("paused", {}) if stream.is_paused else b""
        await send({"type": "http.response.body", "body": last, "more_body": False})

    def _make_room(self, new: _Stream) -> None:
        """Have those end whose place the new one takes."""
        of_session = [each for each in self._open if each.session == new.session]
        for each in of_session:
            if new.page and each.page == new.page:  # that it has left may not have come through yet
                each.scope.cancel()
        for group, limit in ((of_session, MAX_OF_SESSION), (self._open, MAX_STREAMS)):
            staying = [each for each in group if not each.scope.cancel_called]
            for each in staying[: max(0, len(staying) + 1 - limit)]:
                each.pause()

    async def _serve_topics(self, names: list[str], scope: Scope, receive: Receive, send: Send) -> None:
        """Serve these topics, until the session or the browser ends it."""
        news, events = anyio.create_memory_object_stream[bytes](0)
        with news, events:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cancel_when_gone, receive, tasks.cancel_scope.cancel)
                for name in names:
                    tasks.start_soon(self._follow, name, news)
                while self._page.access.go_on(scope[SESSION]) and await _send_next(events, scope, send):
                    pass
                tasks.cancel_scope.cancel()

    async def _follow(self, name: str, send: MemoryObjectSendStream[bytes]) -> None:
        topic, _, argument = name.partition(":")
        try:
            if topic not in self.topics:
                raise MCPXError("there is no such topic")  # noqa: TRY301 - as any error of a topic
            async with aclosing(self.topics[topic](self._page, argument)) as all_news:
                async for news in all_news:
                    await send.send(_event(topic, news))
            problem = "there is no more"
        except MCPXError as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - the boundary: a topic must not end the others
            contain(error, "page")
            problem = f"MCPX failed ({type(error).__name__}); its log says more"
        await send.send(_event("failed", {"topic": name, "error": problem}))


async def _send_next(events: MemoryObjectReceiveStream[bytes], scope: Scope, send: Send) -> bool:
    """Send the next event, or a ping; whether the browser has taken it, or could."""
    event = _PING
    with anyio.move_on_after(PING_S):
        event = await events.receive()
    await send({"type": "http.response.body", "body": event, "more_body": True})
    with anyio.move_on_after(STALLED_S):
        await scope[TAKEN]()
        return True
    return False


def _event(name: str, data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), encode(data))
