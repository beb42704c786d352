"""Everything a server offers, listed to the end and turned into a `Catalogue`.

Asks only for what the server says it has. Pages are followed up to a cap against servers that paginate for
ever. The SDK's models are turned into the catalogue's frozen structs here and nowhere else; values of the
protocol's own (annotations, icons, `_meta`) are kept as they came.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final, Protocol, TypeVar

import mcp_types
from mcp import ClientSession, MCPError
from mcp_types import METHOD_NOT_FOUND, PaginatedRequestParams
from pydantic import BaseModel

from mcpx.catalog.model import JSON, Catalogue, PromptInfo, ResourceInfo, TemplateInfo, ToolInfo
from mcpx.upstream.faults import BadListing

PAGE_CAP: Final = 1000


class _Page(Protocol):
    next_cursor: str | None


P = TypeVar("P", bound=_Page)
P_co = TypeVar("P_co", bound=_Page, covariant=True)


async def list_catalogue(session: ClientSession, server: str, generation: int) -> Catalogue:
    """List all that the server of an open session offers.

    Raises:
        MCPError: The server refused a listing that it said it supports.
        BadListing: It paginates without end.
        pydantic.ValidationError: A listing is not what the protocol says.
    """
    can = session.server_capabilities or mcp_types.ServerCapabilities()
    tools: list[mcp_types.Tool] = []
    resources: list[mcp_types.Resource] = []
    templates: list[mcp_types.ResourceTemplate] = []
    prompts: list[mcp_types.Prompt] = []
    if can.tools is not None:
        tools = [tool for page in await _pages(session.list_tools, "tools") for tool in page.tools]
    if can.resources is not None:
        resources = [
            item for page in await _pages(session.list_resources, "resources") for item in page.resources
        ]
        templates = await _templates(session)
    if can.prompts is not None:
        prompts = [
            prompt for page in await _pages(session.list_prompts, "prompts") for prompt in page.prompts
        ]
    about = session.server_info
    return Catalogue(
        generation=generation,
        tools={tool.name: _tool(server, tool) for tool in tools},
        resources={item.uri: _resource(server, item) for item in resources},
        templates=tuple(_template(server, template) for template in templates),
        prompts=tuple(_prompt(server, prompt) for prompt in prompts),
        server_title=(about.title or about.name) if about else None,
        server_version=about.version if about else None,
        instructions=session.instructions,
        protocol_version=session.protocol_version,
        capabilities=_json(can) or {},
    )


async def _templates(session: ClientSession) -> list[mcp_types.ResourceTemplate]:
    """Many servers with resources do not know the templates request: that means none."""
    try:
        pages = await _pages(session.list_resource_templates, "resource templates")
    except MCPError as error:
        if error.code == METHOD_NOT_FOUND:
            return []
        raise
    return [template for page in pages for template in page.resource_templates]


class _List(Protocol[P_co]):
    def __call__(self, *, params: PaginatedRequestParams | None = None) -> Awaitable[P_co]: ...


async def _pages(list_page: _List[P], what: str) -> list[P]:
    """All pages of one list."""
    page = await list_page()
    pages = [page]
    seen: set[str] = set()
    while page.next_cursor is not None:
        if page.next_cursor in seen or len(pages) >= PAGE_CAP:
            raise BadListing(f"the server's list of {what} does not end: stopped after {len(pages)} pages")
        seen.add(page.next_cursor)
        page = await list_page(params=PaginatedRequestParams(cursor=page.next_cursor))
        pages.append(page)
    return pages


def _json(model: BaseModel | None) -> JSON | None:
    return None if model is None else model.model_dump(by_alias=True, mode="json", exclude_none=True)


def _icons(icons: list[mcp_types.Icon] | None) -> list[JSON] | None:
    return None if icons is None else [_json(icon) or {} for icon in icons]


def _tool(server: str, tool: mcp_types.Tool) -> ToolInfo:
    return ToolInfo(
        server_name=server,
        name=tool.name,
        input_schema=tool.input_schema,
        description=tool.description,
        title=tool.title or (tool.annotations.title if tool.annotations else None),
        output_schema=tool.output_schema,
        annotations=_json(tool.annotations),
        icons=_icons(tool.icons),
        meta=_meta(tool.meta),
    )


def _resource(server: str, item: mcp_types.Resource) -> ResourceInfo:
    return ResourceInfo(
        server_name=server,
        uri=str(item.uri),
        name=item.name,
        description=item.description,
        mime_type=item.mime_type,
        size=item.size,
        title=item.title,
        annotations=_json(item.annotations),
        icons=_icons(item.icons),
        meta=_meta(item.meta),
    )


def _template(server: str, template: mcp_types.ResourceTemplate) -> TemplateInfo:
    return TemplateInfo(
        server_name=server,
        uri_template=template.uri_template,
        name=template.name,
        description=template.description,
        mime_type=template.mime_type,
        title=template.title,
        annotations=_json(template.annotations),
        icons=_icons(template.icons),
        meta=_meta(template.meta),
    )


def _prompt(server: str, prompt: mcp_types.Prompt) -> PromptInfo:
    return PromptInfo(
        server_name=server,
        name=prompt.name,
        description=prompt.description,
        title=prompt.title,
        arguments=None if prompt.arguments is None else [_json(a) or {} for a in prompt.arguments],
        icons=_icons(prompt.icons),
        meta=_meta(prompt.meta),
    )


def _meta(meta: Any) -> JSON | None:
    return dict(meta) if meta else None
