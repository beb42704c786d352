"""One batch over HTTP: its messages are posted one by one to the session, and their responses joined.

For revision 2025-03-26 only (`mcpx.core.wire.batch`). The response is one JSON array. Where something else
has to be sent before, or the requests take long, it is a stream of events, with the array as its last. A
client that leaves cancels nothing, as with single requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import anyio
import anyio.abc
import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcpx.core.gateway.frontends.http.connection import EventResponse, cancel_when_gone, event
from mcpx.core.wire import envelope, malformed
from mcpx.core.wire.batch import Batch, read
from mcpx.core.wire.envelope import RPCMessage

STREAM_AFTER_S: Final = 10.0  # without all responses, so that nothing on the way gives up
_FRAME_END: Final = b"\r\n\r\n"
_DATA: Final = b"data: "
_ACCEPTED: Final = 202
_OK: Final = 200
_REFUSED: Final = 400
_FAILED: Final = msgspec.json.encode(
    {"code": malformed.INTERNAL_ERROR, "message": "The session ended before the request was answered"}
)
_REPEATED: Final = "another request of the batch has the same id"


class _Failed(msgspec.Struct):
    """The body of an HTTP error."""

    error: msgspec.Raw


class _Single:
    """One message of a batch, posted alone; what the session sends for it."""

    def __init__(self, exchange: BatchExchange, message: RPCMessage) -> None:
        self._exchange = exchange
        self._message = message
        self._rest = b""
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.answered = False

    async def post(
        self, line: bytes, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Post it, and take all that comes; started when it has been accepted or refused."""
        waiting = [{"type": "http.request", "body": line, "more_body": False}]

        async def receive() -> Message:
            if not waiting:
                await anyio.sleep_forever()  # a client that leaves has this cancelled
            return waiting.pop()

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.status, self.headers = message["status"], message["headers"]
                task_status.started()
            elif self.status == _OK:
                self._take(message.get("body", b""))
            else:
                self.body += message.get("body", b"")

        await self._exchange.session(self._exchange.scope, receive, send)
        if not self.status:  # nothing was said
            task_status.started()
        if self._message.method is not None and self._message.id is not None:
            self._exchange.settle(self._message, None if self.answered else self._failure())

    def _take(self, body: bytes) -> None:
        *frames, self._rest = (self._rest + body).split(_FRAME_END)
        for frame in frames:
            data = next((line for line in frame.splitlines() if line.startswith(_DATA)), _DATA)
            message = read(data.removeprefix(_DATA))
            if message is None:
                continue  # a ping, or an event without data
            if message.is_response:
                self.answered = True
                self._exchange.responses.add(self._message.id, [data.removeprefix(_DATA)])
            else:
                self._exchange.forward(frame + _FRAME_END)

    def _failure(self) -> bytes:
        try:
            return bytes(msgspec.json.decode(self.body, type=_Failed).error)
        except msgspec.DecodeError:
            return _FAILED


class BatchExchange:
    """One POST with a batch that is taken. `session` serves POSTs with single messages."""

    def __init__(self, session: ASGIApp, scope: Scope, lines: Sequence[bytes], max_bytes: int) -> None:
        """The responses hold at most `max_bytes`."""
        self.session = session
        self.scope = scope
        self.responses = Batch(self._finish, max_bytes)
        self._lines = lines
        self._array = b""
        self._refused: _Single | None = None
        self._events = EventResponse()

    async def serve(self, receive: Receive, send: Send) -> None:
        """Post the messages, and respond when all requests are answered."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_when_gone, receive, tasks.cancel_scope.cancel)
            tasks.start_soon(self._post_all)
            await self._respond(send)
            tasks.cancel_scope.cancel()

    def forward(self, frame: bytes) -> None:
        """Send an event that is no response."""
        self._events.put(frame)

    def settle(self, request: RPCMessage, error: bytes | None) -> None:
        """A request is over; `error` answers it if nothing did."""
        if error is not None:
            self.responses.add(request.id, envelope.failure(request.id, error))
        self.responses.close()

    def _finish(self, array: bytes) -> None:
        self._array = array

    async def _post_all(self) -> None:
        """Post them in their order; the requests are then served side by side."""
        async with anyio.create_task_group() as tasks:
            used: set[str] = set()
            for line in self._lines:
                message = read(line)
                problem = malformed.unreadable(line)
                if not problem and message and message.id is not None and message.method is not None:
                    if str(message.id) in used:
                        problem = malformed.refusal(malformed.invalid(line, _REPEATED))
                    used.add(str(message.id))
                if problem:
                    self.responses.add(None, problem)
                elif message is not None and not await self._post(tasks, message, line):
                    break
            self.responses.close()
        self._events.end()

    async def _post(self, tasks: anyio.abc.TaskGroup, message: RPCMessage, line: bytes) -> bool:
        """Post one message; false if the whole batch is refused, as its first message was."""
        single = _Single(self, message)
        if message.id is not None and message.method is not None:
            self.responses.open()
        await tasks.start(single.post, line)
        if single.status >= _REFUSED and line is self._lines[0]:
            self._refused = single
            return False
        return True

    # --- the response

    async def _respond(self, send: Send) -> None:
        kind = {"content-type": "text/event-stream", "cache-control": "no-cache, no-transform"}
        headers = [(key.encode(), value.encode()) for key, value in (kind | self._session_header()).items()]
        if not await self._events.stream(
            send, headers, lambda: event(self._array) if self._array else b"", after_s=STREAM_AFTER_S
        ):
            await self._respond_at_once(send)

    async def _respond_at_once(self, send: Send) -> None:
        headers = {"content-type": "application/json"}
        status, body = (_OK, self._array) if self._array else (_ACCEPTED, b"")
        response = Response(body, status, headers | self._session_header())
        if self._refused is not None:
            response = Response(self._refused.body, self._refused.status)
            response.raw_headers = list(self._refused.headers)
        await response(self.scope, _nothing, send)

    def _session_header(self) -> dict[str, str]:
        name = b"mcp-session-id"
        return {key.decode(): value.decode("latin-1") for key, value in self.scope["headers"] if key == name}


async def _nothing() -> Message:
    await anyio.sleep_forever()
    raise AssertionError
