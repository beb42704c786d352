"""JSON-RPC messages as an envelope around encoded contents; its codes, MCP's reserved keys, and errors. Pure.

`params`, `result` and `error` stay bytes (`msgspec.Raw` views into the line) until they are needed. Messages
are encoded in pieces, for one gathered write.

The SDK has codes, keys and errors, too, but beside its models, whose import takes a third of a daemon's start
and 12 MB. So whatever a small configuration needs takes them from here, and of the SDK nothing but plain
modules. Where the SDK's server runs code of ours, `mcpx.core.gateway.sdk_path.own_errors` translates what
comes out. A test holds the values against the SDK's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mcpx.core.wire.intake import LargeMessage

RequestId = int | str
Bytes = bytes | memoryview

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

CONNECTION_CLOSED: Final = -32000  # the connection ended before the answer came; never sent as such
REQUEST_TIMEOUT: Final = -32001
HEADER_MISMATCH: Final = -32020
MISSING_REQUIRED_CLIENT_CAPABILITY: Final = -32021
UNSUPPORTED_PROTOCOL_VERSION: Final = -32022

PROTOCOL_VERSION_META_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO_META_KEY: Final = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES_META_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL_META_KEY: Final = "io.modelcontextprotocol/logLevel"
SERVER_INFO_META_KEY: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID_META_KEY: Final = "io.modelcontextprotocol/subscriptionId"

MCP_PROTOCOL_VERSION_HEADER: Final = "mcp-protocol-version"
MCP_METHOD_HEADER: Final = "mcp-method"
MCP_NAME_HEADER: Final = "mcp-name"

_NOTHING: Final = msgspec.Raw()
_NO_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError)  # a text with control characters, or no UTF-8
_DIGITS: Final = frozenset(b"%c" % byte for byte in b"-0123456789")  # what a number begins with
LARGE_BYTES: Final = 16384  # below, decoding costs less than splitting
_USUAL_ANSWER: Final = re.compile(rb'\{"jsonrpc": ?"2\.0", ?"id": ?(\d{1,15}), ?"result": ?')


RESULT: Final = b'"result":'
_ENDS_BYTES: Final = 1024  # of a large message, in which all but its contents must be
_ID_OR_METHOD: Final = (
    rb'"jsonrpc"\s*:\s*"2\.0"|"id"\s*:\s*(?:\d{1,15}|"[^"\\]{1,200}")|"method"\s*:\s*"[\w/.$-]{1,100}"'
)
_MEMBER: Final = re.compile(rb'"(id|method)"\s*:\s*(\d{1,15}|"[^"\\]{1,200}")')
_LARGE_HEAD: Final = re.compile(
    rb"\s*(\{(?:\s*(?:" + _ID_OR_METHOD + rb')\s*,)*)\s*"(result|error|params)"\s*:\s*(?=\{)'
)
_LARGE_TAIL: Final = re.compile(rb"\}((?:\s*,\s*(?:" + _ID_OR_METHOD + rb"))*)\s*\}\s*\Z")
_USUAL_REQUEST: Final = re.compile(
    rb'\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?(?:"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")\s*,\s*)?"method"\s*:'
)


class RPCMessage(msgspec.Struct, gc=False):
    """One message: a request has `id` and `method`, a notification only `method`, an answer only `id`."""

    id: int | str | None = None
    method: str | None = None
    params: msgspec.Raw = _NOTHING
    result: msgspec.Raw = _NOTHING
    error: msgspec.Raw = _NOTHING

    @property
    def is_response(self) -> bool:
        """True if it answers a request."""
        return self.method is None and bool(self.result or self.error)


class Step(msgspec.Struct, gc=False, omit_defaults=True):
    """Progress on a request: what is done, the total where it is known, and a text."""

    progress: int | float
    total: int | float | None = None
    message: str | None = None


class Cancelled(msgspec.Struct, gc=False, rename="camel"):
    """The parameters of notifications/cancelled."""

    request_id: int | str
    reason: str | None = None


class RPCError(msgspec.Struct, gc=False):
    """The error of an answer; `data` is any JSON, or absent."""

    code: int
    message: str
    data: Any = msgspec.UNSET


decode_message = msgspec.json.Decoder(RPCMessage).decode
_decode_step = msgspec.json.Decoder(Step).decode
decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_id = msgspec.json.Decoder(RequestId).decode
decode_cancelled = msgspec.json.Decoder(Cancelled).decode
decode_error = msgspec.json.Decoder(RPCError).decode
encode = msgspec.json.Encoder().encode


def split_progress(raw: Bytes) -> tuple[RequestId, bytes]:
    """Split the params of notifications/progress: the token, and the other members without the braces.

    Raises:
        msgspec.DecodeError: They are not of that notification.
    """
    members = decode_members(raw)
    token = _decode_id(members.pop("progressToken", _NOTHING))
    if bytes(members.get("progress", b""))[:1] not in _DIGITS:
        raise msgspec.ValidationError("progress is no number")
    return token, encode(members)[1:-1]


def progress(token: RequestId, members: bytes) -> bytes:
    """Encode the params of notifications/progress; the reverse of `split_progress`."""
    return b'{"progressToken":%s,%s}' % (encode(token), members)


def read_step(members: bytes) -> Step | None:
    """Read the members that `split_progress` gives; None for those that a program could not use."""
    try:
        return _decode_step(b"{%s}" % members)
    except (msgspec.DecodeError, RecursionError):
        return None


def split_large_answer(line: bytes) -> RPCMessage | None:
    """Split a large answer in the usual spelling without decoding it; None for anything else.

    Whether the result is JSON shows when it is decoded.
    """
    if len(line) < LARGE_BYTES or not line.endswith(b"}}"):  # else the result is not the last member
        return None
    head = _USUAL_ANSWER.match(line)
    if head is None:
        return None
    return RPCMessage(id=int(head[1]), result=msgspec.Raw(memoryview(line)[head.end() : -1]))


def split_large(line: LargeMessage | bytes) -> RPCMessage | None:
    """Split a large message without decoding it, in the usual spellings; None for anything else.

    Whether what it holds is JSON shows when that is decoded.
    """
    head = _LARGE_HEAD.match(line, 0, _ENDS_BYTES)
    tail = _LARGE_TAIL.search(line, max(0, len(line) - _ENDS_BYTES))
    if head is None or tail is None or tail.start() < head.end():
        return None
    given = [*_MEMBER.finditer(head[1]), *_MEMBER.finditer(tail[1])]
    if len({each[1] for each in given}) < len(given):
        return None  # one is named twice
    try:
        values = {each[1]: msgspec.json.decode(each[2]) for each in given}
    except _NO_JSON:
        return None
    message = RPCMessage(id=values.get(b"id"), method=values.get(b"method"))
    kind, start = head[2], head.end()
    if isinstance(line, LargeMessage):
        line.content_at = start
        if kind == b"result":  # without white space, so that it can go on as the answer that it is
            line[start - len(RESULT) : start] = RESULT
    setattr(message, kind.decode(), msgspec.Raw(memoryview(line)[start : tail.start() + 1]))
    return message if (message.method is None) == (kind != b"params") else None


def split_request(line: bytes) -> RPCMessage | None:
    """Find the id of a request or notification in the usual spelling; None for anything else.

    `method` of the result is empty: it is not looked at.
    """
    found = _USUAL_REQUEST.match(line)
    if found is None:
        return None
    try:
        return RPCMessage(id=msgspec.json.decode(found[1]) if found[1] else None, method="")
    except _NO_JSON:
        return None


def escaped(method: str) -> str:
    """A method as it stands in JSON, for a message of any peer: it may call its methods anything."""
    plain = method.isascii() and method.replace("/", "").isalnum()
    return method if plain else encode(method)[1:-1].decode()


def request(request_id: RequestId, method: str, params: Bytes | None, *more: Bytes) -> list[Bytes]:
    """Encode a request. `params`, with `more` of it, is an encoded object; `method` must need no escaping."""
    shown = request_id if isinstance(request_id, int) else _id(request_id)
    head = f'{{"jsonrpc":"2.0","id":{shown},"method":"{method}"'.encode()
    return [head, b"}\n"] if params is None else [head + b',"params":', params, *more, b"}\n"]


def notification(method: str, params: Bytes | None) -> list[Bytes]:
    """Encode a notification. `params` is an encoded object; `method` must need no escaping."""
    head = f'{{"jsonrpc":"2.0","method":"{method}"'.encode()
    return [head, b"}\n"] if params is None else [head, b',"params":', params, b"}\n"]


def answer(request_id: RequestId, result: list[Bytes]) -> list[Bytes]:
    """Encode an answer around an encoded result in pieces."""
    shown = request_id if isinstance(request_id, int) else _id(request_id)
    return [f'{{"jsonrpc":"2.0","id":{shown},"result":'.encode(), *result, b"}\n"]


def failure(request_id: RequestId | None, error: Bytes) -> list[Bytes]:
    """Encode an error answer around an encoded error object; None for an id that is not known."""
    return [f'{{"jsonrpc":"2.0","id":{_id(request_id)},"error":'.encode(), error, b"}\n"]


def _id(request_id: RequestId | None) -> str:
    return str(request_id) if isinstance(request_id, int) else encode(request_id).decode()


# --- errors, and what requests bring


class MCPError(Exception):
    """The error that answers a request, or is to answer it: its code, its message, and its data, if any."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return self.message

    def members(self) -> dict[str, Any]:
        """Return the error object of the answer."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        return error if self.data is None else error | {"data": self.data}


class NoBackChannelError(MCPError):
    """A request to a client that cannot be reached now: its own has been answered, or it cannot be asked."""

    def __init__(self, method: str) -> None:
        super().__init__(INVALID_REQUEST, f"There is no way to send the client {method!r}")
        self.method = method


def coerce_request_id(request_id: int | str) -> int | str:
    """Return the id by which an answer is found: peers may write 7 as "7"."""
    if isinstance(request_id, str):
        try:
            return int(request_id)
        except ValueError:
            pass
    return request_id


def progress_token_from_params(params: Mapping[str, Any] | None) -> int | str | None:
    """Return the progress token that a request brings, if any; a boolean is none."""
    meta = (params or {}).get("_meta")
    token = meta.get("progressToken") if isinstance(meta, Mapping) else None
    return token if isinstance(token, int | str) and not isinstance(token, bool) else None
