"""What a server offered last time is there from the start, is marked, and gives way to what it offers now."""

from __future__ import annotations

import json
import os
from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from mcpx.core.catalog.snapshot import State
from mcpx.core.daemon.status_snapshot import snapshot
from mcpx.core.rendering.descriptions import describe, instructions
from mcpx.errors import Code
from tests.mcpx.scripted import config_of, entry, open_watched

pytestmark = pytest.mark.anyio

EAGER = {"start": "eager"}  # what is asleep is another matter
DOCUMENT = {"uri": "doc:///a", "name": "a", "mimeType": "text/plain", "text": "its first words"}


def tool(name, **properties):
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


class Server:
    """A server that offers what a file says, and can be held up at its start."""

    def __init__(self, folder, ears):
        self.tools, self.wanted = folder / "tools.json", folder / "wanted"
        self.offers(tool("first"), tool("second"))
        self.wanted.touch()
        script = {"tools": str(self.tools), "wants": str(self.wanted), "without": "silent"}
        self.config = config_of({"s": entry(ears, settings=EAGER, **script, resources=[DOCUMENT])})

    def offers(self, *tools):
        self.tools.write_text(json.dumps(tools))

    def falls_silent(self):
        self.wanted.unlink()

    async def was_seen(self):
        """One run of MCPX with it, to its end."""
        async with open_watched(self.config) as watch:
            await watch.hub.described(10)


@pytest.fixture
async def server(tmp_path, ears):
    made = Server(tmp_path, ears)
    await made.was_seen()
    return made


def shown(hub):
    servers = hub.registry.list_servers()
    made = describe(servers, budget=4000)
    return made.inspect, made.exec, made.resources, instructions(servers)


async def test_everything_is_listed_at_once_though_the_server_is_silent(server):
    server.falls_silent()
    with anyio.fail_after(2):  # the start has a minute
        async with open_watched(server.config, settled=False) as watch:
            hub = watch.hub
            await hub.listed(60)
            await hub.described(60)
            info = hub.registry.get_server_info("s")
            assert list(info.tools) == ["first", "second"]
            assert info.resources["doc:///a"].description == 'begins: "its first words"'
            assert info.instructions == "Does what its script says."
            assert hub.upstreams["s"].catalogue.capabilities["tools"] == {"listChanged": True}
            found = await hub.calls.inspect(query="second")
            assert "second" in found.content[0]["text"]


async def test_it_is_marked_in_inspect_and_status_until_the_server_has_listed(server):
    async with open_watched(server.config, settled=False) as watch:
        hub = watch.hub
        await watch.becomes(State.STARTING)
        servers, one = await hub.calls.inspect(), await hub.calls.inspect("s")
        status = snapshot(hub, clients=0).servers[0]
        assert "s (starting; 2 tools from last time)" in servers.content[0]["text"]
        assert "from last time" in one.content[0]["text"]
        for marked in (servers.structured_content["servers"][0], one.structured_content):
            assert marked["from_last_time"] is True
            assert marked["listed_at"].endswith("+00:00")
        assert (status.from_last_time, status.listed_at) == (True, marked["listed_at"])
        before = shown(hub)
        await watch.becomes(State.READY)
        assert "from last time" not in str((await hub.calls.inspect()).content)
        assert "from_last_time" not in (await hub.calls.inspect("s")).structured_content
        assert not snapshot(hub, clients=0).servers[0].from_last_time
        assert shown(hub) == before


async def test_nothing_is_announced_and_no_description_changes_where_it_offers_the_same(server, ears):
    async with open_watched(server.config, settled=False) as watch:
        announced = []
        watch.hub.observe(lambda name, changed: announced.append((name, changed)))
        before = shown(watch.hub)
        await watch.becomes(State.READY)
        await ears.hear("read", count=2)  # made anew, once a run
        assert await watch.text("first") == "nothing"
        assert announced == []
        assert shown(watch.hub) == before
        tools = watch.hub.upstreams["s"].catalogue.tools
    assert list(tools) == ["first", "second"]


async def test_what_differs_is_announced_and_is_known_the_next_time(server):
    server.offers(tool("second"), tool("third"))
    async with open_watched(server.config, settled=False) as watch:
        announced = []
        watch.hub.observe(lambda _name, changed: announced.append(changed))
        assert list(watch.hub.registry.get_server_info("s").tools) == ["first", "second"]
        await watch.becomes(State.READY)
        (changed,) = announced
        assert (changed.tools, changed.resources, changed.prompts, changed.about) == (
            True,
            False,
            False,
            False,
        )
    server.falls_silent()
    async with open_watched(server.config, settled=False) as watch:
        assert list(watch.hub.registry.get_server_info("s").tools) == ["second", "third"]


async def test_a_call_is_judged_by_what_the_server_offers_now(server):
    server.offers(tool("first", new={"type": "string"}), tool("third"))
    async with open_watched(server.config, settled=False) as watch:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch.text, "third")
            tasks.start_soon(watch.text, "first", {"new": "as its schema is now"})
        assert (await watch.failure("second")).code is Code.UNKNOWN_TOOL


async def test_a_tool_that_is_new_can_be_inspected_as_soon_as_it_is_listed(server):
    server.offers(tool("third"))
    async with open_watched(server.config, settled=False) as watch:
        found = await watch.hub.calls.inspect("s", "third")
        assert found.structured_content["name"] == "third"


async def test_the_catalogue_of_another_entry_is_not_shown(server):
    config = server.config.servers["s"]
    args = [*config.transport.args, "-v"]
    other = config_of({"s": EAGER | {"command": config.transport.command, "args": args}})
    server.falls_silent()
    async with open_watched(other, settled=False) as watch:
        assert watch.hub.registry.get_server_info("s").catalogue is None


async def test_a_reload_shows_nothing_from_last_time_under_a_new_entry(server):
    server.falls_silent()
    config = server.config.servers["s"]
    args = [*config.transport.args, "-v"]
    other = config_of({"s": EAGER | {"command": config.transport.command, "args": args}})
    async with open_watched(server.config, settled=False) as watch:
        assert watch.hub.registry.list_tools("s")
        await watch.hub.reload(other)
        assert watch.hub.registry.list_tools("s") == []
        await watch.hub.reload(server.config)
        assert [each.name for each in watch.hub.registry.list_tools("s")] == ["first", "second"]


async def test_a_server_that_does_not_start_any_more_fails_its_callers_and_stays_listed(tmp_path, ears):
    wanted = tmp_path / "wanted"
    wanted.touch()
    restart = {"initial": 30.0, "park_after": 1}
    settings = EAGER | {"restart": restart, "queue_timeout": 5.0}
    config = config_of({"s": entry(ears, settings=settings, wants=str(wanted))})
    async with open_watched(config):
        pass
    wanted.unlink()
    async with open_watched(config) as watch:
        error = await watch.failure("echo", {"text": "x"})
        assert error.code is Code.SERVER_UNAVAILABLE
        assert "s is not available (parked" in str(error)
        assert "echo" in watch.hub.registry.get_server_info("s").tools


@pytest.mark.parametrize("spoil", [lambda path: os.truncate(path, 100), lambda path: path.write_text("x")])
async def test_a_spoilt_file_costs_the_memory_and_no_more(server, spoil):
    folder = server_folder()
    for path in folder.iterdir():
        spoil(path)
    with capture_logs() as logs:
        async with open_watched(server.config) as watch:
            assert watch.state() is State.READY
    assert [line["event"] for line in logs if line["log_level"] == "warning"] == ["catalogue.unreadable"]
    async with open_watched(server.config, settled=False) as watch:
        assert watch.hub.registry.list_tools("s")


def server_folder():
    return Path(os.environ["MCPX_STATE_DIR"]) / "catalogues"


async def test_without_a_word_in_the_entry_it_sleeps_until_it_is_called(tmp_path, ears):
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([tool("first")]))
    config = config_of({"s": entry(ears, tools=str(tools), resources=[DOCUMENT])})
    async with open_watched(config) as watch:
        await watch.hub.described(10)
    async with open_watched(config) as watch:
        hub, announced = watch.hub, []
        hub.observe(lambda _name, changed: announced.append(changed))
        assert watch.state() is State.ASLEEP
        before = shown(hub)
        assert "s (1 tool from last time)" in (await hub.calls.inspect()).content[0]["text"]
        assert snapshot(hub, clients=0).servers[0].from_last_time
        assert len(ears.of("started")) == 1
        assert await watch.text("first") == "nothing"
        await ears.hear("read", count=2)
        assert shown(hub) == before
        assert announced == []


async def test_an_entry_that_changes_while_the_server_is_asleep_starts_it(tmp_path, ears):
    one, other = (config_of({"s": entry(ears, resources=[], stderr=text)}) for text in ("one", "other"))
    async with open_watched(one):
        pass
    async with open_watched(one) as watch:
        assert watch.state() is State.ASLEEP
        await watch.hub.reload(other)
        assert "from_last_time" not in watch.hub.registry.get_server_info("s").to_dict()
        await watch.becomes(State.READY)
        assert len(ears.of("started")) == 2
        await watch.hub.reload(one)
        assert watch.hub.registry.get_server_info("s").from_last_time()
