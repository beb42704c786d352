"""The fixed sentences, and the descriptions of MCPX's own tools made whole.

Owns the words that every client's model reads, where the lists stand, and how the tools share one
budget: the fixed sentences and the servers' names first; then resources are sure of a quarter of the rest if
they need it, tools take what they need of the remainder, and resources have what the tools leave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from mcpx.core.catalog.model import ToolInfo
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.config import ArgumentsForm
from mcpx.core.rendering.descriptions.resource_list import describe_resources
from mcpx.core.rendering.descriptions.servers import instructions, names, search_hint
from mcpx.core.rendering.descriptions.tool_list import READ_ONLY_MARK, describe_tools
from mcpx.core.rendering.tokens import estimate

HEAD_CHARS: Final = 1000
"""What inspect's description says first, how to call and the servers, is at most this long."""
_INSPECT: Final = (
    "inspect(query) searches all servers' tools; inspect(server_name) lists one's;"
    " inspect(server_name, tool_name) shows one. exec runs it.\n"
)
_INSPECT_WITH_QUERY: Final = _INSPECT.replace("exec runs it", "query runs it if it is read-only, else exec")
_TOOLS: Final = (
    "\nTools by server (`?` marks an optional parameter). inspect is optional: exec checks arguments before"
    " anything is sent.\n"
)
_TOOLS_WITH_QUERY: Final = _TOOLS.replace("parameter)", f"parameter, `{READ_ONLY_MARK}` a read-only tool)")
_SERVERS: Final = "Servers: "
_EXEC: Final = (
    "Run one tool of one server; its own parameters go inside arguments. They are checked first, and nothing"
    " is sent unless they fit. An error of MCPX has a code and an outcome: not_sent (nothing happened;"
    " correct and repeat), unknown (the action may have happened; check first) or failed (the server answered"
    " with an error). One without is the tool's own answer."
)
_EXEC_WITH_QUERY: Final = f"{_EXEC} Read-only tools are run with query instead."
_QUERY: Final = (
    "Run one read-only tool of one server, with the parameters and the errors of exec. A tool that is not"
    " read-only is not run: exec runs it."
)
_RESOURCES: Final = "Read one resource of one server. Where a URI holds {a part in braces}, fill that in."
_BY_SERVER: Final = "\nResources by server, `uri (name, type, size): description`:\n"


class _Fixed(NamedTuple):
    inspect: str
    tools: str
    query: str
    exec: str


_FIXED: Final = _Fixed(_INSPECT, _TOOLS, "", _EXEC)
_FIXED_WITH_QUERY: Final = _Fixed(_INSPECT_WITH_QUERY, _TOOLS_WITH_QUERY, _QUERY, _EXEC_WITH_QUERY)
_HINT_CHARS: Final = 1000
_CHARS_PER_TOKEN: Final = 3  # of the search hint: a small budget has a short one


class Descriptions(msgspec.Struct, frozen=True, kw_only=True):
    """Descriptions of the three tools, and of query, where it is not "".

    `server_name` and `uri` are for the descriptions of these parameters of inspect and resources: the lists,
    for a client that would cut the descriptions of the tools, else nothing. `search_hint` names the servers.
    """

    inspect: str
    exec: str
    resources: str
    server_name: str = ""
    uri: str = ""
    search_hint: str = ""
    query: str = ""
    query_open_world: bool = True
    """Whether a tool that query runs may reach beyond its server's own data."""
    arguments: ArgumentsForm = "object"
    """The form in which the arguments of exec and query are described."""
    fresh: bool = False
    """Whether exec and query take `fresh`, because results of a server are kept."""


class QueryTool(msgspec.Struct, frozen=True):
    """The query tool, which runs the tools that are `read_only` alone."""

    read_only: Callable[[ToolInfo], bool]
    open_world: bool
    """As `Descriptions.query_open_world`."""


def describe(
    servers: Sequence[ServerInfo],
    *,
    budget: int,
    max_description_len: int = 300,
    limit: int | None = None,
    query: QueryTool | None = None,
    arguments: ArgumentsForm = "object",
    fresh: bool = False,
) -> Descriptions:
    """The descriptions of MCPX's own tools, together within `budget` tokens (the fixed sentences included).

    The lists leave room for the instructions, which a model reads as well. The fixed sentences are never cut:
    below about 300 tokens little or nothing follows them. `max_description_len` is the most characters shown
    of a server's instructions or a resource's description. `limit` is the most characters of a description
    that the client shows; a longer one has its list in the description of a parameter.
    """
    servers = sorted(servers, key=lambda server: server.name)
    hint = search_hint(servers, chars=min(_HINT_CHARS, budget // _CHARS_PER_TOKEN))
    fixed = _FIXED if query is None else _FIXED_WITH_QUERY
    room = budget - sum(map(estimate, (*fixed, _SERVERS, _RESOURCES, _BY_SERVER, hint)))
    shown, whole = names(servers, chars=HEAD_CHARS - len(fixed.inspect + _SERVERS), tokens=room)
    head = fixed.inspect + (_SERVERS + shown if servers else "No servers are configured.")
    room -= estimate(shown) + estimate(instructions(servers, query=query is not None))
    sure = describe_resources(servers, budget=room // 4, max_description_len=max_description_len)
    tools = describe_tools(
        servers,
        budget=room - estimate(sure),
        max_description_len=max_description_len,
        marked=None if query is None else query.read_only,
        named=whole,
    )
    left = room - estimate(tools)
    resources = describe_resources(servers, budget=left, max_description_len=max_description_len)
    short = Descriptions(
        inspect=head,
        exec=fixed.exec,
        resources=_RESOURCES,
        search_hint=hint,
        query=fixed.query,
        query_open_world=query is None or query.open_world,
        arguments=arguments,
        fresh=fresh,
    )
    return _with_lists(short, fixed.tools + tools if tools else "", _BY_SERVER + resources, limit)


def _with_lists(short: Descriptions, tools: str, resources: str, limit: int | None) -> Descriptions:
    """The lists behind the descriptions, or where that is too long in the parameters."""
    aside = limit is not None and len(short.inspect + tools) > limit
    resources_aside = limit is not None and len(short.resources + resources) > limit
    return replace(
        short,
        inspect=short.inspect if aside else short.inspect + tools,
        resources=short.resources if resources_aside else short.resources + resources,
        server_name=tools.lstrip() if aside else "",
        uri=resources.lstrip() if resources_aside else "",
    )
