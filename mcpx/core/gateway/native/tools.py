"""Tools as the protocol has them, under their own names: their definitions, and pages of them. Pure.

A definition has everything that the server gave, under the protocol's names. Only what would make a strict
client refuse the whole list, and so the tools of all other servers, is mended or left out: official clients
want schemas to be of objects, with objects for properties and texts for what is required.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.catalog.native_names import native_name, whole_name
from mcpx.core.gateway.native.forms import clean_texts
from mcpx.core.gateway.native.pagination import page_of
from mcpx.core.text import one_line

KIND: Final = "tools"
PAGE_TOOLS: Final = 250
PAGE_BYTES: Final = 512 << 10

_NEVER: Final[JSON] = {"not": {}}


def definition(tool: ToolInfo, *, with_output_schema: bool) -> JSON:
    """An entry of `tools/list`.

    `with_output_schema` is for clients that are given structured content: others would miss it.
    """
    name = native_name(tool.server_name, tool.name)
    entry = clean_texts(tool.to_protocol())
    entry |= {"name": name, "inputSchema": _taken_by_all(tool.input_schema)}
    if name != f"{tool.server_name}__{tool.name}":
        whole = whole_name(tool.server_name, tool.name)
        entry["title"] = f"{entry['title']} ({whole})" if entry.get("title") else one_line(whole)
    if with_output_schema and tool.output_schema is not None and has_output_schema(tool):
        entry["outputSchema"] = _taken_by_all(tool.output_schema)
    else:
        entry.pop("outputSchema", None)
    return entry


def has_output_schema(tool: ToolInfo) -> bool:
    """Whether clients can be given the schema of the tool's structured content, which is always an object."""
    return tool.output_schema is not None and tool.output_schema.get("type") == "object"


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
