"""Frozen server snapshots for the tests of the catalogue: made by hand, and from the corpus."""

from __future__ import annotations

from typing import Any

from mcpx.core.catalog.model import Catalogue, ResourceInfo, TemplateInfo, ToolInfo
from mcpx.core.catalog.snapshot import ServerInfo, State
from tests import tokens


def tool(name: str, description: str | None = None, required: str = "", optional: str = "") -> ToolInfo:
    """A tool with parameters named in two strings of words."""
    names = [*required.split(), *optional.split()]
    schema = {"type": "object", "properties": {n: {} for n in names}, "required": required.split()}
    return ToolInfo(server_name="", name=name, description=description, input_schema=schema)


def resource(uri: str, name: str = "a name", **fields: Any) -> ResourceInfo:
    return ResourceInfo(server_name="", uri=uri, name=name, **fields)


def template(uri_template: str, name: str = "a name", **fields: Any) -> TemplateInfo:
    return TemplateInfo(server_name="", uri_template=uri_template, name=name, **fields)


def server(
    name: str,
    *offered: ToolInfo | ResourceInfo | TemplateInfo,
    instructions: str | None = None,
    state: State = State.READY,
    cause: str | None = None,
    retry_in_s: float | None = None,
    listed: bool = True,
) -> ServerInfo:
    """A server that offers these tools, resources and templates; `listed=False`: nothing is known yet."""
    catalogue = Catalogue(
        generation=1,
        tools={item.name: item for item in offered if isinstance(item, ToolInfo)},
        resources={item.uri: item for item in offered if isinstance(item, ResourceInfo)},
        templates=tuple(item for item in offered if isinstance(item, TemplateInfo)),
        instructions=instructions,
    )
    return ServerInfo(
        name=name,
        state=state,
        transport="stdio",
        cause=cause,
        retry_in_s=retry_in_s,
        catalogue=catalogue if listed else None,
    )


def corpus(instructions: str | None = None) -> list[ServerInfo]:
    """The 70 servers of the corpus with their 527 tools."""
    return [
        server(name, *map(_corpus_tool, rows), instructions=instructions)
        for name, rows in tokens.corpus().items()
    ]


def _corpus_tool(row: dict[str, Any]) -> ToolInfo:
    return ToolInfo(
        server_name=row["server"],
        name=row["tool"],
        description=row["description"],
        input_schema=row["inputSchema"] or {},
    )
