"""Results of servers, made ready for a model (`content`) and for a program (`structured_content`).

Owns the rules for which block of a result is shown in another form, what `structuredContent` holds where the
upstream gave none, and how a resource is shown. Called by the executor and the router with the raw protocol
JSON of an upstream's result; the blocks in and out are plain dicts with the protocol's own key names.
Whether a client is given `structured_content` at all is decided elsewhere.

Promises: a block that is not changed is the same object that came, in its place; no argument is mutated; a
result that is not large is never longer than the upstream's, nor than its compact JSON, and never says less.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any, Final

import msgspec

from mcpx.catalog.model import JSON
from mcpx.errors import CallError, Code
from mcpx.rendering.large_results import essential_contents, essentials, is_dense
from mcpx.rendering.result_members import (
    COMPLETE,
    decode_members,
    is_given,
    others,
    read_array,
    read_block,
    read_item,
)
from mcpx.rendering.toon import DEFAULT_FORM, JSONText, TextForm, read_json
from mcpx.text import cut, kind_of

INPUT_REQUIRED: Final = "input_required"
_NULLABLE: Final = frozenset({"structuredContent", "_meta"})  # where null is the same as nothing
_MAX_METHOD_CHARS: Final = 64  # of a method in an error; the protocol's own have half of that
_MAX_METHODS: Final = 8  # named in an error
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


class InputRequired(CallError):  # noqa: N818 - the protocol's name, and a condition
    """The server wants input from its client before it goes on: an error for callers that cannot give any.

    `result` is `{resultType, inputRequests?, requestState?}`, the one an object and the other a text.
    """

    def __init__(self, result: JSON, server: str) -> None:
        asked = result.get("inputRequests") or {}
        methods = sorted(
            {str(each.get("method"))[:_MAX_METHOD_CHARS] for each in asked.values() if isinstance(each, dict)}
        )
        wanted = ", ".join(methods[:_MAX_METHODS]) or "another try"
        text = f"{server} wants input before it goes on ({wanted}), and this caller cannot be asked for any"
        super().__init__(Code.UPSTREAM_ERROR, text, server=server)
        self.result = result


class UnknownResultType(CallError):  # noqa: N818 - a condition
    """A result of a type that MCPX does not know (2026-07-28); `result` are its members, as they came.

    To a client of that revision it is passed on as it is, and the client refuses what it does not know.
    """

    def __init__(self, result: JSON, server: str) -> None:
        kind = cut(str(result["resultType"]), _MAX_METHOD_CHARS)
        text = f"{server} answered with a result of the type {kind!r}, which this client does not know"
        super().__init__(Code.PROTOCOL_ERROR, f"{text}; it may have taken effect", server=server)
        self.result = result


def read_result(raw: bytes | msgspec.Raw, *, server: str = "") -> JSON:
    """The JSON of a result, decoded.

    Raises:
        CallError: `protocol_error`: it is no object.
        InputRequired: It is no result but questions (2026-07-28).
        UnknownResultType: It is something else.
    """
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _not_json(error, server) from None
    if not isinstance(value, dict):
        raise _not_protocol("the result is no object", server)
    _check_type(value.get("resultType"), value, server)
    return value


def read_members(raw: msgspec.Raw, *, server: str = "", **read: Callable[[msgspec.Raw], Any]) -> JSON:
    """The members of a result: those that `read` names as it reads them, the others as they came.

    Raises:
        CallError: As in `read_result`.
    """
    try:
        members: JSON = dict(decode_members(raw))
        kind = msgspec.json.decode(members.get("resultType", b"null"))
        if kind == INPUT_REQUIRED:
            return read_result(raw, server=server)  # which raises it
        _check_type(kind, members, server)
        for name in members.keys() & read.keys():
            members[name] = read[name](members[name])
    except msgspec.ValidationError:
        return read_result(raw, server=server)  # which says what is wrong
    except (msgspec.DecodeError, RecursionError) as error:
        raise _not_json(error, server) from None
    return {name: value for name, value in members.items() if name not in _NULLABLE or is_given(value)}


def read_tool_result(raw: msgspec.Raw, *, server: str = "", large: bool = True, whole: bool = False) -> JSON:
    """The result of a `tools/call`, read as far as it is shown, or whole; of a dense one the essentials.

    One that is not `large` is not dense.

    Raises:
        CallError: As in `read_result`; `response_too_large`: it is dense, and has too many blocks.
    """
    if large and is_dense(raw) and (read := essentials(raw, server)) is not None:
        return read
    if whole:
        return read_result(raw, server=server)
    return read_members(raw, server=server, content=_read_blocks, isError=msgspec.json.decode)


def read_resource_result(raw: msgspec.Raw, *, server: str = "", whole: bool = False) -> JSON:
    """The result of a `resources/read`, read as far as it is shown, or whole; of a dense one the essentials.

    Raises:
        CallError: As in `read_result`; `response_too_large`: it is dense, and has too many blocks.
    """
    if is_dense(raw) and (read := essential_contents(raw, server)) is not None:
        return read
    if whole:
        return read_result(raw, server=server)
    return read_members(raw, server=server, contents=_read_items)


def _read_blocks(content: msgspec.Raw) -> Any:
    return read_array(content, read_block)


def _read_items(contents: msgspec.Raw) -> Any:
    return read_array(contents, read_item)


def _check_type(kind: Any, result: JSON, server: str) -> None:
    """Raise what is to be raised for a result that is not `complete`."""
    if kind is None or kind == COMPLETE:
        return
    if kind == INPUT_REQUIRED:
        raise _questions(result, server)
    if not isinstance(kind, str):
        raise _not_protocol(f"`resultType` must be a string, got {kind_of(kind)}", server)
    raise UnknownResultType({**result, "resultType": kind}, server)


def _questions(result: JSON, server: str) -> CallError:
    """What to raise for a result that asks: InputRequired, unless it does not ask as the protocol has it."""
    asked, state = result.get("inputRequests"), result.get("requestState")
    if asked is not None and not isinstance(asked, dict):
        return _not_protocol(f"`inputRequests` must be an object, got {kind_of(asked)}", server)
    if state is not None and not isinstance(state, str):
        return _not_protocol(f"`requestState` must be a string, got {kind_of(state)}", server)
    return InputRequired(result, server)


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
    raise _not_protocol(f"its result has no proper `{field}`: a list of objects is expected", server)


def _not_json(error: Exception, server: str) -> CallError:
    return _not_protocol(f"the result is not JSON ({error})", server)


def _not_protocol(problem: str, server: str) -> CallError:
    named = f"The server {server!r}" if server else "The server"
    return CallError(Code.PROTOCOL_ERROR, f"{named} does not keep to the protocol: {problem}.", server=server)


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
        raise _not_protocol(f"the resource {named} came with neither text nor a blob", server)
    try:
        base64.b64decode(blob, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _not_protocol(f"the blob of the resource {named} is not base64 ({error})", server) from error
    return {"uri": named, "mime_type": item.get("mimeType"), "blob": blob}


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
