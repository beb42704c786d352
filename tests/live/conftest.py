"""Fixtures of the live tests: the five servers, directly and through MCPX, each started once.

What lives longer than one test lives on the event loop of one portal thread, where each connection is opened
and closed by a task of its own; `Held` calls it from plain tests. Tests with an MCPX of their own are
coroutines and use `gateways.open_gateway`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters

from tests.live import chained, gateways, servers
from tests.live.directly import Direct
from tests.live.held import Held
from tests.mcpx.core.servers.relay.answering import AnsweringClient


@pytest.fixture(scope="session")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture(scope="session", autouse=True)
def chain() -> Iterator[None]:
    """Ends the MCPX that the tests run behind, if they do."""
    yield
    chained.end_all()


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the servers of the session read and write."""
    folder = tmp_path_factory.mktemp("live")
    servers.make_media(folder / "files")
    servers.make_memory(folder / "memory.jsonl")
    return folder


@pytest.fixture(scope="session")
def five(scratch: Path) -> dict[str, servers.LiveServer]:
    """Those of the five servers that can be started here; a test of one begins with `servers.require`."""
    every = (servers.live_server(name, scratch) for name in servers.NAMES)
    return {server.name: server for server in every if servers.missing(server) is None}


@pytest.fixture(scope="session")
def direct(portal: BlockingPortal, five: dict[str, servers.LiveServer]) -> Iterator[Direct]:
    """The five servers without MCPX in between.

    server-everything has tools for clients that can be asked things only; to a server of its era MCPX
    declares that it can be, before it knows its clients.
    """
    with ExitStack() as stack:
        clients: dict[str, Client] = {}
        for server in five.values():
            command = StdioServerParameters(command=server.command, args=server.args, env=server.env)
            options = AnsweringClient("direct").options() if server.name == "everything" else {}
            client = Client(command, read_timeout_seconds=gateways.ANSWER_S, **options)
            clients[server.name] = stack.enter_context(portal.wrap_async_context_manager(client))
        yield Direct(portal, clients)


@pytest.fixture(scope="session", params=gateways.ENDPOINTS)
def endpoint(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def gateway(
    endpoint: str,
    portal: BlockingPortal,
    five: dict[str, servers.LiveServer],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Held]:
    """The five behind MCPX, at each endpoint in turn; and `recorded`, the time server under a recorder."""
    folder = tmp_path_factory.mktemp(endpoint)
    entries: dict[str, Any] = {name: server.entry() for name, server in five.items()}
    if "time" in five:
        entries["recorded"] = servers.recorded(five["time"], folder / "recording.jsonl").entry()
    config = gateways.write_config(folder, entries, startup_wait=20)
    with portal.wrap_async_context_manager(gateways.open_gateway(endpoint, config)) as opened:
        held = Held(portal, opened, folder)
        held.descriptions()  # waits for the servers
        yield held
