"""Actors: a mailbox, the function that serves it, and a reference for those who send.

An actor's state is touched by its own `handle` only, one message at a time. Others hold an `ActorRef` and
`tell` it something or `ask` it for an answer. The reference and the mailbox outlive the actor's
incarnations, so that senders need not know about restarts. `Actor.run` is the function for a `ChildSpec`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, TypeVar

import anyio

from supervisors.child import Incarnation
from supervisors.mailbox import Mailbox
from supervisors.reply import Reply

M = TypeVar("M")


class Envelope(Generic[M]):
    """A message in a mailbox, with the slot for its answer where one is wanted."""

    __slots__ = ("message", "reply")

    def __init__(self, message: M, reply: Reply[Any] | None) -> None:
        self.message = message
        self.reply = reply


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
        envelope = Envelope(message, reply)
        reply.on_abandon = lambda: not self.mailbox.discard(envelope)
        self.mailbox.put(envelope)
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
        """What is open while an incarnation runs; entered before it is ready, left in the same task."""
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
