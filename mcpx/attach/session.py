"""What the shim knows of its client's session: enough to carry it over from one daemon to the next. Pure.

Lines pass through as they are, and are looked at on the way. Remembered are the opening (`initialize` and
`initialized`, answered once), what stays in force (`logging/setLevel`, `resources/subscribe`,
`subscriptions/listen`), and which requests await their answers. `lost` says what the client must be told
when the daemon is gone, `replay` what the next daemon must be told, and its answers to that go no further.

Requests of the daemon to the client get ids of the shim's own, for two daemons count from the same start.
That the tools changed is said only if they are not those that the client was given: after a replay, and when
the daemon says so, the shim lists them itself. After a replay that waits until all servers of the new daemon
are up or have failed (`SETTLED_KEY`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from mcpx.attach.refusals import Asked, decode_object, light, lost, unavailable, unreadable
from mcpx.wire import envelope
from mcpx.wire.envelope import RequestId, RPCMessage

OWN: Final = "mcpx-attach:"
"""How the ids of the shim's own requests begin."""
SETTLED_KEY: Final = "mcpx/settled"
SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"
LISTEN: Final = "subscriptions/listen"
TOOLS: Final = "tools/list"
CHANGED: Final = "notifications/tools/list_changed"
HARMLESS: Final = frozenset({"initialize", "server/discover"})
"""Asked again of the next daemon, under the client's own id, where the one before did not answer."""
CLOSING: Final = b'"Connection closed"'
"""In the error with which a daemon that leaves drops a request: no answer to it."""


class _Listed(msgspec.Struct, gc=False):
    tools: msgspec.Raw = msgspec.Raw()


class Session:
    """One client's session. `refused` is why the last replay failed, if it did.

    `to_daemon` are lines that the session itself has for the daemon; their sender takes them out.
    """

    def __init__(self) -> None:
        self.refused: str | None = None
        self.to_daemon: list[bytes] = []
        self._open: dict[RequestId, Asked] = {}
        self._initialize: Asked | None = None
        self._initialized: bytes | None = None
        self._level: Asked | None = None
        self._subscribed: dict[str, Asked] = {}
        self._tools: Asked | None = None  # how the client asks for them
        self._seen = 0  # a digest of the tools that it was given
        self._comparing = False
        self._again = False  # the tools changed while they were listed for a comparison
        self._silenced: set[RequestId] = set()  # streams that the client knows to be open
        self._own: dict[str, Asked] = {}
        self._minted = 0
        self._asked_of_client: dict[int, RequestId] = {}

    # --- from the client to the daemon

    def from_client(self, line: bytes) -> bytes | None:
        """What goes to the daemon for a line of the client; None for nothing. Ends with a newline."""
        message = _read(line)
        if message is None:
            return line + b"\n"  # the daemon knows how to say what is wrong with it
        if message.method is None:
            return self._answer_of_client(message)
        if message.id is not None:
            self._open[message.id] = light(Asked(message.method, message.params))
        elif message.method == "notifications/initialized":
            self._initialized = line
        elif message.method == "notifications/cancelled":
            self._open.pop(_cancelled(message.params), None)
        return line + b"\n"

    def _answer_of_client(self, message: RPCMessage) -> bytes | None:
        """The answer to the daemon's request, under the daemon's id; to a daemon that is gone, none."""
        if not isinstance(message.id, int) or (theirs := self._asked_of_client.pop(message.id, None)) is None:
            return None
        if message.error:
            return b"".join(envelope.failure(theirs, message.error))
        return b"".join(envelope.answer(theirs, [message.result]))

    # --- from the daemon to the client

    def from_daemon(self, line: bytes) -> list[bytes]:
        """What goes to the client for a line of the daemon; each ends with a newline."""
        message = envelope.split_large_answer(line) or _read(line)
        if message is None:
            return [line + b"\n"]
        if message.method is None:
            return self._answer_of_daemon(message, line)
        if message.id is not None:
            self._minted += 1
            self._asked_of_client[self._minted] = message.id
            return [b"".join(envelope.request(self._minted, message.method, message.params or None))]
        return self._notice(message, line)

    def _answer_of_daemon(self, message: RPCMessage, line: bytes) -> list[bytes]:
        if message.id is None:
            return [line + b"\n"]
        if isinstance(message.id, str) and message.id in self._own:
            return self._answer_to_us(self._own.pop(message.id), message)
        if message.error and CLOSING in bytes(message.error):
            return []  # it stays open, and is dealt with when the connection ends
        asked = self._open.pop(message.id, None)
        if asked is not None and message.result:
            self._remember(asked, message.result)
        return [line + b"\n"]

    def _remember(self, asked: Asked, result: msgspec.Raw) -> None:
        """A request has succeeded: keep what it put in force."""
        match asked.method:
            case "initialize":
                self._initialize = _kept(asked)
            case "logging/setLevel":
                self._level = _kept(asked)
            case "resources/subscribe":
                self._subscribed[_uri(asked)] = _kept(asked)
            case "resources/unsubscribe":
                self._subscribed.pop(_uri(asked), None)
            case "tools/list":
                self._tools, self._seen = _kept(asked), _digest(result)

    def _notice(self, message: RPCMessage, line: bytes) -> list[bytes]:
        match message.method:
            case "notifications/tools/list_changed" if self._tools:
                self._compare()
                return []
            case "notifications/subscriptions/acknowledged":
                meta = decode_object(message.params).get("_meta") or {}
                if (stream := meta.get(SUBSCRIPTION_KEY)) in self._silenced:
                    self._silenced.discard(stream)
                    return []
            case "notifications/cancelled":
                gone = _cancelled(message.params)
                ours = [key for key, theirs in self._asked_of_client.items() if theirs == gone]
                if ours:
                    del self._asked_of_client[ours[0]]
                    params = {**decode_object(message.params), "requestId": ours[0]}
                    return [_notification("notifications/cancelled", params)]
        return [line + b"\n"]

    # --- from one daemon to the next

    def lost(self, unsent: Iterable[bytes]) -> tuple[list[bytes], list[bytes]]:
        """The daemon is gone; `unsent` are the lines that it got no byte of.

        What the client is told now, and the lines of `unsent` that are still good for the next daemon.
        """
        waiting = [(line, _read(line)) for line in unsent]
        kept = [
            (line, each) for line, each in waiting if each is None or (each.method and not self._ours(each))
        ]
        safe = {each.id for _, each in kept if each is not None}
        told: list[bytes] = []
        for request_id, asked in list(self._open.items()):
            if request_id not in safe and asked.method not in HARMLESS and asked.method != LISTEN:
                told.append(lost(request_id, asked))
                del self._open[request_id]
        told += [
            _notification("notifications/cancelled", {"requestId": ours, "reason": "the daemon went away"})
            for ours in self._asked_of_client
        ]
        self._asked_of_client.clear()
        self._own.clear()
        return told, [line for line, _ in kept]

    def _ours(self, message: RPCMessage) -> bool:
        return isinstance(message.id, str) and message.id.startswith(OWN)

    def replay(self, unsent: Iterable[bytes]) -> list[bytes]:
        """What the next daemon must hear before `unsent`."""
        waiting = {each.id for line in unsent if (each := _read(line)) is not None}
        lines = [self._ask(self._initialize)] if self._initialize else []
        if self._initialize and self._initialized:
            lines.append(self._initialized + b"\n")
        lines += [self._ask(asked) for asked in (self._level, *self._subscribed.values()) if asked]
        for request_id, asked in self._open.items():
            if request_id not in waiting:
                lines.append(b"".join(envelope.request(request_id, asked.method, asked.params or None)))
                if asked.method == LISTEN:
                    self._silenced.add(request_id)
        self._comparing = self._again = False
        self.to_daemon.clear()
        self._compare(settled=True)
        return lines

    def _compare(self, *, settled: bool = False) -> None:
        """List the tools, to see whether they are those that the client was given."""
        if self._comparing or self._tools is None:
            self._again = self._comparing
            return
        self._comparing = True
        params = decode_object(self._tools.params)
        params["_meta"] = {**(params.get("_meta") or {}), SETTLED_KEY: settled}
        self.to_daemon.append(self._ask(Asked(TOOLS, msgspec.Raw(envelope.encode(params)))))

    def _ask(self, asked: Asked) -> bytes:
        """A request of the shim's own."""
        self._minted += 1
        request_id = f"{OWN}{self._minted}"
        self._own[request_id] = asked
        return b"".join(envelope.request(request_id, asked.method, asked.params or None))

    def _answer_to_us(self, asked: Asked, message: RPCMessage) -> list[bytes]:
        if asked.method == "initialize" and message.error:
            self.refused = bytes(message.error).decode(errors="replace")
        if asked.method != TOOLS:
            return []
        self._comparing = False
        if self._again:
            self._again = False
            self._compare()
            return []
        if message.error or (now := _digest(message.result)) == self._seen:
            return []
        self._seen = now
        if self._initialize:
            return [_notification(CHANGED, None)]
        return [_notification(CHANGED, {"_meta": {SUBSCRIPTION_KEY: stream}}) for stream in self._listening()]

    def _listening(self) -> list[RequestId]:
        """The streams of the 2026-07-28 revision on which the client wants to hear of changed tools."""
        streams = [
            (key, decode_object(asked.params)) for key, asked in self._open.items() if asked.method == LISTEN
        ]
        wanted = [(key, params.get("notifications")) for key, params in streams]
        return [key for key, kinds in wanted if isinstance(kinds, dict) and kinds.get("toolsListChanged")]

    def refuse(self, lines: Iterable[bytes], cause: str) -> list[bytes]:
        """No daemon can be had: the answers to the requests in `lines`, and to what is open."""
        told: list[bytes] = []
        for line in lines:
            message = _read(line)
            if message is None:
                told += unreadable(line)
            elif message.id is not None and message.method is not None:
                self._open.setdefault(message.id, Asked(message.method, message.params))
        streams = {key: asked for key, asked in self._open.items() if asked.method == LISTEN}
        told += [unavailable(key, asked, cause) for key, asked in self._open.items() if key not in streams]
        self._open = streams
        return told


def _read(line: bytes) -> RPCMessage | None:
    try:
        return envelope.decode_message(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _kept(asked: Asked) -> Asked:
    """A copy that does not hold the line that it came in."""
    return Asked(asked.method, msgspec.Raw(bytes(asked.params)))


def _cancelled(params: msgspec.Raw) -> RequestId:
    """The request that a cancellation is about; an id that no request has, where it does not say."""
    try:
        return envelope.decode_cancelled(params).request_id
    except (msgspec.DecodeError, RecursionError):
        return OWN


def _uri(asked: Asked) -> str:
    return str(decode_object(asked.params).get("uri"))


def _digest(result: msgspec.Raw) -> int:
    """Of the tools in a list, never 0. Within this process only."""
    try:
        return hash(bytes(msgspec.json.decode(result, type=_Listed).tools)) or 1
    except msgspec.DecodeError:
        return 1


def _notification(method: str, params: dict[str, Any] | None) -> bytes:
    return b"".join(envelope.notification(method, None if params is None else envelope.encode(params)))
