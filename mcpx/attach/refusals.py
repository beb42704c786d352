"""Answers that the shim gives itself, because the daemon will not: pure.

The same shapes as the daemon's own failures: a tool call ends in a result with `isError`, everything else in
a JSON-RPC error, and both say whether the action may have happened.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mcpx.wire.envelope import Bytes, RequestId, answer, decode_message, encode, failure
from mcpx.wire.lines import TooLong
from mcpx.wire.malformed import describe, refusal

CONNECTION_CLOSED: Final = -32000
VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
LOST: Final = (
    "The MCPX daemon went away while this was on its way: it may have been done, or not."
    " MCPX starts a new one by itself; look before you try again."
)


HEAVY: Final = 16384  # bytes of a call's parameters that are not kept while it is open


class _Names(msgspec.Struct, gc=False, omit_defaults=True):
    server_name: Any = None
    tool_name: Any = None


class _Version(msgspec.Struct, gc=False, omit_defaults=True, rename={"version": VERSION_KEY}):
    version: Any = None


class _Named(msgspec.Struct, gc=False, omit_defaults=True):
    """What is named of a call when it is refused."""

    arguments: _Names | None = None
    meta: _Version | None = msgspec.field(name="_meta", default=None)


class Asked(msgspec.Struct, frozen=True, gc=False):
    """A request that awaits its answer."""

    method: str
    params: msgspec.Raw


def lost(request_id: RequestId, asked: Asked) -> bytes:
    """The answer to a request that was sent to a daemon that is gone."""
    return _refuse(request_id, asked, LOST, code="server_died", outcome="unknown")


def unavailable(request_id: RequestId, asked: Asked, cause: str) -> bytes:
    """The answer to a request that was sent to nobody."""
    text = f"There is no MCPX daemon, and none can be had: {cause}. Nothing was sent; trying again is safe."
    return _refuse(request_id, asked, text, code="server_unavailable", outcome="not_sent")


def unreadable(line: bytes) -> list[bytes]:
    """The answer to a line that is no message, as the daemon has it; nothing for one that is a message."""
    try:
        decode_message(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return _joined(refusal(describe(line, error)))
    return []


def too_long(line: TooLong) -> list[bytes]:
    """The answer to a request that is longer than the daemon takes."""
    return _joined(refusal(describe(line)))


def _joined(pieces: list[Bytes]) -> list[bytes]:
    return [b"".join(pieces)] if pieces else []


def light(asked: Asked) -> Asked:
    """A call without what makes it heavy: with no more of its parameters than an answer here needs."""
    if asked.method != "tools/call" or len(asked.params) <= HEAVY:
        return asked
    try:
        named = msgspec.json.decode(asked.params, type=_Named)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return Asked(asked.method, msgspec.Raw(b"{}"))
    return Asked(asked.method, msgspec.Raw(encode(named)))


def _refuse(request_id: RequestId, asked: Asked, text: str, **why: str) -> bytes:
    params = decode_object(asked.params)
    told: dict[str, Any] = {"error": text, **why}
    if asked.method != "tools/call":
        error = {"code": CONNECTION_CLOSED, "message": text, "data": told}
        return b"".join(failure(request_id, encode(error)))
    arguments = params.get("arguments")
    if isinstance(arguments, dict):
        named = {"server": arguments.get("server_name"), "tool": arguments.get("tool_name")}
        told |= {key: value for key, value in named.items() if isinstance(value, str)}
    shown = f"{text}\n(code: {why['code']}, outcome: {why['outcome']})"
    result: dict[str, Any] = {
        "content": [{"type": "text", "text": shown}],
        "structuredContent": told,
        "isError": True,
    }
    if VERSION_KEY in (params.get("_meta") or {}):
        result["resultType"] = "complete"
    return b"".join(answer(request_id, [encode(result)]))


def decode_object(raw: msgspec.Raw | bytes) -> dict[str, Any]:
    """The parameters of a message; empty where they cannot be read."""
    try:
        value = msgspec.json.decode(raw) if raw else {}
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return {}
    return value if isinstance(value, dict) else {}
