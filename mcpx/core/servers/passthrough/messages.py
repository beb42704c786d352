"""The few members of a message that a direct session may replace; all others keep their bytes. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

import msgspec

from mcpx.core.wire import envelope
from mcpx.core.wire.envelope import SUBSCRIPTION_ID_META_KEY, MCPError
from mcpx.core.wire.intake import INTAKE, LARGE_BYTES
from mcpx.core.wire.outgoing import PeerError

Members = dict[str, msgspec.Raw]

OWN_META_PREFIX: Final = "mcpx/"
TOKEN: Final = "progressToken"  # noqa: S105 - of progress
_META: Final = b'"_meta"'
PROGRESS: Final = "notifications/progress"
CANCELLED: Final = "notifications/cancelled"
NOTHING: Final = msgspec.Raw()
_RESULT: Final = b'"result":'


class Prepared(NamedTuple):
    """The params of a request for the server, its progress token there, and the client's own in JSON."""

    params: msgspec.Raw | bytes
    token: int | str | None = None
    given: msgspec.Raw | None = None


def members_of(raw: msgspec.Raw | bytes) -> Members:
    """The members of an object; none where it is no object."""
    try:
        return msgspec.json.decode(raw, type=Members) if raw else {}
    except (msgspec.DecodeError, RecursionError):
        return {}


def elements_of(raw: msgspec.Raw) -> list[msgspec.Raw]:
    """The elements of an array; none where it is no array."""
    try:
        return msgspec.json.decode(raw, type=list[msgspec.Raw]) if raw else []
    except (msgspec.DecodeError, RecursionError):
        return []


def value_of(raw: msgspec.Raw | None) -> Any:
    """The value of a member, None where it is absent or cannot be read."""
    try:
        return None if raw is None else msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None


def prepare(params: msgspec.Raw | bytes, taken: Collection[int | str], instead: str) -> Prepared:
    """The params of a client's request for the server, without MCPX's own members of `_meta`.

    Its progress token stays, unless it is among the `taken` ones: then `instead` takes its place.
    """
    if _META not in bytes(params):
        return Prepared(params)
    members = members_of(params)
    meta = members_of(members.get("_meta", NOTHING))
    kept = {key: value for key, value in meta.items() if not key.startswith(OWN_META_PREFIX)}
    given = kept.get(TOKEN)
    token = value_of(given)
    if not isinstance(token, int | str):
        given = token = None
    elif token in taken:
        token = instead
        kept[TOKEN] = msgspec.Raw(envelope.encode(token))
    elif len(kept) == len(meta):
        return Prepared(params, token, given)
    if given is None and len(kept) == len(meta):
        return Prepared(params)
    if kept:
        members["_meta"] = msgspec.Raw(envelope.encode(kept))
    else:
        del members["_meta"]
    return Prepared(envelope.encode(members), token, given)


def with_member(params: msgspec.Raw, name: str, value: msgspec.Raw) -> msgspec.Raw:
    """The params with another value of that member."""
    return msgspec.Raw(envelope.encode({**members_of(params), name: value}))


def subscription_of(params: msgspec.Raw) -> Any:
    """The id of the stream that a notification belongs to (2026-07-28); None for none."""
    if SUBSCRIPTION_ID_META_KEY.encode() not in bytes(params):
        return None
    return value_of(members_of(members_of(params).get("_meta", NOTHING)).get(SUBSCRIPTION_ID_META_KEY))


def with_subscription(params: msgspec.Raw, stream: msgspec.Raw) -> msgspec.Raw:
    """The params of a notification with another id of its stream."""
    meta = members_of(members_of(params).get("_meta", NOTHING))
    return with_member(
        params, "_meta", msgspec.Raw(envelope.encode({**meta, SUBSCRIPTION_ID_META_KEY: stream}))
    )


# --- answers


def result_answer(result: msgspec.Raw | bytes) -> msgspec.Raw:
    """The answer with that result; a large one is not copied for it."""
    if len(result) > LARGE_BYTES and (whole := INTAKE.preceded(result, _RESULT)) is not None:
        return whole
    return msgspec.Raw(b"".join((_RESULT, result or b"{}")))


def error_answer(error: MCPError) -> msgspec.Raw:
    """The answer with that error, as it came where that is known."""
    if isinstance(error, PeerError):
        return msgspec.Raw(b"".join((b'"error":', error.raw)))
    said: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        said["data"] = error.data
    return msgspec.Raw(b'"error":' + envelope.encode(said))


def result_of(answer: msgspec.Raw) -> msgspec.Raw | None:
    """The result in an answer; None in an error."""
    view = memoryview(answer)  # a result may be large, and is not copied for this
    return msgspec.Raw(view[len(_RESULT) :]) if bytes(view[: len(_RESULT)]) == _RESULT else None
