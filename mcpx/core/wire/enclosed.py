"""JSON that is encoded already, carried through code that serializes objects. Pure.

The SDK takes results, and the `data` of errors, as objects, which pydantic and `json` then write in their own
way: numbers beyond a double become null, members that are null vanish. So what is to go out as it is, is
enclosed in an object with the text of the JSON as its one member (`enclose`), which every serializer leaves
alone, and the JSON itself is put in its place in what has been written (`restore`). Two ends do that: a
stream's `Incoming`, and `mcpx.core.gateway.over_http` for what goes out over HTTP.

An enclosure holds its own text, and nothing is kept elsewhere: one whose response never leaves is freed with
the response, and one that is stored (for a client whose stream broke) counts with its message. The member's
name is of this process alone and never leaves it, so nobody can forge an enclosure. White space in the JSON
loses its ends of lines, which would end a line of a stream, or an event.

The other way round, `encode_read` writes what the SDK has read, for those that take JSON as it came.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from mcpx.core.wire.envelope import Bytes, encode

_KEY: Final = f"mcpx/{os.urandom(8).hex()}"
_START: Final = f'{{"{_KEY}":'
_START_BYTES: Final = _START.encode()
_INFINITE: Final = f"mcpx-{os.urandom(8).hex()}"
_MINUS_INFINITE: Final = f"-{_INFINITE}"
_MARKS: Final = {_MINUS_INFINITE: "-1e400", _INFINITE: "1e400"}
_ONE_LINE: Final = bytes.maketrans(b"\r\n", b"  ")  # in JSON they are nothing but white space
_decode_at: Final = json.JSONDecoder().raw_decode


def enclose(pieces: Iterable[Bytes]) -> dict[str, Any]:
    """An object in the place of encoded JSON, which comes in pieces."""
    return {_KEY: one_line(b"".join(pieces)).decode(errors="replace")}


def restore(written: bytes) -> bytes:
    """Return what a compact serializer has written, with the JSON itself in the place of each enclosure."""
    if _START_BYTES not in written:
        return written
    text, made, done = written.decode(), [], 0
    while (start := text.find(_START, done)) >= 0:
        enclosure, end = _decode_at(text, start)
        made += [text[done:start], enclosure[_KEY]]
        done = end
    return "".join([*made, text[done:]]).encode()


def encode_restored(result: Mapping[str, Any]) -> bytes:
    """The JSON of a result; one that is an enclosure, as large ones are, is not written and read for it."""
    enclosed = result.get(_KEY)
    if enclosed is not None and len(result) == 1:
        return str(enclosed).encode()
    return restore(encode(result))


def one_line(encoded: bytes) -> bytes:
    """Encoded JSON without the ends of lines that its white space may hold."""
    return encoded.translate(_ONE_LINE) if b"\n" in encoded or b"\r" in encoded else encoded


def encode_read(value: Mapping[str, Any] | None) -> msgspec.Raw:
    """The JSON of what the SDK has read, empty for None; what it read as infinite is beyond a double."""
    if value is None:
        return msgspec.Raw()
    try:
        text = json.dumps(dict(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        marked = json.dumps(_marked(dict(value)), ensure_ascii=False, separators=(",", ":"))
        for mark, number in _MARKS.items():
            marked = marked.replace(f'"{mark}"', number)
        text = marked
    return msgspec.Raw(text.encode(errors="replace"))


def _marked(value: Any) -> Any:
    match value:
        case dict():
            return {key: _marked(each) for key, each in value.items()}
        case list():
            return [_marked(each) for each in value]
        case float() if math.isinf(value):
            return _INFINITE if value > 0 else _MINUS_INFINITE
        case float() if math.isnan(value):
            return None  # no JSON: the server itself sent none
    return value
