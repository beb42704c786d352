"""The links over HTTP: Streamable HTTP, and the older transport with one event stream (HTTP+SSE).

The connection is lost when the server refuses the session or forgets it, and over the older transport when
the event stream ends. Over Streamable HTTP the stream of the messages that the server sends on its own is
opened again, after growing delays, whenever it ends or fails.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Required, TypedDict, Unpack
from urllib.parse import urljoin

import anyio

from mcpx.core.config import Http, Sse
from mcpx.core.servers.accounts import Authorizer
from mcpx.core.servers.transport.exchange import PERMISSION_STATUSES, HttpFailure, HttpLink, Refused
from mcpx.core.servers.transport.http_answers import Event, Redact
from mcpx.core.servers.transport.http_dispatcher import HttpDispatcher
from mcpx.core.servers.transport.http_network import open_network
from mcpx.core.servers.transport.http_pool import Url, read_url
from mcpx.core.servers.transport.http_streams import Note, Stream
from mcpx.core.servers.transport.link import ConnectionLost, Hooks

if TYPE_CHECKING:
    from mcpx.core.servers.transport.program import Program

TERMINATE_TIMEOUT_S: Final = 1.0  # to end the session; a server that hangs is left without
STABLE_STREAM_S: Final = 10.0  # a stream that lived so long was a good one
MIN_RETRY_DELAY_S: Final = 0.5  # before a stream that broke at once is opened again; doubled each time
MAX_RETRY_DELAY_S: Final = 60.0


class Options(TypedDict, total=False):
    """The parameters of a link, beside its transport (`connecting.open_link`)."""

    limit: Required[int]
    """The longest message, in bytes."""
    hooks: Required[Hooks]
    redact: Required[Redact]
    """Removes secrets from errors."""
    authorizer: Authorizer | None
    """Puts tokens on requests over HTTP."""
    program: Program | None
    """The program that MCPX has started at the port."""


@asynccontextmanager
async def open_http(http: Http, **options: Unpack[Options]) -> AsyncIterator[HttpLink]:
    """Open a link over Streamable HTTP. Nothing is sent before the first request.

    Raises:
        ConnectionLost: Its certificates, or its URL, cannot be used.
    """
    async with _dispatcher_of(http, options) as dispatcher, anyio.create_task_group() as tasks:
        dispatcher.on_initialized = lambda: dispatcher.network.spawn(_listen, dispatcher)
        try:
            yield dispatcher.link
        finally:
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await _terminate(dispatcher)


@asynccontextmanager
async def _dispatcher_of(remote: Http | Sse, options: Options) -> AsyncIterator[HttpDispatcher]:
    """Open the connections to a server, without a session. Of a program the end is watched."""
    program, hooks = options.get("program"), options["hooks"]
    async with open_network(
        remote.url,
        remote.headers,
        tls=remote.tls,
        authorizer=options.get("authorizer"),
        direct=program is not None,
    ) as network:
        dispatcher = HttpDispatcher(
            network, limit=options["limit"], on_malformed=hooks.on_malformed, redact=options["redact"]
        )
        link = dispatcher.link = HttpLink(dispatcher, dispatcher.renew, hooks.on_events_missed)
        link.reach = network.reach
        if program is None:
            yield dispatcher
            return
        async with program.watched(link):
            yield dispatcher


async def _listen(dispatcher: HttpDispatcher) -> None:
    """Take the server's own messages from a stream of its own, for as long as the session lives."""
    failures, after, begun_at = 0, b"", 0.0
    link = dispatcher.link

    def take(event: Event) -> None:
        nonlocal after
        after = event.fields.get(b"id", after)
        if event.is_message and event.data is not None:
            dispatcher.take(event.data, None)

    def opened() -> None:
        nonlocal begun_at
        if begun_at:
            link.events_missed()
        begun_at = anyio.current_time()

    while dispatcher.session_id is not None:
        if failures:
            await anyio.sleep(min(MIN_RETRY_DELAY_S * 2 ** (failures - 1), MAX_RETRY_DELAY_S))
        stream = Stream(dispatcher, take, after=after or None, on_open=opened, skips=True)
        dispatcher.standing.add(stream)
        dispatcher.network.send(stream)
        try:
            await stream.over.wait()
        finally:
            dispatcher.standing.discard(stream)
            stream.stop()
        if stream.opened:
            is_stable = anyio.current_time() - begun_at >= STABLE_STREAM_S
            failures = 0 if is_stable else failures + 1
            link.mark_suspect()
        elif stream.status is not None and not _is_temporary(stream.status):
            return  # the server is never going to have one
        else:
            failures += 1
            if stream.status is None:
                link.mark_suspect()


def _is_temporary(status: int) -> bool:
    """True if a stream that was refused may be granted later."""
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return True
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.NOT_IMPLEMENTED


async def _terminate(dispatcher: HttpDispatcher) -> None:
    """End the session at the server, unless it is lost anyway."""
    if dispatcher.session_id is None or dispatcher.link.lost.happened:
        return
    over = anyio.Event()
    headers = dispatcher.headers("", {})
    headers.pop("content-type", None)
    network = dispatcher.network
    note = Note(dispatcher, network.request("DELETE", headers), lambda _note: over.set())
    with anyio.move_on_after(TERMINATE_TIMEOUT_S):
        network.send(note)
        await over.wait()


@asynccontextmanager
async def open_sse(sse: Sse, **options: Unpack[Options]) -> AsyncIterator[HttpLink]:
    """Open a link over the older transport, whose answers come on one event stream.

    Raises:
        ConnectionLost: The server cannot be reached, or has no such stream; of a program that has just been
            started, `await_listener` raises it.
    """
    async with _dispatcher_of(sse, options) as dispatcher, anyio.create_task_group() as tasks:
        link, network, found = dispatcher.link, dispatcher.network, anyio.Event()

        def take(event: Event) -> None:
            if event.fields.get(b"event") == b"endpoint":
                dispatcher.posts_to = dispatcher.posts_to or _endpoint(network.url, event)
                found.set()
            elif event.is_message and event.data is not None:
                dispatcher.take(event.data, None)

        stream = Stream(dispatcher, take, skips=True)

        async def watch() -> None:
            await stream.over.wait()
            found.set()
            await _lose(link, stream.reason, options.get("program"))

        async def begin() -> None:
            network.send(stream)
            tasks.start_soon(watch)
            await found.wait()
            if dispatcher.posts_to is None:
                raise _no_stream(stream)

        try:
            if link.by_program:
                link.once_it_listens = begin
            else:
                await begin()
            yield link
        finally:
            stream.stop()
            tasks.cancel_scope.cancel()


async def _lose(link: HttpLink, reason: str, program: Program | None) -> None:
    link.closing.set(reason)
    if program is None or not await program.child.has_exited():  # else that is the better reason
        link.lost.set(reason)


def _endpoint(url: Url, event: Event) -> Url | None:
    """The URL that messages are posted to; None if it is of another origin, or cannot be read."""
    data = event.data if isinstance(event.data, bytes) else b""
    with suppress(HttpFailure, ValueError):
        found = read_url(urljoin(str(url), data.decode(errors="replace")))
        if found.origin == url.origin and not found.userinfo:
            return found
    return None


def _no_stream(stream: Stream) -> Exception:
    """The error for a missing stream, or a missing place to post to."""
    error = stream.error
    if isinstance(error, HttpFailure):
        return error
    if isinstance(error, Refused):
        return ConnectionLost(str(error), retryable=error.status not in PERMISSION_STATUSES)
    if error is None and not stream.over.is_set():
        return ConnectionLost("the server names no endpoint of its own origin to post to")
    return ConnectionLost(str(error or stream.reason))
