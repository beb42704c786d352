"""Requests to an HTTP server: a `Post` is one, from `http_dispatcher`, which sends it, to its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import anyio
import msgspec

from mcpx.core.servers.transport import http_answers
from mcpx.core.servers.transport.exchange import (
    PERMISSION_STATUSES,
    ConnectionDropped,
    Denied,
    Dropped,
    EntryRefused,
    HttpFailure,
    MoreScopesRequired,
    NotAuthorized,
    NotExecuted,
    NoTokenNow,
    PersonNeeded,
    PersonRequired,
    StreamLeft,
    Unreachable,
)
from mcpx.core.servers.transport.http_answers import SESSION_HEADER, Event
from mcpx.core.servers.transport.http_bodies import Body, Events, Prefix, Whole
from mcpx.core.servers.transport.http_connection import Head, Headers, HttpConnection
from mcpx.core.servers.transport.http_network import Exchange
from mcpx.core.servers.transport.http_pool import HttpRequest
from mcpx.core.servers.transport.http_streams import Note, Session, Stream, refusal, why_over
from mcpx.core.wire.envelope import RequestId
from mcpx.core.wire.intake import LargeMessage
from mcpx.core.wire.lines import TooLong
from mcpx.core.wire.outgoing import MalformedMessage, OnAnswer, OnProgress, ResponseTooLarge
from mcpx.core.wire.turn import TURN, flush_all
from mcpx.core.wire.unreachable import unreachable

ABANDONED_TIMEOUT_S: Final = 5.0  # for the rest of an answer that nobody waits for; then it is hung up on
PROBE_TIMEOUT_S: Final = 2.0  # for a ping in a session that is in doubt
RESUME_AFTER_S: Final = 1.0  # a stream that broke off, unless the server says another time
MAX_RESUME_AFTER_S: Final = 60.0
MAX_RESUMPTIONS: Final = 2  # that fail, one after the other
LISTEN: Final = "subscriptions/listen"  # a request that is answered for as long as the session lives
INITIALIZE: Final = "initialize"
_PING: Final = b'{"jsonrpc":"2.0","id":"mcpx-ping","method":"ping"}'
_UNKNOWN_SESSION: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.BAD_REQUEST})
_REDIRECTS: Final = range(300, 400)


NOWHERE: Final = HttpRequest("POST", None, Headers())  # type: ignore[arg-type]  # until it is known


class Post(Exchange):
    """A request, until its answer: `on_answer` is called once, unless it was cancelled.

    `about` is what messages of the server belong to that come on its stream. With `is_raw`, the result is
    taken as it came or not at all.
    """

    def __init__(
        self,
        session: Session,
        request_id: RequestId,
        method: str,
        on_answer: OnAnswer,
        on_progress: OnProgress | None,
        *,
        about: object,
        is_raw: bool = True,
    ) -> None:
        super().__init__(session.network, NOWHERE)
        self.id = request_id
        self.method = method
        self.on_answer = on_answer
        self.on_progress = on_progress
        self.is_raw = is_raw
        self.is_modern = False
        self.on_over: Callable[[], None] | None = None
        self._about = about
        self._session = session
        self._answered = False
        self._resumed: Stream | None = None
        self._after: bytes | None = None  # the id of the last event
        self._retry_s = RESUME_AFTER_S
        self._timer: asyncio.TimerHandle | None = None

    # --- its end

    def end_after(self, seconds: float) -> None:
        """Give it up after that time."""
        self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)

    def _expire(self) -> None:
        self._timer = None
        if self._session.posts.is_open(self):
            self.fail(ConnectionDropped(f"the answer did not {'end' if self._body else 'begin'} in time"))
        self.stop()

    def recall(self) -> bool:
        """Take it back if nothing was sent yet; return whether that succeeded."""
        if not self.started:
            self.stop()
        return not self.started

    def abandon(self) -> None:
        """Nobody waits for it any more: reading its answer ends soon, whatever the server does."""
        self._answered = True
        if self.is_modern or not self.started:
            self.stop()
        else:
            self._session.leftovers.add(self)

    def stop(self) -> None:
        super().stop()
        self._answered = True
        self._session.leftovers.discard(self)
        self._session.standing.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._resumed is not None:
            self._resumed.stop()
        if self.on_over is not None:
            self.on_over()

    def leave(self, reason: str) -> None:
        """End it now; whoever needs it sends it again."""
        self.fail(StreamLeft(f"the event stream was left: {reason} before the answer"))
        self.stop()

    def fail(self, error: Exception) -> None:
        """There will be no answer."""
        if self._answered:
            return
        link = self._session.link
        if link.last_problem is None:
            link.last_problem = str(error)
        self._settle(None, error)

    def _settle(self, result: msgspec.Raw | None, error: Exception | None) -> None:
        self._answered = True
        session = self._session
        session.standing.discard(self)
        if self.on_over is not None:
            self.on_over()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if session.posts.settle(self):
            TURN.is_open = True
            try:
                self.on_answer(result, error)
            finally:
                flush_all()  # the end of this turn, without another round of the loop

    # --- its response

    def accept(self, head: Head, connection: HttpConnection) -> Body:
        session = self._session
        session.link.mark_healthy()
        if session.posts_to is not None:  # whose stream has the answer
            if self.on_over is not None:
                self.on_over()
            return Prefix(head, connection, lambda _prefix: None)
        if self.method == INITIALIZE and (given := head.headers.get(SESSION_HEADER)):
            session.session_id = given
        kind = head.content_type
        if kind == "application/json":
            return Whole(head, connection, session.limit, on_message=self._message, on_failure=self._broken)
        if kind == "text/event-stream":
            if self.method == LISTEN and not self._answered:
                session.standing.add(self)
            return Events(
                head,
                connection,
                session.limit,
                on_event=self._event,
                on_end=self._ended,
                on_failure=self._stream_broken,
            )
        self.fail(http_answers.not_a_message(head))
        return Prefix(head, connection, lambda _prefix: None)

    def _message(self, data: bytes | LargeMessage) -> None:
        if self._answered:
            return
        try:
            answer = http_answers.answer_to(self.id, data, raw=self.is_raw)
        except MalformedMessage as error:
            self.fail(error)
        else:
            self._settle(answer.result, answer.error)
            self._read_rest()

    def _read_rest(self) -> None:
        """Read what else comes, for a while, so that the connection can be kept."""
        if self._connection is not None:
            self._session.leftovers.add(self)

    def _broken(self, error: Exception) -> None:
        if isinstance(error, Dropped):
            how = http_answers.describe(error, self._session.redact)
            error = ConnectionDropped(f"the connection was dropped in the middle of the answer: {how}")
        self.fail(error)

    # --- as an event stream

    def _event(self, event: Event) -> None:
        fields = event.fields
        if fields:
            self._after = fields.get(b"id") or self._after
            if fields.get(b"retry", b"").isdigit():
                self._retry_s = min(int(fields[b"retry"][:9]) / 1000, MAX_RESUME_AFTER_S)
        data = event.data
        if self.stopped or self._answered or not event.is_message:
            return
        if data is None or isinstance(data, TooLong):
            return
        try:
            answer = http_answers.read_answer(data, raw=self.is_raw)
        except MalformedMessage as error:
            self.fail(error)
            return
        if answer is None:
            self._session.take(data, self._about)
        elif answer.is_to(self.id):  # what answers another request is for nobody
            self._settle(answer.result, answer.error)
            self._read_rest()

    def ended(self, piece: bytes) -> None:
        self._session.leftovers.discard(self)
        super().ended(piece)

    def _ended(self) -> None:
        if not self._answered:
            self._stream_over("the event stream ended")

    def _stream_broken(self, error: Exception) -> None:
        if isinstance(error, ResponseTooLarge | MalformedMessage):
            self.fail(error)
        self._stream_over(why_over(error, self._session.redact))

    def _stream_over(self, reason: str) -> None:
        if self._answered:
            return
        self._session.link.mark_suspect()
        if self._after is None:
            self.fail(ConnectionDropped(f"{reason} before the answer"))
        else:
            self.network.spawn(self._resume)

    async def _resume(self) -> None:
        """Take the stream up again where it ended, while the server allows that."""
        failures = 0
        while not self._answered and failures < MAX_RESUMPTIONS:
            await anyio.sleep(self._retry_s)
            if self._answered or self.stopped:
                return
            self._resumed = stream = Stream(self._session, self._event, after=self._after)
            self.network.send(stream)
            await stream.over.wait()
            failures = 0 if stream.opened else failures + 1
        self.fail(ConnectionDropped("the event stream ended before the answer, and could not be resumed"))

    # --- without a good response

    def failed(self, error: HttpFailure, /) -> None:
        link, redact = self._session.link, self._session.redact
        if isinstance(error, EntryRefused):
            self.network.spawn(self._deny, redact(str(error)))
        elif isinstance(error, NotAuthorized):
            self.fail(self._not_authorized(error))
        elif isinstance(error, Unreachable):
            self.fail(link.end_session(redact(unreachable(str(self.request.url), error))))
        else:
            link.mark_suspect()
            how = http_answers.describe(error, redact)
            if self.started:
                self.fail(ConnectionDropped(f"the connection was dropped before the answer: {how}"))
            else:
                self.fail(NotExecuted(f"no connection could be used: {how}"))

    def _not_authorized(self, error: NotAuthorized) -> NotExecuted:
        """Take in that no token counts; a session that no other will follow by itself takes nothing new."""
        link = self._session.link
        reason, scopes = self._session.redact(str(error)), None
        if isinstance(error, NoTokenNow):
            return NotExecuted(reason)
        if isinstance(error, MoreScopesRequired):
            scopes = error.scopes
        else:
            link.closing.set(reason)  # it may finish what it has
        if scopes is None or not link.established:
            link.last_problem, link.retryable = reason, False
            link.held = isinstance(error, PersonRequired)
        if not isinstance(error, PersonRequired):
            return NotExecuted(reason)
        return PersonNeeded(reason, command=error.command, scopes=scopes)

    async def refused(self, head: Head, explanation: bytes, /) -> None:
        """Pass on the server's own JSON-RPC error in an HTTP error; else take in what it means."""
        status, link, redact = head.status_code, self._session.link, self._session.redact
        failure = refusal(head, explanation, self.request, redact)
        if status in _REDIRECTS:
            self.fail(failure)
            return
        if status in PERMISSION_STATUSES:
            await self._deny(str(failure))
            return
        body = http_answers.read_error_body(head, explanation, redact)
        in_session = SESSION_HEADER in self.request.headers
        unparsed = http_answers.is_unparsed(status, body)
        gone = status == HTTPStatus.NOT_FOUND
        if in_session and (gone or (unparsed and await self._ping() in _UNKNOWN_SESSION)):
            self.fail(link.end_session(f"the server does not know the session any more (HTTP {status})"))
            return
        if body.error is not None and http_answers.is_server_error(
            body, status, self.id, in_session=in_session
        ):
            if not self._answered:
                self._settle(None, body.error)
            return
        if status < HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.TOO_MANY_REQUESTS:
            link.mark_suspect()
        self.fail(failure)

    async def _deny(self, reason: str) -> None:
        """Fail alone, if the server lets a ping in; else the session is over."""
        link = self._session.link
        if link.established and await self._ping() not in PERMISSION_STATUSES:
            self.fail(Denied(reason))
        else:
            self.fail(link.end_session(reason, retryable=False))

    async def _ping(self) -> int | None:
        """The status of a ping in the session; None if it does not come soon."""
        over, session = anyio.Event(), self._session
        request = self.network.request("POST", session.headers("ping", {}), _PING, session.posts_to)
        ping = Note(session, request, lambda _note: over.set())
        ping.end_after(PROBE_TIMEOUT_S)
        self.network.send(ping)
        await over.wait()
        return ping.status
