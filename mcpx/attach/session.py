"""The shim's record of its client's session: enough to carry it over from one daemon to the next.

Pure, but for the file of `RememberedAnswers`.

Lines pass through unchanged and are read on the way. The session keeps the opening (`initialize` and
`initialized`), what stays in force (`logging/setLevel`, `resources/subscribe`, `subscriptions/listen`), and
the requests that await a response. When the daemon is gone, `daemon_lost` says what the client gets, and
`replay` what the next daemon gets; the responses to that are not passed on. While there is none, the client
is answered by `WithoutDaemon`.

Requests of the daemon to the client get ids of the shim's own, because each daemon counts from the same
start. The client hears that a list changed only if it differs from what it was given: after a replay, and
when the daemon announces a change, the shim lists by itself. That list comes in one page, and after a replay
when all servers of the daemon are up, asleep or have failed (`SETTLED_KEY`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from mcpx.attach.announcements import SUBSCRIPTION_KEY, Announcements, ListKind
from mcpx.attach.pending import (
    OPENINGS,
    REMEMBERED,
    DaemonRequests,
    InForce,
    PendingRequest,
    PendingRequests,
    cancelled_id,
    decode_object,
    lost_response,
)
from mcpx.attach.remembered import RememberedAnswers, identify
from mcpx.attach.without_daemon import WithoutDaemon
from mcpx.core.wire import batch, envelope
from mcpx.core.wire.batch import read
from mcpx.core.wire.envelope import RPCMessage
from mcpx.errors import Code

OWN_ID_PREFIX: Final = "mcpx-attach:"
"""The ids of the shim's own requests begin with it."""
CONNECTION_CLOSED_TEXT: Final = b'"Connection closed"'
"""In the error with which a daemon that is ending drops a request; it counts as no response."""


class Session:
    """One client's session. `refused` is why the daemon does not open it; `waits_for_server`: only for now.

    `to_daemon` are its own lines for the daemon; whoever sends them takes them out. Without `answers` nothing
    is remembered. A client of a `transparent` endpoint hears of every change that is announced.
    """

    def __init__(self, answers: RememberedAnswers | None = None, *, transparent: bool = False) -> None:
        self._answers = answers
        self._transparent = transparent
        self.refused: str | None = None
        self.waits_for_server = False
        self.to_daemon: list[bytes] = []
        self._pending = PendingRequests(transparent=transparent)
        self._in_force = InForce()
        self._announcements = Announcements(self._pending, self._in_force)
        self._without_daemon = WithoutDaemon(self._pending, self._in_force, self._announcements, answers)
        self._own_requests: dict[str, PendingRequest] = {}
        self._last_id = 0
        self._daemon_requests = DaemonRequests()

    # --- from the client to the daemon

    def from_client(self, line: bytes) -> bytes | None:
        """The line for the daemon that a line of the client becomes, newline included; None for none."""
        message = read(line)
        if message is None:
            messages = batch.split_if_any(line) if self._in_force.takes_batches else []
            if not batch.why_refused(messages):
                return self._batch_of_client(messages)
            return line + b"\n"  # the daemon answers with what is wrong
        if message.is_response:
            return self._daemon_requests.response(message)
        self._note(message, line)
        return line + b"\n"

    def _batch_of_client(self, messages: list[bytes]) -> bytes | None:
        """The batch for the daemon, with its responses under the daemon's ids; None if nothing is left."""
        number = self._pending.new_batch()
        passed: list[bytes] = []
        for each in messages:
            message = read(each)
            if message is not None and message.is_response:
                passed += filter(None, [self._daemon_requests.response(message)])
                continue
            if message is not None:
                self._note(message, each, number)
            passed.append(each)
        return batch.join(passed) + b"\n" if passed else None

    def _note(self, message: RPCMessage, line: bytes, batch_number: int = 0) -> None:
        """Remember a request or notification of the client."""
        self._pending.add(message, batch_number)
        if message.method == "notifications/initialized":
            self._in_force.initialized = line
        elif message.method == "notifications/cancelled":
            self._pending.pop(cancelled_id(message.params))

    # --- while there is no daemon

    @property
    def awaits_daemon(self) -> bool:
        """True if a request of the client is not answered."""
        return bool(self._pending)

    def answer(self, waiting: Iterable[bytes]) -> tuple[list[bytes], list[bytes]]:
        """The responses to what waits for a daemon, as far as they are known, and the lines that wait on."""
        return self._without_daemon.answer(waiting)

    def wait_no_longer(self, problem: str) -> None:
        """From now on `answer` opens the session and lists the tools itself; `problem` as in `refuse`."""
        self._without_daemon.problem = problem

    def refuse(self, lines: Iterable[bytes], cause: str) -> list[bytes]:
        """No daemon can be had: responses to the requests in `lines`, and to all that are pending."""
        return self._without_daemon.refuse(lines, cause)

    # --- from the daemon to the client

    def from_daemon(self, line: bytes) -> list[bytes]:
        """The lines for the client that a line of the daemon becomes, newlines included."""
        message = envelope.split_large_answer(line) or read(line)
        if message is None:
            responses = [self._member_of_daemon(each) for each in batch.split_if_any(line)]
            return [batch.join(responses) + b"\n" if responses else line + b"\n"]
        if message.method is None:
            return self._response_of_daemon(message, line)
        if message.id is not None:
            return [self._daemon_requests.renamed(message, message.id)]
        return self._notification_of_daemon(message, line)

    def _response_of_daemon(self, message: RPCMessage, line: bytes) -> list[bytes]:
        if isinstance(message.id, str) and message.id in self._own_requests:
            return self._own_response(self._own_requests.pop(message.id), message)
        if message.error and CONNECTION_CLOSED_TEXT in bytes(message.error):
            return []  # it stays pending until the connection ends
        request = self._pending.get(message.id)
        if request is not None and (cause := self._why_not_opened(request, message)):
            self.refused, self.waits_for_server = self.refused or cause, True
            return []  # likewise
        self._pending.pop(message.id)
        if request is not None and message.result:
            self._answered(request, message.result)
        return [line + b"\n"]

    def _why_not_opened(self, request: PendingRequest, message: RPCMessage) -> str | None:
        """The daemon's reason not to open the session, from an error of the opening or of a list then."""
        opens = request.method in OPENINGS or self.refused is not None or self._is_opening
        return _unavailable(message.error) if opens and request.method in REMEMBERED else None

    @property
    def _is_opening(self) -> bool:
        """Return True if the daemon has yet to answer a replayed opening."""
        return any(each.method in OPENINGS for each in self._own_requests.values())

    def _member_of_daemon(self, line: bytes) -> bytes:
        """A response to a batch; a daemon that is ending gives them all, and those it drops are lost."""
        message = read(line)
        request = self._pending.pop(message.id) if message else None
        if message is None or message.id is None or request is None:
            return line
        if message.error and CONNECTION_CLOSED_TEXT in bytes(message.error):
            return lost_response(message.id, request)
        if message.result:
            self._answered(request, message.result)
        return line

    def _answered(self, request: PendingRequest, result: msgspec.Raw) -> None:
        """Note a request of the client that has succeeded."""
        self._in_force.take(request, result)
        self._announcements.give(request, result)
        self._keep(request, result)

    def _keep(self, request: PendingRequest, result: msgspec.Raw) -> None:
        """Keep an answer of the daemon for the next start."""
        if self._answers is not None and (client := identify(request, self._in_force.initialize)):
            self._answers.note(client, request, result)

    def _notification_of_daemon(self, message: RPCMessage, line: bytes) -> list[bytes]:
        for kind in self._announcements.kinds:
            if kind.notification == message.method and kind.is_given and not self._transparent:
                self._compare(kind)
                return []
        if message.method == "notifications/subscriptions/acknowledged":
            meta = decode_object(message.params).get("_meta") or {}
            return self._announcements.stream_opened(meta.get(SUBSCRIPTION_KEY), line + b"\n")
        if message.method == "notifications/cancelled":
            return [self._daemon_requests.cancellation(message.params) or line + b"\n"]
        return [line + b"\n"]

    # --- from one daemon to the next

    def daemon_lost(self, unsent: Iterable[bytes]) -> tuple[list[bytes], list[bytes]]:
        """Settle what was in flight to a daemon that is gone; `unsent` are the lines it got no byte of.

        The lines for the client, and those of `unsent` that are for the next daemon.
        """
        kept = [line for line in unsent if not self._ends_with_daemon(read(line))]
        safe = {each.id for line in kept for each in batch.messages(line)}
        to_client = self._pending.lose(safe) + self._daemon_requests.daemon_lost()
        self._own_requests.clear()
        return to_client, kept

    def _ends_with_daemon(self, message: RPCMessage | None) -> bool:
        """Return True if a line that was not sent means nothing to the next daemon."""
        return message is not None and (message.is_response or str(message.id).startswith(OWN_ID_PREFIX))

    def replay(self, unsent: Iterable[bytes]) -> list[bytes]:
        """The lines that the next daemon gets before `unsent`."""
        unsent = list(unsent)
        waiting = {each.id for line in unsent for each in batch.messages(line)}
        opening = self._in_force.initialize or self._without_daemon.discover
        self._without_daemon.discover = self._without_daemon.problem = None
        lines = [self._own_request(opening)] if opening else []
        initialized = self._in_force.initialized
        if self._in_force.initialize and initialized and initialized + b"\n" not in unsent:
            lines.append(initialized + b"\n")
        lines += [self._own_request(request) for request in self._in_force.requests()]
        for request_id, request in self._pending:
            if request_id not in waiting:
                lines.append(request.encoded(request_id))
                self._announcements.replay(request_id)
        self.to_daemon.clear()
        for kind in self._announcements.kinds:
            kind.stop_comparing()
            if not self._announcements.is_made_up(kind):
                self._compare(kind, settled=True)
        return lines

    def news_of_replay(self) -> list[bytes]:
        """After a replay without an opening: what the client hears of the new daemon."""
        return [] if self._is_opening else self._announcements.announce_made_up()

    def _compare(self, kind: ListKind, *, settled: bool = False) -> None:
        """List what the client was given of that kind, to find out whether it differs."""
        self.to_daemon += [self._own_request(each) for each in kind.compare(settled=settled)]

    def _own_request(self, request: PendingRequest) -> bytes:
        """A request of the shim's own."""
        self._last_id += 1
        request_id = f"{OWN_ID_PREFIX}{self._last_id}"
        self._own_requests[request_id] = request
        return request.encoded(request_id)

    @property
    def awaits_only_itself(self) -> bool:
        """True if the daemon has yet to answer requests of the shim's own alone."""
        return bool(self._own_requests) and not self._pending

    def _own_response(self, request: PendingRequest, message: RPCMessage) -> list[bytes]:
        if request.method in OPENINGS:
            return self._opened(request, message)
        kind = self._announcements.kind_of.get(request.method)
        if kind is None:
            return []
        if kind.take(request.method, message):
            self._keep(request, message.result)
        if kind.must_repeat():
            self._compare(kind)
        return self._announcements.announce(kind) if kind.is_to_be_announced() else []

    def _opened(self, request: PendingRequest, message: RPCMessage) -> list[bytes]:
        """The daemon has answered the opening that was replayed."""
        if message.result:
            self._keep(request, message.result)
            return self._announcements.announce_made_up()
        if request.method == "initialize":
            cause = _unavailable(message.error)
            self.refused = cause or bytes(message.error).decode(errors="replace")
            self.waits_for_server = cause is not None
        return []


def _unavailable(error: msgspec.Raw) -> str | None:
    """The text of an error of MCPX, which says that a server cannot be had; None for any other."""
    found = decode_object(error)
    data = found.get("data")
    if not isinstance(data, dict) or data.get("code") != Code.SERVER_UNAVAILABLE:
        return None
    return str(found.get("message")).rstrip(".")
