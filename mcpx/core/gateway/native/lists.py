"""Lists and reads as the protocol has them: entries under MCPX's names, definitions, and pages. Pure.

Everything that the upstream gave is there under the protocol's names; only what names a resource or prompt is
put into MCPX's namespace. Titles and descriptions are for people, and lose what would mislead a reader
(`mcpx.core.text`); names and values do not. Of tools, only what would make a strict client refuse the whole
list, and so the tools of all other servers, is mended or left out: official clients want schemas to be of
objects, with objects for properties and texts for what is required.

A cursor contains the position where the page ended and a digest of its last entry. The next page begins
behind that entry, wherever it is by then; where it is gone, at the same position. So what stays listed is
neither repeated nor skipped, unless the order itself changes. A cursor is valid for the list that it came
from.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

import msgspec

from mcpx.core.calls.exposure import has_output_schema
from mcpx.core.catalog import lists as catalog_lists
from mcpx.core.catalog.extensions import with_files, with_pages
from mcpx.core.catalog.model import JSON, PromptInfo, ResourceInfo, SkillInfo, TemplateInfo, ToolInfo, as_list
from mcpx.core.catalog.naming import native_name, offered_prompt, offered_uri, whole_name
from mcpx.core.rendering.mending import Mend, mended
from mcpx.core.rendering.result_members import read_array, read_block, read_object
from mcpx.core.text import is_clean, one_line, paragraphs
from mcpx.core.wire.envelope import INVALID_PARAMS, MCPError

# --- entries and results


UNCACHED: Final = {"ttlMs": 0, "cacheScope": "private"}
"""Members of a result that no client may keep, from 2026-07-28 on."""
ListEntry = ResourceInfo | TemplateInfo | PromptInfo | SkillInfo
Rename = Callable[[str], str]
"""Gives the name under which the client knows a URI of the server."""


def offered_as(info: ListEntry) -> tuple[str, str]:
    """The member that names the entry in the protocol, and the name under which MCPX offers it."""
    match info:
        case ResourceInfo() | SkillInfo():
            return "uri", offered_uri(info.server_name, info.uri)
        case TemplateInfo():
            return "uriTemplate", offered_uri(info.server_name, info.uri_template)
        case PromptInfo():
            return "name", offered_prompt(info.server_name, info.name)


def list_entry(info: ListEntry) -> JSON:
    """An entry of `resources/list`, `resources/templates/list`, `prompts/list` or `skills/list`."""
    if isinstance(info, SkillInfo):
        return skill_entry(info.to_protocol(), partial(offered_uri, info.server_name))
    member, name = offered_as(info)
    entry = clean_texts(info.to_protocol()) | {member: name}
    if entry.get("arguments"):
        entry["arguments"] = [clean_texts(argument) for argument in entry["arguments"]]
    return entry


def skill_entry(skill: JSON, change: Callable[[str], str | None]) -> JSON:
    """The entry of a skill with other URIs, else as its server gave it: hosts hold files against it."""
    uri = skill.get("uri")
    renamed = {"uri": change(uri)} if isinstance(uri, str) else {}
    return with_files(skill, change) | renamed


def clean_texts(entry: JSON) -> JSON:
    """The entry with its title and description as they can be shown."""
    return entry | {key: _clean(entry[key]) for key in ("title", "description") if entry.get(key)}


def _clean(text: str) -> str:
    """A title or a description: as it came, unless it would mislead a reader."""
    return text if is_clean(text.replace("\r\n", "\n")) else paragraphs(text)


def contents(read: JSON, rename: Rename) -> JSON:
    """The result of a `resources/read`, each item under the URI that the client knows."""
    return {**read, "contents": [_renamed(item, rename) for item in read["contents"]]}


def messages(got: JSON, rename: Rename) -> JSON:
    """The result of a `prompts/get`; the resources in it can be read under the URIs given."""
    given = got.get("messages")
    if not isinstance(given, list):
        return got
    return {**got, "messages": [_message(message, rename) for message in given]}


def _read_message(raw: msgspec.Raw) -> Any:
    return read_object(raw, {"content": read_block})


PROMPT: Final = {"messages": partial(read_array, read=_read_message)}
"""Reads the result of a `prompts/get` as far as the names of the resources in it."""


def embedded(got: JSON) -> list[Any]:
    """The resources inside the messages of a prompt."""
    given = got.get("messages")
    contents = [message.get("content") for message in as_list(given) if isinstance(message, dict)]
    return [
        content.get("resource")
        for content in contents
        if isinstance(content, dict) and content.get("type") == "resource"
    ]


def _message(message: Any, rename: Rename) -> Any:
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, dict):
        return message
    match content.get("type"):
        case "resource_link":
            return {**message, "content": _renamed(content, rename)}
        case "resource":
            return {**message, "content": {**content, "resource": _renamed(content.get("resource"), rename)}}
        case _:
            return message


def _renamed(item: Any, rename: Rename) -> Any:
    if isinstance(item, dict) and isinstance(item.get("uri"), str):
        return {**item, "uri": rename(item["uri"])}
    return item


# --- pages


PAGE_ENTRIES: Final = 1000  # many hosts never ask for a second page

T = TypeVar("T")


class BadCursorError(MCPError):
    """The cursor is not one of ours, or is for another list."""

    def __init__(self, cursor: str) -> None:
        text = f"The cursor {cursor!r} is not from a page of this list; begin again without one"
        super().__init__(INVALID_PARAMS, text)


class _Cursor(msgspec.Struct, array_like=True):
    kind: str
    at: int
    entry: str


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some entries of a list, and the cursor of the next page."""

    entries: Sequence[tuple[str, T]]
    next_cursor: str | None


def page_of(
    kind: str, entries: Sequence[tuple[str, T]], cursor: str | None, *, size: int = PAGE_ENTRIES
) -> Page[T]:
    """The page behind `cursor`, or the first one. `entries` are pairs of a unique key and a value.

    Raises:
        BadCursorError: `cursor` does not come from a page of this kind of list.
    """
    start = 0 if cursor is None else _after(_read(kind, cursor), entries)
    end = start + size
    if end >= len(entries):
        return Page(entries[start:], None)
    made = _Cursor(kind, end, _digest(entries[end - 1][0]))
    return Page(entries[start:end], base64.urlsafe_b64encode(msgspec.json.encode(made)).decode().rstrip("="))


def _read(kind: str, cursor: str) -> _Cursor:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        read = msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True), type=_Cursor)
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise BadCursorError(cursor) from None
    if read.kind != kind or read.at < 1:
        raise BadCursorError(cursor)
    return read


def _after(cursor: _Cursor, entries: Sequence[tuple[str, T]]) -> int:
    at = cursor.at
    if at <= len(entries) and _digest(entries[at - 1][0]) == cursor.entry:
        return at
    found = (place for place, (key, _) in enumerate(entries, 1) if _digest(key) == cursor.entry)
    # where the entry is gone, the one behind it has moved up by one
    return next(found, at - 1)


def _digest(key: str) -> str:
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=9).hexdigest()


KIND: Final = "tools"
PAGE_TOOLS: Final = 250
PAGE_BYTES: Final = 512 << 10

_NEVER: Final[JSON] = {"not": {}}
CUT: Final = "..."


class NativeForm(msgspec.Struct, frozen=True, kw_only=True):
    """The form in which a client is shown native tools.

    `with_output_schema` is for clients that are given structured content: others would miss it. `mends` are
    those that hold for it; `chars` is the most characters of a description.
    """

    with_output_schema: bool = True
    mends: frozenset[Mend] = frozenset()
    chars: int | None = None


def definition(tool: ToolInfo, form: NativeForm) -> JSON:
    """An entry of `tools/list`."""
    name = native_name(tool.server_name, tool.name)
    entry = clean_texts(tool.to_protocol())
    entry |= {"name": name, "inputSchema": _mended(tool, form.mends)}
    if "texts" in form.mends:
        said = entry.get("description") or whole_name(tool.server_name, tool.name)
        is_long = form.chars is not None and len(said) > form.chars
        entry["description"] = f"{said[: (form.chars or 0) - len(CUT)]}{CUT}" if is_long else said
    if tool.meta:
        entry["_meta"] = with_pages(tool.meta, partial(offered_uri, tool.server_name))
    if name != f"{tool.server_name}__{tool.name}":
        whole = whole_name(tool.server_name, tool.name)
        entry["title"] = f"{entry['title']} ({whole})" if entry.get("title") else one_line(whole)
    if form.with_output_schema and tool.output_schema is not None and has_output_schema(tool):
        entry["outputSchema"] = _taken_by_all(tool.output_schema)
    else:
        entry.pop("outputSchema", None)
    return entry


def _mended(tool: ToolInfo, mends: frozenset[Mend]) -> JSON:
    """The schema of a tool with these mends, which is made once for as long as the tool is listed."""
    schema = _taken_by_all(tool.input_schema)
    if not mends:
        return schema
    kept: dict[frozenset[Mend], JSON] = tool.__dict__.setdefault("mended", {})
    if mends not in kept:
        kept[mends] = mended(schema, mends)
    return kept[mends]


LISTS: Final = {
    method: kind for method, kind in catalog_lists.LISTS.items() if kind is not catalog_lists.TOOLS
}
"""By method, the lists that are of the servers alone."""


def entries_page(
    key: str,
    entries: Sequence[tuple[str, ListEntry]],
    cursor: str | None,
    *,
    entry: Callable[[ListEntry], JSON],
    paged: bool,
) -> JSON:
    """The result of one of `LISTS`: the page behind `cursor` of named entries, or all; `entry` shows one.

    Raises:
        BadCursorError: `cursor` does not come from a page of this list.
    """
    page = page_of(key, entries, cursor, size=PAGE_ENTRIES if paged else len(entries) + 1)
    more = {} if page.next_cursor is None else {"nextCursor": page.next_cursor}
    return {**UNCACHED, key: [entry(info) for _, info in page.entries], **more}


def tools_page(
    three: Sequence[JSON],
    native: Mapping[str, ToolInfo],
    cursor: str | None,
    *,
    define: Callable[[ToolInfo], JSON],
    paged: bool = True,
) -> JSON:
    """The result of `tools/list`: the page behind `cursor` of the three tools and the native ones, or all.

    `define` gives the entry of a native one.

    Raises:
        BadCursorError: `cursor` does not come from a page of this list.
    """
    entries: list[tuple[str, JSON | ToolInfo]] = [(tool["name"], tool) for tool in three]
    entries += native.items()
    page = page_of(KIND, entries, cursor, size=PAGE_TOOLS if paged else len(entries))
    tools: list[JSON] = []
    size = 0
    for _, entry in page.entries:
        tool = define(entry) if isinstance(entry, ToolInfo) else entry
        size += _size(tool)
        if paged and tools and size > PAGE_BYTES:
            page = page_of(KIND, entries, cursor, size=len(tools))
            break
        tools.append(tool)
    return {"tools": tools} | ({} if page.next_cursor is None else {"nextCursor": page.next_cursor})


def _size(tool: JSON) -> int:
    """Roughly the bytes of a definition."""
    try:
        return len(msgspec.json.encode(tool))
    except UnicodeEncodeError:  # a lone surrogate in a server's text
        return len(repr(tool))


def _taken_by_all(schema: JSON) -> JSON:
    """The schema, or one that official clients take in its place.

    What that one does not say is checked all the same: MCPX checks arguments against the server's own.
    """
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if schema.get("type") == "object" and _are_objects(properties) and _are_texts(required):
        return schema
    mended: JSON = {"type": "object", **schema} | {"type": "object"}
    if not isinstance(properties, dict):
        del mended["properties"]
    elif properties:
        mended["properties"] = {name: _as_object(each) for name, each in properties.items()}
    if not _are_texts(required):
        del mended["required"]
    return mended


def _are_objects(properties: Any) -> bool:
    return isinstance(properties, dict) and all(isinstance(each, dict) for each in properties.values())


def _are_texts(names: Any) -> bool:
    return isinstance(names, list) and all(isinstance(each, str) for each in names)


def _as_object(schema: Any) -> JSON:
    """A schema as an object: `true` allows everything, `false` nothing."""
    return schema if isinstance(schema, dict) else _NEVER if schema is False else {}
