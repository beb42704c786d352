"""The members of a result as encoded JSON: read no further than they must be, and put together again. Pure.

What MCPX has no reason to read (structured content, `_meta`, annotations, members that it does not know)
stays the JSON that came, so that numbers, nulls, keys and their order are the server's. The envelope is the
client's: of 2026-07-28 where there is a `stamp`, the `_meta` with MCPX's own `serverInfo`; else a result has
neither `resultType` nor the `serverInfo` of its server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from mcpx.core.catalog.model import JSON

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


def text_block(text: str) -> JSON:
    """A block that holds a text."""
    return {"type": "text", "text": text}


def texts_of(blocks: Iterable[JSON]) -> list[str]:
    """The texts of blocks, those of embedded resources among them."""
    return [text for text in map(_text_of, blocks) if text is not None]


def with_texts(blocks: Iterable[JSON], texts: Sequence[str]) -> list[JSON]:
    """The blocks with these texts in place of theirs; blocks with texts beyond them are left out."""
    given, made = iter(texts), []
    for block in blocks:
        if _text_of(block) is None:
            made.append(block)
        elif (text := next(given, None)) is not None:
            made.append(_with_text(block, text))
    return made


def _text_of(block: JSON) -> str | None:
    holder = block.get("resource") if block.get("type") == "resource" else block
    if block.get("type") not in {"text", "resource"} or not isinstance(holder, dict):
        return None
    text = holder.get("text")
    return text if isinstance(text, str) else None


def _with_text(block: JSON, text: str) -> JSON:
    if block["type"] == "resource":
        return {**block, "resource": {**block["resource"], "text": text}}
    return {**block, "text": text}


Bytes = bytes | memoryview
Members = dict[str, Any]
"""An object by its members: `msgspec.Raw` as they came, or Python values."""

Readers = Mapping[str, Callable[[msgspec.Raw], Any]]
"""Functions that read members, by their names."""

COMPLETE: Final = "complete"
OF_ENVELOPE: Final = ("resultType", "ttlMs", "cacheScope")
"""Members of a result that revisions before 2026-07-28 do not have."""
KNOWN: Final = frozenset({"content", "structuredContent", "isError", "_meta", "contents", "resultType"})
"""Members of the results of tools and of reads that have a meaning to MCPX."""
_SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
_SERVER_INFO_KEY: Final = _SERVER_INFO.encode()

_MAX_META_BYTES: Final = 65_536  # of a `_meta` that is read
_BRACE: Final = ord("{")

decode_members: Final[Callable[[msgspec.Raw], Members]] = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_array: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_string: Final = msgspec.json.Decoder(str).decode
_encode: Final = msgspec.json.Encoder().encode


class _Text(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    type: str
    text: str


class _Texts(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """Content of texts alone, as in most results. To read it as any other takes three times as long."""

    content: list[_Text]
    structured: msgspec.Raw = msgspec.field(name="structuredContent", default=_NOTHING)
    is_error: bool = msgspec.field(name="isError", default=False)


_decode_texts: Final = msgspec.json.Decoder(_Texts).decode


# --- read


def read_texts(raw: msgspec.Raw) -> Members | None:
    """The members of a result of a tool that holds texts and structured content alone; None of any other."""
    try:
        read = _decode_texts(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    content = [{"type": block.type, "text": block.text} for block in read.content]
    members: Members = {"content": content, "isError": read.is_error}
    if is_given(read.structured):
        members["structuredContent"] = read.structured
    return members


def read_array(raw: msgspec.Raw, read: Callable[[msgspec.Raw], Any]) -> list[Any] | msgspec.Raw:
    """An array with `read` applied to its elements; anything else as it came."""
    try:
        return [read(element) for element in _decode_array(raw)]
    except msgspec.ValidationError:
        return raw


def read_block(raw: msgspec.Raw) -> Members | msgspec.Raw:
    """A content block: its texts and names decoded, the other members as they came."""
    return read_object(raw, _BLOCK)


def read_item(raw: msgspec.Raw) -> Members | msgspec.Raw:
    """A part of a resource: its texts and names decoded, the other members as they came."""
    return read_object(raw, _ITEM)


def read_object(raw: msgspec.Raw, readers: Readers) -> Members | msgspec.Raw:
    """An object with the members that have readers as these read them; anything else as it came."""
    try:
        return read_each(decode_members(raw), readers)
    except msgspec.ValidationError:
        return raw


def read_each(members: Members, readers: Readers) -> Members:
    """The same members, in place, with those that have readers as these read them."""
    for name, read in readers.items():
        if name in members:
            members[name] = read(members[name])
    return members


def read_string(raw: msgspec.Raw) -> Any:
    """A string decoded; anything else as it came."""
    try:
        return _decode_string(raw)
    except msgspec.ValidationError:
        return raw


_ITEM: Final[Readers] = dict.fromkeys(("text", "uri", "mimeType", "blob"), read_string)
_BLOCK: Final[Readers] = {"type": read_string, **_ITEM, "resource": read_item}


def others(members: Mapping[str, Any]) -> Members:
    """The members of a result of a tool, or of a read, that have no meaning to MCPX."""
    return {name: value for name, value in members.items() if name not in KNOWN}


# --- put together


def is_given(value: msgspec.Raw) -> bool:
    """Return True if there is a value: null counts as absent."""
    return bytes(memoryview(value)[:5]) not in {b"", b"null"}


def structured_content(value: memoryview) -> list[Bytes]:
    """The member `structuredContent`, an object even where the value is none."""
    if value[0] == _BRACE:
        return [b',"structuredContent":', value]
    return [b',"structuredContent":{"result":', value, b"}"]


def closing(meta: msgspec.Raw, stamp: bytes | None, others: Members | None = None) -> list[Bytes]:
    """The end of a result behind its content: its other members, the envelope, the brace."""
    made: list[Bytes] = []
    if others:
        for name, value in others.items():
            made += [b",", _encode(name), b":", memoryview(value)]
    if stamp is not None:
        made.append(b',"resultType":"complete"')
    own = _own_meta(meta, stamp) if meta else stamp
    return [*made, b',"_meta":', own, b"}"] if own else [*made, b"}"]


def enveloped(members: Members, stamp: bytes | None) -> bytes:
    """A whole result of these members, `complete` where they do not say what it is."""
    given = members.copy()
    if stamp is None:
        for name in OF_ENVELOPE:
            given.pop(name, None)
    else:
        given.setdefault("resultType", COMPLETE)
    meta = given.pop("_meta", None)
    own = stamp if meta is None else _own_meta(msgspec.Raw(_encode(meta)), stamp)
    if own:
        given["_meta"] = msgspec.Raw(own)
    return _encode(given)


def _own_meta(meta: msgspec.Raw, stamp: bytes | None) -> Bytes:
    """The `_meta` of a result: the server's, but for what it says of itself, and the stamp; b"" for none."""
    if not is_given(meta):
        return stamp or b""
    theirs = memoryview(meta)
    named = _SERVER_INFO_KEY in bytes(theirs)
    if theirs[0] != _BRACE or (stamp is None and not named):
        return theirs  # nothing to change; or no object, as its client will find
    if (
        len(theirs) > _MAX_META_BYTES and bytes(theirs[1:-1]).strip()
    ):  # not read: of two equal keys readers take the last
        return theirs if stamp is None else b"%b,%b" % (bytes(theirs[:-1]), stamp[1:])
    members = decode_members(meta)
    members.pop(_SERVER_INFO, None)
    if not members:
        return stamp or b""
    encoded = _encode(members)
    return encoded if stamp is None else b"%b,%b" % (encoded[:-1], stamp[1:])
