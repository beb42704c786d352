"""A JSON-RPC peer over HTTP, as `WireDispatcher` is one over a stream: each request is a POST of its own.

The SDK's `ClientSession` drives handshakes and listings on it, and calls pass as bytes; there is no task for
a call. A `Post` is one request from `HttpOutgoing` to its answer: in a JSON body, in an event stream, in the
stream that resumes it, or, over the older transport (HTTP with SSE), on the one stream that has all answers.
Whatever else comes goes to the receiver, which knows meanwhile on whose stream it came (`about`).

What goes wrong costs the request that it happened to, and its reason is one of `exchange.FAILURES`. What it
means for the session is told to the link (`HttpLink`): the port is closed (the server takes nothing new, but
may finish what it has); the session is unknown (404) or refused (401, 403), so it is lost; any other failure
is a reason to probe it. Whatever is not a call ends after `NON_CALL_TIMEOUT_S` at the latest.

A request of 2026-07-28 is cancelled by hanging up; one of an older revision by a notification, and its answer
is read for `ABANDONED_TIMEOUT_S`, so that the connection can be kept.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec
from mcp.shared.dispatcher import CallOptions
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpx.core.servers.transport import http_posts
from mcpx.core.servers.transport.exchange import FAILURES, UNANSWERED, Failed, HttpLink
from mcpx.core.servers.transport.http_answers import SESSION_HEADER, Redact
from mcpx.core.servers.transport.http_connection import Headers
from mcpx.core.servers.transport.http_network import Exchange, Network
from mcpx.core.servers.transport.http_pool import HttpRequest, Url
from mcpx.core.servers.transport.http_posts import INITIALIZE, LISTEN, Post
from mcpx.core.servers.transport.http_streams import Identified, Leaving, Note
from mcpx.core.wire import envelope, outgoing
from mcpx.core.wire.channel import Channel
from mcpx.core.wire.dispatcher import NO_HEADERS, WireDispatcher
from mcpx.core.wire.enclosed import one_line
from mcpx.core.wire.envelope import MCP_PROTOCOL_VERSION_HEADER, Bytes, RequestId, coerce_request_id
from mcpx.core.wire.expiry import Expiry
from mcpx.core.wire.lines import Line
from mcpx.core.wire.receiver import OnMalformed
from mcpx.core.wire.turn import DIRTY, TURN, flush_all

NON_CALL_TIMEOUT_S: Final = 120.0  # for what is neither a call nor a stream, and has no deadline of its own
NOTIFICATION_TIMEOUT_S: Final = 5.0  # for the answer to a notification, which says nothing
MAX_NOTIFICATIONS: Final = 64  # on their way to one server
MAX_SERVER_MESSAGE_BYTES: Final = 4 * 1024 * 1024  # of its own requests: reading one takes 0.1 s
INITIALIZED: Final = "notifications/initialized"
_ORDERED: Final = frozenset({INITIALIZED, "logging/setLevel"})  # what follows them may depend on them
_OF_POSTS: Final = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


class HttpDispatcher(WireDispatcher):
    """One server. `link` is to be set before anything is sent.

    With `posts_to`, it is spoken to over the older transport: messages go there, and all of its own, answers
    too, come on one stream.
    """

    link: HttpLink
    is_stream = False

    def __init__(self, network: Network, *, limit: int, on_malformed: OnMalformed, redact: Redact) -> None:
        self.network = network
        self.limit = limit
        self.redact = redact
        self.posts_to: Url | None = None
        self.session_id: str | None = None
        self.on_initialized: Callable[[], None] = lambda: None
        """Called when the server has the end of the handshake."""
        self.standing: set[Leaving] = set()
        """Streams that are open for as long as the session, and are left when connections are made anew."""
        self.leftovers = Expiry(http_posts.ABANDONED_TIMEOUT_S, Post.stop)
        """Requests of which the rest is read, while nobody waits for it."""
        self._common: tuple[str | None, str | None, Headers] | None = None  # by session and version
        self._notes: set[Note] = set()
        self._before: object | None = None  # the message that all others have to wait for
        self._behind: deque[Callable[[], None]] = deque()
        self._sends = channel = HttpChannel(self._write, network.send)
        self.posts = HttpOutgoing(self, channel)
        super().__init__(
            channel,
            limit=limit,
            on_malformed=on_malformed,
            mends=True,
            request_limit=MAX_SERVER_MESSAGE_BYTES,
            outgoing=self.posts,
        )

    def take(self, line: Line, about: object) -> None:
        """Take a message of the server; `about` is the request on whose stream it came."""
        self.receiver.take(one_line(line) if isinstance(line, bytes) else line, about)

    def renew(self) -> None:
        """Use new connections from now on, but for what is in flight."""
        self.network.renew()
        for stream in list(self.standing):
            stream.leave("its connection is made anew")

    # --- out

    def headers(self, method: str, given: Mapping[str, str]) -> Headers:
        """The headers of a message of that method."""
        if method == INITIALIZE:
            self.version = None
        common = self._common
        if common is None or common[0] != self.session_id or common[1] != self.version:
            common = self._common = self.session_id, self.version, self._common_headers()
        headers = Headers(common[2])
        for name, value in given.items():
            headers[name.lower()] = value
        self.version = headers.get(MCP_PROTOCOL_VERSION_HEADER)
        return headers

    def _common_headers(self) -> Headers:
        """The headers of all messages now."""
        headers = Headers({**self.network.headers, **_OF_POSTS})
        if self.session_id is not None:
            headers[SESSION_HEADER] = self.session_id
        if self.version is not None:
            headers[MCP_PROTOCOL_VERSION_HEADER] = self.version
        return headers

    def post(self, post: Post, given: Mapping[str, str], body: bytes) -> None:
        """Send a request, which is among the open ones by now."""
        headers = self.headers(post.method, given)
        post.request = HttpRequest("POST", self.posts_to or self.network.url, headers, body)
        post.is_modern = self.version in MODERN_PROTOCOL_VERSIONS
        if self._before is None and post.method not in _ORDERED:
            self._sends.send(post)
        else:
            self._in_order(post.method, post)

    def _in_order(self, method: str, message: Post | Note) -> None:
        """Send a message, after those that it may depend on."""
        if self._before is not None:
            self._behind.append(partial(self._in_order, method, message))
            return
        if method in _ORDERED:
            self._before = message
            message.on_over = partial(self._is_over, message)
            asyncio.get_running_loop().call_later(NOTIFICATION_TIMEOUT_S, message.on_over)
        self._sends.send(message)

    def _is_over(self, message: object) -> None:
        """Send what waits behind a message."""
        if self._before is not message:
            return
        self._before = None
        behind, self._behind = self._behind, deque()
        for each in behind:
            each()

    # --- messages without an answer

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Send a notification beside all else."""
        self._note(method, None if params is None else envelope.encode(params), (opts or {}).get("headers"))

    def send_notification(self, method: str, params: bytes | None) -> None:
        """Send a notification of a client's. `params` is encoded."""
        self._note(method, params, self.headers_of(method, params or b"", None))

    def _note(self, method: str, params: bytes | None, given: Mapping[str, str] | None) -> None:
        pieces = envelope.notification(envelope.escaped(method), params)
        note = self._write(*pieces, method=method, given=given)
        if note is not None and method == INITIALIZED:
            self.on_initialized()

    def _write(self, *pieces: Bytes, method: str = "", given: Mapping[str, str] | None = None) -> Note | None:
        """Send a message without an answer, but only so many at a time.

        A server may take none of the answers to its own requests, and yet go on asking.
        """
        if len(self._notes) >= MAX_NOTIFICATIONS:
            self.link.mark_suspect()
            return None
        body = b"".join(pieces).removesuffix(b"\n")
        headers = self.headers(method, given or NO_HEADERS)
        request = HttpRequest("POST", self.posts_to or self.network.url, headers, body)
        note = Note(self, request, self._notes.discard)
        note.end_after(NOTIFICATION_TIMEOUT_S)
        self._notes.add(note)
        self._in_order(method, note)
        return note

    # --- for the SDK's session

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send a request and wait for its result.

        Raises:
            MCPError: An error answer, a timeout, the end; `Failed` where there is no answer.
        """
        try:
            return outgoing.decode_result(await self._request(method, params, opts, is_raw=False))
        except FAILURES as error:
            raise Failed(error) from error

    async def send_for_bytes(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> msgspec.Raw:
        """Send a request and wait for its result, as it came.

        Raises:
            MCPError, MalformedMessage, ResponseTooLarge: As for a stream.
        """
        try:
            return await super().send_for_bytes(method, params, opts)
        except UNANSWERED as error:
            raise Failed(error) from error

    def _close(self) -> None:
        super()._close()
        self._behind.clear()
        for post in self.leftovers.clear():
            post.stop()
        for stream in list(self.standing):
            stream.stop()
        for note in list(self._notes):
            note.stop()


class HttpOutgoing(outgoing.Outgoing):
    """The requests that are open at one server."""

    def __init__(self, dispatcher: HttpDispatcher, channel: Channel) -> None:
        super().__init__(channel)
        self._dispatcher = dispatcher

    def call(
        self,
        request_id: int,
        method: str,
        params: list[Bytes],
        on_answer: outgoing.OnAnswer,
        on_progress: outgoing.OnProgress | None,
        *_about: object,
    ) -> None:
        if self.closed:
            on_answer(None, outgoing.ConnectionEnded())
            return
        dispatcher = self._dispatcher
        about = _about[0] if _about else None
        post = Post(dispatcher, request_id, method, on_answer, on_progress, about=about)
        self._open[request_id] = post
        body = b"".join(envelope.request(request_id, method, *params))
        dispatcher.post(post, dispatcher.headers_of(method, b"", about), body)

    def _start(
        self,
        request_id: RequestId,
        method: str,
        params: Bytes | None,
        opened: outgoing.Opened,
        *,
        about: object = None,
        opts: CallOptions | None = None,
        **_of_http: Any,
    ) -> None:
        dispatcher = self._dispatcher
        post = Post(
            dispatcher,
            request_id,
            method,
            opened.on_answer,
            opened.on_progress,
            about=about,
            is_raw=opened.is_raw,
        )
        self._open[coerce_request_id(request_id)] = post
        if opts is None:
            given = dispatcher.headers_of(method, params or b"", about)
        else:
            given = opts.get("headers") or NO_HEADERS
            if method != LISTEN:
                post.end_after(NON_CALL_TIMEOUT_S)
        body = b"".join(envelope.request(request_id, method, params))
        dispatcher.post(post, given, body)

    def is_open(self, post: Identified) -> bool:
        """True if a request awaits its answer."""
        opened: object = self._open.get(coerce_request_id(post.id))
        return opened is post

    def settle(self, post: Identified) -> bool:
        """Take a request from the open ones; False if it was among them no more."""
        key = post.id if type(post.id) is int else coerce_request_id(post.id)
        opened: object = self._open.get(key)
        if is_open := opened is post:
            del self._open[key]
        return is_open

    def recall(self, request_id: RequestId, /) -> bool:
        post = self._open.get(coerce_request_id(request_id))
        return isinstance(post, Post) and post.recall()

    def cancel(self, request_id: RequestId, reason: str, _write: outgoing.Write | None = None, /) -> None:
        post = self._open.pop(coerce_request_id(request_id), None)
        if isinstance(post, Post):
            if post.started and not post.is_modern:
                params = envelope.encode({"requestId": request_id, "reason": reason})
                self._dispatcher.send_notification("notifications/cancelled", params)
            post.abandon()

    def discard(self, request_id: RequestId) -> None:
        post = self._open.pop(coerce_request_id(request_id), None)
        if isinstance(post, Post):
            post.abandon()

    def close(self) -> None:
        opened = list(self._open.values())
        super().close()
        for post in opened:
            if isinstance(post, Post):
                post.stop()


class HttpChannel(Channel):
    """The counterpart of a stream's channel: each written message is a POST of its own. Never congested."""

    def __init__(self, write: Callable[..., object], send: Callable[[Exchange], None]) -> None:
        self.on_drained = self.on_congested = lambda: None
        self.congested = False
        self._post = write
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._due: list[Exchange] = []

    def write(self, *pieces: bytes | memoryview) -> None:
        self._post(*pieces)

    def send(self, exchange: Exchange) -> None:
        """Send something at the end of this turn of the loop, with what else is ready."""
        self._due.append(exchange)
        if len(self._due) == 1:
            DIRTY.append(self)
            if len(DIRTY) == 1 and not TURN.is_open:
                self._loop.call_soon(flush_all)

    def flush(self) -> None:
        due, self._due = self._due, []
        for each in due:
            self._send(each)

    @property
    def position(self) -> int | None:  # type: ignore[override]  # a stream has one
        return None

    def start_reading(self) -> None:
        """Nothing is read here."""

    hold_reading = release_reading = pause_reading = start_reading

    def has_input(self) -> bool:
        return False
