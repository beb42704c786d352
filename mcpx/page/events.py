"""The stream of server-sent events: a page names the topics that it follows, and gets each one's news.

`GET /ui/api/events?topic=NAME[:ARGUMENT]`, more than once. A topic is a function that is given the page and
the argument and yields its news for as long as somebody follows it; each becomes an event of the topic's
name, with JSON. One stream serves a whole page, for a browser opens six connections to a server at most.

A topic is asked for its next news once its last ones are on their way, so that what a slow browser misses is
for the topic to sum up; a browser that takes nothing for `STALLED_S` loses its stream. A stream has its
session go on, and ends with it. `MAX_STREAMS` of all pages together: the oldest makes room. A topic that
fails ends alone, with an event `failed` of `{"topic", "error"}`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from mcpx.errors import MCPXError
from mcpx.gateway.frontends.http_connection import TAKEN
from mcpx.observe.contained import contain
from mcpx.page.answers import encode
from mcpx.page.guard import SESSION

if TYPE_CHECKING:
    from mcpx.page.page import Page

Topic = Callable[["Page", str], AsyncGenerator[Any, None]]
"""Given the page and the argument; may raise an MCPXError, whose text the page shows."""
MAX_STREAMS: Final = 16
MAX_TOPICS: Final = 8  # of one stream
PING_S: Final = 15.0  # of silence, after which a comment shows both sides that they are still there
STALLED_S: Final = 30.0  # that a browser may take nothing
_PING: Final = b": still here\n\n"


class Streams:
    """The open streams of a page."""

    def __init__(self) -> None:
        self._open: dict[anyio.CancelScope, bytes] = {}  # the oldest first; each with its session

    def __len__(self) -> int:
        return len(self._open)

    def end(self, session: bytes) -> None:
        """End the streams of a session."""
        for scope, its in list(self._open.items()):
            if its == session:
                scope.cancel()

    async def serve(self, page: Page, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one stream until its page leaves."""
        with anyio.CancelScope() as stream:
            self._open[stream] = scope[SESSION]
            if len(self._open) > MAX_STREAMS:
                next(iter(self._open)).cancel()
            try:
                headers = [(b"content-type", b"text/event-stream")]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await _serve_topics(page, scope, receive, send)
            finally:
                self._open.pop(stream, None)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _serve_topics(page: Page, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve the topics that were asked for, until the session or the browser ends it."""
    names = Request(scope).query_params.getlist("topic")[:MAX_TOPICS]
    news, events = anyio.create_memory_object_stream[bytes](0)
    with news, events:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_until_gone, receive, tasks.cancel_scope)
            for name in names:
                tasks.start_soon(_follow, page, name, news)
            while page.access.go_on(scope[SESSION]) and await _send_next(events, scope, send):
                pass
            tasks.cancel_scope.cancel()


async def _until_gone(receive: Receive, stream: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    stream.cancel()


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


async def _follow(page: Page, name: str, send: MemoryObjectSendStream[bytes]) -> None:
    topic, _, argument = name.partition(":")
    try:
        async with aclosing(_topic(page, topic)(page, argument)) as all_news:
            async for news in all_news:
                await send.send(_event(topic, news))
        problem = "there is no more"
    except MCPXError as error:
        problem = str(error)
    except Exception as error:  # noqa: BLE001 - the boundary: a topic must not end the others
        contain(error, "page")
        problem = f"MCPX failed ({type(error).__name__}); its log says more"
    await send.send(_event("failed", {"topic": name, "error": problem}))


def _topic(page: Page, name: str) -> Topic:
    """The topic of that name.

    Raises:
        MCPXError: There is none.
    """
    if name not in page.topics:
        raise MCPXError("there is no such topic")
    return page.topics[name]


def _event(name: str, data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), encode(data))
