"""Seals around what a client brings back: put on as it goes out, opened when it comes back. Pure.

A seal is a signature with the URL of the replica that holds what it stands for: `mcpx-at-KIND.URL.MAC.TEXT`
around a state or an id, `ID~URL~MAC` for the id of a kept result, which models copy. MAC is HMAC-SHA256 (of
the kept ones the first half) over the kind, the URL and the text, under the secret of all replicas. The URL
counts only where the MAC is right: nobody else can have a request passed on anywhere.

`read` and `seal` look at the members of `params` and `result` alone, never inside what a server or a model
has written.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from enum import StrEnum
from typing import Any, Final

import msgspec

from mcpx.core.gateway.tools.definitions import RESOURCES
from mcpx.core.policy.questions import PREFIX as APPROVAL
from mcpx.core.protocol.context import TASK_METHODS
from mcpx.core.protocol.result_address import read_address
from mcpx.core.rendering.result_reading import INPUT_REQUIRED, TASK
from mcpx.core.servers.relay.suspended import PREFIX as HELD
from mcpx.core.wire import envelope
from mcpx.errors import CallError, MCPXError

PREFIX: Final = "mcpx-at-"
SHORT_MAC_BYTES: Final = 16
_SEALED: Final = re.compile(rf"{PREFIX}([a-z])\.([\w-]{{1,512}})\.([\w-]{{43}})\.(.*)", re.DOTALL | re.ASCII)
_KEPT: Final = re.compile(r"([0-9a-f]+)~([\w-]{1,512})~([\w-]{22})", re.ASCII)
LISTEN: Final = "subscriptions/listen"
_STATE: Final = "requestState"
_TASK_ID: Final = "taskId"
_SIGNS: Final = (b'"input_required"', b'"requestState"', b'"taskId"', b'"taskIds"')
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_EVENT: Final = b"event: message\r\ndata: "
Members = dict[str, msgspec.Raw]


class Kind(StrEnum):
    """Kinds of sealed texts."""

    APPROVAL = "a"
    """The state of a question of MCPX's own: nothing was sent yet."""
    HELD = "h"
    """The state of a call that a server has asked in: it was sent."""
    STATE = "s"
    """The state of a server that wants input."""
    STATELESS = "n"
    """The same, of one that has given no state; or of a link to sign in by."""
    TASK = "t"
    KEPT = "k"


class AlteredError(MCPXError):
    """Something was brought back that was not given out so."""


class Sealed(msgspec.Struct, frozen=True):
    """A sealed text, and the URL of its holder."""

    kind: Kind
    url: str
    text: str


class Seals:
    """The seals of one replica, which others read."""

    def __init__(self, url: str, secret: str) -> None:
        self.url = url
        self._secret = secret.encode()
        self._encoded = _encode(url.encode())

    def mac(self, *parts: bytes) -> bytes:
        """The signature of these parts, each of which may hold anything."""
        signed = hmac.new(self._secret, digestmod=hashlib.sha256)
        for part in parts:
            signed.update(len(part).to_bytes(8) + part)
        return signed.digest()

    # --- states and ids of tasks

    def seal_state(self, state: str | None) -> str:
        """A state for a client, of a result that wants input."""
        if state is None:
            return self._seal(Kind.STATELESS, "")
        kind = Kind.STATE
        if state.startswith(HELD):
            kind = Kind.HELD
        elif state.startswith(APPROVAL):
            kind = Kind.APPROVAL
        return self._seal(kind, state)

    def seal_task(self, task_id: str) -> str:
        """The id of a task for a client."""
        return self._seal(Kind.TASK, task_id)

    def _seal(self, kind: Kind, text: str) -> str:
        mac = self.mac(b"seal", kind.encode(), self.url.encode(), _plain(text))
        return f"{PREFIX}{kind}.{self._encoded}.{_encode(mac)}.{text}"

    def open(self, sealed: str) -> Sealed:
        """Open what a client has brought back.

        Raises:
            AlteredError: No replica has given it out.
        """
        found = _SEALED.fullmatch(sealed)
        if found is None or found[1] not in set(Kind):
            raise AlteredError("it was not given out here, or was altered")
        kind, url, text = Kind(found[1]), _decode(found[2]), found[4]
        expected = self.mac(b"seal", kind.encode(), url, _plain(text))
        if not _is_written(found[2], url) or not _is_written(found[3], expected):
            raise AlteredError("it was not given out here, or was altered")
        return Sealed(kind, url.decode(), text)

    # --- kept results

    def seal_kept(self, result_id: str) -> str:
        """The id of a kept result, for a client without a session."""
        return f"{result_id}~{self._encoded}~{_encode(self._kept_mac(result_id, self.url.encode()))}"

    def holder_of(self, uri: str) -> Sealed | None:
        """Find who keeps the result of an address; None for any other URI, and for one that is not sealed.

        Raises:
            AlteredError: No replica has given it out.
        """
        try:
            address = read_address(uri)
        except CallError:
            return None  # whoever serves it says what is wrong
        found = None if address is None else _KEPT.fullmatch(address.id)
        if found is None:
            return None
        url = _decode(found[2])
        if not _is_written(found[2], url) or not _is_written(found[3], self._kept_mac(found[1], url)):
            raise AlteredError("it was not given out here, or was altered")
        return Sealed(Kind.KEPT, url.decode(), found[0])

    def _kept_mac(self, result_id: str, url: bytes) -> bytes:
        return self.mac(b"kept", url, result_id.encode())[:SHORT_MAC_BYTES]


def _is_written(text: str, data: bytes) -> bool:
    """Compare in constant time: True if the text is the data, in the one way to write it."""
    return hmac.compare_digest(text.encode(), _encode(data).encode())


def _plain(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    """The bytes; of what is none, something that is no signature and no URL of ours."""
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""


class Incoming(msgspec.Struct, frozen=True):
    """A request: its id and method, the `body` as this replica takes it, and who else holds what it needs.

    `holder` is None where nobody does. `kind` says what for.
    """

    id: Any
    method: str
    body: bytes
    holder: str | None = None
    kind: Kind | None = None


def read(body: bytes, seals: Seals) -> Incoming | None:
    """The request in a body; None for what is none, which others refuse.

    Raises:
        AlteredError: It brings something that no replica has given out so.
    """
    try:
        message = envelope.decode_members(body)
        method, params = _value(message.get("method")), envelope.decode_members(message.get("params", b"{}"))
    except _UNREADABLE:
        return None
    if not isinstance(method, str):
        return None
    reading = _Reading(seals, params)
    if method in TASK_METHODS:
        reading.task()
    if method == LISTEN:
        reading.tasks_of_stream()
    reading.state(method)
    reading.kept_result(method)
    body = envelope.encode(message | {"params": params}) if reading.is_changed else body
    return Incoming(_value(message.get("id")), method, body, reading.holder, reading.kind)


class _Reading:
    """Opens what the params of a request bring, in place."""

    def __init__(self, seals: Seals, params: Members) -> None:
        self._seals = seals
        self._params = params
        self.holder: str | None = None
        self.kind: Kind | None = None
        self.is_changed = False

    def task(self) -> None:
        task_id = _value(self._params.get(_TASK_ID))
        if isinstance(task_id, str):
            self._put(_TASK_ID, self._opened(task_id, Kind.TASK))

    def state(self, method: str) -> None:
        state = _value(self._params.get(_STATE))
        if not isinstance(state, str):
            return
        if method in TASK_METHODS and not state.startswith(PREFIX):
            return  # of the task, which says where it is
        self._put(_STATE, self._opened(state, Kind.APPROVAL, Kind.HELD, Kind.STATE, Kind.STATELESS))

    def tasks_of_stream(self) -> None:
        """The tasks that a client wants to hear of; those of other replicas only where all are of one."""
        try:
            wanted = envelope.decode_members(self._params.get("notifications", b"{}"))
            ids = msgspec.json.decode(wanted.get("taskIds", b"[]"), type=list[str])
        except _UNREADABLE:
            return
        found = [self._seals.open(each) for each in ids]
        holders = {each.url for each in found}
        if len(holders) == 1 and self._seals.url not in holders:
            self.holder, self.kind = holders.pop(), Kind.TASK
        elif ids:
            own = [each.text for each in found if each.url == self._seals.url]
            wanted["taskIds"] = _raw(own)
            self._params["notifications"] = _raw(wanted)
            self.is_changed = True

    def kept_result(self, method: str) -> None:
        uri: Any = None
        if method == "resources/read":
            uri = _value(self._params.get("uri"))
        elif method == "tools/call" and _value(self._params.get("name")) == RESOURCES:
            try:
                uri = _value(envelope.decode_members(self._params.get("arguments", b"{}")).get("uri"))
            except _UNREADABLE:
                return
        sealed = self._seals.holder_of(uri) if isinstance(uri, str) else None
        if sealed is not None:
            self._held(sealed.url, Kind.KEPT)

    def _opened(self, text: str, *kinds: Kind) -> str | None:
        sealed = self._seals.open(text)
        if sealed.kind not in kinds:
            raise AlteredError("it was given out for something else")
        self._held(sealed.url, sealed.kind)
        return None if sealed.kind is Kind.STATELESS else sealed.text

    def _held(self, url: str, kind: Kind) -> None:
        if self.kind is not None and url != (self.holder or self._seals.url):
            raise AlteredError("it brings what two replicas hold")
        self.holder = None if url == self._seals.url else url
        self.kind = self.kind or kind

    def _put(self, name: str, text: str | None) -> None:
        self.is_changed = True
        if text is None:
            del self._params[name]
        else:
            self._params[name] = _raw(text)


def seal(chunk: bytes, method: str, seals: Seals) -> bytes:
    """A part of the response to a request of that method, with seals on what the client will bring back."""
    if not any(sign in chunk for sign in _SIGNS):
        return chunk
    head = _EVENT if chunk.startswith(_EVENT) else b""
    try:
        message = envelope.decode_members(chunk[len(head) :])
        if "result" in message:
            changed = _seal_result(message, method, seals)
        else:
            changed = _seal_notification(message, seals)
    except _UNREADABLE:
        return chunk  # no message, or one whose members are not of the protocol
    return head + envelope.encode(message) + (b"\r\n\r\n" if head else b"") if changed else chunk


def _seal_result(message: Members, method: str, seals: Seals) -> bool:
    result = envelope.decode_members(message["result"])
    kind, is_about_task = _value(result.get("resultType")), method in TASK_METHODS
    changed = False
    if kind == INPUT_REQUIRED or (is_about_task and _STATE in result):
        state = _value(result.get(_STATE))
        result[_STATE] = _raw(seals.seal_state(state if isinstance(state, str) else None))
        changed = True
    task_id = _value(result.get(_TASK_ID))
    if isinstance(task_id, str) and (is_about_task or kind == TASK):
        result[_TASK_ID] = _raw(seals.seal_task(task_id))
        changed = True
    message["result"] = _raw(result)
    return changed


def _seal_notification(message: Members, seals: Seals) -> bool:
    method = _value(message.get("method"))
    if not isinstance(method, str) or "params" not in message:
        return False
    params = envelope.decode_members(message["params"])
    if method.startswith("notifications/tasks") and isinstance(task_id := _value(params.get(_TASK_ID)), str):
        params[_TASK_ID] = _raw(seals.seal_task(task_id))
    elif method == "notifications/subscriptions/acknowledged" and "notifications" in params:
        taken = envelope.decode_members(params["notifications"])
        ids = msgspec.json.decode(taken.get("taskIds", b"[]"), type=list[str])
        if not ids:
            return False
        taken["taskIds"] = _raw([seals.seal_task(each) for each in ids])
        params["notifications"] = _raw(taken)
    else:
        return False
    message["params"] = _raw(params)
    return True


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(envelope.encode(value))


def _value(raw: msgspec.Raw | None) -> Any:
    """A member; None for one that is absent, or cannot be read."""
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw)
    except _UNREADABLE:
        return None
