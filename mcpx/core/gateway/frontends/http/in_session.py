"""The requests of one session, and its client between them: streams that can be resumed, and questions.

A request on a session is answered as any other (`posted`), but for its stream, whose events have ids and are
kept for a while (`events`), and a client that leaves does not end it: that takes `notifications/cancelled`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mcp.shared.dispatcher import CallOptions

from mcpx.core.gateway.frontends.http.events import SessionEvents, Stream
from mcpx.core.gateway.frontends.http.exchange import JSON, PEERS, HeaderPairs
from mcpx.core.gateway.frontends.http.http_exchange import HttpExchange
from mcpx.core.gateway.frontends.http.posted import PATIENCE, Common, Posted, Speaker
from mcpx.core.servers.call_errors import FAILURE_KEY
from mcpx.core.wire import envelope
from mcpx.core.wire.batch import Batch
from mcpx.core.wire.envelope import INTERNAL_ERROR, Bytes, NoBackChannelError, RequestId
from mcpx.core.wire.outgoing import Outgoing, decode_result
from mcpx.errors import Code, Outcome

_ACCEPTED: Final = 202
_CANCELLED: Final = envelope.encode({"code": -32800, "message": "Request cancelled"})  # as the SDK has it
_LOST: Final = {"code": str(Code.CANCELLED), "outcome": str(Outcome.UNKNOWN)}


def _ended(path: str) -> bytes:
    """The error of a request whose session has ended, at that path."""
    data = {FAILURE_KEY: _LOST} if path.startswith(PEERS) else _LOST
    text = "The session ended before the request was answered"
    return envelope.encode({"code": INTERNAL_ERROR, "message": text, "data": data})


class InSession(Posted):
    """A request of a session, or a batch of them, which has no id of its own."""

    __slots__ = ("_session", "_stream", "_ticker")

    def __init__(
        self, session: Asked, exchange: HttpExchange, request_id: RequestId, *, is_batch: bool = False
    ) -> None:
        super().__init__(session.common, exchange, request_id)
        self._session = session
        self._stream: Stream | None = None
        self._ticks = 1 - PATIENCE if is_batch else 0
        self._ticker = session.common.patience if is_batch else session.common.soon
        self._ticker.add(self)

    @property
    def outgoing(self) -> Outgoing | None:  # type: ignore[override]  # one that is made when it is asked for
        """The requests to the client."""
        return self._session.outgoing if self._may_stream else None

    @property
    def _may_stream(self) -> bool:
        """True if the client takes events, and is there: one that got none cannot come again for others."""
        return self._stream is not None or (self.exchange.head.accepts[1] and not self.exchange.is_over)

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
        if self._stream is not None:
            self._stream.answer(self.id, pieces)  # a session that never began ends, and its streams with it
            self._session.over(self)
            return
        self._session.over(self)
        self._ticker.discard(self)
        if pieces:
            self.exchange.respond_message(pieces, self._session.headers)
        else:  # a batch without requests
            self.exchange.respond(_ACCEPTED, JSON + self._session.headers)

    def cancelled(self) -> None:
        """End it for the client that has cancelled it: its response must have an end."""
        self.cancel()
        self.write(*envelope.failure(self.id, _CANCELLED))

    def ended(self) -> None:
        """End it, because the session ends."""
        self.cancel()
        self.write(*envelope.failure(self.id, _ended(self.exchange.path)))


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


class Asked(Speaker):
    """The client of a session, as far as it gets messages of the server.

    `headers` are those of each response; `is_primed` once its revision has events without data.
    """

    __slots__ = ("__weakref__", "_events", "_outgoing", "headers", "is_primed", "open")

    def __init__(self, common: Common, headers: HeaderPairs) -> None:
        self.common = common
        self.headers = headers
        self.open: dict[RequestId, InSession] = {}
        """The requests that are not answered, by their ids."""
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
        """Take note that a request is answered."""
        raise NotImplementedError

    def say(self, *pieces: Bytes, lossy: bool = False) -> None:
        """Send a message outside of all requests."""
        self.events.standing.send(pieces, lossy=lossy)

    write = say

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
