"""The fixed sentences, and the three descriptions made whole.

Owns the words that every client's model reads, and how the three share one budget: the fixed sentences
first; then resources are sure of a quarter of the rest if they need it, tools take what they need of the
remainder, and resources have what the tools leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from mcpx.catalog.model import ServerInfo
from mcpx.rendering.descriptions.resource_list import describe_resources
from mcpx.rendering.descriptions.tool_list import describe_tools
from mcpx.rendering.tokens import estimate

INSTRUCTIONS: Final = (
    "Three tools stand for many MCP servers. The description of inspect lists every server and its tools. "
    "1. inspect(server_name, tool_name) shows what a tool does and its parameters. "
    "2. exec(server_name, tool_name, arguments) runs it. "
    "3. resources(server_name, uri) reads a resource; its description lists them. "
    "Use server and tool names exactly as listed. "
    "After an error, outcome tells whether the action may have happened."
)
_INSPECT: Final = (
    "Find out what the servers offer; answers come from a cache and cost nothing. "
    "inspect(server_name) lists every tool of that server with its parameters; "
    "inspect(server_name, tool_name) gives that one tool whole, its parameters in TypeScript notation. "
    "Do so before the first exec of a tool.\n"
    "Servers and their tools (`?` marks an optional parameter):\n"
)
_EXEC: Final = (
    "Run one tool of one server. Inspect the tool first: arguments are checked against its schema, and "
    "nothing is sent unless they fit. An error carries a code and an outcome: not_sent (nothing happened, "
    "safe to repeat), unknown (the action may have happened) or failed (the server answered with an error)."
)
_RESOURCES: Final = (
    "Read one resource of one server. Where a URI holds {a part in braces}, fill that in.\n"
    "Resources by server, `uri (name, type, size): description`:\n"
)


class Descriptions(msgspec.Struct, frozen=True, kw_only=True):
    """The full descriptions of the three tools."""

    inspect: str
    exec: str
    resources: str


def describe(servers: Sequence[ServerInfo], *, budget: int, max_description_len: int = 300) -> Descriptions:
    """The descriptions of the three tools, together within `budget` tokens (the fixed sentences included).

    `max_description_len` is the most characters shown of a server's instructions or a resource's
    description. The fixed sentences are never cut: below about 300 tokens little or nothing follows them.
    """
    room = budget - estimate(_EXEC) - estimate(_INSPECT) - estimate(_RESOURCES)
    sure = describe_resources(servers, budget=room // 4, max_description_len=max_description_len)
    tools = describe_tools(servers, budget=room - estimate(sure), max_description_len=max_description_len)
    left = room - estimate(tools)
    resources = describe_resources(servers, budget=left, max_description_len=max_description_len)
    return Descriptions(inspect=_INSPECT + tools, exec=_EXEC, resources=_RESOURCES + resources)
