"""Traffic with an HTTP server beside requests: messages without an answer (`Note`), event streams (`Stream`).

They are exchanges (`http_network`) that know what a response means for the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Protocol

import anyio

from mcpx.core.servers.transport import http_answers
from mcpx.core.servers.transport.exchange import Dropped, EntryRefused, HttpFailure, HttpLink, Refused
from mcpx.core.servers.transport.http_answers import SESSION_HEADER, Event, Redact
from mcpx.core.servers.transport.http_bodies import Body, Events, Prefix
from mcpx.core.servers.transport.http_connection import Head, HttpConnection
from mcpx.core.servers.transport.http_network import Exchange, Network, redirect_of
from mcpx.core.servers.transport.http_pool import HttpRequest, Url
from mcpx.core.wire.envelope import RequestId
from mcpx.core.wire.expiry import Expiry
from mcpx.core.wire.lines import Line
from mcpx.core.wire.unreachable import retry_after


class Identified(Protocol):
    """A request."""

    id: RequestId


class Requests(Protocol):
    """The requests that are open."""

    def is_open(self, post: Identified) -> bool: ...

    def settle(self, post: Identified) -> bool: ...


class Session(Protocol):
    """The dispatcher, as far as messages know it."""

    link: HttpLink
    network: Network
    limit: int
    redact: Redact
    session_id: str | None
    standing: set[Leaving]
    leftovers: Expiry[Any]
    posts_to: Url | None

    @property
    def posts(self) -> Requests: ...

    def take(self, line: Line, about: object) -> None: ...

    def headers(self, method: str, given: dict[str, str]) -> dict[str, str]: ...


class Leaving(Protocol):
    """A stream that is open for as long as the session."""

    def leave(self, reason: str) -> None:
        """End it; whoever needs it opens it again."""

    def stop(self) -> None:
        """End it."""


class Note(Exchange):
    """A message whose response says nothing but that it has come, or has not."""

    def __init__(self, session: Session, request: HttpRequest, on_end: Callable[[Note], None]) -> None:
        super().__init__(session.network, request)
        self.status: int | None = None
        """The status of the response, once there is one."""
        self.on_over: Callable[[], None] = lambda: None
        self._session = session
        self._on_end = on_end
        self._timer: asyncio.TimerHandle | None = None

    def end_after(self, seconds: float) -> None:
        """Give it up after that time."""
        self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)

    def _expire(self) -> None:
        self.stop()
        self._end()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._on_end(self)
        self.on_over()

    def accept(self, head: Head, connection: HttpConnection) -> Body:
        self.status = head.status_code
        self._end()
        return Prefix(head, connection, lambda _prefix: None)

    async def refused(self, head: Head, _explanation: bytes, /) -> None:
        self.status = head.status_code
        self._end()
        link = self._session.link
        if self.status == HTTPStatus.NOT_FOUND and SESSION_HEADER in self.request.headers:
            link.end_session("the server does not know the session any more (HTTP 404)")
        elif self.status >= HTTPStatus.BAD_REQUEST:
            link.mark_suspect()

    def failed(self, error: HttpFailure, /) -> None:
        self.status = HTTPStatus.UNAUTHORIZED if isinstance(error, EntryRefused) else None
        self._end()
        self._session.link.mark_suspect()


class Stream(Exchange):
    """A GET that opens an event stream. `over` is set at its end; it never fails."""

    def __init__(
        self,
        session: Session,
        on_event: Callable[[Event], None],
        *,
        after: bytes | None = None,
        on_open: Callable[[], None] = lambda: None,
        skips: bool = False,
    ) -> None:
        """`after` is the id of the last event that came. One that is too large ends it, or is skipped."""
        headers = {**session.headers("", {}), "accept": "text/event-stream", "cache-control": "no-store"}
        headers.pop("content-type", None)
        if after is not None:
            headers["last-event-id"] = after.decode(errors="replace")
        super().__init__(session.network, session.network.request("GET", headers))
        self.opened = False
        self.status: int | None = None
        self.reason = "the event stream ended"
        """Reason of its end, or the one it will have if nothing goes wrong."""
        self.error: Exception | None = None
        """Why it could not be opened."""
        self.over = anyio.Event()
        self._session = session
        self._on_event = on_event
        self._on_open = on_open
        self._skips = skips

    def accept(self, head: Head, connection: HttpConnection) -> Body:
        self.status = head.status_code
        if head.content_type != "text/event-stream":
            self.error = http_answers.not_a_message(head)
            self.over.set()
            return Prefix(head, connection, lambda _prefix: None)
        self.opened = True
        self._on_open()
        limit = self._session.limit
        return Events(
            head,
            connection,
            limit,
            on_event=self._event,
            on_end=self.over.set,
            on_failure=self._broken,
            skips=self._skips,
        )

    def _event(self, event: Event) -> None:
        if not self.stopped:
            self._on_event(event)

    def _broken(self, error: Exception) -> None:
        self.reason = why_over(error, self._session.redact)
        self.over.set()

    async def refused(self, head: Head, explanation: bytes, /) -> None:
        self.status = head.status_code
        self.error = refusal(head, explanation, self.request, self._session.redact)
        self.over.set()

    def failed(self, error: HttpFailure, /) -> None:
        self.error = error
        self.over.set()

    def leave(self, reason: str) -> None:
        """End it now, though there may be more to come; whoever needs it opens it again."""
        self.reason = f"the event stream was left: {reason}"
        self.stop()

    def stop(self) -> None:
        super().stop()
        self.over.set()


def why_over(error: Exception, redact: Redact) -> str:
    """The reason of the end of an event stream."""
    if isinstance(error, Dropped):
        return f"the event stream was dropped: {http_answers.describe(error, redact)}"
    return f"the event stream was left: {error}"


def refusal(head: Head, explanation: bytes, request: HttpRequest, redact: Redact) -> Refused:
    """The outcome of an error, or of a redirect that is not followed, for its request."""
    if (location := redirect_of(request, head)) is not None:
        where = http_answers.quoted(redact(str(location))) + (
            ", itself" * (str(location) == str(request.url))
        )
        return Refused(head.status_code, explanation=f"it redirects to {where}, which is not followed")
    text = http_answers.read_error_body(head, explanation, redact).text
    return Refused(head.status_code, retry_after_s=retry_after(head), explanation=text)
