"""One request that was posted, until it is answered: as JSON, as one event, or on a stream of events.

A `Posted` is what the request came over, for whatever serves it (`mcpx.core.gateway.fast.call.Wire`): its
answer is one write where nothing was sent before. It becomes a stream, where the client takes one, with the
first message of the server that belongs to it, or when it has taken long: on a session so soon that the
client can come again for the answer (`events`), without one when a proxy might end the silent connection,
because until then the answer can still have a status of its own. A client that takes no stream gets the
answer alone.

A client that leaves ends its request where it has no session (2026-07-28). On a session it does not: that
takes `notifications/cancelled`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import anyio
import anyio.abc
import msgspec
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp_types import INTERNAL_ERROR

from mcpx.core.gateway.frontends.http.events import KeptEvents, SessionEvents, Stream, Ticker
from mcpx.core.gateway.frontends.http.exchange import (
    EVENTS,
    JSON,
    Exchange,
    HeaderPairs,
    as_event,
    prefers_events,
)
from mcpx.core.wire import envelope
from mcpx.core.wire.batch import Batch
from mcpx.core.wire.dispatcher import LOSSY
from mcpx.core.wire.enclosed import encode_restored
from mcpx.core.wire.envelope import Bytes, RequestId
from mcpx.core.wire.incoming import contained
from mcpx.core.wire.outgoing import Outgoing, decode_result

PING_S: Final = 15.0  # of silence in a response, after which a proxy may end it
SOON_S: Final = 0.1  # before a request of a session has a stream; up to twice that
PATIENCE: Final = 3  # ticks of silence before a request without a session, or a batch, has a stream
_OK: Final = 200
_ACCEPTED: Final = 202
_CANCELLED: Final = envelope.encode({"code": -32800, "message": "Request cancelled"})  # as the SDK has it
_ENDED: Final = envelope.encode(
    {"code": INTERNAL_ERROR, "message": "The session ended before the request was answered"}
)
_LINE_END: Final = b"}\n"
_ERROR: Final = b'"error":'


class _Code(msgspec.Struct):
    code: int = 0


_decode_code: Final = msgspec.json.Decoder(_Code).decode


class Common:
    """What the requests of one frontend share. `max_bytes` is for a message, and the answer to a batch."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.kept = KeptEvents()
        self.soon = Ticker(SOON_S)
        """Of the requests of sessions that are not answered yet."""
        self.silence = Ticker(PING_S)
        """Of the streams that are open."""
        self.patience = Ticker(PING_S / PATIENCE)
        """Of the requests without a session, and the batches, that are not answered yet."""
        self.tasks: anyio.abc.TaskGroup | None = None
        """Runs what takes a task; None while nothing is served."""

    def spawn(self, function: Callable[..., Any], *arguments: object) -> None:
        """Run a coroutine function for as long as the frontend serves; what it raises is logged."""
        if self.tasks is not None:
            self.tasks.start_soon(contained, function, *arguments)


class Slow(Protocol):
    """Serves requests that the fast path gives back."""

    def take_slowly(self, posted: Posted, request_id: RequestId, method: str, raw: msgspec.Raw, /) -> None:
        """Serve one."""
        ...


class Posted:
    """A request that was posted. `fast_cancels` is as of a `WireDispatcher`, of this request alone."""

    __slots__ = ("_common", "_ticks", "client", "exchange", "fast_cancels", "id", "is_over")

    outgoing: Outgoing | None = None
    """The requests to the client; None for one that cannot be asked."""

    def __init__(self, common: Common, exchange: Exchange, request_id: RequestId) -> None:
        self.id = request_id
        self.exchange = exchange
        self.fast_cancels: dict[RequestId, Callable[[], None]] = {}
        self.is_over = False
        self.client: Slow | None = None
        """Serves it, where the fast path gives it back."""
        self._common = common
        self._ticks = 0

    @property
    def channel(self) -> Posted:
        """What the answer is written to."""
        return self

    def write(self, *pieces: Bytes) -> None:
        """Answer the request, after which nothing more belongs to it."""
        if not self.is_over:
            self.is_over = True
            self.fast_cancels.clear()
            self._answer(pieces)

    def _answer(self, pieces: tuple[Bytes, ...]) -> None:
        raise NotImplementedError

    def say(self, *pieces: Bytes, lossy: bool = False) -> None:
        """Send a message that belongs to the request; after the answer it is dropped."""
        raise NotImplementedError

    def spawn(self, function: Callable[..., Any], *arguments: object) -> None:
        """Run a coroutine function."""
        self._common.spawn(function, *arguments)

    def take_slowly(self, request_id: RequestId, method: str, params: msgspec.Raw) -> None:
        """Have the SDK's server serve the request."""
        if self.client is not None:
            self.client.take_slowly(self, request_id, method, params)

    # --- from the server to the client

    def notify_lossy(self, method: str, params: Bytes | None) -> None:
        """Send a progress or log message."""
        self.say(*envelope.notification(method, params), lossy=True)

    def notify_progress(self, token: RequestId, members: bytes) -> None:
        """Send progress on the request, under the token that the client chose."""
        self.notify_lossy("notifications/progress", envelope.progress(token, members))

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
    ) -> None:
        """Send a notification."""
        del opts
        encoded = None if params is None else encode_restored(params)
        self.say(*envelope.notification(envelope.escaped(method), encoded), lossy=method in LOSSY)

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
    ) -> dict[str, Any]:
        """Ask the client.

        Raises:
            MCPError: It refused, or cannot be asked.
        """
        del params, opts
        raise NoBackChannelError(method)

    # --- its end

    def cancel(self) -> None:
        """Stop what is done for it."""
        cancels = list(self.fast_cancels.values())
        self.fast_cancels.clear()
        for cancel in cancels:
            cancel()


def status_of(pieces: tuple[Bytes, ...]) -> int:
    """Return the status of an answer of 2026-07-28: the head of a message, its contents, and its end."""
    head, contents = pieces[:2]
    if bytes(contents[: len(_ERROR)]) == _ERROR:  # of a server at a transparent endpoint
        contents = contents[len(_ERROR) :]
    elif not bytes(head).endswith(_ERROR):
        return _OK
    try:
        return ERROR_CODE_HTTP_STATUS.get(_decode_code(contents).code, _OK)
    except (msgspec.DecodeError, RecursionError):  # an error of its own kind
        return _OK


def respond(
    exchange: Exchange, pieces: tuple[Bytes, ...], headers: HeaderPairs = (), status: int = _OK
) -> None:
    """Respond with one message: as JSON, or as one event where the client would rather have that."""
    if pieces[-1] == _LINE_END:
        pieces = (*pieces[:-1], b"}")
    takes_json = exchange.accepts[0] and not prefers_events(exchange.headers.get(b"accept", b""))
    if takes_json or status != _OK:
        exchange.respond(status, JSON + headers, pieces)
    else:
        exchange.respond(status, EVENTS + headers, [as_event(pieces)])


class Sessionless(Posted):
    """A request of 2026-07-28. A client that leaves has it cancelled."""

    __slots__ = ("_is_stream",)

    def __init__(self, common: Common, exchange: Exchange, request_id: RequestId) -> None:
        super().__init__(common, exchange, request_id)
        self._is_stream = False
        exchange.on_gone(self._gone)
        common.patience.add(self)

    def _gone(self) -> None:
        self.is_over = True
        self._common.patience.discard(self)
        self.cancel()

    def tick(self) -> None:
        """Keep the connection alive."""
        self._ticks += 1
        if self._ticks >= PATIENCE:
            self._ticks = 0
            if self._begin():
                self.exchange.comment()

    def _begin(self) -> bool:
        """Make the response a stream; False if it cannot be one."""
        if not self._is_stream and self.exchange.accepts[1]:
            self._is_stream = True
            self.exchange.begin_events()
        return self._is_stream

    def say(self, *pieces: Bytes, lossy: bool = False) -> None:
        """Send a message that belongs to the request."""
        if not self.is_over and self._begin():
            self.exchange.event(pieces, lossy=lossy)

    def _answer(self, pieces: tuple[Bytes, ...]) -> None:
        self._common.patience.discard(self)
        exchange = self.exchange
        if self._is_stream:
            exchange.end(pieces)
        else:
            respond(exchange, pieces, status=status_of(pieces))
        exchange.on_gone(_forgotten)  # which would lead here


def _forgotten() -> None:
    """Take the place of a callback, so that what it leads to is free at once."""


class InSession(Posted):
    """A request of a session, or a batch of them, which has no id of its own."""

    __slots__ = ("_session", "_stream")

    def __init__(
        self, session: Asked, exchange: Exchange, request_id: RequestId, *, is_batch: bool = False
    ) -> None:
        super().__init__(session.common, exchange, request_id)
        self._session = session
        self._stream: Stream | None = None
        self._ticks = 1 - PATIENCE if is_batch else 0
        self._ticker.add(self)

    @property
    def outgoing(self) -> Outgoing | None:  # type: ignore[override]  # one that is made when it is asked for
        """The requests to the client."""
        return self._session.outgoing if self._may_stream else None

    @property
    def _ticker(self) -> Ticker:
        return self._common.soon if self._ticks >= 0 else self._common.patience

    @property
    def _may_stream(self) -> bool:
        """True if the client takes events, and is there: one that got none cannot come again for others."""
        return self._stream is not None or (self.exchange.accepts[1] and not self.exchange.is_over)

    def tick(self) -> None:
        """Begin the stream, where there was time enough for an answer without one."""
        if self._ticks in {1, -1}:
            self._begin()
        else:
            self._ticks += 1

    def _begin(self) -> Stream | None:
        if self._stream is None and self._may_stream:
            self._ticker.discard(self)
            self._stream = self._session.events.begin(self.exchange, primed=self._session.is_primed)
        return self._stream

    def say(self, *pieces: Bytes, lossy: bool = False) -> None:
        """Send a message that belongs to the request."""
        if not self.is_over and (stream := self._stream or self._begin()) is not None:
            stream.send(pieces, lossy=lossy)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Ask the client, on the stream of the request."""
        if self.is_over or not self._may_stream:
            raise NoBackChannelError(method)
        return await self._session.ask(method, params, opts, self.say)

    def _answer(self, pieces: tuple[Bytes, ...]) -> None:
        self._session.over(self)
        if self._stream is not None:
            self._stream.answer(self.id, pieces)
            return
        self._ticker.discard(self)
        if pieces:
            respond(self.exchange, pieces, self._session.headers)
        else:  # a batch without requests
            self.exchange.respond(_ACCEPTED, JSON + self._session.headers)

    def cancelled(self) -> None:
        """End it for the client that has cancelled it: its response must have an end."""
        self.cancel()
        self.write(*envelope.failure(self.id, _CANCELLED))

    def ended(self) -> None:
        """End it, because the session ends: a stream without an answer."""
        self.cancel()
        if self._stream is not None:
            self.is_over = True
        else:
            self.write(*envelope.failure(self.id, _ENDED))


class BatchMember(InSession):
    """One request of a batch, which `carrier` responds to when all of `batch` is answered."""

    __slots__ = ("_batch", "_carrier")

    def __init__(self, session: Asked, carrier: InSession, batch: Batch, request_id: RequestId) -> None:
        Posted.__init__(self, session.common, carrier.exchange, request_id)
        self._session = session
        self._stream = None
        self._carrier = carrier
        self._batch = batch
        batch.open()

    def say(self, *pieces: Bytes, lossy: bool = False) -> None:
        """Send a message that belongs to the request."""
        self._carrier.say(*pieces, lossy=lossy)

    def _answer(self, pieces: tuple[Bytes, ...]) -> None:
        self._session.over(self)
        self._batch.add(self.id, pieces)
        self._batch.close()


class Asked:
    """The client of a session, as far as it gets messages of the server.

    `headers` are those of each response; `is_primed` once its revision has events without data.
    """

    def __init__(self, common: Common, headers: HeaderPairs) -> None:
        self.common = common
        self.headers = headers
        self.open: dict[RequestId, InSession] = {}
        """The requests that are not answered, by their ids; of two with one id, the later."""
        self.is_primed = False
        self._events: SessionEvents | None = None
        self._outgoing: Outgoing | None = None

    @property
    def events(self) -> SessionEvents:
        """The streams of the session."""
        if self._events is None:
            self._events = SessionEvents(self.common.kept, self.common.silence, self.headers)
        return self._events

    @property
    def outgoing(self) -> Outgoing:
        """The requests to the client."""
        if self._outgoing is None:
            self._outgoing = Outgoing(self)
        return self._outgoing

    @property
    def is_busy(self) -> bool:
        """True if a request is open, or a stream."""
        return bool(self.open) or (self._events is not None and self._events.is_followed)

    def over(self, posted: InSession) -> None:
        """A request is answered."""
        if self.open.get(posted.id) is posted:
            del self.open[posted.id]

    def say(self, *pieces: Bytes, lossy: bool = False) -> None:
        """Send a message outside of all requests."""
        self.events.standing.send(pieces, lossy=lossy)

    write = say

    def spawn(self, function: Callable[..., Any], *arguments: object) -> None:
        """Run a coroutine function."""
        self.common.spawn(function, *arguments)

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
    ) -> None:
        """Send a notification outside of all requests."""
        del opts
        encoded = None if params is None else encode_restored(params)
        self.say(*envelope.notification(envelope.escaped(method), encoded), lossy=method in LOSSY)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Ask the client, outside of all requests."""
        return await self.ask(method, params, opts, self.write)

    async def ask(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None,
        write: Callable[..., None],
    ) -> dict[str, Any]:
        """Send a request by `write`, and wait for its result.

        Raises:
            MCPError: An error answer, one that cannot be read, a timeout, the end.
        """
        on_progress = (opts or {}).get("on_progress")

        def in_task(members: bytes) -> None:
            if on_progress is not None and (step := envelope.read_step(members)) is not None:
                self.common.spawn(on_progress, step.progress, step.total, step.message)

        handler = in_task if on_progress else None
        return decode_result(
            await self.outgoing.request(method, params, opts or {}, handler, is_raw=False, write=write)
        )

    def close(self) -> None:
        """End all that is open."""
        for posted in list(self.open.values()):
            posted.ended()
        if self._events is not None:
            self._events.close()
        if self._outgoing is not None:
            self._outgoing.close()
