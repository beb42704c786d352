"""Names: the server, tool or resource that a caller means.

Pure over the snapshots of all servers. Models write `git.git_status`, leave the server's name out, or give
the tool's as the server's. That is understood where it can mean one tool only; exact names always win. A
server that is named and not known is never replaced by another one that has such a tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import anyio

from mcpx.core.catalog.model import Catalogue, ToolInfo
from mcpx.core.catalog.naming import SCHEME, native_name, own_uri
from mcpx.core.catalog.snapshot import ServerInfo, State
from mcpx.core.catalog.uris import UriRejection, uri_rejection
from mcpx.core.protocol.messages import Inspect
from mcpx.core.rendering.search_answer import best_tools
from mcpx.core.rendering.suggest import unknown_resource, unknown_server, unknown_tool
from mcpx.core.servers.call_errors import unavailable
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.text import cut, quoted, shown_name
from mcpx.errors import CallError, Code

Names = tuple[str, str]
"""A server and a tool."""
Servers = Mapping[str, VisibleServer]
"""The servers of one view, by name."""

Found = tuple[ServerInfo, ToolInfo]

MAX_TOOLS: Final = 20  # that are shown in one answer, and named as unchecked
MAX_NAMED: Final = 5  # servers in an error
MAX_TOOLS_NAMED: Final = 20
INSPECT_WAIT_S: Final = 5.0  # the state of a server that takes longer is an answer, too
_NAME_LEN: Final = 120
_PREFIXES: Final = ("", "mcp__", "mcp_")  # that clients put before a server's name
_SEPARATORS: Final = (".", "/", "::", ":", "__")
_WEAK_SEPARATORS: Final = ("_", "-")  # common inside names, too


# --- servers and resources


def list_servers(servers: Servers) -> list[ServerInfo]:
    """Return all servers as they are now, in the order of the configuration; none that is switched off."""
    every = (server.info() for server in servers.values())
    return [info for info in every if info.state is not State.DISABLED]


def own_name(servers: Servers, name: str) -> str:
    """Return the name of the server that has this name or alias; the name as it is where none has."""
    if name in servers:
        return name
    return next((own for own, each in servers.items() if name in each.policy.aliases), name)


def find_server(servers: Servers, name: str) -> VisibleServer:
    """Return the server of that name or alias.

    Raises:
        CallError: `unknown_server`.
    """
    server = servers.get(own_name(servers, name))
    if server is None:
        raise unknown_server(name, list_servers(servers))
    return server


def resolve_uri(server: VisibleServer, uri: str) -> str:
    """Return the URI to send to that server: as given, or its own where MCPX's name for it is given.

    Raises:
        CallError: `unknown_resource`; the URI must not be sent.
    """
    catalogue, named = server.catalogue, own_uri(uri)
    own = named[1] if named is not None and named[0] == server.name else uri
    is_listed = catalogue is not None and catalogue.lists(uri)
    spellings = (uri, own) if is_listed or uri.startswith(SCHEME) else (own, uri)
    rejection = UriRejection.NOT_LISTED
    for spelling in dict.fromkeys(spellings):
        if (found := _rejection(server, catalogue, spelling)) is None:
            return spelling
        rejection = found
    uri = own
    error = unknown_resource(server.info(), uri, rejection)
    error.rule = server.policy.rule_against_resource(uri)
    raise error


def _rejection(server: VisibleServer, catalogue: Catalogue | None, uri: str) -> UriRejection | None:
    """Say why this URI may not be sent to the server; None where it may."""
    if catalogue is not None:
        if uri in catalogue.resources:
            return None
        if (rejection := uri_rejection(uri, catalogue)) is not None:
            return rejection
    return None if server.policy.admits_resource(uri) else UriRejection.NOT_LISTED


# --- tools


def resolve_tool(servers: Sequence[ServerInfo], server_name: str, tool_name: str) -> Names:
    """The server and the tool that are meant; "" is a name that was not given.

    Two names that cannot be understood are returned as they are: what looks them up explains them.

    Raises:
        CallError: `invalid_arguments`: a name is missing, and the other one fits no tool, or several.
    """
    known = {info.name: info for info in servers}
    owners: list[str] = []
    if server_name in known:
        tool = _own_tool(known[server_name], tool_name or server_name)
        if tool is not None:
            return server_name, tool
    elif tool_name in known and server_name in known[tool_name].tools:
        return tool_name, server_name  # each in the place of the other
    else:
        found = list(dict.fromkeys(_meant(servers, server_name or tool_name)))
        if server_name and tool_name:
            found = [names for names in found if tool_name in (server_name, names[1])]
        if len(found) == 1:
            return found[0]
        owners = [server for server, _ in found]
    if server_name and tool_name:
        return server_name, tool_name
    raise _incomplete(server_name, tool_name, known, owners)


def rule_against(upstreams: Iterable[VisibleServer], server_name: str, tool_name: str) -> str | None:
    """The rule against the tool that is meant, under any of its names; for the audit log alone."""
    given = [name for name in (tool_name, server_name) if name]
    separators = (*_SEPARATORS, *_WEAK_SEPARATORS)
    for upstream in upstreams:
        policy, server = upstream.policy, upstream.name
        own = {rest for name in given for rest in _without_prefix(server, name, separators)}
        for tool in policy.denied_tools():
            names = policy.names(tool)
            if any(name in own or native_name(server, name) in given for name in names):
                return policy.rule_against_tool(tool)
    return None


def not_listed(info: ServerInfo, tool_name: str) -> CallError:
    """`server_unavailable`: the server has not listed its tools yet, or not since last time, and why."""
    what = "has not listed its tools yet" if info.catalogue is None else "is not available"
    return unavailable(info, what, tool_name or None)


# --- the tools that inspect is asked for


def find_tools(servers: Servers, request: Inspect) -> tuple[list[Found], list[CallError]]:
    """Return the tools that are asked for, and an error for each one that there is not.

    Raises:
        CallError: There is none of them.
    """
    server, names = request.server_name, request.tool_names
    infos = list_servers(servers)
    if server and not names and own_name(servers, server) not in servers:
        names = ("",)  # it may be the name of a tool
    found: dict[tuple[str, str], Found] = {}
    problems: list[CallError] = []
    for name in names[:MAX_TOOLS]:
        for part in [name] if _is_one(infos, server, name) else name.split(","):
            try:
                info, tool = _find_tool(servers, infos, server, part.strip())
            except CallError as error:
                problems.append(error)
            else:
                found[info.name, tool.name] = info, tool
    if problems and not found:
        raise problems[0]
    return list(found.values())[:MAX_TOOLS], problems


def _is_one(infos: Sequence[ServerInfo], server: str, name: str) -> bool:
    """Return True if a name is that of one tool, and not of several with commas between them."""
    return "," not in name or any(name in info.tools for info in infos if server in ("", info.name))


def _find_tool(servers: Servers, infos: Sequence[ServerInfo], server_name: str, tool_name: str) -> Found:
    try:
        server, tool = resolve_tool(infos, server_name, tool_name)
    except CallError:
        if not server_name:
            raise
        server, tool = server_name, tool_name
    upstream = find_server(servers, server)
    info = upstream.info()
    if tool not in info.tools:
        policy = upstream.policy
        raise policy.refusal(policy.own_name(tool)) or unknown_tool(info, tool, infos)
    return info, info.tools[tool]


# --- first listings: what is known of a server from last time may be so no more


async def await_listing(upstream: VisibleServer, tool_name: str | None) -> None:
    """Wait for the first listing of this run.

    Raises:
        CallError: `server_unavailable`: there is none, though it has listed last time.
    """
    if not upstream.has_listed:
        await upstream.await_catalogue(lambda _known: False)
        if not upstream.has_listed and upstream.catalogue is not None:
            raise not_listed(upstream.info(), tool_name or "")


async def await_first_listings(upstreams: Iterable[VisibleServer], within_s: float) -> None:
    """Wait for the first listing of each of these servers, as long as it has not failed."""
    with anyio.move_on_after(within_s):
        for each in list(upstreams):
            await each.await_first_attempt()


def _own_tool(info: ServerInfo, name: str) -> str | None:
    """The tool of that server that is meant by `name`."""
    names = (name, *_without_prefix(info.name, name, (*_SEPARATORS, *_WEAK_SEPARATORS)))
    return next((each for each in names if each in info.tools), None)


def _meant(servers: Sequence[ServerInfo], name: str) -> Iterator[Names]:
    """The tools that one name can mean: those that have it, or else those of the servers it begins with."""
    for each in (name, _bare(name)):
        exact = [(info.name, each) for info in servers if each in info.tools]
        if exact:
            yield from exact
            return
    for info in servers:
        tool = _own_tool(info, name)
        if tool is not None:
            yield info.name, tool
        elif info.catalogue is None:  # then the tool is looked for when the server has listed
            yield from ((info.name, rest) for rest in islice(_without_prefix(info.name, name), 1, 2))


def _without_prefix(server: str, name: str, separators: Sequence[str] = _SEPARATORS) -> Iterator[str]:
    """`name` without parameters, then what is left of it without the name of its server."""
    bare = _bare(name)
    yield bare
    for prefix in _PREFIXES:
        for separator in separators:
            start = f"{prefix}{server}{separator}"
            if bare.startswith(start) and len(bare) > len(start):
                yield bare[len(start) :]


def _bare(name: str) -> str:
    """A name without the parameters of a signature: `git_log` of `git_log(repo_path)`."""
    return name.partition("(")[0].rstrip()


def _incomplete(
    server_name: str, tool_name: str, known: dict[str, ServerInfo], owners: list[str]
) -> CallError:
    """The error for a call that lacks a name."""
    missing, given = ("tool_name", server_name) if server_name else ("server_name", tool_name)
    text = f"{missing} is missing" if given else "server_name and tool_name are missing"
    if owners:
        text += f": {_shown(given)} is a tool of {_listed(owners)}"
    elif server_name in known:
        tools = _listed(list(known[server_name].tools), MAX_TOOLS_NAMED)
        text += f"; {shown_name(server_name)} has {tools}" if tools else ""
    elif given:
        text += f", and no server has a tool named {_shown(given)}"
    text += "; nothing was sent"
    if given and not owners and server_name not in known:
        lines = best_tools(list(known.values()), given)
        text += "\n".join([". A search for it finds:", *lines]) if lines else ". inspect() lists the servers"
    details = {"servers_with_it": owners[:MAX_NAMED]} if owners else {}
    return CallError(
        Code.INVALID_ARGUMENTS, text, server=server_name, tool=tool_name or None, details=details
    )


def _shown(name: str) -> str:
    return quoted(cut(name, _NAME_LEN))


def _listed(names: Sequence[str], most: int = MAX_NAMED) -> str:
    more = len(names) - most
    text = ", ".join(cut(shown_name(name), _NAME_LEN) for name in names[:most])
    return f"{text} and {more} more" if more > 0 else text
