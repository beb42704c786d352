"""The subscriptions to one server's resources: one upstream for however many want it, kept over reconnects.

Belongs to the upstream actor and outlives its incarnations. A listener asks for a URI; the first one makes
MCPX subscribe (`resources/subscribe`, or the stream of 2026-07-28 in `listening`), the last one to leave ends
it. `serve` runs beside the calls of one incarnation: it subscribes again after a reconnect, and tells the
listeners once where the content is not what it was when they last heard of it. For that a digest of the
content is kept, read when a subscription begins and after each update. Where it cannot be told, they are
told: a needless update costs a read, a missed one is wrong for ever.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import anyio
import anyio.abc
import structlog
from mcp_types import METHOD_NOT_FOUND
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpx.catalog.model import Catalogue
from mcpx.errors import CallError, Code
from mcpx.observe.contained import contain
from mcpx.upstream.errors import call_error
from mcpx.upstream.offers.digest import Submit, read_digest
from mcpx.upstream.offers.update_stream import Opened, UpdateStream
from mcpx.upstream.queue import RawReply
from mcpx.upstream.requests import MCPX, Subscribe, Unsubscribe
from mcpx.upstream.session.upstream_session import UpstreamSession
from supervisors import Signal

log = structlog.get_logger()

Listener = Callable[[str], None]
"""Told the URI that changed: the one subscribed to, or one below it. Must not raise."""

AT_A_TIME: Final = 4  # digests being read, and subscriptions made again
PAUSE_S: Final = 1.0  # between two digests of one resource: a storm of updates is no storm of reads
AGAIN_S: Final = 1.0  # after the server's queue was full


class Topic:
    """One URI that somebody is subscribed to."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.listeners: list[Listener] = []
        self.error: CallError | None = None
        self.settled = anyio.Event()  # the server has said yes, or there is an error
        self.digest: bytes | None = None
        self.stale = False  # the digest is to be read
        self.doubtful = False  # it may have changed unnoticed: the digest decides
        self.reading = False
        self.read_at = -math.inf  # by the loop's clock

    @property
    def established(self) -> bool:
        """Whether the server has agreed, at some time."""
        return self.settled.is_set() and self.error is None


class Subscriptions:
    """Who listens to which of one server's resources."""

    def __init__(
        self,
        server: str,
        submit: Submit,
        catalogue: Callable[[], Catalogue | None],
        *,
        patience: float,
    ) -> None:
        self._server = server
        self._submit = submit
        self._catalogue = catalogue
        self._patience = patience
        self._topics: dict[str, Topic] = {}
        self._session: UpstreamSession | None = None
        self._wanted = Signal()  # set when the URIs that are wanted have changed
        self._work = Signal()  # set when a digest is to be read
        self._log = log.bind(server=server)

    def belong_to(self, submit: Submit, catalogue: Callable[[], Catalogue | None]) -> None:
        """Go on with another upstream in the place of the one so far: its configuration was changed."""
        self._submit = submit
        self._catalogue = catalogue

    @property
    def uris(self) -> list[str]:
        """What somebody is subscribed to now."""
        return list(self._topics)

    # --- for listeners

    async def subscribe(self, uri: str, listener: Listener) -> None:
        """Have `listener` told of changes of `uri` until `unsubscribe`. Waits for the server to agree.

        Raises:
            CallError: The server does not agree, offers no subscriptions, or does not answer in time.
        """
        self._require_capability()
        topic = self._topics.get(uri)
        if topic is None:
            topic = self._topics[uri] = Topic(uri)
            self._begin(topic)
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
        """Tell this listener no more; nobody else is affected. Does nothing where it is not subscribed."""
        if (topic := self._topics.get(uri)) is not None:
            self._leave(topic, listener)

    def _require_capability(self) -> None:
        catalogue = self._catalogue()
        offered = (catalogue.capabilities if catalogue else {}).get("resources") or {}
        if catalogue is not None and not offered.get("subscribe"):
            text = f"{self._server} offers no subscriptions to resources"
            said = {"code": METHOD_NOT_FOUND, "message": text}  # as it would answer itself
            raise CallError(Code.UPSTREAM_ERROR, text, server=self._server, details={"upstream": said})

    # --- with the server

    def _begin(self, topic: Topic) -> None:
        if self._is_modern():
            self._wanted.set()
            return
        try:
            self._submit(
                Subscribe(topic.uri, origin=MCPX), RawReply(lambda reply: self._answered(topic, reply))
            )
        except CallError as error:
            self._fail(topic, error)

    def _answered(self, topic: Topic, reply: RawReply) -> None:
        if isinstance(reply.error, CallError):
            self._fail(topic, reply.error)
        else:
            self._agree(topic)

    def _agree(self, topic: Topic) -> None:
        if not topic.settled.is_set():
            topic.settled.set()
            topic.stale = True
            self._work.set()

    def _fail(self, topic: Topic, error: CallError) -> None:
        """A subscription that never was: whoever waits for it is told."""
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
        if self._is_modern():
            self._wanted.set()
        elif self._session is not None:
            with suppress(CallError):  # it is going away, and the subscription with it
                self._submit(Unsubscribe(topic.uri, safe=False, origin=MCPX), RawReply())

    def _is_modern(self) -> bool:
        """Whether the server speaks 2026-07-28, as far as is known: it may not be there now."""
        catalogue = self._catalogue()
        return catalogue is not None and catalogue.protocol_version in MODERN_PROTOCOL_VERSIONS

    # --- what the server tells

    def notified(self, uri: str) -> None:
        """The server said on its session that a resource changed; with a stream, that is heard there."""
        if self._session is None or not self._session.modern:
            self._updated(uri)

    def _updated(self, uri: str) -> None:
        exact = self._topics.get(uri)
        # a server may name a part of what was subscribed to
        topics = [exact] if exact else [t for t in self._topics.values() if _is_below(uri, t.uri)]
        for topic in topics:
            topic.stale, topic.doubtful = True, False
            self._work.set()
            _tell(topic, uri)

    # --- one incarnation

    async def serve(self, session: UpstreamSession) -> None:
        """Keep the subscriptions for as long as the session lives."""
        self._session = session
        try:
            async with anyio.create_task_group() as tasks:
                if session.modern:
                    stream = UpdateStream(session.client, self._updated, self._log)
                    tasks.start_soon(stream.keep, self._wanted, self._open_topics, self._opened)
                else:
                    self._subscribe_again(tasks)
                await self._read_digests(tasks)
        finally:
            self._session = None

    def _subscribe_again(self, tasks: anyio.abc.TaskGroup) -> None:
        limiter = anyio.CapacityLimiter(AT_A_TIME)
        for topic in list(self._topics.values()):
            if topic.established:
                tasks.start_soon(self._resume, topic, limiter)

    async def _resume(self, topic: Topic, limiter: anyio.CapacityLimiter) -> None:
        async with limiter:
            while self._topics.get(topic.uri) is topic:
                reply = RawReply()
                try:
                    self._submit(Subscribe(topic.uri, origin=MCPX), reply)
                    await reply.wait()
                except CallError as error:
                    if error.code is Code.OVERLOADED:
                        await anyio.sleep(AGAIN_S)
                        continue
                    self._log.warning("upstream.unsubscribed", uri=topic.uri, reason=str(error))
                break
        self._doubt(topic)

    def _doubt(self, topic: Topic) -> None:
        topic.doubtful = True
        self._work.set()

    def _open_topics(self) -> list[str]:
        return sorted(self._topics)

    def _opened(self, opened: Opened) -> None:
        for topic in [topic for uri in opened.wanted if (topic := self._topics.get(uri)) is not None]:
            if topic.uri in opened.honoured:
                if topic.established and opened.after_a_gap:
                    self._doubt(topic)
                self._agree(topic)
            elif not topic.established:
                self._fail(topic, self._refusal(opened.error))

    def _refusal(self, error: Exception | None) -> CallError:
        if error is not None:
            return call_error(error, server=self._server, tool=None)
        text = f"{self._server} does not take the subscription"
        return CallError(Code.PROTOCOL_ERROR, text, server=self._server)

    # --- digests

    async def _read_digests(self, tasks: anyio.abc.TaskGroup) -> None:
        limiter = anyio.CapacityLimiter(AT_A_TIME)
        while True:
            for topic in self._topics.values():
                if (topic.stale or topic.doubtful) and topic.established and not topic.reading:
                    topic.reading = True
                    tasks.start_soon(self._look, topic, limiter)
            await self._work.wait()
            self._work.clear()

    async def _look(self, topic: Topic, limiter: anyio.CapacityLimiter) -> None:
        try:
            if not topic.doubtful:
                await anyio.sleep(max(0.0, topic.read_at + PAUSE_S - anyio.current_time()))
            async with limiter:
                unknown, topic.stale = topic.stale or topic.digest is None, False
                digest = await read_digest(self._submit, self._catalogue(), topic.uri)
            topic.read_at = anyio.current_time()
            if topic.doubtful and (unknown or digest is None or digest != topic.digest):
                _tell(topic, topic.uri)
            topic.doubtful = False
            topic.digest = digest
        finally:
            topic.reading = False
            self._work.set()  # it may have become stale meanwhile


def _tell(topic: Topic, uri: str) -> None:
    for listener in list(topic.listeners):
        try:
            listener(uri)
        except Exception as error:  # noqa: BLE001 - one listener must not keep the others from hearing
            contain(error, "resource update")


def _is_below(uri: str, topic: str) -> bool:
    return uri.startswith(topic if topic.endswith("/") else f"{topic}/")
