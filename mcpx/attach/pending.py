"""The client's requests that await a response, and what answers them when their daemon is gone. Pure.

Requests that came in one batch are answered in one array. Responses of the shim's own have the form of the
daemon's failures: a call of one of its tools ends in a result with `isError`, every other request in a
JSON-RPC error, and both say whether the action may have happened. The daemon's requests to the client get ids
of the shim's own, as all daemons count alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

import msgspec

from mcpx.core.wire import batch, envelope
from mcpx.core.wire.batch import BATCH_REVISION
from mcpx.core.wire.envelope import RequestId, RPCMessage
from mcpx.core.wire.lines import TooLong
from mcpx.errors import Code, Outcome, failure_text

# --- responses that the shim gives itself when no daemon will

CONNECTION_CLOSED: Final = -32000
OPENINGS: Final = frozenset({"initialize", "server/discover"})
LISTS: Final = frozenset({"tools/list", "prompts/list", "resources/list", "resources/templates/list"})
REMEMBERED: Final = OPENINGS | LISTS
"""Answered by `RememberedAnswers` while a daemon is being started."""
VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
LOST_TEXT: Final = (
    "The MCPX daemon went away while this was on its way: it may have been done, or not."
    " MCPX starts a new one by itself; look before you try again."
)


MAX_KEPT_PARAMS: Final = 16384  # bytes of a pending call's parameters; of longer ones the names are kept


class _Names(msgspec.Struct, gc=False, omit_defaults=True):
    server_name: Any = None
    tool_name: Any = None


class _Version(msgspec.Struct, gc=False, omit_defaults=True, rename={"version": VERSION_KEY}):
    version: Any = None


class _Named(msgspec.Struct, gc=False, omit_defaults=True):
    """The parameters of a call that its refusal repeats."""

    arguments: _Names | None = None
    meta: _Version | None = msgspec.field(name="_meta", default=None)


class PendingRequest(msgspec.Struct, frozen=True, gc=False):
    """A request that awaits its response. `batch` is the number of the batch that it came in; 0 for none.

    What a `transparent` one asks for is the server's: a failure of MCPX is no result of it.
    """

    method: str
    params: msgspec.Raw
    batch: int = 0
    transparent: bool = False

    def copied(self) -> PendingRequest:
        """A copy that does not keep the whole line in memory."""
        return PendingRequest(self.method, msgspec.Raw(bytes(self.params)))

    def encoded(self, request_id: RequestId) -> bytes:
        """Its message, under that id."""
        return b"".join(envelope.request(request_id, envelope.escaped(self.method), self.params or None))


def lost_response(request_id: RequestId, request: PendingRequest) -> bytes:
    """The response to a request whose daemon is gone after it was sent."""
    return _refuse(request_id, request, LOST_TEXT, Code.SERVER_DIED, Outcome.UNKNOWN)


def unavailable(request_id: RequestId, request: PendingRequest, cause: str) -> bytes:
    """The response to a request that was not sent, because of `cause`, a sentence without its full stop."""
    text = f"{cause}. Nothing was sent; trying again is safe."
    return _refuse(request_id, request, text, Code.SERVER_UNAVAILABLE, Outcome.NOT_SENT)


def malformed(line: bytes | TooLong) -> list[bytes]:
    """Return the response to a line that is no message or too long, in the daemon's words; else nothing."""
    from mcpx.core.wire import malformed as daemon  # noqa: PLC0415 - few clients send such lines

    pieces = daemon.refusal(daemon.describe(line)) if isinstance(line, TooLong) else daemon.unreadable(line)
    return [b"".join(pieces)] if pieces else []


def lightened(request: PendingRequest) -> PendingRequest:
    """The request without large parameters: with those alone that a refusal repeats."""
    if request.method != "tools/call" or len(request.params) <= MAX_KEPT_PARAMS:
        return request
    try:
        named = envelope.encode(msgspec.json.decode(request.params, type=_Named))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        named = b"{}"
    return PendingRequest(request.method, msgspec.Raw(named), request.batch, request.transparent)


def _refuse(request_id: RequestId, request: PendingRequest, text: str, code: Code, outcome: Outcome) -> bytes:
    params = decode_object(request.params)
    details: dict[str, Any] = {"error": text, "code": code, "outcome": outcome}
    if request.method != "tools/call" or request.transparent:
        error = {"code": CONNECTION_CLOSED, "message": text, "data": details}
        return b"".join(envelope.failure(request_id, envelope.encode(error)))
    arguments = params.get("arguments")
    if isinstance(arguments, dict):
        named = {"server": arguments.get("server_name"), "tool": arguments.get("tool_name")}
        details |= {key: value for key, value in named.items() if isinstance(value, str)}
    result: dict[str, Any] = {
        "content": [{"type": "text", "text": failure_text(text, code, outcome)}],
        "structuredContent": details,
        "isError": True,
    }
    if VERSION_KEY in (params.get("_meta") or {}):
        result["resultType"] = "complete"
    return b"".join(envelope.answer(request_id, [envelope.encode(result)]))


def decode_object(raw: msgspec.Raw | bytes) -> dict[str, Any]:
    """A JSON object; empty if it cannot be read or is something else."""
    try:
        value = msgspec.json.decode(raw) if raw else {}
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return {}
    return value if isinstance(value, dict) else {}


# --- what is in force, and will be at the next daemon


class InForce:
    """The opening of a session, its log level and its subscriptions."""

    def __init__(self) -> None:
        self.initialize: PendingRequest | None = None
        """None before the handshake, and since 2026-07-28, which has none."""
        self.initialized: bytes | None = None
        """The notification that ends the handshake, as the client sent it."""
        self.takes_batches = False
        self._log_level: PendingRequest | None = None
        self._subscriptions: dict[str, PendingRequest] = {}

    def take(self, request: PendingRequest, result: msgspec.Raw) -> None:
        """Note what a request that succeeded has put in force."""
        match request.method:
            case "initialize":
                self.initialize = request.copied()
                self.takes_batches = decode_object(result).get("protocolVersion") == BATCH_REVISION
            case "logging/setLevel":
                self._log_level = request.copied()
            case "resources/subscribe":
                self._subscriptions[_uri(request)] = request.copied()
            case "resources/unsubscribe":
                self._subscriptions.pop(_uri(request), None)

    def requests(self) -> list[PendingRequest]:
        """The requests that put it in force again, after the handshake."""
        return [request for request in (self._log_level, *self._subscriptions.values()) if request]


def _uri(request: PendingRequest) -> str:
    return str(decode_object(request.params).get("uri"))


LISTEN: Final = "subscriptions/listen"
REPEATABLE: Final = REMEMBERED | {"ping"}
"""Harmless: sent again to the next daemon, under the client's id, if the one before did not respond."""


class PendingRequests:
    """The requests of one client, by their ids."""

    def __init__(self, *, transparent: bool = False) -> None:
        self._transparent = transparent
        self._requests: dict[RequestId, PendingRequest] = {}
        self._last_batch = 0

    def __len__(self) -> int:
        return len(self._requests)

    def __contains__(self, request_id: RequestId | None) -> bool:
        return request_id in self._requests

    def __iter__(self) -> Iterator[tuple[RequestId, PendingRequest]]:
        return iter(list(self._requests.items()))

    def new_batch(self) -> int:
        """The number of a batch whose requests will be added."""
        self._last_batch += 1
        return self._last_batch

    def add(self, message: RPCMessage, batch_number: int = 0) -> None:
        """Add a request, unless the message is none."""
        if message.id is not None and message.method is not None:
            request = PendingRequest(message.method, message.params, batch_number, self._transparent)
            self._requests[message.id] = lightened(request)

    def get(self, request_id: RequestId | None) -> PendingRequest | None:
        """The request of that id; None if there is none."""
        return None if request_id is None else self._requests.get(request_id)

    def pop(self, request_id: RequestId | None) -> PendingRequest | None:
        """Take out a request that is settled; None for an id that no request has."""
        return None if request_id is None else self._requests.pop(request_id, None)

    def streams(self) -> dict[RequestId, PendingRequest]:
        """The 2026-07-28 streams that are open."""
        return {key: each for key, each in self._requests.items() if each.method == LISTEN}

    def streams_for(self, wanted: str) -> list[RequestId]:
        """The open streams whose filter has that member."""
        filters = {
            key: decode_object(each.params).get("notifications") for key, each in self.streams().items()
        }
        return [key for key, each in filters.items() if isinstance(each, dict) and each.get(wanted)]

    def lose(self, unsent: Collection[RequestId | None]) -> list[bytes]:
        """Take out what was sent to a daemon that is gone and cannot be repeated; the responses for it."""
        lost = {
            key: each
            for key, each in self._requests.items()
            if key not in unsent and (each.batch or (each.method not in REPEATABLE and each.method != LISTEN))
        }
        for key in lost:
            del self._requests[key]
        return _responses(lost, lost_response)

    def refuse(self, respond: Callable[[RequestId, PendingRequest], bytes]) -> list[bytes]:
        """Take out all but streams, because there is no daemon; the responses for them."""
        streams = self.streams()
        refused = {key: each for key, each in self._requests.items() if key not in streams}
        self._requests = streams
        return _responses(refused, respond)


def _responses(
    requests: Mapping[RequestId, PendingRequest], respond: Callable[[RequestId, PendingRequest], bytes]
) -> list[bytes]:
    """The responses to these requests, as lines; those to one batch are one array."""
    batches: dict[int, list[bytes]] = {}
    for key, each in requests.items():
        batches.setdefault(each.batch, []).append(respond(key, each))
    singles = batches.pop(0, [])
    return singles + [batch.join(each) + b"\n" for each in batches.values()]


class DaemonRequests:
    """Requests of the daemon that await the client's response. Lines end in newlines."""

    def __init__(self) -> None:
        self._daemon_ids: dict[int, RequestId] = {}  # by the ids that the client sees
        self._last_id = 0

    def renamed(self, message: RPCMessage, daemon_id: RequestId) -> bytes:
        """The request for the client that a request of the daemon becomes."""
        self._last_id += 1
        self._daemon_ids[self._last_id] = daemon_id
        return PendingRequest(str(message.method), message.params).encoded(self._last_id)

    def response(self, message: RPCMessage) -> bytes | None:
        """The response for the daemon that the client's becomes; None if that daemon is gone."""
        daemon_id = self._daemon_ids.pop(message.id, None) if isinstance(message.id, int) else None
        if daemon_id is None:
            return None
        if message.error:
            return b"".join(envelope.failure(daemon_id, message.error))
        return b"".join(envelope.answer(daemon_id, [message.result]))

    def cancellation(self, params: msgspec.Raw) -> bytes | None:
        """The cancellation for the client that the daemon's becomes; None if no such request is open."""
        cancelled = cancelled_id(params)
        for own_id, daemon_id in self._daemon_ids.items():
            if daemon_id == cancelled:
                del self._daemon_ids[own_id]
                return notification("notifications/cancelled", {**decode_object(params), "requestId": own_id})
        return None

    def daemon_lost(self) -> list[bytes]:
        """The cancellations of all, whose daemon is gone."""
        lost, self._daemon_ids = self._daemon_ids, {}
        reason = "the daemon went away"
        return [
            notification("notifications/cancelled", {"requestId": own_id, "reason": reason})
            for own_id in lost
        ]


def cancelled_id(params: msgspec.Raw) -> RequestId | None:
    """The id of the request that is cancelled; None if it is missing."""
    try:
        return envelope.decode_cancelled(params).request_id
    except (msgspec.DecodeError, RecursionError):
        return None


def notification(method: str, params: dict[str, Any] | None) -> bytes:
    """A notification, as a line."""
    return b"".join(envelope.notification(method, None if params is None else envelope.encode(params)))
