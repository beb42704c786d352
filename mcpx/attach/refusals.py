"""Responses that the shim gives itself when no daemon will. Pure.

They have the form of the daemon's own failures: a call of one of its tools ends in a result with `isError`,
every other request in a JSON-RPC error, and both say whether the action may have happened.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mcpx.core.wire.envelope import Bytes, RequestId, answer, encode, escaped, failure, request
from mcpx.core.wire.lines import TooLong
from mcpx.errors import Code, Outcome, failure_text

CONNECTION_CLOSED: Final = -32000
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
        return b"".join(request(request_id, escaped(self.method), self.params or None))


def lost_response(request_id: RequestId, request: PendingRequest) -> bytes:
    """The response to a request whose daemon is gone after it was sent."""
    return _refuse(request_id, request, LOST_TEXT, Code.SERVER_DIED, Outcome.UNKNOWN)


def unavailable(request_id: RequestId, request: PendingRequest, cause: str) -> bytes:
    """The response to a request that was not sent, because of `cause`, a sentence without its full stop."""
    text = f"{cause}. Nothing was sent; trying again is safe."
    return _refuse(request_id, request, text, Code.SERVER_UNAVAILABLE, Outcome.NOT_SENT)


def unreadable(line: bytes) -> list[bytes]:
    """The response to a line that is no message, as the daemon words it; empty for a message."""
    from mcpx.core.wire import malformed  # noqa: PLC0415 - few clients send such lines

    return _as_lines(malformed.unreadable(line))


def too_long(line: TooLong) -> list[bytes]:
    """The response to a request that is longer than the daemon accepts."""
    from mcpx.core.wire import malformed  # noqa: PLC0415 - likewise

    return _as_lines(malformed.refusal(malformed.describe(line)))


def _as_lines(pieces: list[Bytes]) -> list[bytes]:
    return [b"".join(pieces)] if pieces else []


def lightened(request: PendingRequest) -> PendingRequest:
    """The request without large parameters: with those alone that a refusal repeats."""
    if request.method != "tools/call" or len(request.params) <= MAX_KEPT_PARAMS:
        return request
    try:
        named = encode(msgspec.json.decode(request.params, type=_Named))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        named = b"{}"
    return PendingRequest(request.method, msgspec.Raw(named), request.batch, request.transparent)


def _refuse(request_id: RequestId, request: PendingRequest, text: str, code: Code, outcome: Outcome) -> bytes:
    params = decode_object(request.params)
    details: dict[str, Any] = {"error": text, "code": code, "outcome": outcome}
    if request.method != "tools/call" or request.transparent:
        error = {"code": CONNECTION_CLOSED, "message": text, "data": details}
        return b"".join(failure(request_id, encode(error)))
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
    return b"".join(answer(request_id, [encode(result)]))


def decode_object(raw: msgspec.Raw | bytes) -> dict[str, Any]:
    """A JSON object; empty if it cannot be read or is something else."""
    try:
        value = msgspec.json.decode(raw) if raw else {}
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return {}
    return value if isinstance(value, dict) else {}
