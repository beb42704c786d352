"""The tools of MCPX as the protocol shows them: names, schemas, annotations, and the form of results.

Pure. The descriptions are generated from the catalogues (`mcpx.core.rendering.descriptions`).
"""

from __future__ import annotations

from typing import Final

import mcp_types

from mcpx.core.calls.exposure import Shown
from mcpx.core.catalog.model import JSON
from mcpx.core.policy.server_questions import URL_REQUIRED, with_safe_links
from mcpx.core.rendering.descriptions import Descriptions
from mcpx.core.rendering.results import ToolResult, members_of
from mcpx.errors import CallError, failure_text

INSPECT: Final = "inspect"
EXEC: Final = "exec"
RESOURCES: Final = "resources"
QUERY: Final = "query"
"""Runs read-only tools alone, as exec does any; there is one only with `tiers`."""
NAMES: Final = (INSPECT, EXEC, RESOURCES)
_WITH_QUERY: Final = (INSPECT, QUERY, EXEC, RESOURCES)
ERROR_KEY: Final = "mcpx/error"
"""The member of `_meta` with the error of a call that may have no structured content."""

_NAME: Final = {"type": "string"}
_NAMES: Final = {"anyOf": [_NAME, {"type": "array", "items": _NAME}]}
_QUERY: Final = {"type": "string", "description": "What to do, in a few words"}
_URI: Final = {"type": "string", "description": "Without it, the resources are listed"}
_ARGUMENTS: Final = {
    "type": "object",
    "description": "The tool's own parameters",
    "additionalProperties": True,
}
_SELECT: Final = {
    "type": "string",
    "description": "JMESPath: the part of a JSON result to return, as items[].{id: id, title: title}",
}
_MAX_TOKENS: Final = {"type": "integer", "description": "Of the result; the rest can be read afterwards"}


def _schema(required: list[str], **properties: JSON) -> JSON:
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


SCHEMAS: Final = {
    INSPECT: _schema([], server_name=_NAME, tool_name=_NAMES, query=_QUERY),
    EXEC: _schema(
        ["server_name", "tool_name"],
        server_name=_NAME,
        tool_name=_NAME,
        arguments=_ARGUMENTS,
        select=_SELECT,
        max_tokens=_MAX_TOKENS,
    ),
    RESOURCES: _schema(["server_name"], server_name=_NAME, uri=_URI),
}
SCHEMAS[QUERY] = SCHEMAS[EXEC]


def names(shown: Shown) -> tuple[str, ...]:
    """The names of the tools that MCPX itself has."""
    return _WITH_QUERY if shown.query else NAMES


def tools(descriptions: Descriptions) -> list[mcp_types.Tool]:
    """MCPX's own tools, annotated truthfully, so that a host's approval rules work.

    Reading a resource counts as open-world: a template such as `fetch://{url}` reaches the network. Without
    `anthropic/alwaysLoad` Claude Code defers tools until a search of its own finds them.
    """
    knowing = mcp_types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    reading = mcp_types.ToolAnnotations(read_only_hint=True, open_world_hint=True)
    querying = mcp_types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, open_world_hint=descriptions.query_open_world
    )
    acting = mcp_types.ToolAnnotations(
        read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
    )
    loaded = {"anthropic/alwaysLoad": True}
    found = loaded | {"anthropic/searchHint": descriptions.search_hint}
    described = (
        (INSPECT, "Inspect servers and tools", descriptions.inspect, knowing, found),
        (QUERY, "Run a read-only tool", descriptions.query, querying, loaded),
        (EXEC, "Run a tool", descriptions.exec, acting, loaded),
        (RESOURCES, "Read a resource", descriptions.resources, reading, None),
    )
    lists = {INSPECT: ("server_name", descriptions.server_name), RESOURCES: ("uri", descriptions.uri)}
    return [
        mcp_types.Tool(
            name=name,
            title=title,
            description=text,
            input_schema=_with_list(SCHEMAS[name], *lists[name]) if name in lists else SCHEMAS[name],
            annotations=annotations,
            _meta=meta,
        )
        for name, title, text, annotations, meta in described
        if text
    ]


def as_json(tool: mcp_types.Tool) -> JSON:
    """A tool as it stands in a list of tools."""
    return tool.model_dump(by_alias=True, mode="json", exclude_none=True)


def _with_list(schema: JSON, parameter: str, text: str) -> JSON:
    """The schema with a list in the description of a parameter, if there is one."""
    if not text:
        return schema
    given = schema["properties"][parameter]
    described = given | {"description": "\n".join(filter(None, (given.get("description"), text)))}
    return schema | {"properties": schema["properties"] | {parameter: described}}


def failure(error: CallError, *, structured: bool) -> JSON:
    """An error as a result: one readable text with code and outcome, and the same for programs."""
    shaped = ToolResult(content=_explained(error), structured_content=_as_details(error), is_error=True)
    return members_of(shaped, structured=structured)


def failure_in_meta(error: CallError) -> JSON:
    """The same for a native tool whose results have a schema, which official clients hold errors against."""
    shaped = ToolResult(content=_explained(error), is_error=True, meta={ERROR_KEY: _as_details(error)})
    return members_of(shaped, structured=False)


def _as_details(error: CallError) -> JSON:
    """An error for programs, with no link of its server that a person may not be given."""
    details = error.to_dict()
    said = details.get("upstream")
    if isinstance(said, dict) and said.get("code") == URL_REQUIRED and "data" in said:
        details["upstream"] = said | {"data": with_safe_links(said["data"], error.server)}
    return details


def _explained(error: CallError) -> list[JSON]:
    return [{"type": "text", "text": failure_text(str(error), error.code, error.outcome)}]


def wrong_parameters(tool: str, problem: str, *, structured: bool) -> JSON:
    """The result for a call whose own parameters are wrong, those of one of MCPX's own tools."""
    required = SCHEMAS[tool].get("required", [])
    optional = ", ".join(name for name in SCHEMAS[tool]["properties"] if name not in required)
    takes = " and ".join([*([", ".join(required)] if required else []), f"optionally {optional}"])
    text = f"{problem}. {tool} takes {takes}"
    body = {"error": text, "code": "invalid_arguments", "outcome": "not_sent", "tool": tool}
    return members_of(
        ToolResult(content=[{"type": "text", "text": text}], structured_content=body, is_error=True),
        structured=structured,
    )
