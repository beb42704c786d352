"""What the client of a shim is answered while no daemon serves it.

Pure, but for the file of `RememberedAnswers`.

Until the first daemon answers, that is what a daemon last answered to the same program, as far as known.
When no daemon can be had, or none for long, the session opens nevertheless, with the answers of `stand_in`;
what only a daemon can do is refused with the reason. The next daemon gets the opening as a replay.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from mcpx.attach import refusals
from mcpx.attach.announcements import SUBSCRIPTION_KEY, Announcements
from mcpx.attach.daemon_requests import notification
from mcpx.attach.in_force import InForce
from mcpx.attach.pending import PendingRequests
from mcpx.attach.refusals import PendingRequest, decode_object
from mcpx.attach.remembered import REMEMBERED, RememberedAnswers, identify
from mcpx.core.wire import batch, envelope
from mcpx.core.wire.batch import read
from mcpx.core.wire.envelope import RequestId

_NO_MEMBERS: Final = msgspec.Raw(b"{}")


class WithoutDaemon:
    """Answers the requests of one session that are pending."""

    def __init__(
        self,
        pending: PendingRequests,
        in_force: InForce,
        announcements: Announcements,
        answers: RememberedAnswers | None,
    ) -> None:
        self._pending = pending
        self._in_force = in_force
        self._announcements = announcements
        self._answers = answers
        self.discover: PendingRequest | None = None
        """A request that was answered here, and with which the next daemon is to be asked."""
        self.problem: str | None = None
        """Why there is no daemon yet, if the client is not to wait for it any longer."""

    def answer(self, waiting: Iterable[bytes]) -> tuple[list[bytes], list[bytes]]:
        """The responses to what waits for a daemon, as far as they are known, and the lines that wait on."""
        responses: list[bytes] = []
        unanswered: list[bytes] = []
        for line in waiting:
            message = read(line)
            request = self._pending.get(message.id) if message and message.method else None
            response = None
            if message is not None and message.id is not None and request is not None:
                response = self._response(message.id, request)
            if response is None or message is None:
                unanswered.append(line)
            else:
                self._pending.pop(message.id)
                responses.append(response)
        return responses, unanswered

    def _response(self, request_id: RequestId, request: PendingRequest) -> bytes | None:
        if (known := self._known(request)) is not None:
            return self._give(request_id, request, known)
        if self.problem is not None and request.method in REMEMBERED:
            return self._stand_in(request_id, request, self.problem)
        return None

    def _known(self, request: PendingRequest) -> msgspec.Raw | None:
        """The result that a daemon last gave this client program for such a request; None if not known."""
        if request.method == "ping" and self._in_force.initialize:
            return _NO_MEMBERS
        if self._answers is None or (request.method == "initialize" and self._in_force.initialize):
            return None
        opening = request if request.method == "initialize" else self._in_force.initialize
        client = identify(request, opening)
        return self._answers.find(client, request) if client else None

    def refuse(self, lines: Iterable[bytes], cause: str) -> list[bytes]:
        """No daemon can be had: responses to the requests in `lines`, and to all that are pending."""
        responses: list[bytes] = []
        for line in lines:
            if (message := read(line)) is not None and message.id not in self._pending:
                self._pending.add(message)
            if not any(each.id in self._pending for each in batch.messages(line)):
                responses += refusals.unreadable(line)
        opened = self._announcements.open_streams()
        responses += self._pending.refuse(lambda key, each: self._stand_in(key, each, cause))
        return responses + [self._acknowledged(stream) for stream in opened]

    def _stand_in(self, request_id: RequestId, request: PendingRequest, cause: str) -> bytes:
        """The response in place of a daemon."""
        from mcpx.attach import stand_in  # noqa: PLC0415 - few shims need it

        opens_again = request.method == "initialize" and self._in_force.initialize
        result = None if opens_again else stand_in.result(request, cause)
        if result is None:
            return refusals.unavailable(request_id, request, cause)
        return self._give(request_id, request, result, made_up=True)

    def _give(
        self, request_id: RequestId, request: PendingRequest, result: msgspec.Raw, *, made_up: bool = False
    ) -> bytes:
        self._in_force.take(request, result)
        self._announcements.give(request, result, made_up=made_up, counted=False)
        if request.method == "server/discover":
            self.discover = request.copied()
        return b"".join(envelope.answer(request_id, [result]))

    def _acknowledged(self, stream: RequestId) -> bytes:
        """The notification that a stream is open, for the changes of lists that it asks for."""
        request = self._pending.get(stream)
        asked = decode_object(request.params).get("notifications") if request else None
        wanted = asked if isinstance(asked, dict) else {}
        params = {
            "_meta": {SUBSCRIPTION_KEY: stream},
            "notifications": {
                kind.wanted: True for kind in self._announcements.kinds if wanted.get(kind.wanted) is True
            },
        }
        return notification("notifications/subscriptions/acknowledged", params)
