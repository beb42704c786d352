"""All servers in few characters: for the instructions, the beginning of inspect's description, a search hint.

Owns how the servers are named where a client may cut a text: Claude Code after 2,048 characters, others after
1,024. Whatever stands in these texts is the same as long as the servers offer the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.rendering.tokens import estimate
from mcpx.core.text import cut, one_line, shown_server

INSTRUCTIONS_CHARS: Final = 2000
_SHORT_CHARS: Final = 1000  # up to which every client shows the instructions that shows them
_CALLS: Final = "inspect(query) finds tools, exec(server_name, tool_name, arguments) runs one. "
_CALLS_WITH_QUERY: Final = (
    "inspect(query) finds tools. The tool query runs a read-only one, exec any other: query(server_name,"
    " tool_name, arguments), exec(server_name, tool_name, arguments). "
)
_REST: Final = (
    ". inspect(server_name) lists a server's tools; inspect(server_name, tool_name) shows one whole, which is"
    " optional: exec checks arguments before anything is sent. resources(server_name, uri) reads a resource."
    " Use names exactly as they are. After an error, outcome says whether the action may have happened."
)
_NATIVE: Final = (
    "Every tool is named server__tool, after the server that has it. After an error, outcome says whether the"
    " action may have happened."
)
_LEAST_CHARS: Final = 60  # of a server's own instructions; fewer say nothing
_NO_SERVERS: Final = "No servers are configured"


def instructions(servers: Sequence[ServerInfo], *, query: bool = False) -> str:
    """Explain MCPX's own tools and name every server with the number of its tools, in 2,000 characters.

    How to call and the servers stand first. Many servers are grouped by the number of their tools, which is
    shorter; more of them are their names alone, and the last are only counted.
    """
    calls = _CALLS_WITH_QUERY if query else _CALLS
    if not servers:
        return f"{calls}{_NO_SERVERS}{_REST}"
    servers = sorted(servers, key=lambda server: server.name)
    room = INSTRUCTIONS_CHARS - len(_REST)
    if sum(len(server.name) + 1 for server in servers) < room:
        counted = f"{calls}Servers (tool count): {', '.join(map(_with_count, servers))}"
        if len(counted) <= _SHORT_CHARS:
            return counted + _REST
        grouped = f"{calls}Servers by tool count: {_grouped(servers)}"
        if len(grouped) <= room:
            return grouped + _REST
    head = f"{calls}Servers: "
    return head + names(servers, chars=room - len(head))[0] + _REST


def native_instructions(servers: Sequence[ServerInfo]) -> str:
    """Explain the native tools alone, with what their servers say of themselves, in 2,000 characters."""
    saying = [server for server in sorted(servers, key=lambda server: server.name) if server.instructions]
    room = INSTRUCTIONS_CHARS - len(_NATIVE) - sum(len(server.name) + len("\n## : ") for server in saying)
    if not saying or room // len(saying) < _LEAST_CHARS:
        return _NATIVE
    each = room // len(saying)
    said = (
        f"\n## {shown_server(server.name)}: {one_line(server.instructions or '', each)}" for server in saying
    )
    return cut(_NATIVE + "".join(said), INSTRUCTIONS_CHARS)


def names(servers: Sequence[ServerInfo], *, chars: int, tokens: int | None = None) -> tuple[str, bool]:
    """The names of all servers and True; else of as many as fit, the number of the others, and False."""
    shown = [shown_server(server.name) + _mark(server) for server in servers]
    for separator in (", ", ","):
        text = separator.join(shown)
        if _fits(text, chars, tokens):
            return text, True
    return _first(shown, chars, tokens), False


def search_hint(servers: Sequence[ServerInfo], *, chars: int) -> str:
    """The names of the servers as words for a client's own search among deferred tools."""
    hint = ""
    for server in servers:
        longer = f"{hint} {shown_server(server.name)}".lstrip()
        if len(longer) > chars:
            break
        hint = longer
    return hint


def _fits(text: str, chars: int, tokens: int | None) -> bool:
    return len(text) <= chars and (tokens is None or estimate(text) <= tokens)


def _first(shown: list[str], chars: int, tokens: int | None) -> str:
    """Return as many names as fit, in their order, and how many there are beside them."""
    fitting: list[str] = []
    length, cost = len(_others(len(shown))), estimate(_others(len(shown)))
    for name in shown:
        length += len(name) + 1
        cost += estimate(f"{name},") if tokens is not None else 0
        if length > chars or (tokens is not None and cost > tokens):
            break
        fitting.append(name)
    return ",".join(fitting) + _others(len(shown) - len(fitting)) if fitting else f"{len(shown):,}"


def _others(number: int) -> str:
    return f" and {number:,} more; search finds them"


def _with_count(server: ServerInfo) -> str:
    """`git (12)`, `weather (needs setup)`, and the name alone before the first listing."""
    if server.lasting:
        return shown_server(server.name) + _mark(server)
    count = "" if server.catalogue is None else f" ({len(server.tools):,})"
    return shown_server(server.name) + count


def _grouped(servers: Sequence[ServerInfo]) -> str:
    """`35 ppt;12 git,github;needs setup weather`: those with the most tools first."""
    groups: dict[tuple[int, str], list[str]] = {}
    for server in servers:
        groups.setdefault(_group(server), []).append(shown_server(server.name))
    return ";".join(f"{said} {','.join(of)}" for (_, said), of in sorted(groups.items()))


def _group(server: ServerInfo) -> tuple[int, str]:
    if server.lasting:
        return 2, server.lasting
    if server.catalogue is None:
        return 1, "not listed yet"
    return -len(server.tools), f"{len(server.tools):,}"


def _mark(server: ServerInfo) -> str:
    """Return what stands behind the name of a server that a person has to do something about."""
    return f" ({server.lasting})" if server.lasting else ""
