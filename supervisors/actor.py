"""Actors: a bounded mailbox, the function that serves it, a reference for those who send, and the reply.

An actor's state is touched by its own `handle` only, one message at a time. Others hold an `ActorRef` and
`tell` it something or `ask` it for an answer. The reference and the mailbox outlive the actor's
incarnations: messages survive a restart and wait for the next one, so that senders need not know about it.
`Actor.run` is the function for a `ChildSpec`.

While an incarnation serves a mailbox, a consumer is attached, and a message put in is consumed there and
then, in the sender's turn of the event loop; there is no task switch and no wake-up on the way. Otherwise
messages queue, up to the size.

A request carries a `Reply`, the slot for its answer. It is settled once, by the actor that serves the
request; it may be handed on from actor to actor until then. The asker either awaits it in a task or is called
back. When the asker goes away first, `on_abandon` tells the current holder.

Everything here is for one event loop, never shared by threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, TypeVar

import anyio
import msgspec

from supervisors.child import Incarnation
from supervisors.errors import MailboxClosed, MailboxFull

M = TypeVar("M")
R = TypeVar("R")


class Abandoned(Exception):
    """The asker no longer waits for the answer."""

    begun = False
    """True if its request may have been begun by then."""


class Reply(msgspec.Struct, Generic[R], eq=False):
    """One answer: a value or an error.

    `on_settled` is called with the slot when it is settled, if the asker does not `wait`. `on_abandon` is set
    by the current holder and called, once, when the asker goes away; it returns whether the request may have
    been begun. `observer` is called with the slot in any case, last. None of them may raise.
    """

    on_settled: Callable[[Reply[R]], object] | None = None
    on_abandon: Callable[[], object] | None = None
    observer: Callable[[Reply[R]], object] | None = None
    settled: bool = False
    value: R | None = None
    error: BaseException | None = None
    _event: anyio.Event | None = None

    def resolve(self, value: R | None, error: BaseException | None = None) -> bool:
        """Answer with `value`, or with an error instead; false if it was settled before."""
        if self.settled:
            return False
        self.settled, self.value, self.error = True, value, error
        self.on_abandon = None
        observer, self.observer = self.observer, None  # it may keep the slot: no cycle
        if self._event is not None:
            self._event.set()
        if self.on_settled is not None:
            self.on_settled(self)
        if observer is not None:
            observer(self)
        return True

    def reject(self, error: BaseException) -> bool:
        """Answer with an error, to be raised where it is awaited; false if it was settled before."""
        return self.resolve(None, error)

    def observe(self, observer: Callable[[Reply[R]], object]) -> None:
        """Have `observer` called too when the slot is settled, after the one that there is."""
        first = self.observer
        if first is None:
            self.observer = observer
            return

        def both(reply: Reply[R]) -> None:
            first(reply)
            observer(reply)

        self.observer = both

    def abandon(self) -> None:
        """Withdraw the request because the asker is gone; `on_settled` is not called."""
        if self.settled:
            return
        on_abandon, self.on_settled = self.on_abandon, None
        observer, self.observer = self.observer, None
        abandoned = Abandoned()
        self.reject(abandoned)
        if on_abandon is not None:
            abandoned.begun = bool(on_abandon())
        if observer is not None:
            observer(self)

    async def wait(self) -> R:
        """Return the answer, or raise what it was rejected with. Cancelling the wait abandons the request."""
        if not self.settled:
            self._event = anyio.Event()
            try:
                await self._event.wait()
            finally:
                self.abandon()
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # resolve() put an R there


class Mailbox(Generic[M]):
    """First in, first out; at most `size` messages wait.

    `put` on a full mailbox raises and leaves everything as it was: the overflow rule is to refuse the
    newest, because the oldest has waited longest. The consumer is never entered twice at a time: what is
    put in while it runs waits for its turn.
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"a mailbox holds at least 1 message, got {size}")
        self.size = size
        self.messages: deque[M] = deque()
        """The messages that wait, the oldest first: to be looked at only."""
        self._consumer: Callable[[M], object] | None = None
        self._consuming = False
        self._closed = False

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[M]:
        """Iterate over what waits now, in order."""
        return iter(tuple(self.messages))

    def put(self, message: M) -> None:
        """Have `message` consumed now, or put it at the end.

        Raises:
            MailboxFull: It holds `size` messages.
            MailboxClosed: `close` was called.
        """
        if self._closed:
            raise MailboxClosed("the mailbox is closed")
        if len(self.messages) >= self.size:
            raise MailboxFull(f"the mailbox holds {self.size} messages already")
        if self._consumer is None or self._consuming or self.messages:
            self.messages.append(message)
            return
        self._consuming = True
        try:
            self._consumer(message)
        finally:
            self._consuming = False
        if self.messages:  # put in, or back, meanwhile
            self._consume()

    def put_back(self, message: M) -> None:
        """Put a message that was consumed but not served at the front again; the size does not count."""
        self.messages.appendleft(message)

    def attach(self, consumer: Callable[[M], object]) -> None:
        """Give `consumer` every message until `detach`, those that wait first. It must not raise."""
        self._consumer = consumer
        if not self._consuming:
            self._consume()

    def detach(self) -> None:
        """Let messages wait from now on."""
        self._consumer = None

    def _consume(self) -> None:
        self._consuming = True
        try:
            while self.messages and self._consumer is not None:
                self._consumer(self.messages.popleft())
        finally:
            self._consuming = False

    def discard(self, message: M) -> bool:
        """Take `message` out again; false if it was not there."""
        try:
            self.messages.remove(message)
        except ValueError:
            return False
        return True

    def drain(self) -> list[M]:
        """Take out all messages, the oldest first."""
        taken = list(self.messages)
        self.messages.clear()
        return taken

    def close(self) -> list[M]:
        """Take no more; returns what was still waiting."""
        self._closed = True
        return self.drain()


class Envelope(msgspec.Struct, Generic[M], eq=False):
    """A message in a mailbox, with the slot for its answer where one is wanted."""

    message: M
    reply: Reply[Any] | None


class ActorRef(Generic[M]):
    """The address of an actor. Cheap; may be handed around freely on its event loop."""

    def __init__(self, name: str, mailbox_size: int) -> None:
        self.name = name
        self.mailbox: Mailbox[Envelope[M]] = Mailbox(mailbox_size)

    def tell(self, message: M) -> None:
        """Send `message` and go on.

        Raises:
            MailboxFull: It takes no more for now.
            MailboxClosed: It takes no more for good.
        """
        self.mailbox.put(Envelope(message, None))

    def request(self, message: M, reply: Reply[Any]) -> Envelope[M]:
        """Send `message` with a slot for the answer, and go on.

        It may be settled already when this returns. The envelope returned is what stands in the mailbox.

        Raises:
            MailboxFull: As in `tell`.
            MailboxClosed: As in `tell`.
        """
        envelope, mailbox = Envelope(message, reply), self.mailbox
        reply.on_abandon = _begun
        mailbox.put(envelope)
        if envelope in mailbox.messages:
            reply.on_abandon = lambda: not mailbox.discard(envelope)
        return envelope

    def put_back(self, message: M, reply: Reply[Any]) -> Envelope[M]:
        """Put a request that was taken at the head of the mailbox again; the size does not count."""
        envelope = Envelope(message, reply)
        reply.on_abandon = lambda: self.mailbox.discard(envelope) or True  # it was begun once
        self.mailbox.put_back(envelope)
        return envelope

    async def ask(self, message: M) -> Any:
        """Send `message` and wait for the answer. Cancelling it withdraws the message.

        Raises:
            MailboxFull: As in `tell`.
            MailboxClosed: As in `tell`.
            Exception: What the actor rejected the request with.
        """
        reply: Reply[Any] = Reply()
        self.request(message, reply)
        return await reply.wait()


class Actor(Generic[M]):
    """Serves the messages of one `ActorRef`, one at a time.

    Override `handle`, and `session` to hold something open for the length of an incarnation. An exception
    from either ends the incarnation; the supervisor decides what follows. A message whose handling failed
    is not handled again: its asker gets the exception.
    """

    def __init__(self, ref: ActorRef[M]) -> None:
        self.ref = ref

    def session(self) -> AbstractAsyncContextManager[None]:
        """The context of an incarnation; entered before it is ready, left in the same task."""
        return _nothing()

    def handle(self, message: M, reply: Reply[Any] | None) -> None:
        """Serve one message without waiting. Resolve or reject `reply`, hand it on, or keep it for later."""
        raise NotImplementedError

    async def run(self, incarnation: Incarnation) -> None:
        """One incarnation: open, say ready, serve until asked to leave."""
        crash = _Crash()

        def consume(envelope: Envelope[M]) -> None:
            reply = envelope.reply
            if reply is not None and reply.settled:
                return
            try:
                self.handle(envelope.message, reply)
            except Exception as error:  # noqa: BLE001 - it ends this actor, and never its sender
                self.ref.mailbox.detach()
                crash.report(error)
                if reply is not None:
                    reply.reject(error)

        async with self.session():
            incarnation.ready()
            self.ref.mailbox.attach(consume)
            try:
                await incarnation.while_wanted(crash.wait)
            finally:
                self.ref.mailbox.detach()


def _begun() -> bool:
    """Tell of a message that was consumed."""
    return True


class _Crash:
    """An exception on its way from the sender's turn to the actor's own task."""

    def __init__(self) -> None:
        self._happened = anyio.Event()
        self._error: Exception | None = None

    def report(self, error: Exception) -> None:
        self._error = error
        self._happened.set()

    async def wait(self) -> None:
        await self._happened.wait()
        if self._error is not None:
            raise self._error


@asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield
