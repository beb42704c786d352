"""MCPX: three tools instead of hundreds, over supervised MCP servers.

Public are `mcpx.__all__` and `supervisors.__all__`, and nothing else. The names of `mcpx` are imported when
they are first used, because the SDK behind some of them costs half a second that the command line and the
shims should not pay.

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
    from mcpx.core.calls.calls import ExecutionResult, Executor
    from mcpx.core.calls.registry import Registry, generate_resources_description, generate_tools_description
    from mcpx.core.catalog.model import ResourceInfo, ToolInfo
    from mcpx.core.catalog.snapshot import ServerInfo
    from mcpx.core.config import Config, load
    from mcpx.core.daemon.hub import Hub
    from mcpx.core.rendering.typescript import SchemaConverter
    from mcpx.core.telemetry.log import configure as configure_logging
    from mcpx.errors import CallError, ConfigError, MCPXError
    from mcpx.parts import open_hub

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
    "configure_logging",
    "generate_resources_description",
    "generate_tools_description",
    "load",
    "open_hub",
]

_HOMES = {
    "CallError": "mcpx.errors",
    "Config": "mcpx.core.config",
    "ConfigError": "mcpx.errors",
    "ExecutionResult": "mcpx.core.calls.calls",
    "Executor": "mcpx.core.calls.calls",
    "Hub": "mcpx.core.daemon.hub",
    "MCPXError": "mcpx.errors",
    "Registry": "mcpx.core.calls.registry",
    "ResourceInfo": "mcpx.core.catalog.model",
    "SchemaConverter": "mcpx.core.rendering.typescript",
    "ServerInfo": "mcpx.core.catalog.snapshot",
    "ToolInfo": "mcpx.core.catalog.model",
    "configure_logging": "mcpx.core.telemetry.log",
    "generate_resources_description": "mcpx.core.calls.registry",
    "generate_tools_description": "mcpx.core.calls.registry",
    "load": "mcpx.core.config",
    "open_hub": "mcpx.parts",
}


_NAMES_AT_HOME = {"configure_logging": "configure"}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'mcpx' has no attribute {name!r}")
    return getattr(import_module(home), _NAMES_AT_HOME.get(name, name))


def __dir__() -> list[str]:
    return sorted(__all__)
