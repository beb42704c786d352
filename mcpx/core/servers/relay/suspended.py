"""Suspended calls: calls that wait for their client to repeat its request with answers.

A handshake server asks in the middle of a call; a client of 2026-07-28 can be asked only by the response to
its own request. So the call stays in flight at the server, and the client's request is answered with the
questions and a `requestState` that names the call. When the client repeats its request with the answers, the
call resumes under the new request. Both waits are bounded: if a client leaves, or does not come back within
`timeout`, its call is cancelled at the server.
"""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections import deque
from typing import Any, Final

import msgspec

from mcpx.core.catalog.model import JSON
from mcpx.core.protocol.context import ELICITATION, InputAnswers
from mcpx.core.protocol.requests import Request, tool_of
from mcpx.core.rendering.result_reading import made_here
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.servers.in_flight import InFlight
from mcpx.core.wire.envelope import REQUEST_TIMEOUT, Bytes, MCPError
from mcpx.errors import CallError, Code

PREFIX: Final = "mcpx-held-"
"""The prefix of the `requestState`s that are made here; any other is the server's."""
SECRET_BYTES: Final = 18
MAX_MISSED_STEPS: Final = 32  # of progress, while no request of the client is open; the last ones are kept
_HANDSHAKE_ONLY: Final = frozenset({"elicitationId", "task"})
"""Members of a server request that 2026-07-28 does not have: ids of URL elicitations, tasks."""


class _Question:
    """A server request that the client has not answered."""

    __slots__ = ("answer", "method", "params")

    def __init__(self, method: str, params: JSON) -> None:
        self.method = method
        self.params = params
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class SuspendedCall:
    """A call that has asked. `listener` is the reply to the client's open request, None while it has none."""

    def __init__(self, calls: SuspendedCalls, call: InFlight) -> None:
        self.call = call
        self.state = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        self.inner = RawReply(lambda _reply: self._finish())
        self.listener: RawReply | None = call.reply
        self._calls = calls
        self._questions: dict[str, _Question] = {}
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._missed: deque[bytes] = deque(maxlen=MAX_MISSED_STEPS)
        self.inner.on_abandon, call.reply.on_abandon = call.reply.on_abandon, self.cancel
        call.reply = self.inner

    async def ask(self, method: str, params: JSON) -> JSON:
        """Ask the client and return its answer. The caller bounds the wait."""
        self._count += 1
        key, question = str(self._count), _Question(method, params)
        self._questions[key] = question
        if self.listener is not None:
            self._deliver()
        try:
            answer: JSON = await question.answer
        finally:
            self._questions.pop(key, None)
        return answer

    def _deliver(self) -> None:
        """Answer the client's request with the open questions."""
        requests = {
            key: {"method": each.method, "params": to_modern(each.params)}
            for key, each in self._questions.items()
        }
        state = made_here(self.state)
        result = {"resultType": "input_required", "inputRequests": requests, "requestState": state}
        listener, self.listener = self.listener, None
        self.call.on_progress = self._miss  # the token belongs to the request that is answered now
        self._timer = asyncio.get_running_loop().call_later(self._calls.timeout, self.cancel)
        if listener is not None:
            listener.resolve(msgspec.Raw(msgspec.json.encode(result)))

    def _miss(self, step: bytes) -> None:
        self._missed.append(step)

    def resume(self, answers: InputAnswers, request: Request, reply: RawReply) -> None:
        """Continue under the client's new request, which brings answers; it hears of the progress since."""
        if self._timer is not None:
            self._timer.cancel()
        self.listener = reply
        reply.on_abandon = self.cancel
        self.call.caller, self.call.on_progress = request.context.caller, request.context.on_progress
        if request.context.on_progress is not None:
            for step in self._missed:
                request.context.on_progress(step)
        self._missed.clear()
        for key, value in _responses(answers).items():
            question = self._questions.pop(key, None)
            if question is not None and not question.answer.done():
                question.answer.set_result(value)
        if self.inner.settled:
            self._finish()
        elif self._questions:
            self._deliver()  # what the client left out, or the server asked meanwhile

    def _finish(self) -> None:
        """Pass the result on, now or when the client comes back in time."""
        if self.listener is None:
            return
        self._calls.discard(self)
        if self.inner.error is not None:
            self.listener.reject(self.inner.error)
        elif self.inner.value is not None:
            self.listener.resolve(self.inner.value)

    def cancel(self) -> bool:
        """Cancel the call at the server: its client has left or did not come back. It was sent: True."""
        if self._timer is not None:
            self._timer.cancel()
        self._calls.discard(self)
        self.inner.abandon()
        for question in self._questions.values():  # of another call of the client, perhaps
            if not question.answer.done():
                question.answer.set_exception(MCPError(REQUEST_TIMEOUT, "The client did not answer"))
                question.answer.exception()  # nobody may be left to see it
        return True


class SuspendedCalls:
    """The suspended calls of one server. They outlive its sessions, only to report how they ended.

    `timeout` bounds the wait for a client, in seconds.
    """

    def __init__(self, server: str, timeout: float) -> None:
        self.timeout = timeout
        self._server = server
        self._suspended: dict[str, SuspendedCall] = {}

    def __len__(self) -> int:
        return len(self._suspended)

    def suspend(self, calls: tuple[InFlight, ...]) -> SuspendedCall:
        """Suspend one of a client's calls, whose response is to carry a question.

        If several are in flight, it cannot be told which of them has asked, and need not be: the answer goes
        back to the server by the question's own id. One whose request the client has open comes first.
        """
        known = {id(each.call): each for each in self._suspended.values()}
        for call in calls:
            suspended = known.get(id(call))
            if suspended is None:
                suspended = SuspendedCall(self, call)
                self._suspended[suspended.state] = suspended
                return suspended
            if suspended.listener is not None:
                return suspended
        return known[id(calls[0])]

    def discard(self, suspended: SuspendedCall) -> None:
        """Forget a call that is over."""
        self._suspended.pop(suspended.state, None)

    def cancel_for(self, client: object) -> None:
        """Cancel the calls of a client that has left."""
        for suspended in list(self._suspended.values()):
            caller, own = suspended.call.caller, suspended.call.request.context.client
            if (caller is not None and caller.client is client) or (own is not None and own is client):
                suspended.cancel()

    def resume(self, request: Request, reply: RawReply) -> bool:
        """Resume the call that the request names. Returns False if it names none of ours.

        Raises:
            CallError: The call is over, or is not the one that the request repeats.
        """
        answers = request.context.answers
        if answers is None or answers.state is None or not answers.state.startswith(PREFIX):
            return False
        suspended = self._suspended.get(answers.state)
        if suspended is None or suspended.call.request.context.client is not request.context.client:
            text = (
                f"The call of {self._server} that waited for these answers is over: they came more than "
                f"{self.timeout:g} s after it asked, or it was cancelled; it may have taken effect"
            )
            raise self._failed(Code.CANCELLED, text, request)
        if _target(suspended.call.request) != _target(request) or suspended.listener is not None:
            text = "This requestState is of another call, or of one that goes on already; nothing was sent"
            raise self._failed(Code.INVALID_ARGUMENTS, text, request)
        suspended.resume(answers, request, reply)
        return True

    def _failed(self, code: Code, text: str, request: Request) -> CallError:
        return CallError(code, text, server=self._server, tool=tool_of(request))


def _target(request: Request) -> tuple[str, list[Bytes]]:
    return request.method, request.params()[:2]


def _responses(answers: InputAnswers) -> JSON:
    try:
        value = msgspec.json.decode(answers.responses or b"{}")
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def to_modern(params: JSON) -> JSON:
    """The parameters of a handshake server's request, for a client of 2026-07-28."""
    return {key: value for key, value in params.items() if key not in _HANDSHAKE_ONLY}


def to_handshake(method: str, params: JSON) -> JSON:
    """The parameters of a 2026-07-28 server's request, for a client of the handshake era.

    There an elicitation in url mode has an id, by which its completion may be announced.
    """
    if method == ELICITATION and params.get("mode") == "url" and "elicitationId" not in params:
        return {**params, "elicitationId": str(uuid.uuid4())}
    return params
