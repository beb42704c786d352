"""What a client lists is equal to the byte as long as the servers offer the same."""

from __future__ import annotations

import json
import os
import signal
from contextlib import asynccontextmanager

import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.server import GatewayServer
from supervisors import ChildSpec
from tests.mcpx.line import Line
from tests.mcpx.scripted import config_of, entry, open_watched, soon
from tests.mcpx.scripted_server import TOOLS
from tests.mcpx.serving import ENVELOPE, serving, write_config

pytestmark = pytest.mark.anyio
CHANGED = "notifications/tools/list_changed"
TEXTS = [
    {"uri": f"note:///{name}", "name": name, "mimeType": "text/plain", "text": f"About {name}."}
    for name in "ab"
]


PATHS = {"properties": {"path": {"type": "string"}, "mode": {"type": "string"}}, "type": "object"}
SEHTAP = {"type": "object", "properties": dict(reversed(PATHS["properties"].items()))}
OFFERED = [*TOOLS, {"name": "open", "inputSchema": PATHS, "description": "Opens it."}]
SHUFFLED = [{"name": "open", "inputSchema": SEHTAP, "description": "Opens it."}, *TOOLS[::-1]]


class Case:
    """Two servers whose offers are in files, so that they can be missing, or in another order."""

    def __init__(self, folder) -> None:
        self.here, self.tools = folder / "here", folder / "tools"
        self.here.touch()
        self.list(OFFERED)
        kept = entry(resources=TEXTS, tools=str(self.tools), wants=str(self.here))
        lacking = {"command": "true", "args": ["${THIS_IS_NOT_SET_ANYWHERE}"]}
        off = {**entry(), "disabled": True}  # of which models are not shown even the name
        self.servers = {"s": kept, "other": entry(), "off": off, "lacking": lacking}

    def list(self, tools) -> None:
        self.tools.write_text(json.dumps(tools))


@pytest.fixture
def case(tmp_path):
    return Case(tmp_path)


@asynccontextmanager
async def client_of(watch, client=None):
    """A client of one hub, and what it lists: the tools as bytes, and the instructions."""
    clients = ClientSessions(watch.hub)
    watch.hub.root.add(ChildSpec(name="clients", run=clients.run))
    server = GatewayServer(watch.hub, clients)
    async with Line(watch.hub).connected(server) as line:
        await line.initialize(client)

        async def listed():
            return json.dumps(await line.ask("tools/list", {})) + str(server.instructions)

        line.listed, line.clients = listed, clients
        yield line


async def begin(case, **settings):
    """What a client of a fresh MCPX lists first."""
    config = config_of(case.servers, **settings)
    async with open_watched(config, settled=False) as watch, client_of(watch) as line:
        return await line.listed()


async def test_through_a_crash_a_failing_start_and_a_recovery(case):
    async with open_watched(config_of(case.servers)) as watch, client_of(watch) as line:
        before = await line.listed()
        assert "begins: " in before
        case.here.unlink()
        os.kill(watch.hub.upstreams["s"].pid, signal.SIGKILL)
        await watch.leaves(State.READY)
        assert await line.listed() == before
        await watch.becomes(State.WAITING)
        assert await line.listed() == before
        case.list(SHUFFLED)
        case.here.touch()
        await watch.becomes(State.READY)
        assert await line.listed() == before
        await soon(lambda: not line.clients._changes)
        await line.listed()
        assert CHANGED not in line.notifications


async def test_through_a_restart_and_reloads_that_change_no_offer(case):
    async with open_watched(config_of(case.servers)) as watch, client_of(watch) as line:
        before = await line.listed()
        await watch.hub.reload(config_of(case.servers))
        assert await line.listed() == before
        case.list(OFFERED[::-1])
        await watch.hub.restart("s")
        assert await line.listed() == before
        moved = dict(reversed(case.servers.items()))
        moved["s"] = {**moved["s"], "env": {"VARIANT": "other"}}
        await watch.hub.reload(config_of(moved))
        assert await line.listed() == before
        await watch.becomes(State.READY)
        assert await line.listed() == before


async def test_with_another_order_of_start_and_of_lists(case):
    before = await begin(case, max_starting=1)
    case.servers = dict(reversed(case.servers.items()))
    case.list(OFFERED[::-1])
    assert await begin(case, max_starting=1) == before


async def test_of_two_processes(case, tmp_path):
    raw = []
    for config in (case.servers, dict(reversed(case.servers.items()))):
        async with serving(tmp_path, "serve", write_config(tmp_path, config)) as mcpx:
            hello = await mcpx.initialize()
            raw.append(
                (await mcpx.request("tools/list"), hello["instructions"].count("lacking (needs setup)"))
            )
            await mcpx.close_input()
            assert await mcpx.exit_code() == 0
    assert json.dumps(raw[0]) == json.dumps(raw[1])
    assert raw[0][1] == 1


async def test_a_change_is_announced_where_the_lists_differ_and_only_there(case):
    async with open_watched(config_of(case.servers)) as watch, client_of(watch) as line:
        before = await line.listed()
        await watch.hub.reload(config_of(case.servers, toon_compression_enabled=False))
        assert line.clients._changes
        await soon(lambda: not line.clients._changes)
        assert await line.listed() == before
        assert CHANGED not in line.notifications
        await watch.hub.reload(config_of({**case.servers, "fresh": entry()}))
        await line.hear(CHANGED)
        assert await line.listed() != before


async def test_clients_of_both_eras_are_given_the_instructions(case):
    async with open_watched(config_of(case.servers)) as watch:
        server = GatewayServer(watch.hub, ClientSessions(watch.hub))
        async with Line(watch.hub).connected(server) as line:
            discovered = await line.ask("server/discover", {"_meta": ENVELOPE})
        assert discovered["instructions"] == server.instructions
        assert (
            "Servers (tool count): lacking (needs setup), other (13), s (14)." in discovered["instructions"]
        )


@pytest.mark.parametrize(("name", "aside"), [("claude-code", True), ("someone", False)])
async def test_the_listing_stands_where_the_client_shows_it_whole(case, name, aside):
    case.list([{**TOOLS[0], "name": f"tool_{number}"} for number in range(100)])
    client = {"name": name, "version": "1"}
    async with open_watched(config_of(case.servers)) as watch, client_of(watch, client) as line:
        inspect, *_, run, _ = (await line.ask("tools/list", {}))["tools"]
    parameter = inspect["inputSchema"]["properties"]["server_name"].get("description", "")
    assert ("\ntool_99(" in parameter, "\ntool_99(" in inspect["description"]) == (aside, not aside)
    assert "\nServers: lacking (needs setup), other, s" in inspect["description"]
    assert inspect["_meta"] == {"anthropic/alwaysLoad": True, "anthropic/searchHint": "lacking other s"}
    assert run["_meta"] == {"anthropic/alwaysLoad": True}
