"""The JSON-RPC envelope: decoded without what is inside, encoded around what is there already.

`params`, `result` and `error` stay bytes (`msgspec.Raw` views into the line) until somebody needs them.
Everything here is pure.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

RequestId = int | str
Bytes = bytes | memoryview

_NOTHING: Final = msgspec.Raw()
_LARGE: Final = 16384  # bytes; below, decoding costs less than looking
_USUAL_ANSWER: Final = re.compile(rb'\{"jsonrpc": ?"2\.0", ?"id": ?(\d{1,15}), ?"result": ?')


_OWN: Final = re.compile(
    rb'\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?(?:"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")\s*,\s*)?"method"\s*:'
)


class Envelope(msgspec.Struct, gc=False):
    """One message: a request has `id` and `method`, a notification only `method`, an answer only `id`."""

    id: int | str | None = None
    method: str | None = None
    params: msgspec.Raw = _NOTHING
    result: msgspec.Raw = _NOTHING
    error: msgspec.Raw = _NOTHING


class Progress(msgspec.Struct, gc=False, rename="camel", omit_defaults=True):
    """The parameters of notifications/progress."""

    progress_token: int | str
    progress: float
    total: float | None = None
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


decode_envelope = msgspec.json.Decoder(Envelope).decode
decode_progress = msgspec.json.Decoder(Progress).decode
decode_cancelled = msgspec.json.Decoder(Cancelled).decode
decode_error = msgspec.json.Decoder(RPCError).decode
encode = msgspec.json.Encoder().encode


def split_answer(line: bytes) -> Envelope | None:
    """A large answer in the usual spelling, taken apart without reading it; None for anything else.

    What is inside is not looked at: whoever decodes the result finds out whether it is JSON.
    """
    if len(line) < _LARGE or not line.endswith(b"}}"):  # else the result is not the last member
        return None
    head = _USUAL_ANSWER.match(line)
    if head is None:
        return None
    return Envelope(id=int(head[1]), result=msgspec.Raw(memoryview(line)[head.end() : -1]))


def split_own(line: bytes) -> Envelope | None:
    """The head of a request or notification in the usual spelling, without reading it; None for all else."""
    found = _OWN.match(line)
    return (
        None if found is None else Envelope(id=msgspec.json.decode(found[1]) if found[1] else None, method="")
    )


def request(request_id: RequestId, method: str, params: Bytes | None) -> list[Bytes]:
    """A request line, in pieces. `method` needs no escaping: it is the protocol's own."""
    head = f'{{"jsonrpc":"2.0","id":{_id(request_id)},"method":"{method}"'.encode()
    return [head, b"}\n"] if params is None else [head, b',"params":', params, b"}\n"]


def notification(method: str, params: Bytes | None) -> list[Bytes]:
    """A notification line, in pieces."""
    head = f'{{"jsonrpc":"2.0","method":"{method}"'.encode()
    return [head, b"}\n"] if params is None else [head, b',"params":', params, b"}\n"]


def answer(request_id: RequestId, result: list[Bytes]) -> list[Bytes]:
    """An answer line around a result that may itself be in pieces."""
    return [f'{{"jsonrpc":"2.0","id":{_id(request_id)},"result":'.encode(), *result, b"}\n"]


def failure(request_id: RequestId | None, error: Bytes) -> list[Bytes]:
    """An error line around an encoded error object. Without an id where the request's is not known."""
    return [f'{{"jsonrpc":"2.0","id":{_id(request_id)},"error":'.encode(), error, b"}\n"]


def _id(request_id: RequestId | None) -> str:
    return str(request_id) if isinstance(request_id, int) else encode(request_id).decode()
