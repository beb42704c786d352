"""Results that go out in the bytes in which they came, because nothing in them has to change. Pure."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from mcpx.core.rendering.result_members import Bytes, closing, is_given, structured_content

_NOTHING: Final = msgspec.Raw()
_LARGE_BLOCK: Final = 16384  # bytes; below, decoding a block costs less than matching how it begins
_HEAD_BYTES: Final = 256
_USUAL_TEXT: Final = re.compile(rb'\s*\{\s*(?:"type"\s*:\s*"text"\s*,\s*)?"text"\s*:\s*"')
_JSON_STARTS: Final = frozenset(b"{[ \t\\")  # after the quote: JSON, or white space (escaped, too) before it


class _Result(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    content: list[msgspec.Raw] = []
    structured: msgspec.Raw = msgspec.field(name="structuredContent", default=_NOTHING)
    is_error: bool = msgspec.field(name="isError", default=False)
    meta: msgspec.Raw = msgspec.field(name="_meta", default=_NOTHING)
    result_type: str = msgspec.field(name="resultType", default="complete")


class _Block(msgspec.Struct, gc=False):
    type: str
    text: msgspec.Raw = _NOTHING


_decode = msgspec.json.Decoder(_Result).decode
_decode_block = msgspec.json.Decoder(_Block).decode


def passed_through(raw: msgspec.Raw, *, structured: bool, stamp: bytes | None) -> list[Bytes] | None:
    """The result around the upstream's own bytes; None where something in it has to change."""
    try:
        result = _decode(raw)
        if not result.content or result.result_type != "complete":
            return None
        if not result.is_error:
            for block in result.content:
                if _holds_json(memoryview(block)):
                    return None
    except (msgspec.DecodeError, RecursionError):
        return None
    pieces: list[Bytes] = [b'{"content":[']
    for block in result.content:
        pieces += [memoryview(block), b","]
    pieces[-1] = b'],"isError":true' if result.is_error else b'],"isError":false'
    if structured and result.structured and is_given(result.structured):
        pieces += structured_content(memoryview(result.structured))
    if result.meta:
        pieces += closing(result.meta, stamp)
    elif stamp is not None:
        pieces += [b',"resultType":"complete","_meta":', stamp, b"}"]
    else:
        pieces.append(b"}")
    return pieces


def _holds_json(block: memoryview) -> bool:
    """Return True if a block is text that may hold a JSON object or array, judged by how it begins.

    A large block is not decoded for that, if it is written as nearly all are.
    """
    if len(block) > _LARGE_BLOCK and (usual := _USUAL_TEXT.match(block[:_HEAD_BYTES])):
        return block[usual.end()] in _JSON_STARTS
    probed = _decode_block(block)
    text = memoryview(probed.text)
    return probed.type == "text" and len(text) > len('""') and text[1] in _JSON_STARTS
