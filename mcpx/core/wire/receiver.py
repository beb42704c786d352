"""The lines of one peer, decoded and handed on: answers, requests, notifications.

Owned by the dispatcher. Answers and progress go to `Outgoing`; requests to the `fast` hook and then to
`Incoming`, as notifications do. A line that is no message, or is too large, costs the request that it
answers, or that it is, and nothing else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from mcpx.core.telemetry.contained import contain
from mcpx.core.wire import batch, envelope, malformed
from mcpx.core.wire.batch import Batch
from mcpx.core.wire.channel import Channel
from mcpx.core.wire.envelope import Bytes, RequestId, RPCMessage
from mcpx.core.wire.incoming import FAILED, IN_USE, TOO_LARGE, Incoming, spellings
from mcpx.core.wire.intake import INTAKE, LargeMessage
from mcpx.core.wire.lines import KEPT_BYTES, MAX_MESSAGES_PER_TURN, Line, TooLong, Turns
from mcpx.core.wire.outgoing import Outgoing
from mcpx.core.wire.turn import TURN, flush_all

if TYPE_CHECKING:
    from mcp.shared.dispatcher import Dispatcher
    from mcp.shared.transport_context import TransportContext

D = TypeVar("D", bound="Dispatcher[TransportContext]")

OnMalformed = Callable[[bytes, str], None]
"""Called with the first bytes of a line that was skipped, and what is wrong with it. Must not raise."""

MAX_SHOWN_BYTES: Final = 200  # of a malformed line, or of a method, in the log


class Receiver(Generic[D]):
    """Takes what is read from one channel, for the dispatcher `D` that owns it.

    The hooks are offered each request before the SDK, and return whether they have dealt with it. If one
    raises, the request fails.
    """

    def __init__(
        self,
        dispatcher: D,
        channel: Channel,
        outgoing: Outgoing,
        *,
        limit: int,
        request_limit: int,
        mends: bool,
        refuses: bool,
        on_malformed: OnMalformed,
    ) -> None:
        """The options are those of `WireDispatcher`."""
        self.fast: Callable[[D, RequestId, str, msgspec.Raw], bool] | None = None
        self.too_deep: Callable[[D, RequestId, str, msgspec.Raw], bool] | None = None
        """The hook for a request that is nested too deeply to be read: it gets what `shallow` leaves."""
        self.about: Any = None
        """The request on whose stream the message came that is being taken, where that is known."""
        self.on_notification: Callable[[str, msgspec.Raw], bool] | None = None
        """Offered each notification; returns whether it has dealt with it."""
        self.takes_batches: Callable[[], bool] = lambda: True
        """Whether the peer may send batches now."""
        self.fast_cancels: dict[RequestId, Callable[[], None]] = {}
        """Called when the peer cancels a request that a hook took, by its id. Must not raise."""
        self.incoming = Incoming(dispatcher, channel, request_limit, self._take_delayed)
        self._served = self.incoming.open
        self._dispatcher = dispatcher
        self._channel = channel
        self._outgoing = outgoing
        self._request_limit = request_limit
        self._mends = mends
        self._refuses = refuses
        self._on_malformed = on_malformed
        self._limit = limit
        self._delayed: deque[Line] = deque()  # behind an `initialize` or a batch
        self._batch: Batch | None = None  # to which the message belongs that is being taken
        self._members: deque[bytes] = deque()  # of a batch, not taken yet
        self._turns = Turns(channel, limit, self._take_few, malformed.Mender if mends else None)
        self.feed = self._turns.feed

    @property
    def has_backlog(self) -> bool:
        """True if the peer has sent messages that have not been taken yet."""
        return self._turns.has_backlog

    @property
    def busy(self) -> bool:
        """True if requests of the peer are unanswered, but for those that stay open for good."""
        return bool(self.fast_cancels) or self.incoming.busy or bool(self._members)

    def stop(self) -> None:
        """Take nothing more, and cancel what the hooks took."""
        self.incoming.stop()  # else a flood of messages could keep its task group open
        self._turns.stop()
        self._members.clear()
        cancels = list(self.fast_cancels.values())
        self.fast_cancels.clear()
        for cancel in cancels:
            cancel()

    # --- messages

    def take(self, line: Line, about: object) -> None:
        """Take a message that came by itself, on the stream of the request `about`."""
        self.about = about
        try:
            self._take_few([line])
        finally:
            self.about = None

    def _take_few(self, lines: list[Line]) -> None:
        incoming = self.incoming
        TURN.is_open = True
        try:
            for line in lines:
                try:
                    if incoming.initializing or self._members:
                        self._delayed.append(line)
                    else:
                        self._take(line)
                except Exception as error:  # noqa: BLE001 - one message must not cost the session, nor those behind it
                    contain(error, "message")
                    self._refuse(malformed.describe(line))
        finally:
            flush_all()  # the end of this turn, without another round of the loop

    def _take_delayed(self) -> None:
        delayed, self._delayed = self._delayed, deque()
        for line in delayed:
            if self.incoming.initializing or self._members:  # again
                self._delayed.append(line)
            else:
                self._take(line)

    def _take(self, line: Line) -> None:
        if not isinstance(line, bytes):
            if isinstance(line, TooLong):
                self._skip(malformed.describe(line))
            else:
                self._take_large(line)
            return
        if len(line) > self._request_limit and self._is_own_and_too_large(line):
            return
        try:
            if not line.isascii():
                line.decode()  # strictly: what is passed on must not break the next reader
            if self._mends and malformed.may_have_lone_surrogates(line):
                line = malformed.mend_lone_surrogates(line)
            answer = envelope.split_large_answer(line) if len(line) >= envelope.LARGE_BYTES else None
            message = answer or envelope.decode_message(line)
        except (UnicodeDecodeError, RecursionError, msgspec.DecodeError) as error:
            self._take_malformed(line, error)
            return
        if message.method is not None or not self._outgoing.take_answer(message):
            self._take_message(message, line)

    def _take_large(self, line: LargeMessage) -> None:
        """Take a large message, of which nothing but the two ends is looked at."""
        message = None if line.error else envelope.split_large(line)
        head = bytes(line[:KEPT_BYTES])
        if message is None:
            self._skip(malformed.unusual(line, head))
        elif message.method is not None and len(line) > self._request_limit:
            self._refuse_too_large(message.id, head)
        else:
            if message.method is None:
                INTAKE.carries(line, message.result)
            if message.method is not None or not self._outgoing.take_answer(message):
                self._take_message(message, head)

    def _take_message(self, message: RPCMessage, line: bytes) -> None:
        """Take a message that answers nothing; `line` is what it came in, or the head of that."""
        if message.method is None:
            if not (message.result or message.error):
                self._refuse(malformed.invalid(line, malformed.NEITHER))
        elif message.id is None:
            self._take_notification(message.method, message.params, line)
        else:
            try:
                if message.id in self.fast_cancels or message.id in self._served:
                    self._respond(message.id, envelope.failure(message.id, IN_USE))
                    return
                if (
                    self.fast is not None
                    and self._batch is None
                    and self.fast(self._dispatcher, message.id, message.method, message.params)
                ):
                    return
                self.incoming.take_request(message.id, message.method, message.params, self._batch)
            except Exception as error:  # noqa: BLE001 - the boundary: its sender is answered, whatever it sent
                contain(error, "request", method=message.method[:MAX_SHOWN_BYTES])
                self._respond(message.id, envelope.failure(message.id, FAILED))

    def _take_notification(self, method: str, params: msgspec.Raw, line: bytes) -> None:
        if self._refuses and malformed.has_null_id(line):
            self._refuse(malformed.invalid(line, malformed.NULL_ID))
            return
        if self.on_notification is not None and self.on_notification(method, params):
            return
        if method == "notifications/progress":
            self._outgoing.take_progress(params)
        elif method == "notifications/cancelled":
            self._cancel(params)
        self.incoming.take_notification(method, params)

    def _cancel(self, params: msgspec.Raw) -> None:
        """The peer has cancelled a request of its own."""
        try:
            request_id = envelope.decode_cancelled(params).request_id
        except (msgspec.DecodeError, RecursionError):
            return
        for key in spellings(request_id):
            if (cancel := self.fast_cancels.pop(key, None)) is not None:
                cancel()
                return
            if self.incoming.cancel(key):
                return

    def _is_own_and_too_large(self, line: bytes) -> bool:
        """Refuse a large line that is no answer: reading what was not asked for would take too long."""
        own = envelope.split_request(line)
        if own is None:
            return False
        self._refuse_too_large(own.id, line)
        return True

    def _refuse_too_large(self, request_id: RequestId | None, line: bytes) -> None:
        if request_id is not None:
            self._respond(request_id, envelope.failure(request_id, TOO_LARGE))
        problem = f"a request or notification over {self._request_limit} bytes"
        self._on_malformed(line[:MAX_SHOWN_BYTES], problem)

    # --- batches

    def _take_batch(self, line: bytes, messages: list[bytes]) -> None:
        problem = self._why_refused(messages)
        if problem is not None:
            self._refuse(malformed.invalid(line, problem))
            self._on_malformed(line[:MAX_SHOWN_BYTES], problem)
            return
        self._members.extend(messages)
        self._take_members(Batch(lambda array: self._channel.write(array, b"\n"), self._limit))

    def _why_refused(self, messages: list[bytes]) -> str | None:
        """Return why a batch is not taken; a server may send any."""
        if self._batch is not None:
            return batch.NESTED
        if not self._refuses:
            return None
        return batch.why_refused(messages) if self.takes_batches() else batch.NOT_IN_REVISION

    def _take_members(self, whole: Batch) -> None:
        """Take a few messages of a batch; the others in the next turns, and what follows after them."""
        self._batch = whole
        for _ in range(min(MAX_MESSAGES_PER_TURN, len(self._members))):
            line = self._members.popleft()
            try:
                self._take(line)
            except Exception as error:  # noqa: BLE001 - as in `_take_few`
                contain(error, "message")
                self._refuse(malformed.describe(line))
        self._batch = None
        if self._members:
            asyncio.get_running_loop().call_soon(self._take_members, whole)
            return
        whole.close()
        self._take_delayed()

    # --- what is no message

    def _take_malformed(self, line: bytes, error: Exception) -> None:
        """Mend a line that cannot be decoded, or refuse it."""
        if batch.is_batch(line) and isinstance(error, msgspec.ValidationError):
            try:
                self._take_batch(line, batch.split(line))
            except (RecursionError, msgspec.DecodeError) as actual:
                error = actual
            else:
                return
        if isinstance(error, RecursionError) and self._is_taken_without_its_depths(line):
            return
        if (
            self._mends
            and isinstance(error, msgspec.DecodeError)
            and (mended := malformed.mend_numbers(line)) != line
        ):
            if not self._refuses_numbers(line, mended):
                self._take(mended)
            return
        self._skip(malformed.describe(line, error))

    def _refuses_numbers(self, line: bytes, mended: bytes) -> bool:
        """Fail what takes its result as it came, for numbers that are no JSON; elsewhere they become null."""
        try:
            message = envelope.decode_message(mended)
        except (msgspec.DecodeError, RecursionError):
            return False
        error = malformed.UnreadableAnswer(malformed.NONFINITE, line)
        return message.method is None and self._outgoing.fail_raw(message.id, error)

    def _is_taken_without_its_depths(self, line: bytes) -> bool:
        if self.too_deep is None or (rest := malformed.shallow(line)) is None:
            return False
        try:
            message = envelope.decode_message(rest)
        except msgspec.DecodeError:
            return False
        if message.id is None or message.method is None:
            return False
        return self.too_deep(self._dispatcher, message.id, message.method, message.params)

    def _skip(self, problem: malformed.MalformedLine) -> None:
        """Fail the request that the line answers, or that it is, and nothing else."""
        is_request = self._refuses and malformed.is_request(problem)
        if is_request or not self._outgoing.fail_answered(problem.head, problem.tail, problem.error):
            self._refuse(problem)
        self._on_malformed(problem.head[:MAX_SHOWN_BYTES], problem.text)

    def _refuse(self, problem: malformed.MalformedLine) -> None:
        """Answer what may have been a request, if this side is the server."""
        if self._refuses and (pieces := malformed.refusal(problem)):
            self._respond(None, pieces)

    def _respond(self, request_id: RequestId | None, response: list[Bytes]) -> None:
        """Answer the message that is being taken."""
        if self._batch is None:
            self._channel.write(*response)
        else:
            self._batch.add(request_id, response)
