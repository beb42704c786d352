"""The handshake: agreeing with a server on the era of the protocol.

A `Handshake` is one attempt, made with one process or connection. It asks in one era (`initialize`, or
`server/discover`), and only if the server refuses in the other. A process may also end at a question, or
never answer one: some accept nothing before `initialize`, others nothing but `server/discover`. Then
`in_another_process` says what to ask a fresh one, which `Attempts` does. `KnownEras` is what the sessions
with one server have learnt, so that the next one asks the right thing first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import anyio
import structlog

from mcpx.core.config import Era, Http, Placed, ServerConfig, Stdio
from mcpx.core.servers.call_errors import NotMCP
from mcpx.core.servers.causes import EraRefused, NoAnswer
from mcpx.core.servers.session.client_session import PassingSession
from mcpx.core.servers.session.greeting import Greeting
from mcpx.core.servers.transport.exchange import CLIENT_ERRORS, Refused, failure_of
from mcpx.core.servers.transport.link import ConnectionLost, Link
from mcpx.core.wire.envelope import UNSUPPORTED_PROTOCOL_VERSION, MCPError
from supervisors import Incarnation

log = structlog.get_logger()

SILENCE_S: Final = 10.0  # of a process that has read a question, before it is asked the other one too
HANDSHAKE_FIRST: Final[tuple[Era, ...]] = ("handshake", "modern")
MODERN_FIRST: Final[tuple[Era, ...]] = ("modern", "handshake")
_RETRYABLE: Final = frozenset({408, 425, 429})  # HTTP statuses that say nothing of the era


class Handshake:
    """One attempt. `eras` are those to ask in, the first choice first."""

    def __init__(self, eras: tuple[Era, ...], refused: Iterable[Era] = ()) -> None:
        self.eras = eras
        self.agreed: Era | None = None
        """The era that the server agreed to."""
        self.refused: set[Era] = set(refused)
        """The eras that it does not speak, by its own answer or its end."""
        self._greeting: Greeting | None = None
        self._errors: dict[Era, Exception] = {}
        self._asked: list[Era] = []
        self._closed: Exception | None = None  # the connection ended
        self._was_read = False  # a process has read what it was asked

    async def shake(self, session: PassingSession, link: Link) -> None:
        """Ask, and adopt what the server answers.

        Raises:
            EraRefused: It does not agree to the only era that it was asked in.
            MCPError: It refused the session, or the connection ended.
            RuntimeError: It names a revision that is not known.
            NotMCP: Its answer is none.
        """
        try:
            await self._ask_all(session, link)
        except BaseException:
            # only a process can have ended because of a question: a request over HTTP ends nothing
            self._was_read = link.by_pipe and link.first_unread() != 0
            raise

    async def _ask_all(self, session: PassingSession, link: Link) -> None:
        async with anyio.create_task_group() as tasks:
            for era in self.eras:
                failed = anyio.Event()
                tasks.start_soon(self._ask, session, era, failed, tasks.cancel_scope)
                await _failed_or_silent(failed, link)
                if self._closed is not None:
                    break
        if self._greeting is None:
            raise self._failure()
        await session.accept(self._greeting)
        self.agreed = "modern" if self._greeting.modern else "handshake"
        self.refused.discard(self.agreed)

    async def _ask(
        self, session: PassingSession, era: Era, failed: anyio.Event, race: anyio.CancelScope
    ) -> None:
        self._asked.append(era)
        ask = session.request_discover if era == "modern" else session.request_initialize
        try:
            greeting = await ask()
        except (MCPError, RuntimeError, NotMCP) as error:
            if session.ended:
                self._closed = error
            elif _is_refusal(error):
                self.refused.add(era)
            self._errors[era] = error
            failed.set()
        else:
            self._greeting = self._greeting or greeting
            race.cancel()

    def _failure(self) -> Exception:
        """Explain the lack of agreement by what was said to `initialize`, unless no revision is shared."""
        if self._closed is not None:
            return self._closed
        (first, error), *rest = self._errors.items()
        if not rest:
            return EraRefused(first, error) if first in self.refused else error
        modern = self._errors["modern"]
        shares_none = isinstance(modern, MCPError) and modern.code == UNSUPPORTED_PROTOCOL_VERSION
        return modern if shares_none else self._errors["handshake"]

    # --- a process that ended, or was silent

    def in_another_process(self) -> Handshake | None:
        """The handshake for a fresh process; None where the questions cannot be why this one failed."""
        if self.agreed or len(self.eras) == 1 or not self._was_read:
            return None
        first, second = self.eras
        if second in self._asked and first not in self.refused:
            return Handshake((first,))  # it was silent, until the second question came into the first
        return Handshake((second, first), refused={first})

    def explain(self, error: Exception) -> Exception:
        """The failure of an attempt; a process that ended at the only question does not speak that era."""
        if isinstance(error, EraRefused) or len(self.eras) > 1 or self.agreed or not self._was_read:
            return error
        return EraRefused(self.eras[0], error)


async def _failed_or_silent(failed: anyio.Event, link: Link) -> None:
    """Wait until the question has failed, or until a process that has read it has been silent for long."""
    if not link.by_pipe:
        await failed.wait()
    while not failed.is_set():
        with anyio.move_on_after(SILENCE_S):
            await failed.wait()
        if link.first_unread() != 0:
            return


def _is_refusal(error: Exception) -> bool:
    """True if a failed question says that the server does not speak the era."""
    failure = failure_of(error)
    if isinstance(failure, Refused):
        return failure.status in CLIENT_ERRORS and failure.status not in _RETRYABLE
    return failure is None


class KnownEras:
    """Knowledge of the eras that one server speaks; shared by all sessions with it."""

    def __init__(self, config: ServerConfig) -> None:
        self.refused: set[Era] = set()
        # a node speaks both, whatever its server does: the entry's era is for the node to keep
        is_placed = isinstance(config.transport, Placed)
        self._pinned = "modern" if is_placed else config.era
        self._speaks_both = is_placed or (config.peer is not None and isinstance(config.transport, Stdio))
        self._usual = MODERN_FIRST if isinstance(config.transport, Http) else HANDSHAKE_FIRST
        self._first = self._usual[0]

    def in_order(self, preferred: Era | None) -> tuple[Era, ...]:
        """The eras to ask in. `preferred`, if any, comes first where the server may speak it.

        A client's own session with a server behind another MCPX is in the client's era, for the session there
        is in the era of this one: a server may ask an older client in the middle of a call, and no other.
        """
        if self._speaks_both and preferred is not None:
            return (preferred,)
        if self._pinned != "auto":
            return (self._pinned,)
        first = preferred if preferred is not None and preferred not in self.refused else self._first
        return MODERN_FIRST if first == "modern" else HANDSHAKE_FIRST

    def learn(self, handshake: Handshake, *, of_main: bool) -> None:
        """Note what a session has found out. What was known before the main session's is over."""
        if of_main:
            self.refused.clear()
            self._first = handshake.agreed or self._usual[0]
        self.refused |= handshake.refused

    def forget(self) -> None:
        """Ask in the usual order again: the last attempt failed."""
        self._first = self._usual[0]


class Attempts:
    """Runs sessions, each with a handshake that asks in the order of `eras`."""

    def __init__(self, server: str, eras: Callable[[], tuple[Era, ...]]) -> None:
        self._server = server
        self._eras = eras
        self._next: Handshake | None = None

    async def run(self, incarnation: Incarnation, live: Callable[[Handshake], Awaitable[None]]) -> None:
        """Run `live`, once more with another process where the first has ended at the question.

        Raises:
            Exception: What `live` has raised.
        """
        handshake, self._next = self._next or Handshake(self._eras()), None
        try:
            await live(handshake)
        except (ConnectionLost, NoAnswer) as error:
            again = handshake.in_another_process()
            if again is None or incarnation.stopping.is_set():
                raise
            if isinstance(error, NoAnswer):
                self._next = again
                raise
            # some servers end at a question that they do not know: asking a fresh one is no failure
            log.info("upstream.greeted_again", server=self._server, reason=str(error))
            try:
                await live(again)
            except (EraRefused, ConnectionLost):
                if again.agreed is not None:
                    raise
                raise error from None  # it ends at either question: what it said to the first counts
