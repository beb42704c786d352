"""The lines of the audit log: one for each call, made of its record. Pure.

A line is a JSON object in a fixed order: what is known at the beginning (`said_of`), then how the call ended,
then its place in the chain (`mcpx.core.events.audit.chain`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import msgspec

from mcpx.core.events.audit.chain_files import UNREADABLE
from mcpx.core.events.audit.slots import beginning
from mcpx.core.events.records import ENDS, Kind, Record
from mcpx.core.protocol.context import Origin
from mcpx.core.text import cut

MAX_NAME_CHARS: Final = 2048  # of a tool or a URI
MAX_ARGUMENTS: Final = 64  # that are named
MAX_ARGUMENT_CHARS: Final = 128  # of the name of one
MAX_ARGUMENTS_TEXT: Final = 512  # bytes; beyond it, the two limits above hold
MAX_NAMES_BYTES: Final = 1 << 20  # of arguments; those of larger ones are not read
MAX_VALUES_BYTES: Final = 16 << 10  # of arguments whose values are written
_encode: Final = msgspec.json.Encoder().encode
_names: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_SAID: Final = b'%b,"arguments":%b'
_ENDING: Final = b'%b,"ms":%.3f,"bytes_in":%d,"bytes_out":%d,%b'
_RECOVERED: Final = b'%b,"ms":null,"bytes_in":null,"bytes_out":null,%b'


def line_of(record: Record, redact: Callable[[Any], Any] | None) -> bytes:
    """Return the members of the line of a call that has ended.

    `redact` takes the secrets out of values; None: they are not written.
    """
    outcome, code, size = record.how()
    took_ms = max(0, record.ended_at_us - record.at_us) / 1000
    by = _by(record.approval, record.rule)
    ending = _ENDING % (_how(outcome, code), took_ms, len(record.arguments), size, by)
    text = b"%b,%b" % (beginning(record.at_us, record.said), ending)
    if record.trace_id is not None:
        text += b',"trace_id":%b' % encoded(record.trace_id)
    return text if redact is None else text + values(record.arguments, redact)


def recovered(mark: int) -> bytes:
    """Return the end of the line of a call that an earlier process has left, by the number in its slot."""
    outcome, code = ENDS[mark] if mark < len(ENDS) else ENDS[0]
    return _RECOVERED % (_how(outcome, code), _by(None, None))


def said_of(
    origin: Origin, server: str, kind: Kind, name: str, arguments: msgspec.Raw | bytes | None
) -> bytes:
    """Return the members that say who asks for what, with which arguments; None: they are not known."""
    if arguments is None:
        return _SAID % (members_of(origin, server, kind, name), b"null")
    if arguments and len(arguments) <= MAX_ARGUMENTS_TEXT:  # most calls are like earlier ones
        try:
            return _said_before(origin, server, kind, name, tuple(_names(arguments)))
        except UNREADABLE:
            pass
    return _SAID % (members_of(origin, server, kind, name), argument_names(arguments))


@lru_cache(maxsize=4096)
def _said_before(origin: Origin, server: str, kind: Kind, name: str, names: tuple[str, ...]) -> bytes:
    return _SAID % (members_of(origin, server, kind, name), _encode(names))


@lru_cache(maxsize=4096)
def members_of(origin: Origin, server: str, kind: Kind, name: str) -> bytes:
    """Return the members that say who asks for what."""
    return _texts_or_null(
        ("client", origin.client),
        ("user", origin.user),
        ("transport", origin.transport),
        ("profile", origin.profile),
        ("token", origin.token),
        ("server", cut(server, MAX_ARGUMENT_CHARS)),
        ("kind", kind),
        ("name", cut(name, MAX_NAME_CHARS)),
    )


@lru_cache(maxsize=256)
def _how(outcome: str, code: str | None) -> bytes:
    return _texts_or_null(("outcome", outcome), ("code", code))


@lru_cache(maxsize=256)
def _by(approval: str | None, rule: str | None) -> bytes:
    return _texts_or_null(("approval", approval), ("rule", rule))


def _texts_or_null(*members: tuple[str, str | None]) -> bytes:
    """Return members of an object, each a text or null."""
    pairs = ((key.encode(), b"null" if text is None else encoded(text)) for key, text in members)
    return b",".join(b'"%b":%b' % pair for pair in pairs)


def encoded(text: str) -> bytes:
    """Return a text as JSON, whatever is in it."""
    try:
        return _encode(text)
    except UnicodeEncodeError:  # half a character, which JSON can spell and UTF-8 cannot
        return _encode(text.encode(errors="replace").decode())


def argument_names(arguments: msgspec.Raw | bytes) -> bytes:
    """Return the names of arguments, as a JSON array; null where they cannot be read."""
    if not arguments:
        return b"[]"
    if len(arguments) > MAX_NAMES_BYTES:
        return b"null"
    try:
        names = list(_names(arguments))
    except UNREADABLE:
        return _other_names(arguments)
    text = _encode(names)
    if len(text) > MAX_ARGUMENTS_TEXT:
        return _encode([cut(name, MAX_ARGUMENT_CHARS) for name in names[:MAX_ARGUMENTS]])
    return text


def _other_names(arguments: msgspec.Raw | bytes) -> bytes:
    """Return the names of an object within a string; none of null."""
    try:
        given = msgspec.json.decode(arguments, type=str | None)
    except UNREADABLE:
        return b"null"
    if given is None:
        return b"[]"
    return argument_names(given.encode(errors="replace")) if given.lstrip().startswith("{") else b"null"


def values(arguments: msgspec.Raw | bytes, redact: Callable[[Any], Any]) -> bytes:
    """Return the member with the arguments' values; null where they are too large or cannot be read."""
    if not arguments:
        return b',"values":{}'
    if len(arguments) > MAX_VALUES_BYTES:
        return b',"values":null'
    try:
        return b',"values":%b' % _encode(redact(msgspec.json.decode(arguments)))
    except (*UNREADABLE, UnicodeEncodeError):
        return b',"values":null'
