"""The outcome of one HTTP exchange, and who learns of it.

A request over HTTP fails with one of the errors below, which say what happened to it alone: as they are where
it is sent as bytes, inside `Failed` where the SDK's session has sent it. What an exchange means for the
session as a whole goes to the link, `HttpLink`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Final

import anyio

from mcpx.core.servers.transport.link import ConnectionLost, Link
from mcpx.core.wire.dispatcher import WireDispatcher
from mcpx.core.wire.envelope import CONNECTION_CLOSED, INTERNAL_ERROR, MCPError
from mcpx.core.wire.outgoing import MalformedMessage, ResponseTooLarge

LOOKS: Final = 10  # at whether a program listens, in as long as it was waited for
MIN_LOOK_S: Final = 0.01
MAX_LOOK_S: Final = 0.25
PERMISSION_STATUSES: Final = frozenset({401, 403})
CLIENT_ERRORS: Final = range(400, 500)  # HTTP statuses that lay the failure on the request
_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}


class NotExecuted(Exception):
    """The server provably did not run the request: it was not reached, or it does not know the session."""


class Denied(NotExecuted):
    """The server does not let this request in: to send it again would be in vain."""


class PersonNeeded(Denied):
    """The server does not run it before a person has signed in, by `command`.

    `scopes` are what they have to agree to beyond what they have; None where they are not signed in at all.
    """

    def __init__(self, reason: str, *, command: str, scopes: tuple[str, ...] | None = None) -> None:
        super().__init__(reason)
        self.command = command
        self.scopes = scopes


class ConnectionDropped(Exception):
    """The connection of this one exchange ended before the answer; the request may have been run."""


class StreamLeft(ConnectionDropped):
    """MCPX itself has left the stream, to open it again on a new connection."""


class Refused(Exception):
    """The server answered with an HTTP status in place of a message.

    `retry_after_s` is the time it asks to wait, in seconds; `explanation` is its own text, if it gave one.
    """

    def __init__(self, status: int, *, retry_after_s: float | None = None, explanation: str = "") -> None:
        text = f"the server answers HTTP {status}"
        if phrase := _PHRASES.get(status):
            text += f" ({phrase})"
        if explanation:
            text += f": {explanation}"
        if retry_after_s is not None:
            text += f"; it asks to wait {retry_after_s:g} s"
        super().__init__(text)
        self.status = status
        self.retry_after_s = retry_after_s


# --- why there is no response: raised into the transport, and made one of those above there


class HttpFailure(Exception):
    """A request has no response."""


class Unreachable(HttpFailure):
    """No connection could be made; nothing was sent. The cause is that of the system."""


class Dropped(HttpFailure):
    """The connection ended before the response did; the request may have been read."""


class NotAuthorized(HttpFailure):
    """The server did not run the request: MCPX has no token for it that counts."""


class EntryRefused(NotAuthorized):
    """The server does not let the request in with the credentials of its entry."""


class PersonRequired(NotAuthorized):
    """A person has to act: `command` is what they run, "" where no person can."""

    def __init__(self, message: str, *, command: str = "") -> None:
        super().__init__(message)
        self.command = command


class SignInRequired(PersonRequired):
    """A person has to sign in; the text says how."""


class NoTokenNow(NotAuthorized):
    """The token has expired and cannot be refreshed at the moment; that is being tried again."""


class MoreScopesRequired(PersonRequired):
    """The token is good, but does not allow this request (`insufficient_scope`).

    `scopes` are those that the server wants for it, as far as it says.
    """

    def __init__(self, message: str, *, scopes: Sequence[str] = (), command: str = "") -> None:
        super().__init__(message, command=command)
        self.scopes = tuple(scopes)


class ClientRefused(NotAuthorized):
    """The authorization server gives MCPX no token for its own credentials: a configuration has to change."""


# --- for the session

UNANSWERED: Final = (NotExecuted, ConnectionDropped, Refused)
FAILURES: Final = (*UNANSWERED, ResponseTooLarge, MalformedMessage)


class Failed(MCPError):
    """For the SDK: a request has no answer, because of `failure`, one of the errors above."""

    def __init__(self, failure: Exception) -> None:
        lost = isinstance(failure, NotExecuted | ConnectionDropped)
        super().__init__(CONNECTION_CLOSED if lost else INTERNAL_ERROR, str(failure))
        self.failure = failure


def failure_of(error: Exception) -> Exception | None:
    """The cause of a failed HTTP exchange of the SDK's session; None for any other error."""
    return error.failure if isinstance(error, Failed) else None


class HttpLink(Link):
    """A link over HTTP, which is told what exchanges reveal of the session."""

    def __init__(
        self, dispatcher: WireDispatcher, renew: Callable[[], None], on_events_missed: Callable[[], None]
    ) -> None:
        super().__init__(dispatcher)
        self._renew = renew
        self.once_it_listens: Callable[[], Awaitable[None]] | None = None
        """Does what is left to be done to open the link, where it leads to a program."""
        self.last_problem: str | None = None
        """Problem of the last exchange; None while all is well."""
        self.retryable = True
        """True if connecting again can help."""
        self.held = False
        """True if a person has to sign in before it can."""
        self._on_events_missed = on_events_missed

    # --- for the session

    def establish(self) -> None:
        super().establish()
        self.suspicion.clear()  # what was odd during the handshake is no reason for it

    def is_alive(self) -> bool:
        ends = self.closing.happened or self.lost.happened
        return not ends and (self._child is None or self._child.is_alive())

    def failure(self) -> ConnectionLost:
        words = self.stderr_tail() if self.program_ended else ""
        return ConnectionLost(self.lost.reason, words, retryable=self.retryable, held=self.held)

    def handshake_failure(self) -> ConnectionLost | None:
        if self.program_ended:
            return self.failure()
        reason = self.last_problem
        if self.lost.happened:
            reason = self.lost.reason if not self.retryable else f"{self.lost.reason} during the handshake"
        if reason is None:
            return None
        return ConnectionLost(reason, retryable=self.retryable, held=self.held)

    async def await_listener(self) -> None:
        began = anyio.current_time()
        while self.by_program and self.reach is not None:
            try:
                await self.reach()
                break
            except OSError:
                waited_s = anyio.current_time() - began
                await anyio.sleep(max(MIN_LOOK_S, min(waited_s / LOOKS, MAX_LOOK_S)))
        if self.once_it_listens is not None:
            await self.once_it_listens()

    def renew(self) -> None:
        self._renew()

    # --- for the exchanges

    def end_session(self, reason: str, *, retryable: bool = True) -> NotExecuted:
        """Note that the server takes nothing new, but may finish what it has, each on a stream of its own.

        Return the error for the request that found out, which was not run.
        """
        self.last_problem, self.retryable = reason, retryable
        if self.established:
            self.closing.set(reason)
        return NotExecuted(reason)

    def mark_healthy(self) -> None:
        """Note that an exchange went well."""
        if self.last_problem is None and self.retryable and not self.held:
            return
        if self.is_alive():
            self.last_problem, self.retryable, self.held = None, True, False

    def mark_suspect(self) -> None:
        """Have the session checked."""
        self.suspicion.set()

    def events_missed(self) -> None:
        """Note that notifications may have been missed; before the end of the handshake that is no matter."""
        if self.established:
            self._on_events_missed()
