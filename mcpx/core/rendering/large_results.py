"""Results of tools that are too large to be decoded on the event loop: passed on as they came.

Reading JSON into objects, trying TOON and proving that it loses nothing costs up to 2 us a container and
40 ns a byte, and nothing else runs meanwhile. So a result is *large* above `toon_compression_max_size` bytes,
or where it holds more values than fit the 50 ms that the loop may stand; and a large result is only scanned
(1 to 2 ns a byte). What that costs: it is not shown as TOON, and has no `structuredContent` but the server's.

`pieces` is for the wire, in the bytes that came. `essentials` is for the callers that need objects (the SDK's
server, programs): a large result that is *dense* too, with very many small values, is read no further than
the protocol's own fields of its blocks.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from mcpx.core.rendering.json_rows import FIRST, first_elements
from mcpx.core.rendering.result_members import (
    COMPLETE,
    Bytes,
    closing,
    decode_members,
    is_given,
    others,
    structured_content,
)
from mcpx.core.text.json_work import work_of
from mcpx.errors import CallError, Code

T = TypeVar("T")
Shorten = Callable[[list[dict[str, Any]]], list[dict[str, Any]] | None]

_SMALL_BYTES: Final = 16_384  # the densest of that size is read in 30 ms
_MAX_WORK: Final = 220_000  # units of `_work` that are read, and made into TOON, in about 50 ms
_DENSE_WORK: Final = 600_000  # the same without TOON, for callers that need objects
_MAX_BLOCKS: Final = FIRST  # of a dense result; real ones have a handful
MAX_QUESTION_BYTES: Final = 4_194_304  # of what a server asks in place of a result, with images
_NOTHING: Final = msgspec.Raw()
_BRACKET: Final = ord("[")
_QUOTE: Final = b'"'
_BASE64: Final = string.ascii_letters.encode() + string.digits.encode() + b"+/"


class _Parts(msgspec.Struct, gc=False):
    content: msgspec.Raw = _NOTHING
    contents: msgspec.Raw = _NOTHING
    structured: msgspec.Raw = msgspec.field(name="structuredContent", default=_NOTHING)
    is_error: bool | None = msgspec.field(name="isError", default=None)
    meta: msgspec.Raw = msgspec.field(name="_meta", default=_NOTHING)
    result_type: str | None = msgspec.field(name="resultType", default=None)


class _OnlyParts(_Parts, gc=False, forbid_unknown_fields=True):
    """A result that has no other members."""


class _Completion(msgspec.Struct, gc=False, frozen=True, forbid_unknown_fields=True):
    values: msgspec.Raw = _NOTHING
    total: msgspec.Raw = _NOTHING
    has_more: msgspec.Raw = msgspec.field(name="hasMore", default=_NOTHING)


class _Asked(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The result of a `prompts/get`, or of a completion."""

    messages: msgspec.Raw = _NOTHING
    description: msgspec.Raw = _NOTHING
    completion: _Completion = _Completion()
    meta: msgspec.Raw = msgspec.field(name="_meta", default=_NOTHING)
    result_type: msgspec.Raw = msgspec.field(name="resultType", default=_NOTHING)


class _Inner(msgspec.Struct, gc=False, omit_defaults=True):
    uri: str | None = None
    mime_type: str | None = msgspec.field(name="mimeType", default=None)
    text: str | None = None
    blob: str | None = None


class _Item(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    uri: str | None = None
    mime_type: str | None = msgspec.field(name="mimeType", default=None)
    text: msgspec.Raw = _NOTHING
    blob: msgspec.Raw = _NOTHING
    meta: msgspec.Raw = msgspec.field(name="_meta", default=_NOTHING)


class _Block(msgspec.Struct, gc=False, omit_defaults=True):
    """The fields that the protocol gives a content block of any kind, without annotations and the like."""

    type: str
    text: str | None = None
    data: str | None = None
    mime_type: str | None = msgspec.field(name="mimeType", default=None)
    uri: str | None = None
    name: str | None = None
    description: str | None = None
    resource: _Inner | None = None


_decode_parts: Final = msgspec.json.Decoder(_Parts).decode
_decode_only_parts: Final = msgspec.json.Decoder(_OnlyParts).decode
_decode_asked: Final = msgspec.json.Decoder(_Asked).decode
_decode_block: Final = msgspec.json.Decoder(_Block).decode
_decode_inner: Final = msgspec.json.Decoder(_Inner).decode
_decode_item: Final = msgspec.json.Decoder(_Item).decode


def is_large(raw: msgspec.Raw | bytes, largest: int) -> bool:
    """Return True if a result is too large to be read: more than `largest` bytes, or too many values."""
    size = len(memoryview(raw))
    return size > _SMALL_BYTES and (size > largest or _work(raw) > _MAX_WORK)


def is_dense(raw: msgspec.Raw | bytes) -> bool:
    """Return True if a result holds more values than may be made into objects."""
    return len(memoryview(raw)) > _SMALL_BYTES and _work(raw) > _DENSE_WORK


def _work(raw: msgspec.Raw | bytes) -> int:
    return work_of(bytes(memoryview(raw)))


def pieces(
    raw: msgspec.Raw, *, structured: bool, stamp: bytes | None, server: str, shorten: Shorten | None = None
) -> list[Bytes] | None:
    """The result for the wire, made of its own bytes; None where it is not `complete`, as a question is.

    `shorten` is given the content blocks, and returns those to show in their place, or None.

    Raises:
        CallError: `protocol_error`: it is not MCP; `response_too_large`: it is dense, and has too many blocks
            to be shortened.
    """
    parts = _apart(raw, server)
    if parts is None:
        return None
    shown = None if shorten is None else shorten(_blocks(parts, server, dense=is_dense(raw)))
    content = _content(parts, server) if shown is None else [msgspec.json.encode(shown)]
    made: list[Bytes] = [b'{"content":', *content]
    made.append(b',"isError":true' if parts.is_error else b',"isError":false')
    if structured and is_given(parts.structured):
        made += structured_content(memoryview(parts.structured))
    return [*made, *closing(parts.meta, stamp, _others(raw, parts))]


def essentials(raw: msgspec.Raw, server: str, *, dense: bool = True) -> dict[str, Any] | None:
    """`{content, isError}` of a result, None where it is not `complete`.

    The blocks of a dense one have their main fields.

    Where there is no content its structured content is the text of a block, else that is left out.

    Raises:
        CallError: `protocol_error`: it is not MCP; `response_too_large`: it is dense, and has more than a
            thousand blocks.
    """
    parts = _apart(raw, server)
    if parts is None:
        return None
    return {"content": _blocks(parts, server, dense=dense), "isError": bool(parts.is_error)}


def _blocks(parts: _Parts, server: str, *, dense: bool) -> list[dict[str, Any]]:
    content = b"".join(_content(parts, server))
    if dense:
        return [msgspec.to_builtins(block) for block in _first(content, _decode_block, "content", server)]
    try:
        return msgspec.json.decode(content, type=list[dict[str, Any]])
    except (msgspec.DecodeError, RecursionError) as error:
        raise _broken(f"its result has no proper `content` ({error})", server) from None


def essential_contents(raw: msgspec.Raw, server: str) -> dict[str, Any] | None:
    """`{contents}` of a dense `resources/read`, its items with their main fields; None as in `essentials`.

    Raises:
        CallError: `protocol_error`: it is not MCP; `response_too_large`: it has more than a thousand items.
    """
    parts = _apart(raw, server)
    if parts is None:
        return None
    items = _first(parts.contents, _decode_inner, "contents", server)
    return {"contents": [msgspec.to_builtins(item) for item in items]}


def resource_pieces(
    raw: msgspec.Raw, *, uri: str, structured: bool, stamp: bytes | None, server: str, texts: bool = True
) -> list[Bytes] | None:
    """The result for the wire of a large text or blob alone, made of its own bytes; None for any other.

    Without `texts`, it is None for a text, too.

    Raises:
        CallError: `protocol_error`: it is not MCP.
    """
    parts = _apart(raw, server)
    item = _only_item(parts) if parts else None
    if parts is None or item is None or is_given(item.meta):
        return None
    named = msgspec.json.encode(uri if item.uri is None else item.uri)
    mime_type = msgspec.json.encode(item.mime_type)
    text, blob = memoryview(item.text), memoryview(item.blob)
    if bytes(text[:1]) == _QUOTE:
        if not texts:
            return None
        block: list[Bytes] = [b'{"type":"text","text":', text]
        value: list[Bytes] = [b'{"result":', text, b"}"]
    elif bytes(blob[:1]) == _QUOTE and _is_base64(blob):
        kind = (item.mime_type or "").partition("/")[0].lower()
        value = [b'{"uri":', named, b',"mime_type":', mime_type, b',"blob":', blob, b"}"]
        if kind not in {"image", "audio"}:
            whole: list[Bytes] = [b'{"uri":', named, b',"blob":', blob, b"}"]
            if item.mime_type is not None:
                whole[-1:] = [b',"mimeType":', mime_type, b"}"]
            block = [b'{"type":"resource","resource":', *whole]
        else:
            block = [f'{{"type":"{kind}","data":'.encode(), blob, b',"mimeType":', mime_type]
    else:
        return None
    made = [b'{"content":[', *block, b'}],"isError":false']
    made += [b',"structuredContent":', *value] if structured else []
    return [*made, *closing(parts.meta, stamp, _others(raw, parts))]


def _others(raw: msgspec.Raw, parts: _Parts) -> dict[str, msgspec.Raw]:
    """The members of a result that MCPX does not know; none of one that is dense, which may have millions."""
    return {} if isinstance(parts, _OnlyParts) or is_dense(raw) else others(decode_members(raw))


def _apart(raw: msgspec.Raw, server: str) -> _Parts | None:
    try:
        try:
            parts: _Parts = _decode_only_parts(raw)
        except msgspec.ValidationError:  # it has other members, or is not MCP
            parts = _decode_parts(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _broken(f"its result cannot be read ({error})", server) from None
    if parts.result_type in {None, COMPLETE}:
        return parts
    if len(memoryview(raw)) > MAX_QUESTION_BYTES or is_dense(raw):
        raise _too_large("what it gives or asks in place of a result is too large", server)
    return None


def _content(parts: _Parts, server: str) -> list[Bytes]:
    """The array of blocks; where it is empty, the structured content as the text of one."""
    content = memoryview(parts.content)
    if len(content) == 0 or bytes(content[:64]).translate(None, b" \t\r\n") == b"[]":
        if not is_given(parts.structured):
            return [b"[]"]
        text = msgspec.json.encode(str(memoryview(parts.structured), "utf-8"))
        return [b'[{"type":"text","text":', text, b"}]"]
    if content[0] != _BRACKET:
        raise _broken("its result has no proper `content`: a list of objects is expected", server)
    return [content]


def _only_item(parts: _Parts) -> _Item | None:
    """The one item of `contents`; None where there are others, or what there is cannot be read."""
    try:
        first, second = first_elements(parts.contents)[:2]
        return None if second else _decode_item(first)
    except (msgspec.DecodeError, RecursionError):
        return None


def _first(
    array: msgspec.Raw | bytes, decode: Callable[[msgspec.Raw], T], field: str, server: str
) -> list[T]:
    """The elements of an array, decoded; the array is not, where it has too many."""
    try:
        first = first_elements(array)
        if first[-1]:
            raise _too_large(f"its result has more than {_MAX_BLOCKS} blocks of content", server)
        return [decode(element) for element in first if element]
    except (msgspec.DecodeError, RecursionError) as error:
        raise _broken(f"its result has no proper `{field}` ({error})", server) from None


def refuse_dense_messages(raw: msgspec.Raw, server: str) -> None:
    """Refuse the messages of a prompt, or the values of a completion, that would be very many small objects.

    Raises:
        CallError: `response_too_large`.
    """
    if not is_dense(raw):
        return
    try:
        parts = _decode_asked(raw)
        for array in (parts.messages, parts.completion.values):
            if array and first_elements(array)[-1]:
                raise _too_large(f"its result has more than {_MAX_BLOCKS} elements", server)
    except msgspec.ValidationError:
        raise _too_large("its result holds too many members", server) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise _broken(f"its result is not JSON ({error})", server) from None


def _is_base64(text: memoryview) -> bool:
    """Return True if a JSON string is base64 as it stands; one with escapes in it is for others to judge."""
    if (len(text) - len('""')) % 4:
        return False
    padding = bytes(text[1:-1]).translate(None, _BASE64)
    return padding in {b"", b"=", b"=="} and bytes(text[-1 - len(padding) : -1]) == padding


def _too_large(problem: str, server: str) -> CallError:
    text = f"{server}: {problem}; it may have taken effect"
    return CallError(Code.RESPONSE_TOO_LARGE, text, server=server)


def _broken(problem: str, server: str) -> CallError:
    text = f"The server {server!r} does not keep to the protocol: {problem}."
    return CallError(Code.PROTOCOL_ERROR, text, server=server)
