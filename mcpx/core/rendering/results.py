"""Results of servers, made ready for a model (`content`) and for a program (`structured_content`).

Owns the rules for which block of a result is shown in another form, what `structuredContent` holds where the
upstream gave none, and how a resource is shown. Called with an upstream's result as
`mcpx.core.rendering.result_reading` reads it; the blocks in and out are dicts with the protocol's own key
names. Whether a client is given `structured_content` at all is decided elsewhere.

Promises: a block that is not changed is the same object that came, in its place; no argument is mutated; a
result that is not large is never longer than the upstream's, nor than its compact JSON, and never says less.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import msgspec

from mcpx.core.catalog.model import JSON
from mcpx.core.rendering.result_members import others
from mcpx.core.rendering.result_reading import not_protocol
from mcpx.core.rendering.toon import DEFAULT_FORM, JSONText, TextForm, read_json

_OF_ITEM: Final = frozenset({"uri", "mimeType", "text", "blob"})
_MEDIA: Final = {"image": "image", "audio": "audio"}  # major MIME type -> content block type


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """A result ready for downstream: protocol content blocks, and the same as an object for programs.

    `structured_content` is an object, or `None` where there is no plain value to give; `meta` is the
    upstream's `_meta`, `others` its members that MCPX does not know. What need not be read is `msgspec.Raw`.
    """

    content: list[JSON]
    structured_content: Any = None
    is_error: bool = False
    meta: Any = None
    others: JSON = {}


def members_of(shaped: ToolResult, *, structured: bool) -> JSON:
    """The members of a result, but for its envelope, which is of the client's revision."""
    made: JSON = {"content": shaped.content, "isError": shaped.is_error}
    if structured and shaped.structured_content is not None:
        made["structuredContent"] = shaped.structured_content
    if shaped.meta is not None:
        made["_meta"] = shaped.meta
    return made | shaped.others


def shape_tool_result(
    raw: JSON, *, form: TextForm | None = DEFAULT_FORM, is_large: bool = False, server: str = ""
) -> ToolResult:
    """Shape the result of a `tools/call`, as it was read: `{content, structuredContent?, isError?, _meta?}`.

    An upstream error passes through as it is. Otherwise a text block that is JSON is shown in `form` (as it
    came where that is None), and `structured_content` is the upstream's own, or else what the JSON text
    blocks hold: one value, or `{"result": [values]}` of several. Values that are not objects stand under
    `result`, because older protocol revisions know objects only.

    A result that `is_large` is not read: its text is passed on, JSON or not.

    Raises:
        CallError: `protocol_error`: `content` is not a list of blocks.
    """
    blocks = _list_of_objects(raw.get("content", []), "content", server)
    value = raw.get("structuredContent")
    is_error = bool(raw.get("isError"))
    if not blocks and value is not None and not is_error:
        text = msgspec.json.format(msgspec.json.encode(value), indent=-1).decode()
        blocks = [{"type": "text", "text": text}]
    if not is_error and not is_large:
        sources = [_json_of(block) for block in blocks]
        blocks = [_shown(block, source, form) for block, source in zip(blocks, sources, strict=True)]
        value = _value_of(sources) if value is None else value
    return ToolResult(
        content=blocks,
        structured_content=_as_object(value),
        is_error=is_error,
        meta=raw.get("_meta"),
        others=others(raw),
    )


def shape_resource(
    raw: JSON, *, uri: str, form: TextForm | None = DEFAULT_FORM, server: str = ""
) -> ToolResult:
    """Shape the result of a `resources/read` of `uri`, as it was read: `{contents: [...], _meta?}`.

    For the model: text, in `form` where it is JSON (as it came where `form` is None), an image or audio as a
    block of that type, other binary as an embedded resource. For programs: `resource_value`, under `result`
    where it is no object.

    Raises:
        CallError: `protocol_error`: as in `resource_value`.
    """
    value = resource_value(raw, uri=uri, server=server)
    blocks = [_resource_block(item, uri) for item in raw["contents"]]
    if form is not None:
        blocks = [_shown(block, _json_of(block), form) for block in blocks]
    return ToolResult(
        content=blocks or [{"type": "text", "text": f"The resource {uri} is empty: it has no contents."}],
        structured_content=_as_object(value),
        meta=raw.get("_meta"),
        others=others(raw),
    )


def resource_value(raw: JSON, *, uri: str = "", server: str = "") -> str | JSON | list[str | JSON]:
    """The plain value of a raw `resources/read` result.

    One text: the string. One binary: `{uri, mime_type, blob}`, base64. Any other number: the list of such.
    `uri` stands in where an item does not name its own; `mime_type` is `None` where the server gave none.

    Raises:
        CallError: `protocol_error`: an item has neither text nor a blob, or a blob that is not base64.
    """
    items = _list_of_objects(raw.get("contents"), "contents", server)
    values = [_item_value(item, uri, server) for item in items]
    return values[0] if len(values) == 1 else values


def _list_of_objects(value: Any, field: str, server: str) -> list[JSON]:
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return value
    raise not_protocol(f"its result has no proper `{field}`: a list of objects is expected", server)


def _json_of(block: JSON) -> JSONText | None:
    """The JSON that a block holds as text, if it is a text block and does."""
    text = block.get("text")
    return read_json(text) if block.get("type") == "text" and isinstance(text, str) else None


def _shown(block: JSON, source: JSONText | None, form: TextForm | None) -> JSON:
    """The block with its text in the smallest form, or the block itself."""
    if source is None or form is None:
        return block
    text = source.smallest(form)
    return block if text is source.text else {**block, "text": text}


def _value_of(sources: list[JSONText | None]) -> Any:
    values = [source.value for source in sources if source]
    if not values:
        return None
    return values[0] if len(values) == 1 else values


def _as_object(value: Any) -> Any:
    if isinstance(value, msgspec.Raw):
        return value if bytes(memoryview(value)[:1]) == b"{" else {"result": value}
    return value if value is None or isinstance(value, dict) else {"result": value}


def _item_value(item: JSON, uri: str, server: str) -> str | JSON:
    text, blob = item.get("text"), item.get("blob")
    if isinstance(text, str):
        return text
    named = item.get("uri", uri)
    if not isinstance(blob, str):
        raise not_protocol(f"the resource {named} came with neither text nor a blob", server)
    try:
        base64.b64decode(blob, validate=True)
    except (binascii.Error, ValueError) as error:
        raise not_protocol(f"the blob of the resource {named} is not base64 ({error})", server) from error
    mime_type = item.get("mimeType")
    return {"uri": named, "mime_type": mime_type if isinstance(mime_type, str) else None, "blob": blob}


def _resource_block(item: JSON, uri: str) -> JSON:
    """The content block for one item of a resource, already checked by `_item_value`."""
    others = {name: value for name, value in item.items() if name not in _OF_ITEM and value is not None}
    if isinstance(item.get("text"), str):
        return {"type": "text", "text": item["text"], **others}
    mime_type = item.get("mimeType")
    mime_type = mime_type if isinstance(mime_type, str) else ""
    kind = _MEDIA.get(mime_type.partition("/")[0].lower())
    if kind:
        return {"type": kind, "data": item["blob"], "mimeType": mime_type, **others}
    return {"type": "resource", "resource": {"uri": uri, **item}}
