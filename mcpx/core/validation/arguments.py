"""The arguments of a call, decoded or refused before anything is sent.

They are JSON from clients, or Python values from programs. Small ones are decoded here; a large object stays
encoded, for the process that checks it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.text.json_work import holds_nonfinite
from mcpx.core.validation.bounds import MAX_INLINE_BYTES, MAX_TEXT_BYTES
from mcpx.core.validation.errors import Problem, describe_value, invalid_arguments, unreadable_arguments
from mcpx.errors import CallError

EMPTY: Final = b"{}"
HEAD_BYTES: Final = 64  # in which the first byte that is no space is looked for


def read_raw_arguments(raw: msgspec.Raw | bytes, tool: ToolInfo) -> tuple[JSON | None, bytes | msgspec.Raw]:
    """Return the arguments as an object, and as the JSON to send: the bytes that came, where possible.

    `raw` is JSON: an object, a string that holds one, null, or empty. A large object is not decoded: then the
    first of the two is None.

    Raises:
        CallError: `invalid_arguments`: they are something else, or cannot be read.
    """
    if not raw:
        return {}, EMPTY
    if len(raw) > MAX_INLINE_BYTES:
        return _large(raw, tool)
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _refusal(tool, unreadable(error)) from None
    if isinstance(value, dict):
        return value, raw
    if value is None:
        return {}, EMPTY
    if isinstance(value, str):
        return _decode_text(value, tool)
    raise _not_object(tool, value)


def encode_arguments(arguments: Any, *, server: str, tool: str) -> bytes:
    """Encode a program's arguments as JSON.

    Raises:
        CallError: `invalid_arguments`: JSON has no form for them.
    """
    try:
        encoded = msgspec.json.encode(arguments)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise unreadable_arguments(
            server, tool, f"no JSON can be made of them: {unreadable(error)}"
        ) from None
    if b"null" in encoded and holds_nonfinite(arguments):  # as msgspec writes them
        raise unreadable_arguments(
            server, tool, "they hold a number beyond what JSON can say (NaN or infinity)"
        )
    return encoded


def unreadable(error: Exception) -> str:
    """Say why JSON cannot be read, and what to do."""
    if isinstance(error, RecursionError):
        return "they are nested too deeply; send fewer levels"
    return f"they cannot be read ({error}); send a plain JSON object"


def _decode_text(text: str, tool: ToolInfo) -> tuple[JSON, bytes]:
    if not text.strip():
        return {}, EMPTY
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _not_in_text(tool, error) from None
    if not isinstance(value, dict):
        raise _not_object(tool, value)
    return value, msgspec.json.encode(value)


def _large(raw: msgspec.Raw | bytes, tool: ToolInfo) -> tuple[None, bytes | msgspec.Raw]:
    """Accept what is certainly JSON, judged by how it begins."""
    first = _first(raw)
    if first == b"{":
        return None, raw
    if first != b'"':
        raise _not_object(tool, [] if first == b"[" else 0)
    if len(raw) > MAX_TEXT_BYTES:
        problem = f"a string of over {MAX_TEXT_BYTES} bytes is not looked into; send the object itself"
        raise _refusal(tool, problem)
    try:
        text = msgspec.json.decode(raw, type=str).encode()
        msgspec.json.decode(text, type=msgspec.Raw)  # whether it is JSON, without reading it
    except (msgspec.DecodeError, RecursionError) as error:
        raise _not_in_text(tool, error) from None
    if _first(text) != b"{":
        raise _not_object(tool, [])
    return None, text.translate(_NO_LINES)


_NO_LINES: Final = bytes.maketrans(b"\r\n", b"  ")  # line ends between tokens: a message is one line


def _first(raw: msgspec.Raw | bytes) -> bytes:
    """The first byte that is no space."""
    return bytes(memoryview(raw)[:HEAD_BYTES]).lstrip()[:1]


def _not_in_text(tool: ToolInfo, error: Exception) -> CallError:
    return _refusal(tool, f"expected an object, got a string that is not JSON ({error})")


def _not_object(tool: ToolInfo, value: Any) -> CallError:
    return _refusal(tool, f"expected an object, got {describe_value(value)}")


def _refusal(tool: ToolInfo, problem: str) -> CallError:
    return invalid_arguments(tool, [Problem("$", problem)])
