"""The configuration: one JSON file to frozen structs, with an error that says where it is wrong.

`load` and `parse` make a `Config`; `json_schema` documents the file. Called at start, at reload, and by the
commands about the configuration, for which `mcpx.core.config.findings` names all that is wrong or odd with a
file. Imports neither anyio nor the SDK, so that it is quick to start.
"""

from mcpx.core.config.load import load, read_config, read_file
from mcpx.core.config.model import (
    ArgumentsForm,
    Config,
    HttpGateway,
    StructuredContent,
    Tiers,
    starting_limit,
)
from mcpx.core.config.per_server import CallLimits, Era, HealthCheck, PerServer, Place, RestartPolicy
from mcpx.core.config.profiles import Profile
from mcpx.core.config.reading import parse
from mcpx.core.config.redaction import Redactor, redactor_of
from mcpx.core.config.schema import json_schema
from mcpx.core.config.server_config import (
    Http,
    PeerConfig,
    Placed,
    ServerConfig,
    Sse,
    Stdio,
    Transport,
    Variables,
)

__all__ = [
    "ArgumentsForm",
    "CallLimits",
    "Config",
    "Era",
    "HealthCheck",
    "Http",
    "HttpGateway",
    "PeerConfig",
    "PerServer",
    "Place",
    "Placed",
    "Profile",
    "Redactor",
    "RestartPolicy",
    "ServerConfig",
    "Sse",
    "Stdio",
    "StructuredContent",
    "Tiers",
    "Transport",
    "Variables",
    "json_schema",
    "load",
    "parse",
    "read_config",
    "read_file",
    "redactor_of",
    "starting_limit",
]
