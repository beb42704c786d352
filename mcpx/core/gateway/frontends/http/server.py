"""uvicorn with a bounded number of connections, and an end that drops none of its requests.

When that number is reached, new connections wait in the listener's backlog, and the connection that has been
idle longest is closed for the next one, if it has been idle for a while. That the server is full, or that
there are no descriptors left, is logged once a minute.

At its end, connections that wait in the backlog are taken in, and the socket is closed at once: whoever comes
later is refused by the system, and knows that nothing was read. What is open has the grace time.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

import anyio
import anyio.lowlevel
import msgspec
import structlog
import uvicorn
from mcp.shared.inbound import MCP_METHOD_HEADER
from mcp_types import INTERNAL_ERROR
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import STARTUP_FAILURE

from mcpx.core.gateway.frontends.http.connection import HttpConnection, Shared
from mcpx.core.gateway.frontends.http.endpoints import PEERS_PATH
from mcpx.core.servers.call_errors import FAILURE_KEY
from mcpx.core.system.limits import share
from mcpx.core.telemetry.log import Throttle
from mcpx.core.wire import envelope
from mcpx.errors import Code, Outcome

LISTEN: Final = b"subscriptions/listen"
EVENTS: Final = b"text/event-stream"
MAX_NOTED_BYTES: Final = 65536  # of a body, in which the id of the request is looked for
_TEXT: Final = "MCPX ends; what was begun may or may not have taken effect"
_PEERS: Final = PEERS_PATH.partition("{")[0]
_METHOD: Final = MCP_METHOD_HEADER.encode()


class OpenRequest:
    """One request, as far as its end needs to know it."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.cancelled = anyio.CancelScope()
        self._scope = scope
        self._send = send
        self._noted: list[bytes] | None = []
        self._noted_bytes = 0
        self._status: int | None = None
        self._is_events = False
        self._is_over = False

    @property
    def is_stream(self) -> bool:
        """True if a client listens on it until it leaves."""
        if self._scope["method"] == "GET":
            return self._is_events
        return any(name == _METHOD and value == LISTEN for name, value in self._scope["headers"])

    def note(self, message: Message) -> None:
        """Note a part of its body, unless that is large."""
        body = message.get("body", b"")
        self._noted_bytes += len(body)
        if self._noted_bytes > MAX_NOTED_BYTES:
            self._noted = None
        if self._noted is not None and body:
            self._noted.append(body)

    async def send(self, message: Message) -> None:
        """Pass on a part of its response."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            kinds = (value for name, value in message["headers"] if name.lower() == b"content-type")
            self._is_events = any(value.startswith(EVENTS) for value in kinds)
        elif message["type"] == "http.response.body":
            self._is_over = not message.get("more_body", False)
        await self._send(message)

    async def conclude(self) -> None:
        """End the response of one that was cut off, and say so where it is owed an answer."""
        if self._is_over:
            return
        if self._status is None:
            await self._refuse()
            return
        owed = self._is_events and not self.is_stream
        answer = b"event: message\r\ndata: " + self._error() + b"\r\n\r\n" if owed else b""
        await self.send({"type": "http.response.body", "body": answer, "more_body": False})

    async def _refuse(self) -> None:
        is_call = self._scope["method"] == "POST" and not self.is_stream
        status, body = (500, self._error()) if is_call else (503, b"")
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    def _error(self) -> bytes:
        data: dict[str, Any] = {"code": str(Code.CANCELLED), "outcome": str(Outcome.UNKNOWN)}
        if self._scope["path"].startswith(_PEERS):
            data = {FAILURE_KEY: data}
        error = {"code": INTERNAL_ERROR, "message": _TEXT, "data": data}
        return json.dumps({"jsonrpc": "2.0", "id": self._id(), "error": error}).encode()

    def _id(self) -> Any:
        try:
            return envelope.decode_message(b"".join(self._noted or ())).id
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # a batch, or not read to its end
            return None


class Draining:
    """An ASGI application around all others: no request that is open when MCPX ends is left unanswered.

    While MCPX drains (`http.drain`) it only looks on: requests are served, and the connection tells each
    client to close. Once MCPX ends, `end_streams` ends those that would never end by themselves, the streams
    on which clients listen; the others have the grace time to finish. `end_all` answers what is still open
    then, with an error whose outcome is `unknown`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: set[OpenRequest] = set()
        self._is_ended = False

    def end_streams(self) -> None:
        """End the streams on which clients listen, and those that begin from now on."""
        self._is_ended = True
        self._end(lambda request: request.is_stream)

    def end_all(self) -> None:
        """Answer and end whatever is open."""
        self._end(lambda _request: True)

    def _end(self, is_meant: Callable[[OpenRequest], bool]) -> None:
        for request in self._open:
            if is_meant(request):
                request.cancelled.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = OpenRequest(scope, send)

        async def noting() -> Message:
            message = await receive()
            request.note(message)
            return message

        async def watched(message: Message) -> None:
            await request.send(message)
            if self._is_ended and request.is_stream:
                request.cancelled.cancel()

        self._open.add(request)
        try:
            with request.cancelled:
                await self._app(scope, noting, watched)
        finally:
            self._open.discard(request)
        if request.cancelled.cancel_called:
            await request.conclude()


log = structlog.get_logger()
MAX_CONNECTIONS: Final = 256  # where nothing else is said: of the page
MAX_DESCRIPTOR_SHARE: Final = 0.25
BACKLOG: Final = 128  # connections that wait for a place
MAX_HEAD_BYTES: Final = 65536  # of a request: a browser brings the cookies of every program of this computer
GRACEFUL_S: Final = 1  # for what is open at the end, where there is no other grace time; then for the answers
FIRST_REQUEST_S: Final = 0.5  # for connections of which nothing was read yet, at the end
DRAIN_POLL_S: Final = 0.01  # between looks at what is open, at the end only
TICK_S: Final = 1.0
MIN_IDLE_S: Final = 1.0  # before an idle connection is closed for another one
ACCEPT_RETRY_S: Final = 0.1  # when no connection could be accepted
_LOST: Final = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK})  # accept(2): it listens no more


class HttpServer(uvicorn.Server):
    """Serves one application on listening sockets. Signals are the daemon's, not uvicorn's."""

    def __init__(
        self,
        app: ASGIApp,
        shared: Shared,
        *,
        lifespan: Literal["on", "off"] = "off",
        grace_s: Callable[[], float] = lambda: GRACEFUL_S,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        """`grace_s` gives how long requests that are open at the end may take to finish.

        At most `max_connections` are open at a time, and never more than a share of all descriptors.
        """
        self._exit = anyio.Event()
        self._grace_s = grace_s
        self._draining = Draining(app)
        config = uvicorn.Config(
            self._draining,
            log_config=None,
            access_log=False,
            lifespan=lifespan,
            server_header=False,
            proxy_headers=False,  # any program of this computer could say whose request it is
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            ws="none",
            backlog=BACKLOG,
        )
        super().__init__(config)
        self._shared = shared
        self._max_connections = share(MAX_DESCRIPTOR_SHARE, max_connections)
        self._throttle = Throttle()
        self._starting: asyncio.Task[None] | None = None  # what was accepted last, which outlives its task
        self._accepting: list[asyncio.Task[None]] = []
        self.on_close: Callable[[], None] | None = None
        """Called in the turn in which the sockets are closed."""
        self.lost: str | None = None
        """The reason for which the listener cannot be used any more; then the server exits."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    @property
    def should_exit(self) -> bool:
        """True if it is to leave."""
        return self._exit.is_set()

    @should_exit.setter
    def should_exit(self, should_exit: bool) -> None:
        if should_exit:
            self._exit.set()

    async def main_loop(self) -> None:
        """Wake once a second, for the date of the responses; uvicorn wakes ten times."""
        while not await self.on_tick(0):
            with anyio.move_on_after(TICK_S):
                await self._exit.wait()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections, here and not in uvicorn."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            sys.exit(STARTUP_FAILURE)
        self.servers = []
        for listener in sockets or []:
            listener.settimeout(0.0)
            self._accepting.append(asyncio.create_task(self._accept_forever(listener)))
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no connection from now on, and leave no request without an answer."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        if self._starting is not None:
            await self._starting
        self._shared.leave()
        for listener in sockets or []:
            await self._accept_waiting(listener)
            listener.close()
        if self.on_close is not None:
            self.on_close()
        await self._within(FIRST_REQUEST_S, lambda: not any(each.is_new for each in self._shared.connections))
        for connection in list(self._shared.connections):
            connection.shutdown()
        self._draining.end_streams()
        await self._within(self._grace_s(), self._is_done)
        self._draining.end_all()
        await self._within(GRACEFUL_S, self._is_done)
        for connection in list(self._shared.connections):
            connection.give_up_at_end()
        for task in self.server_state.tasks:
            task.cancel()
        await self.lifespan.shutdown()

    def _is_done(self) -> bool:
        """Return True if nothing is open, and everything has been sent."""
        return not self.server_state.tasks and not self._shared.connections

    async def _within(self, seconds: float, holds: Callable[[], bool]) -> None:
        with anyio.move_on_after(seconds):
            while not holds():  # noqa: ASYNC110 - at the end only
                await anyio.sleep(DRAIN_POLL_S)

    async def _accept_waiting(self, listener: socket.socket) -> None:
        """Take in the connections that wait; then the socket is closed in the same turn."""
        with contextlib.suppress(OSError):
            while True:
                await self._start(listener.accept()[0])

    async def _accept_forever(self, listener: socket.socket) -> None:
        while self.lost is None:
            await anyio.wait_readable(listener)
            if len(self._shared.connections) >= self._max_connections and not await self._make_room():
                continue
            try:
                accepted, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                continue
            except OSError as error:
                if error.errno in _LOST:
                    self.lost, self.should_exit = error.strerror, True
                    continue
                # most likely there are no descriptors left
                self._log_full(error.strerror or str(error))
                await anyio.sleep(ACCEPT_RETRY_S)
                continue
            self._starting = asyncio.create_task(self._start(accepted))
            await asyncio.shield(self._starting)

    async def _start(self, accepted: socket.socket) -> None:
        accepted.settimeout(0.0)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, accepted)
        except OSError as error:  # gone already
            log.debug("http.gone", reason=str(error))
            accepted.close()

    def _protocol(self) -> HttpConnection:
        return HttpConnection(self._shared, self.config, self.server_state, self.lifespan.state)

    async def _make_room(self) -> bool:
        """Close the connection that has been idle longest, or wait a moment; whether there is room then."""
        self._log_full(f"{self._max_connections} connections are open; others wait")
        now = asyncio.get_running_loop().time()
        idle = [each for each in self._shared.connections if each.idle_since is not None]
        oldest = min(idle, key=lambda each: each.idle_since or 0.0, default=None)
        if oldest is None or oldest.idle_since is None or now - oldest.idle_since < MIN_IDLE_S:
            await anyio.sleep(ACCEPT_RETRY_S)
            return False
        oldest.end_idle()
        await anyio.lowlevel.checkpoint()  # until it is gone
        return len(self._shared.connections) < self._max_connections

    def _log_full(self, reason: str) -> None:
        if self._throttle.lets_through():
            log.warning("http.full", reason=reason)
