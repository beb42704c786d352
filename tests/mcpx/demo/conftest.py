"""Connects to the demo servers as a client would: a child process, stdio, the SDK's `Client`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client, StdioServerParameters

from tests.forking.client import command

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(params=["legacy", "auto"])
def era(request: pytest.FixtureRequest) -> str:
    """How the client connects: with the handshake, or by asking first (and then at 2026-07-28)."""
    return request.param


@pytest.fixture
def connect(era: str) -> Callable[..., Client]:
    """`connect("tools", *arguments)`: a client, not yet entered, of that demo server."""

    def build(server: str, *arguments: str, **options: Any) -> Client:
        start, *args = command("-m", f"mcpx.demo.{server}", *arguments)
        parameters = StdioServerParameters(command=start, args=args)
        return Client(parameters, mode=era, cache=None, read_timeout_seconds=20, **options)

    return build
