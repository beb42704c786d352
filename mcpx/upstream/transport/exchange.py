"""What became of one HTTP request, told by the HTTP client to whoever asked.

The SDK turns every failure of an HTTP exchange into a JSON-RPC error that no longer says what happened. So
whoever sends a request puts an `Exchange` into the context that the SDK carries along to the HTTP client,
and the client tells it there what went wrong, in one of the words below, before the SDK's error arrives.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from http import HTTPStatus
from typing import Final, TypeVar

import anyio

T = TypeVar("T")
ABANDONED_S: Final = 5.0  # for a server to end an answer that nobody waits for; then it is hung up on
_SENDING: Final = "send_request_headers.started"
_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}


class NotCarriedOut(Exception):  # noqa: N818 - a condition
    """The server provably did not run the request: it was not reached, or it does not know the session."""


class Dropped(Exception):  # noqa: N818 - a condition
    """The connection of this one exchange ended before the answer; the request may have been run."""


class Refused(Exception):  # noqa: N818 - a condition
    """The server answered with an HTTP status in place of a message.

    `retry_after_s` is the time it asks to wait, in seconds; `said` is its own explanation, if it gave one.
    """

    def __init__(self, status: int, *, retry_after_s: float | None = None, said: str = "") -> None:
        text = f"the server answers HTTP {status}"
        if phrase := _PHRASES.get(status):
            text += f" ({phrase})"
        if said:
            text += f": {said}"
        if retry_after_s is not None:
            text += f"; it asks to wait {retry_after_s:g} s"
        super().__init__(text)
        self.status = status
        self.retry_after_s = retry_after_s


class Exchange:
    """One request on its way, for `seconds` at most. `on_failure` is called once at most; it never raises."""

    def __init__(self, on_failure: Callable[[Exception], None], *, seconds: float = math.inf) -> None:
        self._on_failure = on_failure
        self._deadline = anyio.current_time() + seconds
        self._waits: set[anyio.CancelScope] = set()
        self.answered = False
        """Whether a message of the server's answered it: an error without one is the SDK's own."""
        self.begun = False
        """Whether a byte of it may have been sent."""
        self.over = False
        """Whether it has failed, or nobody waits for its answer any more."""

    async def trace(self, event: str, _info: object) -> None:
        """Hear of the steps of the exchange, by the HTTP library's names for them. Raises NotCarriedOut."""
        if event.endswith(_SENDING):
            if self.over and not self.begun:
                raise NotCarriedOut("it was taken back")
            self.begun = True

    def recall(self) -> bool:
        """Take it back: whether not a byte of it was sent, nor will be."""
        if not self.begun:
            self.over = True
        return not self.begun

    def fail(self, error: Exception) -> None:
        """There will be no answer, for this reason. The first one counts."""
        if not self.over:
            self.over = True
            self._on_failure(error)

    def abandon(self) -> None:
        """Nobody waits any more: what is being received ends soon, whatever the server does."""
        self.over = True
        self._deadline = min(self._deadline, anyio.current_time() + ABANDONED_S)
        for scope in self._waits:
            scope.deadline = self._deadline

    async def within(self, awaited: Awaitable[T]) -> T | None:
        """Wait for something of the server's; None when the time is over."""
        with anyio.CancelScope(deadline=self._deadline) as scope:
            self._waits.add(scope)
            try:
                return await awaited
            finally:
                self._waits.discard(scope)
        return None


CURRENT: Final[ContextVar[Exchange | None]] = ContextVar("mcpx_exchange", default=None)
"""The exchange that requests sent in this context belong to."""


@contextmanager
def overheard() -> Iterator[list[Exception]]:
    """What goes wrong with the HTTP exchange of a request made inside this; nobody waits for it after it."""
    failures: list[Exception] = []
    exchange = Exchange(failures.append)
    token = CURRENT.set(exchange)
    try:
        yield failures
    finally:
        CURRENT.reset(token)
        exchange.abandon()
