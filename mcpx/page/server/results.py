"""Results of servers for the page: what came, and what a model is shown of it; both bounded. Pure.

Texts are cut in plain sight (`cut` counts what was left out), binary content that is too large is left out
and its size stays. Nothing here decides what of it is shown as what: the browser does, by the MIME type.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mcpx.core.catalog.model import JSON, present
from mcpx.core.rendering.content import texts_of
from mcpx.core.rendering.results import ToolResult
from mcpx.core.rendering.tokens import estimate_result

MAX_BLOCKS: Final = 200
MAX_TEXT_CHARS: Final = 400_000  # of all texts of a result together
MAX_BINARY_CHARS: Final = 16 << 20  # of all base64 of a result together
MAX_STRUCTURED_BYTES: Final = 400_000
MAX_NAME_CHARS: Final = 2_000  # of a URI, a name or a MIME type
_NAMES: Final = ("name", "title", "description", "mimeType", "uri", "size")


class _Room:
    """What of the bounds is left for the blocks that follow."""

    def __init__(self) -> None:
        self.text = MAX_TEXT_CHARS
        self.binary = MAX_BINARY_CHARS


def blocks(content: Any) -> list[JSON]:
    """Content blocks, bounded: `{type, text?, cut?, data?, bytes?, mimeType?, uri?, name?, ...}` each.

    An embedded resource has its members in the block. The last one says how many more there are.
    """
    given = content if isinstance(content, list) else []
    room = _Room()
    shown = [_block(each, room) for each in given[:MAX_BLOCKS] if isinstance(each, dict)]
    if len(given) > MAX_BLOCKS:
        shown.append({"type": "more", "blocks": len(given) - MAX_BLOCKS})
    return shown


def contents(items: Any) -> list[JSON]:
    """The contents of a resource as blocks."""
    given = items if isinstance(items, list) else []
    return blocks([{"type": "resource", "resource": each} for each in given])


def messages(result: JSON) -> JSON:
    """The result of a prompt: `{description?, messages: [{role, content: [block]}]}`."""
    given = result.get("messages")
    listed = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    shown = [
        {"role": _name(each.get("role")) or "user", "content": blocks(_as_list(each.get("content")))}
        for each in listed[:MAX_BLOCKS]
    ]
    return present(description=_name(result.get("description")), messages=shown)


def tool_result(raw: JSON, shown: ToolResult, *, took_ms: float) -> JSON:
    """The result of a tool as the server gave it, and beside it what a model is shown.

    `{content, structured?, structured_cut?, is_error, took_ms, model: {text, cut?, tokens, tokens_direct}}`.
    """
    structured = raw.get("structuredContent")
    encoded = b"" if structured is None else msgspec.json.encode(structured)
    is_shown = structured is not None and len(encoded) <= MAX_STRUCTURED_BYTES
    text = "\n".join(texts_of(shown.content))
    direct = "\n".join(texts_of([each for each in _as_list(raw.get("content")) if isinstance(each, dict)]))
    return present(
        content=blocks(raw.get("content")),
        structured=structured if is_shown else None,
        structured_cut=None if is_shown or structured is None else len(encoded),
        is_error=bool(raw.get("isError")),
        took_ms=took_ms,
        model={
            **_cut_text(text, _Room()),
            "tokens": estimate_result(text),
            "tokens_direct": estimate_result(direct),
        },
    )


def _block(given: JSON, room: _Room) -> JSON:
    inner = given.get("resource")
    members = given | inner if isinstance(inner, dict) else given
    shown: JSON = {"type": _name(given.get("type")) or "unknown"}
    for name in _NAMES:
        value = members.get(name)
        if isinstance(value, str):
            shown[name] = value[:MAX_NAME_CHARS]
        elif name == "size" and isinstance(value, int):
            shown[name] = value
    if isinstance(text := members.get("text"), str):
        shown |= _cut_text(text, room)
    data = members.get("data", members.get("blob"))
    if isinstance(data, str):
        shown["bytes"] = len(data) * 3 // 4 - data[-2:].count("=")
        if len(data) <= room.binary:
            room.binary -= len(data)
            shown["data"] = data
    return shown


def _cut_text(text: str, room: _Room) -> JSON:
    """`{text, cut?}`, where `cut` counts the characters that are left out."""
    shown = text[: room.text]
    room.text -= len(shown)
    return {"text": shown} if len(shown) == len(text) else {"text": shown, "cut": len(text) - len(shown)}


def _name(value: Any) -> str | None:
    return value[:MAX_NAME_CHARS] if isinstance(value, str) else None


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
