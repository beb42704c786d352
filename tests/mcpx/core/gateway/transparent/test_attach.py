"""The transparent endpoint through the shim: the same as directly, through the end of a daemon, too."""

from __future__ import annotations

import pytest

from tests.mcpx.core.daemon.test_carried_over import kill, restart
from tests.mcpx.core.gateway.transparent.talking import Fds, directly
from tests.mcpx.core.gateway.transparent.test_equality import entry, equal, handshake, older
from tests.mcpx.serving import serving

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


def attached(house, server="odd"):
    return serving(house.folder, "attach", "--config", house.config, "--server", server)


def client_of(served):
    return Fds(served._stdout, served.process.stdin.fileno())


async def test_all_that_an_older_client_sees(house):
    house.write({"odd": entry()})
    async with directly() as direct, attached(house) as served:
        through = client_of(served)
        for talk in (direct, through):
            await older(talk, vendor=True)
        equal(direct, through)


@pytest.mark.parametrize("end", [restart, kill])
async def test_a_call_whose_daemon_ends_is_an_error_with_its_outcome_and_the_next_one_succeeds(house, end):
    house.write({"odd": entry()})
    async with attached(house) as served:
        talk = client_of(served)
        await handshake(talk)
        listed = await talk.ask("tools/list", None, 2)
        await talk.send("tools/call", '{"name":"ask","arguments":{"method":"vendor/wait"}}', 3)
        talk.reply = None
        assert (await talk.take())["method"] == "vendor/wait"
        end(house)
        while (lost := await talk.take()).get("id") != 3:
            pass
        assert lost["error"]["data"]["outcome"] == "unknown"
        assert await talk.ask("tools/list", None, 4) == listed | {"id": 4}
        assert (await talk.ask("ping", None, 5))["result"] == {"pong": True}


async def test_an_unknown_server_is_named_by_inspect(house):
    house.write({"odd": entry()})
    async with attached(house, "od") as served:
        client = client_of(served)
        opened = await client.ask("initialize", '{"protocolVersion":"2025-06-18"}', 1)
        assert opened["result"]["serverInfo"]["name"] == "mcpx"
        said = await client.ask("tools/call", '{"name":"inspect","arguments":{}}', 2)
        assert "Did you mean odd?" in said["result"]["content"][0]["text"]
