"""What observers and clients see of a reload."""

from __future__ import annotations

import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.server import GatewayServer
from supervisors import ChildSpec
from tests.mcpx.line import Line
from tests.mcpx.scripted import config_of, entry, open_watched

pytestmark = pytest.mark.anyio


async def test_observers_hear_of_servers_that_come_and_go_and_of_none_that_stay():
    base = entry()
    async with open_watched(config_of({"same": base, "gone": base})) as watch:
        heard = []
        watch.hub.observe(lambda name, diff: heard.append((name, diff.tools, diff.about)))
        await watch.hub.reload(config_of({"same": base, "fresh": base}))
        await watch.becomes(State.READY, "fresh")
        assert ("gone", True, True) in heard
        assert ("fresh", False, True) in heard  # it is listed at once
        assert ("fresh", True, True) in heard
        assert {name for name, _, _ in heard} == {"gone", "fresh"}


async def test_a_changed_server_with_the_same_tools_does_not_change_the_tools():
    base = entry()
    async with open_watched(config_of({"s": base})) as watch:
        heard = []
        watch.hub.observe(lambda _name, diff: heard.append(diff.tools))
        await watch.hub.reload(config_of({"s": {**base, "env": {"VARIANT": "other"}}}))
        await watch.becomes(State.READY)
        assert heard
        assert not any(heard)


async def test_settings_of_how_things_are_shown_are_in_force_at_once():
    rows = [{"name": f"n{number}", "value": number} for number in range(20)]
    text = str(rows).replace("'", '"')
    servers = {"s": entry()}
    async with open_watched(config_of(servers)) as watch:
        heard = []
        watch.hub.observe(lambda name, diff: heard.append((name, diff.tools, diff.about)))
        assert await watch.text("echo", {"text": text}) != text
        pid = watch.hub.upstreams["s"].pid
        shown = (await watch.hub.calls.inspect("s", "echo")).content[0]["text"]
        reloaded = await watch.hub.reload(
            config_of(servers, toon_compression_enabled=False, schema_compression_enabled=False)
        )
        assert reloaded.settings == ("schema_compression_enabled", "toon_compression_enabled")
        assert reloaded.untouched == ("s",)
        assert await watch.text("echo", {"text": text}) == text
        assert (await watch.hub.calls.inspect("s", "echo")).content[0]["text"] != shown
        assert watch.hub.upstreams["s"].pid == pid
        assert heard == [("s", False, True)]


async def test_clients_hear_of_it_and_see_the_new_servers_and_settings():
    rows = [{"name": f"n{number}", "value": number} for number in range(20)]
    text = str(rows).replace("'", '"')
    call = {
        "name": "exec",
        "arguments": {"server_name": "s", "tool_name": "echo", "arguments": {"text": text}},
    }
    async with open_watched(config_of({"s": entry(), "gone": entry()})) as watch:
        clients = ClientSessions(watch.hub)
        watch.hub.root.add(ChildSpec(name="clients", run=clients.run))
        async with Line(watch.hub).connected(GatewayServer(watch.hub, clients)) as line:
            await line.initialize()

            async def described():
                return (await line.ask("tools/list", {}))["tools"][0]["description"]

            before = await line.ask("tools/call", call)
            assert "gone" in await described()
            await watch.hub.reload(config_of({"s": entry(), "fresh": entry()}))
            await line.hear("notifications/tools/list_changed")
            assert "fresh" in await described()
            assert "gone" not in await described()
            settings = {"toon_compression_enabled": False, "include_structured_content": "never"}
            await watch.hub.reload(config_of({"s": entry(), "fresh": entry()}, **settings))
            for line.slow in (False, True):  # both paths
                after = await line.ask("tools/call", call)
                assert (after["content"][0]["text"], "structuredContent" in after) == (text, False)
            assert line.fast == 2
            assert before["content"][0]["text"] != text
            assert before["structuredContent"] == {"result": rows}
