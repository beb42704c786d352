"""A client program that MCPX knows is answered before its daemon is there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import AsyncExitStack

import anyio
import pytest

from mcpx.core.daemon.lifecycle import startup_lock
from tests.forking.client import run
from tests.mcpx.core.daemon.daemons import until
from tests.mcpx.core.daemon.test_carried_over import CHANGED, ECHO, echo, framed, open_session, text
from tests.mcpx.scripted import entry
from tests.mcpx.serving import LEGACY, MODERN, environment

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
LISTS = ("resources/list", "resources/templates/list", "prompts/list")
TOOL = {"name": "echo", "inputSchema": {"type": "object"}}


async def make_known(house, version: str, **more: str) -> dict:
    """A first client of the program, whose answers are kept; the tools. No daemon runs afterwards."""
    async with house.attached(**more) as client:
        await open_session(client, version)
        for method in LISTS:
            await client.request(method, framed(version))
        await echo(client, version)  # the server is up: the list is whole
        tools = await client.request("tools/list", framed(version))
        await client.close_input()
        assert await client.exit_code() == 0
    assert house.run("daemon", "stop").returncode == 0
    await until(lambda: house.daemons() == [])  # it has let go of its lock before its process has gone
    return tools


def kept(house) -> list:
    return [json.loads(file.read_text()) for file in (house.place.folder / "attach").glob("*.json")]


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_a_known_client_has_its_lists_while_nobody_can_start_a_daemon(house, version):
    house.write({"s": entry()}, startup_wait=20)
    tools = await make_known(house, version)
    with startup_lock(house.place) as lock:
        async with house.attached() as client:
            await open_session(client, version)
            assert await client.request("tools/list", framed(version)) == tools
            for method in LISTS:
                await client.request(method, framed(version))
            if version == LEGACY:
                assert await client.request("ping") == {}
            call = await client.ask("tools/call", framed(version, name="exec", arguments=ECHO))
            assert house.daemons() == []
            os.close(lock)
            assert text((await client.answer(call))["result"]) == "hi"
            assert await client.request("tools/list", framed(version)) == tools
            assert [told["method"] for told in client.notifications if "list_changed" in told["method"]] == []
            assert client.other_stderr == []


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_what_the_daemon_lists_otherwise_is_announced_once_and_kept(house, version):
    listed = house.folder / "tools.json"
    listed.write_text(json.dumps([TOOL]))
    house.write({"s": entry(tools=str(listed))}, startup_wait=20, start="eager")
    await make_known(house, version)
    listed.write_text(json.dumps([TOOL, TOOL | {"name": "brand_new"}]))
    with startup_lock(house.place) as lock:
        async with house.attached() as client:
            await open_session(client, version)
            assert client.notifications == []
            os.close(lock)
            with anyio.fail_after(50):
                while CHANGED not in [told["method"] for told in client.notifications]:
                    client._take(await client._line())
            await until(lambda: "brand_new" in json.dumps(kept(house)))
            tools = await client.request("tools/list", framed(version))
            assert "brand_new" in tools["tools"][0]["description"]
            assert [told["method"] for told in client.notifications].count(CHANGED) == 1


async def test_a_client_that_is_known_hears_of_a_daemon_that_does_not_start(house):
    house.write({"s": entry()})
    await make_known(house, LEGACY)
    config = house.folder / "config.json"
    before = config.stat()
    config.write_text(config.read_text().replace("{", "!", 1))
    os.utime(config, ns=(before.st_atime_ns, before.st_mtime_ns))  # nothing shows that it is another one
    async with house.attached() as client:
        await open_session(client, LEGACY)
        call = await client.answer(await client.ask("tools/call", {"name": "exec", "arguments": ECHO}))
        assert call["result"]["structuredContent"]["outcome"] == "not_sent"
        assert "config.json" in text(call["result"])
        listed = await client.request("tools/list")  # the client is answered although there is no daemon
        assert [tool["name"] for tool in listed["tools"]] == ["inspect", "exec", "resources"]
        assert "config.json" in text(await client.call("inspect"))
        await client.close_input()
        assert await client.exit_code() == 0


async def test_a_client_of_other_capabilities_and_one_whose_file_is_broken_wait_for_the_daemon(house):
    house.write({"s": entry()}, startup_wait=20)
    await make_known(house, LEGACY)
    (file,) = (house.place.folder / "attach").iterdir()
    with startup_lock(house.place) as lock:
        async with house.attached() as other, house.attached() as broken:
            able = {"protocolVersion": LEGACY, "capabilities": {"roots": {}}}
            able["clientInfo"] = {"name": "test", "version": "1"}
            opening = await other.ask("initialize", able)
            file.write_bytes(file.read_bytes()[:-9])
            first = await broken.ask("initialize", able | {"capabilities": {}})
            await until(lambda: not file.exists())
            assert house.daemons() == []
            os.close(lock)
            for client, request in ((other, opening), (broken, first)):
                assert (await client.answer(request))["result"]["serverInfo"]["name"] == "mcpx"
                await client.send("notifications/initialized")
                await echo(client, LEGACY)


async def test_many_clients_of_one_program_at_once(house):
    house.write({"s": entry()}, startup_wait=20)
    tools = await make_known(house, LEGACY)
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(house.attached()) for _ in range(8)]

        async def converse(client) -> None:
            await open_session(client, LEGACY)
            await echo(client, LEGACY)
            assert await client.request("tools/list") == tools

        async with anyio.create_task_group() as tasks:
            for client in clients:
                tasks.start_soon(converse, client)
        assert len(house.daemons()) == 1
    (file,) = kept(house)
    assert len([question for question in file["answers"] if question.startswith("tools/list")]) == 1


async def test_a_shim_whose_client_leaves_does_not_wait_for_lists_of_its_own(house):
    house.write({"s": entry(silent=True)}, startup_wait=0.001, shutdown_grace=30)
    for _ in range(2):
        async with house.attached() as client:
            await client.initialize()
            await client.request("tools/list")
            await house.joined(1)
            await client.close_input()
            assert await client.exit_code(within=5) == 0
        assert house.run("daemon", "stop").returncode == 0


async def test_input_that_ends_at_once_is_answered_and_the_daemon_is_started_all_the_same(house):
    house.write({"s": entry()}, startup_wait=20)
    tools = await make_known(house, LEGACY)
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    lines = [{"id": 0, "method": "initialize", "params": hello}, {"id": 1, "method": "tools/list"}]
    told = "".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in lines)
    done = await anyio.to_thread.run_sync(lambda: piped(house, told))
    assert done.returncode == 0
    assert [json.loads(each)["id"] for each in done.stdout.splitlines()] == [0, 1]
    assert json.loads(done.stdout.splitlines()[1])["result"] == tools
    await until(lambda: house.pid is not None)


def piped(house, told: str) -> subprocess.CompletedProcess[str]:
    return run(
        [sys.executable, "-m", "mcpx", "attach", "--config", house.config],
        env=environment(house.folder),
        input=told,
        capture_output=True,
        text=True,
        timeout=50,
    )
