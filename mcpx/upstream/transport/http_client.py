"""The HTTP client under the SDK's transports: it sees what each exchange comes to, and lets none end more.

The SDK's transports end the whole session when one exchange breaks, and wait for as long as a server likes.
This client gives them an answer in every case: the server's, or a JSON-RPC error in its place, and tells the
`Exchange` of the request why. To the link (`Told`) it says what an exchange means for the session:

* nobody listens: it takes nothing new; a server that is being stopped may still finish what it has;
* the session is not known (404), or it is not allowed (401, 403): the session is lost;
* a connection broke, or another status refused a request: there is reason to look (`suspect`).

Messages are bounded by `limit` bytes, and every other body (of redirects, refusals, and answers to what has
no answer) by 64 KiB: the SDK, which reads them whole, is given none. Whatever is not a call ends after
`OTHERS_S` at the latest.
"""

from __future__ import annotations

import functools
import math
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from http.cookiejar import CookieJar
from typing import Any, Final

import anyio
import httpx2
from mcp.shared._httpx_utils import next_request_within_origin, redirect_location
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, ErrorData, JSONRPCError

from mcpx.upstream.errors import PERMISSION_STATUSES
from mcpx.upstream.transport import http_answers
from mcpx.upstream.transport.exchange import CURRENT, Dropped, Exchange, NotCarriedOut, Refused
from mcpx.upstream.transport.http_answers import SESSION, Asked, Redact
from mcpx.upstream.transport.http_body import (
    ENCODINGS,
    inflated,
    kept_headers,
    read_beginning,
    read_whole,
    without_body,
)
from mcpx.upstream.transport.http_notify import Notifier
from mcpx.upstream.transport.http_stream import EventBody, Listening, Told, session_over
from mcpx.wire.outgoing import MalformedMessage, ResponseTooLarge

CONNECT_S: Final = 10.0  # to open a connection: a host that takes longer is not there
WRITE_S: Final = 30.0  # for the server to take the next piece of a request
OTHERS_S: Final = 120.0  # for what is neither a call nor a stream, and has no deadline of its own
LEAVE_S: Final = 1.0  # to say that the session is over; a server that hangs is left without
LOOK_S: Final = 2.0  # for a ping in a session that is in doubt
MOST_REDIRECTS: Final = 5  # of one request, all within its origin
MOST_CONNECTIONS: Final = 256  # to one server, its streams among them
MOST_COOKIES: Final = 50  # a load balancer sets one or two
SSE_EVENT_BYTES: Final = 1_000_000  # the SDK takes no more over the older transport
KEEP_S: Final = 4.0  # an idle connection; many servers close theirs after 5, and a race with that is lost

_FORGOTTEN: Final = httpx2.codes.NOT_FOUND  # of a session: the server does not know it any more
_PING: Final = {"jsonrpc": "2.0", "id": "mcpx-ping", "method": "ping"}
_STREAMS: Final = "subscriptions/listen"  # a request that is answered for as long as the session lives
_ORDERED: Final = "notifications/initialized"  # what follows it may depend on it
_UNREACHABLE: Final = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)
_FAILURES: Final = (NotCarriedOut, Dropped, Refused, ResponseTooLarge, MalformedMessage)

Apart = Callable[[JSONRPCError], Awaitable[None]]
"""Delivers an answer where answers do not come with the request, but on a stream of their own."""


class GuardedClient(httpx2.AsyncClient):
    """Bind `told` once there is a link; until then a failure is raised as it is."""

    def __init__(
        self,
        limit: int,
        headers: dict[str, str] | None,
        *,
        redact: Redact,
        auth: httpx2.Auth | None = None,
    ) -> None:
        """`redact` takes the secrets out of what the server says and MCPX shows."""
        sent = httpx2.Headers(headers)
        sent["Accept-Encoding"] = ENCODINGS
        super().__init__(
            headers=sent,
            auth=auth,
            timeout=httpx2.Timeout(None, connect=CONNECT_S, write=WRITE_S),
            limits=httpx2.Limits(max_connections=MOST_CONNECTIONS, keepalive_expiry=KEEP_S),
            max_redirects=MOST_REDIRECTS,
            verify=certificates(),
            cookies=_FewCookies(),
        )
        self.told: Told | None = None
        self.apart: Apart | None = None
        self.notifier = Notifier(super().send)
        self.event_stream: EventBody | None = None
        """The stream that was opened first, before there was a link: that of the older transport."""
        self._limit = limit
        self._redact = redact
        self._listening = Listening()

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request, with the options of any such client. Every answer is read here, or as a stream."""
        options["stream"] = True
        await request.aread()  # the request that follows a redirect has its body as a stream
        if self.told is None:
            return await self._first_stream(await super().send(request, **options))
        match request.method:
            case "POST":
                return await self._post(self.told, request, options)
            case "GET":
                return await self._get(self.told, request, options)
            case _:
                return await self._leave(self.told, request, options)

    # --- requests

    async def _post(self, told: Told, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        asked = http_answers.asked_in(request)
        if asked.id is None:
            in_order = asked.method == _ORDERED
            return await self.notifier.post(told, request, options, in_order=in_order)
        longest = math.inf if asked.method == _STREAMS else OTHERS_S
        exchange = CURRENT.get() or Exchange(lambda _error: None, seconds=longest)
        try:
            response = await self._reach(told, request, options, exchange)
            try:
                return await self._judge(told, response, asked, exchange)
            except BaseException:
                with anyio.CancelScope(shield=True):  # closing does not wait for the server
                    await response.aclose()
                raise
        except _FAILURES as error:
            if told.trouble is None:
                told.trouble = str(error)
            exchange.fail(error)
            return await self._stand_in(request, asked, error)

    async def _reach(
        self, told: Told, request: httpx2.Request, options: dict[str, Any], exchange: Exchange
    ) -> httpx2.Response:
        """Send it, and wait for the head of the answer."""
        request.extensions = {**request.extensions, "trace": exchange.trace}
        try:
            response = await exchange.within(super().send(request, **options))
        except _UNREACHABLE as error:
            told.trouble, told.curable = f"the server cannot be reached: {self._words(error)}", True
            if told.established:
                told.close(told.trouble)
            raise NotCarriedOut(told.trouble) from error
        except httpx2.HTTPError as error:
            told.suspect()
            if not exchange.begun:
                raise NotCarriedOut(f"no connection could be used: {self._words(error)}") from error
            raise Dropped(f"the connection was dropped before the answer: {self._words(error)}") from error
        if response is None:
            raise Dropped("the answer did not begin in time")
        return response

    async def _judge(
        self, told: Told, response: httpx2.Response, asked: Asked, exchange: Exchange
    ) -> httpx2.Response:
        if response.is_error:
            return await self._refused(told, response, asked, exchange)
        if response.is_redirect:
            if next_request_within_origin(response) is not None:
                return await without_body(response)  # the SDK follows it
            raise http_answers.redirected(response, redirect_location(response), self._redact)
        told.fine()
        if self.apart is not None:
            exchange.answered = True  # what the stream brings is not known here
            return await without_body(response)
        match http_answers.content_type(response):
            case "application/json":
                data = http_answers.answer_in(await self._read(response, exchange), asked)
                exchange.answered = True
                status, headers = response.status_code, kept_headers(response)
                return httpx2.Response(status, headers=headers, content=data, request=response.request)
            case "text/event-stream":
                return EventBody(response, self._limit, told, exchange, self._redact).as_response()
        raise http_answers.unexpected(response)

    async def _read(self, response: httpx2.Response, exchange: Exchange) -> bytes:
        body = inflated(response.aiter_raw(), response.headers.get("content-encoding", ""))
        try:
            data = await exchange.within(read_whole(body, self._limit))
        except httpx2.HTTPError as error:
            raise Dropped(
                f"the connection was dropped in the middle of the answer: {self._words(error)}"
            ) from error
        if data is None:
            raise Dropped("the answer did not end in time")
        await response.aclose()
        return data

    # --- refusals

    async def _refused(
        self, told: Told, response: httpx2.Response, asked: Asked, exchange: Exchange
    ) -> httpx2.Response:
        """An HTTP error: raises what it means, or returns it if it has the server's own JSON-RPC error."""
        status, sent = response.status_code, response.request
        about = http_answers.explanation(response, await read_beginning(response), self._redact)
        refused = Refused(status, retry_after_s=http_answers.retry_after(response), said=about.said)
        if status in PERMISSION_STATUSES:
            raise session_over(told, f"the server refuses the session: {refused}", curable=False)
        if SESSION in sent.headers and (
            status == _FORGOTTEN or (http_answers.is_unread(status, about) and not await self._is_known(sent))
        ):
            raise session_over(told, f"the server does not know the session any more (HTTP {status})")
        if http_answers.is_its_own(about, response, asked):
            exchange.answered = True
            headers = {"Content-Type": "application/json"}
            return httpx2.Response(status, headers=headers, content=about.as_answer(asked), request=sent)
        if response.is_client_error and status != httpx2.codes.TOO_MANY_REQUESTS:
            told.suspect()
        raise refused

    async def _is_known(self, request: httpx2.Request) -> bool:
        """Whether the server takes a ping in the session of a request that it did not read."""
        headers = {name: value for name, value in request.headers.items() if name != "content-length"}
        ping = self.build_request("POST", request.url, headers=headers, json=_PING)
        with anyio.move_on_after(LOOK_S), suppress(httpx2.HTTPError):
            response = await super().send(ping, stream=True)
            await response.aclose()
            return response.status_code not in {_FORGOTTEN, httpx2.codes.BAD_REQUEST}
        return True

    def _words(self, error: Exception) -> str:
        return http_answers.words(error, self._redact)

    async def _stand_in(self, request: httpx2.Request, asked: Asked, error: Exception) -> httpx2.Response:
        """A JSON-RPC error in the place of the answer that does not come."""
        code = CONNECTION_CLOSED if isinstance(error, NotCarriedOut | Dropped) else INTERNAL_ERROR
        message = JSONRPCError(jsonrpc="2.0", id=asked.id, error=ErrorData(code=code, message=str(error)))
        if self.apart is not None:
            await self.apart(message)
            return httpx2.Response(httpx2.codes.ACCEPTED, request=request)
        return httpx2.Response(httpx2.codes.OK, json=message.model_dump(exclude_none=True), request=request)

    # --- streams, and the end

    async def _get(self, told: Told, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        exchange = CURRENT.get()
        if exchange is None:
            opening = partial(super().send, request, **options)
            return await self._listening.open(told, self._limit, opening, self._redact)
        if exchange.over:  # a stream to be taken up again that nobody waits for
            return httpx2.Response(httpx2.codes.GONE, request=request)
        response = await exchange.within(super().send(request, **options))
        if response is None:
            return httpx2.Response(httpx2.codes.GONE, request=request)
        if not _is_event_stream(response):
            return await without_body(response)
        return EventBody(response, self._limit, told, exchange, self._redact).as_response()

    async def _first_stream(self, response: httpx2.Response) -> httpx2.Response:
        """The one stream of the older transport, which is there before the link is."""
        if not _is_event_stream(response):
            return await without_body(response)
        limit = min(self._limit, SSE_EVENT_BYTES)
        self.event_stream = EventBody(response, limit, None, None, self._redact)
        return self.event_stream.as_response()

    async def _leave(self, told: Told, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """End the session at the server, if it is there to be told."""
        if not told.lost.is_set():
            with anyio.move_on_after(LEAVE_S):
                with suppress(httpx2.HTTPError):
                    await (await super().send(request, **options)).aclose()
        return httpx2.Response(httpx2.codes.NO_CONTENT, request=request)


class _FewCookies(CookieJar):
    """Keeps the few cookies that a load balancer sets, and none of a server that sets very many."""

    def extract_cookies(self, response: Any, request: Any) -> None:
        if len(response.info().get_all("Set-Cookie", [])) <= MOST_COOKIES:
            super().extract_cookies(response, request)
        if len(self) > MOST_COOKIES:
            self.clear()


@functools.cache
def certificates() -> ssl.SSLContext:
    """Those that are trusted, read once for all: it takes 20 ms."""
    return httpx2.create_ssl_context()


def _is_event_stream(response: httpx2.Response) -> bool:
    return response.is_success and http_answers.content_type(response) == "text/event-stream"
