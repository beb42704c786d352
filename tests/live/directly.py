"""The five servers as the SDK's client sees them: what MCPX's answers are compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from anyio.from_thread import BlockingPortal
from mcp import Client
from mcp_types import CallToolResult, ReadResourceResult, Resource, Tool

R = TypeVar("R")
TRIES = 20  # answers with a clock in them change once a second


class Direct:
    """Connections to the servers, held open on a portal's event loop."""

    def __init__(self, portal: BlockingPortal, clients: dict[str, Client]) -> None:
        self._portal = portal
        self._clients = clients

    def tools(self, server: str) -> list[Tool]:
        return self._portal.call(self._clients[server].list_tools).tools

    def listed_resources(self, server: str) -> list[Resource]:
        return self._portal.call(self._clients[server].list_resources).resources

    def call(self, server: str, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        return self._portal.call(self._clients[server].call_tool, tool, arguments)

    def read(self, server: str, uri: str) -> ReadResourceResult:
        return self._portal.call(self._clients[server].read_resource, uri)


def at_one_moment(direct: Callable[[], R], through: Callable[[], CallToolResult]) -> tuple[R, CallToolResult]:
    """An answer directly and through MCPX, of one moment: the direct one is the same before and after."""
    for _ in range(TRIES):
        before, between, after = direct(), through(), direct()
        if before == after:
            return before, between
    raise AssertionError(f"the server's own answer was never twice the same in {TRIES} tries")
