"""Calls that wait for their client to come back with answers.

A server of the older revisions asks in the middle of a call; a client of 2026-07-28 can be asked only by the
answer to its own request. So the call stays in flight at the server, the client's request is answered with
the questions and a `requestState` that names the call, and when the client repeats its request with the
answers, the call goes on under the new one. Both waits are bounded: a client that does not come back within
`seconds`, or that leaves, has its call cancelled at the server.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from mcpx.errors import CallError, Code
from mcpx.upstream.context import JSON, Caller, InputAnswers
from mcpx.upstream.queue import RawReply
from mcpx.upstream.relay.eras import for_modern
from mcpx.upstream.requests import OnProgress, Request, tool_of

PREFIX: Final = "mcpx-held-"
"""How each `requestState` of ours begins; any other is the server's own."""
SECRET_BYTES: Final = 18


class Running(Protocol):
    """A request in flight, as `Calls` keeps it."""

    request: Request
    reply: RawReply
    caller: Caller | None
    on_progress: OnProgress | None
    endings: list[Callable[[], None]]
    """Called once when it is over, however it ends."""


class _Question:
    __slots__ = ("answer", "method", "params")

    def __init__(self, method: str, params: JSON) -> None:
        self.method = method
        self.params = params
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class HeldCall:
    """One call that has asked. `listener` is the client's request that is open now, if one is."""

    def __init__(self, holds: Holds, call: Running) -> None:
        self.call = call
        self.state = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        self.inner = RawReply(lambda _reply: self._settled())
        self.listener: RawReply | None = call.reply
        self._holds = holds
        self._questions: dict[str, _Question] = {}
        self._asked = 0
        self._timer: asyncio.TimerHandle | None = None
        self.inner.on_abandon, call.reply.on_abandon = call.reply.on_abandon, self.end
        call.reply = self.inner

    async def ask(self, method: str, params: JSON) -> JSON:
        """Have the client asked, and wait for what it says. Whoever calls this bounds the wait."""
        self._asked += 1
        key, question = str(self._asked), _Question(method, params)
        self._questions[key] = question
        if self.listener is not None:
            self._deliver()
        try:
            answer: JSON = await question.answer
        finally:
            self._questions.pop(key, None)
        return answer

    def _deliver(self) -> None:
        """Answer the client's request with the questions that are open."""
        open_ones = self._questions.items()
        asked = {key: {"method": each.method, "params": for_modern(each.params)} for key, each in open_ones}
        result = {"resultType": "input_required", "inputRequests": asked, "requestState": self.state}
        listener, self.listener = self.listener, None
        self.call.on_progress = None  # its token is of the request that is over now
        self._timer = asyncio.get_running_loop().call_later(self._holds.seconds, self.end)
        if listener is not None:
            listener.resolve(msgspec.Raw(msgspec.json.encode(result)))

    def go_on(self, answers: InputAnswers, request: Request, reply: RawReply) -> None:
        """The client is back: its new request is the one that will be answered."""
        if self._timer is not None:
            self._timer.cancel()
        self.listener = reply
        reply.on_abandon = self.end
        self.call.caller, self.call.on_progress = request.origin.caller, request.origin.on_progress
        for key, value in _responses(answers).items():
            question = self._questions.pop(key, None)
            if question is not None and not question.answer.done():
                question.answer.set_result(value)
        if self.inner.settled:
            self._settled()
        elif self._questions:
            self._deliver()  # what it left out, or what was asked meanwhile

    def _settled(self) -> None:
        """The call is over: the client hears of it now, or when it comes back in time."""
        if self.listener is None:
            return
        self._holds.forget(self)
        if self.inner.error is not None:
            self.listener.reject(self.inner.error)
        elif self.inner.value is not None:
            self.listener.resolve(self.inner.value)

    def end(self) -> None:
        """Nobody waits for the call any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._holds.forget(self)
        self.inner.abandon()


class Holds:
    """The held calls of one server. They outlive its sessions only to say how they ended."""

    def __init__(self, server: str, seconds: float) -> None:
        self.seconds = seconds
        self._server = server
        self._held: dict[str, HeldCall] = {}

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, call: Running) -> HeldCall:
        """The call as a held one; the same each time."""
        for held in self._held.values():
            if held.call is call:
                return held
        held = HeldCall(self, call)
        self._held[held.state] = held
        return held

    def forget(self, held: HeldCall) -> None:
        """It is over."""
        self._held.pop(held.state, None)

    def drop(self, client: object) -> None:
        """End the calls of a client that has left."""
        for held in list(self._held.values()):
            if held.call.caller is not None and held.call.caller.client is client:
                held.end()

    def go_on(self, request: Request, reply: RawReply) -> bool:
        """Continue the held call that the request names; false if it names none of ours.

        Raises:
            CallError: The call is over, or it was another's.
        """
        answers = request.origin.answers
        if answers is None or answers.state is None or not answers.state.startswith(PREFIX):
            return False
        held = self._held.get(answers.state)
        if held is None:
            text = (
                f"The call of {self._server} that waited for these answers is over: they came more than "
                f"{self.seconds:g} s after it asked, or it was cancelled; it may have taken effect"
            )
            raise self._failed(Code.CANCELLED, text, request)
        if _target(held.call.request) != _target(request) or held.listener is not None:
            text = "This requestState is of another call, or of one that goes on already; nothing was sent"
            raise self._failed(Code.INVALID_ARGUMENTS, text, request)
        held.go_on(answers, request, reply)
        return True

    def _failed(self, code: Code, text: str, request: Request) -> CallError:
        return CallError(code, text, server=self._server, tool=tool_of(request))


def _target(request: Request) -> tuple[str, list[bytes]]:
    return request.method, request.params()[:2]


def _responses(answers: InputAnswers) -> JSON:
    try:
        value = msgspec.json.decode(answers.responses or b"{}")
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
