"""The configuration: one JSON file to frozen structs, with an error that says where it is wrong.

`load` and `parse` make a `Config`; `json_schema` documents the file. Called at start, at reload, and by the
`check` and `config` commands; imports neither anyio nor the SDK, so that it is quick to start.
"""

from mcpx.config.load import load, locate, parse
from mcpx.config.model import (
    Config,
    HealthCheck,
    Http,
    HttpGateway,
    Limits,
    PerServer,
    RestartPolicy,
    ServerConfig,
    Sse,
    Stdio,
    StructuredContent,
    Transport,
)
from mcpx.config.schema import json_schema

__all__ = [
    "Config",
    "HealthCheck",
    "Http",
    "HttpGateway",
    "Limits",
    "PerServer",
    "RestartPolicy",
    "ServerConfig",
    "Sse",
    "Stdio",
    "StructuredContent",
    "Transport",
    "json_schema",
    "load",
    "locate",
    "parse",
]
