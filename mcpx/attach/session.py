"""The shim's record of its client's session: enough to carry it over from one daemon to the next. Pure.

Lines pass through unchanged and are read on the way. The session keeps the opening (`initialize` and
`initialized`), what stays in force (`logging/setLevel`, `resources/subscribe`, `subscriptions/listen`), and
the requests that await a response. When the daemon is gone, `daemon_lost` says what the client gets, and
`replay` what the next daemon gets; the responses to that are not passed on.

Requests of the daemon to the client get ids of the shim's own, because each daemon counts from the same
start. The client hears that the tools changed only if they differ from those it was given: after a replay,
and when the daemon announces a change, the shim lists them itself. After a replay that list waits until all
servers of the new daemon are up or have failed (`SETTLED_KEY`). The daemon gives a shim that asks so all
tools in one page.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from mcpx.attach import refusals
from mcpx.attach.given_tools import GivenTools
from mcpx.attach.pending import LISTEN, PendingRequests
from mcpx.attach.refusals import PendingRequest, decode_object
from mcpx.daemon.protocol import SETTLED_KEY
from mcpx.wire import batch, envelope
from mcpx.wire.batch import BATCH_REVISION, read
from mcpx.wire.envelope import RequestId, RPCMessage

OWN_ID_PREFIX: Final = "mcpx-attach:"
"""The ids of the shim's own requests begin with it."""
SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"
TOOLS_LIST: Final = "tools/list"
TOOLS_CHANGED: Final = "notifications/tools/list_changed"
CONNECTION_CLOSED_TEXT: Final = b'"Connection closed"'
"""In the error with which a daemon that is ending drops a request; it counts as no response."""


class Lost(NamedTuple):
    """What follows when a daemon is gone: responses for the client, and unsent lines that are still valid."""

    to_client: list[bytes]
    to_next_daemon: list[bytes]


class Session:
    """One client's session. `refused` is why the last replay failed, or None.

    `to_daemon` are the lines of its own for the daemon; whoever sends them takes them out. A client of a
    `transparent` door hears of every change that is announced.
    """

    def __init__(self, *, transparent: bool = False) -> None:
        self._transparent = transparent
        self.refused: str | None = None
        self.to_daemon: list[bytes] = []
        self._pending = PendingRequests(transparent=transparent)
        self._takes_batches = False
        self._initialize: PendingRequest | None = None
        self._initialized: bytes | None = None
        self._log_level: PendingRequest | None = None
        self._subscriptions: dict[str, PendingRequest] = {}
        self._tools = GivenTools()
        self._comparing = False
        self._compare_again = False  # the tools changed during a comparison
        self._acknowledged: set[RequestId] = set()  # streams whose acknowledgement the client has
        self._own_requests: dict[str, PendingRequest] = {}
        self._last_id = 0
        self._daemon_requests: dict[int, RequestId] = {}

    # --- from the client to the daemon

    def from_client(self, line: bytes) -> bytes | None:
        """The line for the daemon that a line of the client becomes, newline included; None for none."""
        message = read(line)
        if message is None:
            messages = batch.split_if_any(line) if self._takes_batches else []
            if not batch.why_refused(messages):
                return self._batch_of_client(messages)
            return line + b"\n"  # the daemon answers with what is wrong
        if message.is_response:
            return self._response_of_client(message)
        self._note(message, line)
        return line + b"\n"

    def _batch_of_client(self, messages: list[bytes]) -> bytes | None:
        """The batch for the daemon, with its responses under the daemon's ids; None if nothing is left."""
        number = self._pending.new_batch()
        passed: list[bytes] = []
        for each in messages:
            message = read(each)
            if message is not None and message.is_response:
                passed += filter(None, [self._response_of_client(message)])
                continue
            if message is not None:
                self._note(message, each, number)
            passed.append(each)
        return batch.join(passed) + b"\n" if passed else None

    def _note(self, message: RPCMessage, line: bytes, batch_number: int = 0) -> None:
        """Remember a request or notification of the client."""
        self._pending.add(message, batch_number)
        if message.method == "notifications/initialized":
            self._initialized = line
        elif message.method == "notifications/cancelled":
            self._pending.pop(_cancelled(message.params))

    def _response_of_client(self, message: RPCMessage) -> bytes | None:
        """The response to a request of the daemon, under its id; None if that daemon is gone."""
        daemon_id = self._daemon_requests.pop(message.id, None) if isinstance(message.id, int) else None
        if daemon_id is None:
            return None
        if message.error:
            return b"".join(envelope.failure(daemon_id, message.error))
        return b"".join(envelope.answer(daemon_id, [message.result]))

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
            self._last_id += 1
            self._daemon_requests[self._last_id] = message.id
            return [PendingRequest(message.method, message.params).encoded(self._last_id)]
        return self._notification_of_daemon(message, line)

    def _response_of_daemon(self, message: RPCMessage, line: bytes) -> list[bytes]:
        if message.id is None:
            return [line + b"\n"]
        if isinstance(message.id, str) and message.id in self._own_requests:
            return self._own_response(self._own_requests.pop(message.id), message)
        if message.error and CONNECTION_CLOSED_TEXT in bytes(message.error):
            return []  # it stays pending until the connection ends
        request = self._pending.pop(message.id)
        if request is not None and message.result:
            self._remember(request, message.result)
        return [line + b"\n"]

    def _member_of_daemon(self, line: bytes) -> bytes:
        """A response to a batch; a daemon that is ending gives them all, and those it drops are lost."""
        message = read(line)
        request = self._pending.pop(message.id) if message else None
        if message is None or message.id is None or request is None:
            return line
        if message.error and CONNECTION_CLOSED_TEXT in bytes(message.error):
            return refusals.lost_response(message.id, request)
        if message.result:
            self._remember(request, message.result)
        return line

    def _remember(self, request: PendingRequest, result: msgspec.Raw) -> None:
        """Keep what a request that succeeded has put in force."""
        match request.method:
            case "initialize":
                self._initialize = request.copied()
                self._takes_batches = decode_object(result).get("protocolVersion") == BATCH_REVISION
            case "logging/setLevel":
                self._log_level = request.copied()
            case "resources/subscribe":
                self._subscriptions[_uri(request)] = request.copied()
            case "resources/unsubscribe":
                self._subscriptions.pop(_uri(request), None)
            case "tools/list":
                self._tools.give(request.copied(), result)

    def _notification_of_daemon(self, message: RPCMessage, line: bytes) -> list[bytes]:
        match message.method:
            case "notifications/tools/list_changed" if self._tools.request and not self._transparent:
                self._compare()
                return []
            case "notifications/subscriptions/acknowledged":
                meta = decode_object(message.params).get("_meta") or {}
                if (stream := meta.get(SUBSCRIPTION_KEY)) in self._acknowledged:
                    self._acknowledged.discard(stream)
                    return []
            case "notifications/cancelled":
                cancelled = _cancelled(message.params)
                own_id = [key for key, daemon_id in self._daemon_requests.items() if daemon_id == cancelled]
                if own_id:
                    del self._daemon_requests[own_id[0]]
                    params = {**decode_object(message.params), "requestId": own_id[0]}
                    return [_notification("notifications/cancelled", params)]
        return [line + b"\n"]

    # --- from one daemon to the next

    def daemon_lost(self, unsent: Iterable[bytes]) -> Lost:
        """Settle what was in flight to a daemon that is gone; `unsent` are the lines it got no byte of."""
        kept = [line for line in unsent if not self._ends_with_daemon(read(line))]
        safe = {each.id for line in kept for each in batch.messages(line)}
        to_client = self._pending.lose(safe)
        to_client += [
            _notification("notifications/cancelled", {"requestId": own_id, "reason": "the daemon went away"})
            for own_id in self._daemon_requests
        ]
        self._daemon_requests.clear()
        self._own_requests.clear()
        return Lost(to_client, kept)

    def _ends_with_daemon(self, message: RPCMessage | None) -> bool:
        """Whether a line that was not sent means nothing to the next daemon."""
        return message is not None and (message.is_response or str(message.id).startswith(OWN_ID_PREFIX))

    def replay(self, unsent: Iterable[bytes]) -> list[bytes]:
        """The lines that the next daemon gets before `unsent`."""
        waiting = {each.id for line in unsent for each in batch.messages(line)}
        lines = [self._own_request(self._initialize)] if self._initialize else []
        if self._initialize and self._initialized:
            lines.append(self._initialized + b"\n")
        in_force = (self._log_level, *self._subscriptions.values())
        lines += [self._own_request(request) for request in in_force if request]
        for request_id, request in self._pending:
            if request_id not in waiting:
                lines.append(request.encoded(request_id))
                if request.method == LISTEN:
                    self._acknowledged.add(request_id)
        self._comparing = self._compare_again = False
        self.to_daemon.clear()
        self._compare(settled=True)
        return lines

    def _compare(self, *, settled: bool = False) -> None:
        """List the tools, to compare them with those that the client was given."""
        if self._comparing or self._tools.request is None:
            self._compare_again = self._comparing
            return
        self._comparing = True
        params = decode_object(self._tools.request.params)
        params["_meta"] = {**(params.get("_meta") or {}), SETTLED_KEY: settled}
        request = PendingRequest(TOOLS_LIST, msgspec.Raw(envelope.encode(params)))
        self.to_daemon.append(self._own_request(request))

    def _own_request(self, request: PendingRequest) -> bytes:
        """A request of the shim's own."""
        self._last_id += 1
        request_id = f"{OWN_ID_PREFIX}{self._last_id}"
        self._own_requests[request_id] = request
        return request.encoded(request_id)

    def _own_response(self, request: PendingRequest, message: RPCMessage) -> list[bytes]:
        if request.method == "initialize" and message.error:
            self.refused = bytes(message.error).decode(errors="replace")
        if request.method != TOOLS_LIST:
            return []
        self._comparing = False
        if self._compare_again:
            self._compare_again = False
            self._compare()
            return []
        if message.error or not self._tools.differs(message.result):
            return []
        if self._initialize:
            return [_notification(TOOLS_CHANGED, None)]
        return [
            _notification(TOOLS_CHANGED, {"_meta": {SUBSCRIPTION_KEY: stream}})
            for stream in self._pending.tools_streams()
        ]

    def refuse(self, lines: Iterable[bytes], cause: str) -> list[bytes]:
        """No daemon can be reached: error responses to the requests in `lines`, and to pending ones."""
        responses: list[bytes] = []
        for line in lines:
            if (message := read(line)) is not None and message.id not in self._pending:
                self._pending.add(message)
            if not any(each.id in self._pending for each in batch.messages(line)):
                responses += refusals.unreadable(line)
        return responses + self._pending.refuse(cause)


def _cancelled(params: msgspec.Raw) -> RequestId:
    """The id of the request that is cancelled; an id that no request has, if it is missing."""
    try:
        return envelope.decode_cancelled(params).request_id
    except (msgspec.DecodeError, RecursionError):
        return OWN_ID_PREFIX


def _uri(request: PendingRequest) -> str:
    return str(decode_object(request.params).get("uri"))


def _notification(method: str, params: dict[str, Any] | None) -> bytes:
    return b"".join(envelope.notification(method, None if params is None else envelope.encode(params)))
