"""Which tools inspect is asked for, by the names that a model gave. Pure over the registry's snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mcpx.core.calls.registry import Registry
from mcpx.core.calls.tool_names import resolve_tool
from mcpx.core.catalog.model import ToolInfo
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.protocol.messages import Inspect
from mcpx.core.rendering.suggest import unknown_tool
from mcpx.errors import CallError

MAX_TOOLS: Final = 20  # that are shown in one answer, and named as unchecked

Found = tuple[ServerInfo, ToolInfo]


def find_tools(registry: Registry, request: Inspect) -> tuple[list[Found], list[CallError]]:
    """The tools that are asked for, and an error for each one that there is not.

    Raises:
        CallError: There is none of them.
    """
    server, names = request.server_name, request.tool_names
    servers = registry.list_servers()
    if server and not names and registry.get_server_info(server) is None:
        names = ("",)  # it may be the name of a tool
    found: dict[tuple[str, str], Found] = {}
    problems: list[CallError] = []
    for name in names[:MAX_TOOLS]:
        for part in [name] if _is_one(servers, server, name) else name.split(","):
            try:
                info, tool = _find_tool(registry, servers, server, part.strip())
            except CallError as error:
                problems.append(error)
            else:
                found[info.name, tool.name] = info, tool
    if problems and not found:
        raise problems[0]
    return list(found.values())[:MAX_TOOLS], problems


def _is_one(servers: Sequence[ServerInfo], server: str, name: str) -> bool:
    """Whether a name is that of one tool, and not of several with commas between them."""
    return "," not in name or any(name in info.tools for info in servers if server in ("", info.name))


def _find_tool(registry: Registry, servers: Sequence[ServerInfo], server_name: str, tool_name: str) -> Found:
    try:
        server, tool = resolve_tool(servers, server_name, tool_name)
    except CallError:
        if not server_name:
            raise
        server, tool = server_name, tool_name
    upstream = registry.upstream(server)
    info = upstream.info()
    if tool not in info.tools:
        raise upstream.policy.refusal(tool) or unknown_tool(info, tool, servers)
    return info, info.tools[tool]
