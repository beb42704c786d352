"""Tokens summed up: what results and listings of tools cost, had directly and had through MCPX.

Owns the shapes and the sums, and no more: `mcpx.core.events.meter` adds to them,
`mcpx.core.events.stats_file` keeps them for good, `mcpx status` and `mcpx stats` show them. Names come from
clients and servers, so their number is bounded: what is beyond is summed under `OTHERS`. Imports msgspec
only, for a command that reads the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec

K = TypeVar("K")

OTHERS: Final = "(others)"
MCPX: Final = "(mcpx)"
"""Stands for the server where MCPX itself has answered: a search, an error that names no server."""
UNNAMED: Final = "(unnamed)"
"""A client that does not say what it is."""
MENU: Final = "(menu)"
"""Stands for the tool, as the next two: the listing of the tools, which is what a client begins with."""
INSPECT: Final = "(inspect)"
RESOURCES: Final = "(resources)"
PROMPTS: Final = "(prompts)"
COMPLETIONS: Final = "(completions)"
TASKS: Final = "(tasks)"
COMMAND_LINE: Final = "(command line)"
"""Stands for the client, as the next two: `mcpx exec`, the page, a program with a hub of its own."""
PAGE: Final = "(page)"
PROGRAM: Final = "(program)"

MAX_CLIENTS: Final = 200
MAX_SERVERS: Final = 1000
MAX_TOOLS: Final = 5000  # of all servers together


class Count(msgspec.Struct):
    """Estimated tokens, `direct` without MCPX and `spent` with it; and calls, with how they have ended.

    Calls that run have no end yet. docs/monitoring.md says what each of these is. Sums of the first version
    have no ends. Those that were `cached` are among the `ok`.
    """

    calls: int = 0
    direct: int = 0
    spent: int = 0
    ok: int = 0
    failed: int = 0
    refused: int = 0
    cancelled: int = 0
    cached: int = 0

    @property
    def running(self) -> int:
        """Calls without an end."""
        return self.calls - self.ok - self.failed - self.refused - self.cancelled

    def add(self, other: Count) -> None:
        """Add another count to this one."""
        self.calls += other.calls
        self.direct += other.direct
        self.spent += other.spent
        self.ok += other.ok
        self.failed += other.failed
        self.refused += other.refused
        self.cancelled += other.cancelled
        self.cached += other.cached


def total(counts: Iterable[Count]) -> Count:
    """The sum."""
    summed = Count()
    for count in counts:
        summed.add(count)
    return summed


class Totals(msgspec.Struct):
    """The same tokens summed twice: by client, and by server and tool. `since` is the day of the first."""

    since: str = ""
    clients: dict[str, Count] = {}
    tools: dict[str, dict[str, Count]] = {}

    def add(self, client: str, server: str, tool: str, count: Count) -> None:
        """Add what one client used one tool for."""
        is_full = tool not in self.tools.get(server, ()) and self._count_tools() >= MAX_TOOLS
        self._client(client).add(count)
        self._tool(server, tool, full=is_full).add(count)
        self._drop_if_nothing(server, tool)

    def merge(self, other: Totals) -> None:
        """Add everything in another sum."""
        self.since = min(filter(None, (self.since, other.since)), default="")
        for client, count in other.clients.items():
            self._client(client).add(count)
        room = MAX_TOOLS - self._count_tools()
        for server, tools in other.tools.items():
            for tool, count in tools.items():
                room -= tool not in self.tools.get(server, ())
                self._tool(server, tool, full=room < 0).add(count)
                self._drop_if_nothing(server, tool)

    def _client(self, name: str) -> Count:
        if name not in self.clients and len(self.clients) >= MAX_CLIENTS:
            name = OTHERS
        return self.clients.setdefault(name, Count())

    def _tool(self, server: str, tool: str, *, full: bool) -> Count:
        if server not in self.tools and len(self.tools) >= MAX_SERVERS:
            server = OTHERS
        tools = self.tools.setdefault(server, {})
        if full and tool not in tools:
            tool = OTHERS
        return tools.setdefault(tool, Count())

    def _drop_if_nothing(self, server: str, tool: str) -> None:
        """Forget a row of which nothing is left: its menu was replaced by one without that server."""
        tools = self.tools.get(server, {})
        if tools.get(tool) == Count():
            del tools[tool]
            if not tools:
                del self.tools[server]

    def _count_tools(self) -> int:
        return sum(map(len, self.tools.values()))

    @property
    def total(self) -> Count:
        """Everything."""
        return total(self.clients.values())

    def of_server(self, name: str) -> Count:
        """Return the count of one server."""
        return total(self.tools.get(name, {}).values())

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: `{since, total, clients, servers, tools}`, in each the largest direct cost first."""
        servers = {server: self.of_server(server) for server in self.tools}
        tools = {(server, tool): count for server in self.tools for tool, count in self.tools[server].items()}
        return {
            "since": self.since or None,
            "total": msgspec.to_builtins(self.total),
            "clients": [_row(count, client=name) for name, count in _ranked(self.clients)],
            "servers": [_row(count, server=name) for name, count in _ranked(servers)],
            "tools": [_row(count, server=server, tool=tool) for (server, tool), count in _ranked(tools)],
        }


def report(all_time: Totals, since_start: Totals | None) -> dict[str, Any]:
    """Return what `mcpx stats --json` prints; `since_start` is of a running daemon."""
    return {
        "all_time": all_time.to_dict(),
        "since_start": None if since_start is None else since_start.to_dict(),
    }


def _ranked(counts: dict[K, Count]) -> list[tuple[K, Count]]:
    """The counts that are largest directly first."""
    return sorted(counts.items(), key=lambda item: (-item[1].direct, -item[1].spent))


def _row(count: Count, **names: str) -> dict[str, Any]:
    return {**names, **msgspec.to_builtins(count)}
