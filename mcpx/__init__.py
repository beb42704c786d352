"""MCPX: three tools instead of hundreds, over supervised MCP servers.

The public API. Names are imported when they are first used, because the SDK behind some of them costs half a
second that the command line and the shims should not pay.

    from mcpx import load, open_hub

    async with open_hub(load("config.json")) as hub:
        await hub.settled(10)
        result = await hub.executor.execute("files", "read_text_file", {"path": "/tmp/a.txt"})
        print(result.compressed_data)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mcpx.version import __version__

if TYPE_CHECKING:
    from mcpx.api import generate_resources_description, generate_tools_description
    from mcpx.catalog.model import ResourceInfo, ServerInfo, ToolInfo
    from mcpx.config import Config, load
    from mcpx.errors import CallError, ConfigError, MCPXError
    from mcpx.executor import ExecutionResult, Executor
    from mcpx.hub import Hub, open_hub
    from mcpx.registry import Registry
    from mcpx.schema_ts import SchemaConverter

__all__ = [
    "CallError",
    "Config",
    "ConfigError",
    "ExecutionResult",
    "Executor",
    "Hub",
    "MCPXError",
    "Registry",
    "ResourceInfo",
    "SchemaConverter",
    "ServerInfo",
    "ToolInfo",
    "__version__",
    "generate_resources_description",
    "generate_tools_description",
    "load",
    "open_hub",
]

_HOMES = {
    "CallError": "mcpx.errors",
    "Config": "mcpx.config",
    "ConfigError": "mcpx.errors",
    "ExecutionResult": "mcpx.executor",
    "Executor": "mcpx.executor",
    "Hub": "mcpx.hub",
    "MCPXError": "mcpx.errors",
    "Registry": "mcpx.registry",
    "ResourceInfo": "mcpx.catalog.model",
    "SchemaConverter": "mcpx.schema_ts",
    "ServerInfo": "mcpx.catalog.model",
    "ToolInfo": "mcpx.catalog.model",
    "generate_resources_description": "mcpx.api",
    "generate_tools_description": "mcpx.api",
    "load": "mcpx.config",
    "open_hub": "mcpx.hub",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'mcpx' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
