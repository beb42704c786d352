"""The outcome of one HTTP exchange, and who learns of it.

The SDK turns every failure of an HTTP exchange into a JSON-RPC error that no longer says what happened. So
the sender of a request puts an `Exchange` into the context that the SDK carries along to the HTTP guard
(`http_guard`), and the guard reports the failure there, as one of the errors below, before the SDK's own
error arrives. What an exchange means for the session as a whole goes to the link, `HttpLink`.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any, Final, TypeVar

import anyio
import msgspec
from mcp import MCPError
from mcp.shared.dispatcher import Dispatcher
from mcp.shared.transport_context import TransportContext

from mcpx.core.servers.transport.link import ConnectionLost, Link
from mcpx.core.wire.enclosed import encode_read
from mcpx.core.wire.envelope import RequestId
from mcpx.core.wire.outgoing import MalformedMessage, OnAnswer, PeerError, ResponseTooLarge

T = TypeVar("T")
OnFailure = Callable[[Exception], None]
EncodeParams = Callable[[RequestId], bytes]
"""Encodes the params of the request that has this id."""
PERMISSION_STATUSES: Final = frozenset({401, 403})
CLIENT_ERRORS: Final = range(400, 500)  # HTTP statuses that lay the failure on the request
NON_CALL_TIMEOUT_S: Final = 120.0  # for what is neither a call nor a stream, and has no deadline of its own
ABANDONED_TIMEOUT_S: Final = 5.0  # for the rest of an abandoned answer; then the connection is closed
_OF_ANSWERS: Final = (PeerError, MalformedMessage, ResponseTooLarge)
_SENDING: Final = "send_request_headers.started"
UNAUTHORIZED: Final = "mcpx.unauthorized"
"""The event of `Exchange.trace` for a request that the server refused for want of a token: it did not run."""
_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}


class NotExecuted(Exception):
    """The server provably did not run the request: it was not reached, or it does not know the session."""


class PersonNeeded(NotExecuted):
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


class Answer(msgspec.Struct, frozen=True):
    """The response to a request; the id of an error may be null.

    `result` and `error` are set for a request that takes them as they came.
    """

    id: RequestId | None
    is_error: bool
    result: msgspec.Raw | None = None
    error: MCPError | None = None


class HttpLink(Link):
    """A link over HTTP, which the HTTP guard tells what exchanges reveal of the session."""

    def __init__(
        self,
        dispatcher: Dispatcher[TransportContext],
        renew: Callable[[], None],
        on_events_missed: Callable[[], None],
    ) -> None:
        super().__init__(dispatcher)
        self._renew = renew
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
        return not self.closing.happened and not self.lost.happened

    def failure(self) -> ConnectionLost:
        return ConnectionLost(self.lost.reason, retryable=self.retryable, held=self.held)

    def handshake_failure(self) -> ConnectionLost | None:
        if self.lost.happened:
            reason = self.lost.reason if not self.retryable else f"{self.lost.reason} during the handshake"
            return ConnectionLost(reason, retryable=self.retryable, held=self.held)
        if self.last_problem is None:
            return None
        return ConnectionLost(self.last_problem, retryable=self.retryable, held=self.held)

    def renew(self) -> None:
        self._renew()

    # --- for the HTTP guard

    def lose(self, reason: str) -> None:
        """Note that the session is over."""
        self.lost.set(reason)

    def close(self, reason: str) -> None:
        """Note that the server takes nothing new; it may finish what it has."""
        self.closing.set(reason)

    def mark_healthy(self) -> None:
        """Note that an exchange went well."""
        if self.is_alive():
            self.last_problem, self.retryable, self.held = None, True, False

    def mark_suspect(self) -> None:
        """Have the session checked."""
        self.suspicion.set()

    def events_missed(self) -> None:
        """Note that notifications may have been missed; before the end of the handshake that is no matter."""
        if self.established:
            self._on_events_missed()


class Exchange:
    """One request in progress, for `timeout_s` at most.

    `on_failure` is called at most once, with the reason why there will be no answer. It must not raise. With
    `is_raw`, `answer` holds the result as it came, of which the SDK sees nothing; with `encode_params` the
    request gets those params in place of the SDK's, too.
    """

    def __init__(
        self,
        on_failure: OnFailure = lambda _: None,
        *,
        timeout_s: float = math.inf,
        is_raw: bool = False,
        encode_params: EncodeParams | None = None,
    ) -> None:
        self._on_failure = on_failure
        self.is_raw = is_raw or encode_params is not None
        self.encode_params = encode_params
        self._deadline = anyio.current_time() + timeout_s
        self._waits: set[anyio.CancelScope] = set()
        self.answer: Answer | None = None
        """Answer of the server, as far as it was looked at."""
        self.started = False
        """True if any byte of it may have been sent."""
        self.over = False
        """True if it has failed or was abandoned."""

    async def trace(self, event: str, _info: object) -> None:
        """Follow the steps of the exchange; a trace function of the HTTP library, and of `UNAUTHORIZED`.

        Raises:
            NotExecuted: It was recalled, and its first byte was about to be sent.
        """
        if event == UNAUTHORIZED:
            self.started = False
        elif event.endswith(_SENDING):
            if self.over and not self.started:
                raise NotExecuted("it was taken back")
            self.started = True

    def recall(self) -> bool:
        """Take it back if nothing was sent yet; return whether that succeeded."""
        if not self.started:
            self.over = True
        return not self.started

    def cause(self, error: MCPError) -> Exception:
        """Say why the SDK raised `error`: the server's own error, an unusable answer, or none at all."""
        if self.answer is None:
            return ConnectionDropped(error.message)
        if self.answer.error is not None:
            return self.answer.error
        return error if self.answer.is_error else MalformedMessage("the answer is not a JSON-RPC message")

    def result(self, decoded: dict[str, Any]) -> msgspec.Raw:
        """The result as it came; `decoded`, which the SDK has read, if it came astray, on another stream."""
        raw = None if self.answer is None else self.answer.result
        return encode_read(decoded) if raw is None else raw

    def fail(self, error: Exception) -> None:
        """Report that there will be no answer. The first reason counts."""
        if not self.over:
            self.over = True
            self._on_failure(error)

    def abandon(self) -> None:
        """Give up waiting for it: reading its answer ends soon, whatever the server does."""
        self.over = True
        self._deadline = min(self._deadline, anyio.current_time() + ABANDONED_TIMEOUT_S)
        for scope in self._waits:
            scope.deadline = self._deadline

    def interrupt(self) -> None:
        """End what is awaited from the server now, as if its time were up."""
        for scope in self._waits:
            scope.cancel()

    async def within_deadline(self, awaited: Awaitable[T]) -> T | None:
        """Await something from the server; return None once the time is up."""
        with anyio.CancelScope(deadline=self._deadline) as scope:
            self._waits.add(scope)
            try:
                return await awaited
            finally:
                self._waits.discard(scope)
        return None


CURRENT_EXCHANGE: Final[ContextVar[Exchange | None]] = ContextVar("mcpx_exchange", default=None)
"""The exchange that requests sent in this context belong to."""


async def settle(request: Awaitable[dict[str, Any]], exchange: Exchange, on_answer: OnAnswer) -> None:
    """Await a call of the SDK's; call back with the result as it came, or have `exchange` report why not."""
    try:
        decoded = await request
    except MCPError as error:
        exchange.fail(exchange.cause(error))
    except Exception as error:  # noqa: BLE001 - the boundary: every failure goes to the caller
        exchange.fail(error)
    else:
        if not exchange.over:
            on_answer(exchange.result(decoded), None)


async def take_raw(request: Awaitable[dict[str, Any]]) -> msgspec.Raw:
    """Await a request of the SDK's that is no call; return its result as it came over HTTP.

    Raises:
        MCPError: The server refused it, or there was no answer.
        ResponseTooLarge: The answer is longer than a message may be.
        MalformedMessage: The answer is no message.
    """
    failures: list[Exception] = []
    exchange = Exchange(failures.append, timeout_s=NON_CALL_TIMEOUT_S, is_raw=True)
    token = CURRENT_EXCHANGE.set(exchange)
    try:
        decoded = await request
    except MCPError as error:
        cause = failures[0] if failures else exchange.cause(error)
        # of an exchange without an answer, the SDK's error says what is known
        raise (cause if isinstance(cause, _OF_ANSWERS) else error) from None
    finally:
        CURRENT_EXCHANGE.reset(token)
        exchange.abandon()
    return exchange.result(decoded)


@contextmanager
def capture_failures() -> Iterator[list[Exception]]:
    """Collect why the HTTP exchange of a request made inside the block failed; abandon it at the end."""
    failures: list[Exception] = []
    exchange = Exchange(failures.append)
    token = CURRENT_EXCHANGE.set(exchange)
    try:
        yield failures
    finally:
        CURRENT_EXCHANGE.reset(token)
        exchange.abandon()
