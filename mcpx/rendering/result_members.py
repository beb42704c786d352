"""The members of a result as encoded JSON: read no further than they must be, and put together again. Pure.

What MCPX has no reason to read (structured content, `_meta`, annotations, members that it does not know)
stays the JSON that came, so that numbers, nulls, keys and their order are the server's. The envelope is the
client's: of 2026-07-28 where there is a `stamp`, the `_meta` with MCPX's own `serverInfo`; else a result has
neither `resultType` nor the `serverInfo` of its server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

Bytes = bytes | memoryview
Members = dict[str, Any]
"""An object by its members: `msgspec.Raw` as they came, or Python values."""

COMPLETE: Final = "complete"
OF_ENVELOPE: Final = frozenset({"resultType", "ttlMs", "cacheScope"})
"""Members of a result that revisions before 2026-07-28 do not have."""
KNOWN: Final = frozenset({"content", "structuredContent", "isError", "_meta", "contents", "resultType"})
"""Members of the results of tools and of reads that have a meaning to MCPX."""
_SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
_SERVER_INFO_KEY: Final = _SERVER_INFO.encode()
_MAX_META_BYTES: Final = 65_536  # of a `_meta` that is read
_BRACE: Final = ord("{")
_BRACKET: Final = ord("[")
_QUOTE: Final = ord('"')

decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_array: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


# --- read


def read_array(raw: msgspec.Raw, read: Callable[[msgspec.Raw], Any]) -> list[Any] | msgspec.Raw:
    """An array with `read` applied to its elements; anything else as it came."""
    if memoryview(raw)[0] != _BRACKET:
        return raw
    return [read(element) for element in _decode_array(raw)]


def read_block(raw: msgspec.Raw) -> Members | msgspec.Raw:
    """A content block: its texts and names decoded, the other members as they came."""
    return read_object(raw, type=_read_string, **_OF_ITEM, resource=read_item)


def read_item(raw: msgspec.Raw) -> Members | msgspec.Raw:
    """A part of a resource: its texts and names decoded, the other members as they came."""
    return read_object(raw, **_OF_ITEM)


def read_object(raw: msgspec.Raw, **read: Callable[[msgspec.Raw], Any]) -> Members | msgspec.Raw:
    """An object with the members that `read` names as it reads them, the others as they came; or `raw`."""
    if memoryview(raw)[0] != _BRACE:
        return raw
    members: Members = dict(decode_members(raw))
    for name in members.keys() & read.keys():
        members[name] = read[name](members[name])
    return members


def _read_string(raw: msgspec.Raw) -> str | msgspec.Raw:
    """A string decoded; anything else as it came."""
    return str(_decode(raw)) if memoryview(raw)[0] == _QUOTE else raw


_OF_ITEM: Final = dict.fromkeys(("uri", "mimeType", "text", "blob"), _read_string)


def others(members: Mapping[str, Any]) -> Members:
    """The members of a result of a tool, or of a read, that have no meaning to MCPX."""
    return {name: value for name, value in members.items() if name not in KNOWN}


# --- put together


def is_given(value: msgspec.Raw) -> bool:
    """Whether there is a value: null counts as absent."""
    return bytes(memoryview(value)[:5]) not in {b"", b"null"}


def structured_content(value: memoryview) -> list[Bytes]:
    """The member `structuredContent`, an object even where the value is none."""
    if value[0] == _BRACE:
        return [b',"structuredContent":', value]
    return [b',"structuredContent":{"result":', value, b"}"]


def closing(
    meta: msgspec.Raw, stamp: bytes | None, others: Mapping[str, msgspec.Raw] | None = None
) -> list[Bytes]:
    """What follows on the content of a result: its other members, the envelope, the brace."""
    made: list[Bytes] = []
    for name, value in (others or {}).items():
        made += [b",", _encode(name), b":", memoryview(value)]
    if stamp is not None:
        made.append(b',"resultType":"complete"')
    own = _own_meta(meta, stamp)
    return [*made, b',"_meta":', own, b"}"] if own else [*made, b"}"]


def enveloped(members: Mapping[str, Any], stamp: bytes | None) -> bytes:
    """A whole result of these members, `complete` where they do not say what it is."""
    given = {
        name: value
        for name, value in members.items()
        if name != "_meta" and (stamp is not None or name not in OF_ENVELOPE)
    }
    if stamp is not None:
        given.setdefault("resultType", COMPLETE)
    if own := _own_meta(msgspec.Raw(_encode(members.get("_meta"))), stamp):
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
