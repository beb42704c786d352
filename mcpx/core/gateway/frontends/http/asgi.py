"""Exchanges and ASGI, both ways: the page and replicas are ASGI applications, and so rare that a task pays.

`AppSite` and `serve_app` give an application the requests of a connection; `over_asgi` makes one of what
serves exchanges, for an application that stands before it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from mcpx.core.config.urls import is_loopback
from mcpx.core.gateway.clients.identity import bearer_in, put_bearer
from mcpx.core.gateway.frontends.http.exchange import (
    COMMENT,
    EVENTS,
    HeaderPairs,
    Refusal,
    Serve,
    accepted,
    as_event,
)
from mcpx.core.gateway.frontends.http.http_exchange import HttpExchange
from mcpx.core.telemetry.contained import contain
from mcpx.core.wire.envelope import Bytes

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

TAKEN: Final = "mcpx.taken"
"""In the scope of a request: a coroutine function that waits while the client leaves too much unread."""
DROPS: Final = "mcpx.drops"
"""In the scope of a request: a function that returns True if a lossy event is not to be sent now."""
NOTED: Final = "mcpx.noted"
"""In the scope of a request: a dictionary for what is found out once for the whole connection."""
_LENGTH: Final = b"content-length"
_UNFRAMED: Final = frozenset({_LENGTH, b"connection", b"transfer-encoding", b"date"})


async def cancel_when_gone(receive: Receive, cancel: Callable[[], object]) -> None:
    """Cancel what is done for a request, whose body has been read, once its client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    cancel()


# --- an application, for requests of a connection


class AppSite:
    """All addresses of a server, for one application, which lets in whom it wants."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._tasks: set[asyncio.Task[None]] = set()

    def look(self, _exchange: HttpExchange) -> Refusal | None:
        """Refuse nothing."""
        return None

    def serve(self, exchange: HttpExchange) -> None:
        """Have the application respond."""
        serve_app(self._app, exchange, self._tasks)


def serve_app(app: ASGIApp, exchange: HttpExchange, tasks: set[asyncio.Task[None]]) -> None:
    """Have an application respond to a request, in a task that is among `tasks`."""
    task = asyncio.get_running_loop().create_task(_Served(exchange).run(app))
    tasks.add(task)
    task.add_done_callback(partial(task_ended, tasks))


def task_ended(tasks: set[asyncio.Task[None]], task: asyncio.Task[None]) -> None:
    """Forget a task of a request that has ended, and note what it has failed with."""
    tasks.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        contain(error, "http")


class _Served:
    """A request, as an application is given it, and its response."""

    def __init__(self, exchange: HttpExchange) -> None:
        self._exchange = exchange
        self._begun: Message | None = None  # the head of the response, which goes with the first part
        self._is_given = False
        self._left = asyncio.Event()

    async def run(self, app: ASGIApp) -> None:
        exchange = self._exchange
        exchange.on_gone(self._left.set)
        try:
            await app(self._scope(), self._receive, self._send)
        finally:
            if not exchange.is_over:
                exchange.fail()

    def _scope(self) -> Scope:
        exchange = self._exchange
        client, server = exchange.carrier.ends
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": exchange.method,
            "scheme": "http",
            "path": exchange.path,
            "raw_path": exchange.target,
            "query_string": exchange.query,
            "root_path": "",
            "headers": exchange.pairs,
            "client": client,
            "server": server,
            "state": {},
            TAKEN: exchange.wait_taken,
            DROPS: exchange.drops_lossy,
            NOTED: exchange.carrier.noted,
        }
        if exchange.bearer is not None:
            put_bearer(scope, exchange.bearer)
        return scope

    async def _receive(self) -> Message:
        if not self._is_given:
            self._is_given = True
            return {"type": "http.request", "body": self._exchange.body, "more_body": False}
        if not self._exchange.is_over:
            await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        exchange = self._exchange
        if message["type"] == "http.response.start":
            self._begun = message
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        if (begun := self._begun) is not None:
            self._begun = None
            given = [(name.lower(), value) for name, value in begun.get("headers", ())]
            headers = tuple(pair for pair in given if pair[0] not in _UNFRAMED)
            if (b"connection", b"close") in given:
                exchange.keep_alive = False
            if more:
                length = dict(given).get(_LENGTH)
                exchange.begin(begun["status"], headers, None if length is None else int(length))
                exchange.put(body)
            else:
                exchange.respond(begun["status"], headers, [body])
        elif more:
            exchange.put(body)
        else:
            exchange.finish(body)
        if not more:
            self._left.set()


# --- exchanges, for an application that stands before what serves them


def over_asgi(serve: Serve) -> ASGIApp:
    """An ASGI application that has its requests served as exchanges."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body = bytearray()
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
        await AsgiExchange(scope, bytes(body)).serve(serve, receive, send)

    return app


class AsgiExchange:
    """A request that came over ASGI."""

    def __init__(self, scope: Scope, body: bytes) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: bytes = scope["query_string"]
        self.headers: Mapping[bytes, bytes] = dict(scope["headers"])
        self.body = body
        self.bearer = bearer_in(scope)
        self._scope = scope
        self._waiting: deque[Message] = deque()
        self._changed = asyncio.Event()
        self._gone: Callable[[], None] | None = None
        self._is_over = False

    @property
    def repeated(self) -> bool:
        """True if any header came more than once."""
        return len(self.headers) != len(self._scope["headers"])

    @property
    def pairs(self) -> Iterable[tuple[bytes, bytes]]:
        """All headers as they came."""
        pairs: Iterable[tuple[bytes, bytes]] = self._scope["headers"]
        return pairs

    @property
    def accepts(self) -> tuple[bool, bool]:
        """Return if the client takes JSON, and if it takes a stream of events."""
        return accepted(b",".join(value for name, value in self._scope["headers"] if name == b"accept"))

    @property
    def is_local(self) -> bool:
        """True if it came from this machine."""
        ends = self._scope.get("client"), self._scope.get("server")
        return all(end is not None and is_loopback(end[0]) for end in ends)

    @property
    def is_over(self) -> bool:
        """True if nothing more can be sent."""
        return self._is_over

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Have this called if the exchange is cut off."""
        self._gone = callback

    def respond(self, status: int, headers: HeaderPairs = (), pieces: Iterable[Bytes] = ()) -> None:
        """Send a whole response."""
        body = b"".join(pieces)
        self._put_head(status, (*headers, (b"content-length", b"%d" % len(body))))
        self._put(body, more=False)

    def begin_events(self, headers: HeaderPairs = EVENTS) -> None:
        """Begin a stream of events."""
        self._put_head(200, headers)

    def event(
        self,
        pieces: Iterable[Bytes],
        *,
        event_id: str = "",
        retry_ms: int | None = None,
        lossy: bool = False,
    ) -> bool:
        """Send an event, unless it is lossy and the client does not read."""
        if lossy and (drops := self._scope.get(DROPS)) is not None and drops():
            return False
        return self._put(as_event(pieces, event_id, retry_ms))

    def comment(self) -> None:
        """Send a comment."""
        self._put(COMMENT)

    def end(self, pieces: Iterable[Bytes] | None = None, *, event_id: str = "") -> None:
        """End the stream."""
        self._put(b"" if pieces is None else as_event(pieces, event_id), more=False)

    async def wait_taken(self) -> None:
        """Wait while the client leaves too much unread."""
        if (taken := self._scope.get(TAKEN)) is not None:
            await taken()

    def _put_head(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        if not self._is_over:
            self._waiting.append({"type": "http.response.start", "status": status, "headers": [*headers]})
            self._changed.set()

    def _put(self, body: bytes, *, more: bool = True) -> bool:
        if self._is_over:
            return False
        self._is_over = not more
        self._waiting.append({"type": "http.response.body", "body": body, "more_body": more})
        self._changed.set()
        return True

    async def serve(self, serve: Serve, receive: Receive, send: Send) -> None:
        """Have the request served, and send what comes of it, until that is all or the client has left."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cancel_when_gone, receive, tasks.cancel_scope.cancel)
                serve(self)
                while self._waiting or not self._is_over:
                    await self._changed.wait()
                    self._changed.clear()
                    while self._waiting:
                        await send(self._waiting.popleft())
                tasks.cancel_scope.cancel()
        finally:
            if not self._is_over:
                self._is_over = True
                if self._gone is not None:
                    self._gone()
