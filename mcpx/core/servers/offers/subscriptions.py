"""The subscriptions to one server's resources: one upstream for all listeners, kept over reconnects.

Belongs to a session and outlives its incarnations; that of the main one goes on over a reload. The first
listener of a URI makes MCPX subscribe (`resources/subscribe`, or the stream of 2026-07-28), the last one to
leave ends it. `serve` runs beside the calls of one incarnation. After a reconnect it subscribes again, and
notifies the listeners once if the content differs from what they were last notified of. When in doubt it
notifies them: a needless update costs one read, a missed one leaves them with old content for good.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import anyio
import anyio.abc
import structlog
from msgspec.structs import replace

from mcpx.core.protocol.requests import INTERNAL_CONTEXT, Subscribe, Unsubscribe
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.servers.offers.resource_updates import Listener, Opened, Provider, Support, Topic, UpdateStream
from mcpx.core.servers.session.upstream_session import UpstreamSession
from mcpx.core.text import shown_uri
from mcpx.errors import CallError, Code
from supervisors import Signal

log = structlog.get_logger()
MAX_CONCURRENT: Final = 4  # digests being read, and subscriptions being renewed
RETRY_DELAY_S: Final = 1.0  # after the server's queue was full


class Subscriptions:
    """The listeners of one server's resources; `provider` is the session that it is asked on.

    A topic that there is no more for clients is silent, and the server is not asked for it.
    """

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._server = provider.config.name
        self._patience = provider.config.call_limits.queue_timeout  # for the server to agree
        self._support = Support(provider)
        self._topics: dict[str, Topic] = {}
        self._session: UpstreamSession | None = None
        self._wanted = Signal()  # set when the URIs with listeners have changed
        self._work = Signal()  # set when a digest is to be read
        self._log = log.bind(server=self._server)

    def move_to(self, provider: Provider) -> None:
        """Continue with another session in place of the last one, whose configuration has changed."""
        self._provider = self._support.provider = provider
        self.policy_changed()

    @property
    def uris(self) -> list[str]:
        """The URIs that have listeners who may hear of them, sorted."""
        return sorted(uri for uri, topic in self._topics.items() if not topic.silent)

    def policy_changed(self) -> None:
        """End, at the server, the subscriptions that are admitted no more; begin those again that are."""
        for topic in list(self._topics.values()):
            silent = not self._provider.admits_resource(topic.uri)
            if silent is topic.silent:
                continue
            topic.silent = silent
            if self._support.is_modern:
                self._wanted.set()
            elif self._session is not None and topic.established:
                self._ask_again(topic)

    def _ask_again(self, topic: Topic) -> None:
        request = Unsubscribe(topic.uri, safe=False, context=INTERNAL_CONTEXT)
        with suppress(CallError):  # the session is ending: the next one is asked for what is wanted then
            if topic.silent:
                self._provider.submit(request, RawReply())
            else:
                again = Subscribe(topic.uri, context=INTERNAL_CONTEXT)
                self._provider.submit(again, RawReply(lambda _reply: self._check(topic)))

    # --- for listeners

    async def subscribe(self, uri: str, listener: Listener, meta: bytes = b"") -> None:
        """Have `listener` called with changes of `uri` until `unsubscribe`. Waits for the server to agree.

        `meta` is passed on where it is the first listener (`RequestContext.meta`).

        Raises:
            CallError: The server refuses, has no resources, or does not answer in time.
        """
        await self._provider.queue.wait_awake()
        self._support.require()
        if not self._provider.admits_resource(uri):
            text = f"{self._server} has no resource {shown_uri(uri)}"
            raise CallError(Code.UNKNOWN_RESOURCE, text, server=self._server)
        topic = self._topics.get(uri)
        if topic is None:
            topic = self._topics[uri] = Topic(uri)
            self._begin(topic, meta)
        topic.listeners.append(listener)
        agreed = False
        try:
            with anyio.move_on_after(self._patience):
                await topic.settled.wait()
            if topic.error is not None:
                raise topic.error
            if not topic.settled.is_set():
                text = f"{self._server} did not confirm the subscription within {self._patience:g} s"
                raise CallError(Code.TIMEOUT, text, server=self._server)
            agreed = True
        finally:
            if not agreed:
                self._leave(topic, listener)

    def unsubscribe(self, uri: str, listener: Listener) -> None:
        """Remove this listener; do nothing where it is not subscribed."""
        if (topic := self._topics.get(uri)) is not None:
            self._leave(topic, listener)

    # --- with the server

    def _begin(self, topic: Topic, meta: bytes) -> None:
        if self._support.is_modern:
            self._wanted.set()
            return
        try:
            self._provider.submit(
                Subscribe(topic.uri, context=replace(INTERNAL_CONTEXT, meta=meta)),
                RawReply(lambda reply: self._settle(topic, reply)),
            )
        except CallError as error:
            self._fail(topic, error)

    def _settle(self, topic: Topic, reply: RawReply) -> None:
        if isinstance(reply.error, CallError):
            self._fail(topic, reply.error)
        else:
            self._confirm(topic)

    def _confirm(self, topic: Topic) -> None:
        if not topic.settled.is_set():
            topic.settled.set()
            topic.outdated = True
            self._work.set()

    def _fail(self, topic: Topic, error: CallError) -> None:
        """End a subscription that the server has refused."""
        if self._session is not None:
            self._support.note(error)
        topic.error = error
        topic.settled.set()
        if self._topics.get(topic.uri) is topic:
            del self._topics[topic.uri]

    def _leave(self, topic: Topic, listener: Listener) -> None:
        if listener in topic.listeners:
            topic.listeners.remove(listener)
        if topic.listeners or self._topics.get(topic.uri) is not topic:
            return
        del self._topics[topic.uri]
        if self._support.is_modern:
            self._wanted.set()
        elif self._session is not None:
            with suppress(CallError):  # the session is ending, and the subscription with it
                self._provider.submit(
                    Unsubscribe(topic.uri, safe=False, context=INTERNAL_CONTEXT), RawReply()
                )

    # --- updates from the server

    def handle_update(self, uri: str) -> None:
        """The server announced on its session that a resource changed; a stream has its own events."""
        if self._session is None or not self._session.modern:
            self.updated(uri)

    def updated(self, uri: str) -> None:
        """Notify the listeners: the server announced on some session that a resource changed."""
        if not self._provider.admits_resource(uri):
            return
        exact = self._topics.get(uri)
        topics = [exact] if exact else [topic for topic in self._topics.values() if topic.covers(uri)]
        for topic in topics:
            topic.outdated, topic.maybe_missed = True, False
            self._work.set()
            topic.notify(uri)

    # --- one incarnation

    async def serve(self, session: UpstreamSession) -> None:
        """Maintain the subscriptions for as long as the session lives."""
        self._session = session
        self._support.forget()
        try:
            async with anyio.create_task_group() as tasks:
                if session.modern:
                    stream = UpdateStream(session.client, self.updated, self._log)
                    tasks.start_soon(stream.keep, self._wanted, lambda: self.uris, self._opened)
                else:
                    self._renew_all(tasks)
                await self._read_digests(tasks)
        finally:
            if self._session is session:  # else a server that was replaced ends after the next has begun
                self._session = None
                self._support.forget()

    def _renew_all(self, tasks: anyio.abc.TaskGroup) -> None:
        limiter = anyio.CapacityLimiter(MAX_CONCURRENT)
        for topic in list(self._topics.values()):
            if topic.established and not topic.silent:
                tasks.start_soon(self._renew, topic, limiter)

    async def _renew(self, topic: Topic, limiter: anyio.CapacityLimiter) -> None:
        async with limiter:
            while self._topics.get(topic.uri) is topic:
                reply = RawReply()
                try:
                    self._provider.submit(Subscribe(topic.uri, context=INTERNAL_CONTEXT), reply)
                    await reply.wait()
                except CallError as error:
                    if error.code is Code.OVERLOADED:
                        await anyio.sleep(RETRY_DELAY_S)
                        continue
                    self._log.warning("upstream.unsubscribed", uri=topic.uri, reason=str(error))
                break
        self._check(topic)

    def _check(self, topic: Topic) -> None:
        topic.maybe_missed = True
        self._work.set()

    def _opened(self, opened: Opened) -> None:
        for topic in [topic for uri in opened.wanted if (topic := self._topics.get(uri)) is not None]:
            if topic.uri in opened.honoured:
                if topic.established and opened.after_a_gap:
                    self._check(topic)
                self._confirm(topic)
            elif not topic.established:
                self._fail(topic, self._support.refusal(opened.error))

    # --- digests

    async def _read_digests(self, tasks: anyio.abc.TaskGroup) -> None:
        limiter = anyio.CapacityLimiter(MAX_CONCURRENT)
        while True:
            for topic in self._topics.values():
                if topic.needs_reading:
                    topic.reading = True
                    tasks.start_soon(self._refresh_digest, topic, limiter)
            await self._work.wait()
            self._work.clear()

    async def _refresh_digest(self, topic: Topic, limiter: anyio.CapacityLimiter) -> None:
        try:
            await topic.refresh_digest(self._provider, limiter)
        finally:
            topic.reading = False
            self._work.set()  # it may be outdated again
