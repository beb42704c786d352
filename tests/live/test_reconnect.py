"""A server that dies is back for the next call, and what it offers then is told."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import asynccontextmanager

import anyio
import mcp_types
import pytest

from tests.forking.client import command
from tests.live import servers
from tests.live.gateways import ENDPOINTS, open_gateway, write_config
from tests.live.processes import child_of

pytestmark = [pytest.mark.live, pytest.mark.anyio]

NOTICED_S = 10.0  # for what must come soon, on a noisy machine
SOON_S = 3.0


@pytest.fixture
def tools(tmp_path):
    """The file that the tiny server's tools are read from when it starts."""
    file = tmp_path / "tools.json"
    file.write_text('["stays", "goes"]', "utf-8")
    return file


@pytest.fixture
def config(tmp_path, tools):
    """A configuration with the tiny server, which tries again every half second at most."""
    entry = {"command": sys.executable, "args": ["-S", str(servers.HERE / "from_file.py"), str(tools)]}
    return write_config(
        tmp_path / "mcpx", {"tiny": entry}, restart={"initial": 0.2, "cap": 0.5, "park_after": 1000}
    )


def kill(gateway, word="from_file.py"):
    pid = child_of(gateway.pid, word)
    os.kill(pid, signal.SIGKILL)
    return pid


@asynccontextmanager
async def hearing_of_changes(endpoint, config):
    """A gateway, and a function that waits for the next `tools/list_changed`, as the era has it."""
    send, receive = anyio.create_memory_object_stream[object](100)

    async def on_message(message):
        if isinstance(message, mcp_types.ToolListChangedNotification):
            await send.send(message)

    async def listen(client, *, task_status):
        async with client.listen(tools_list_changed=True) as subscription:
            task_status.started()
            async for event in subscription:
                await send.send(event)

    async def changed():
        with anyio.fail_after(NOTICED_S):
            await receive.receive()

    with send, receive:
        async with open_gateway(endpoint, config, message_handler=on_message) as gateway:
            await gateway.log.wait_for("upstream.ready", server="tiny")
            async with anyio.create_task_group() as tasks:
                if endpoint.endswith("auto"):
                    await tasks.start(listen, gateway.client)
                    # what was announced before the stream was open is not on it
                elif endpoint.startswith("http"):
                    with anyio.move_on_after(SOON_S):  # its stream may have come after the first listing
                        await receive.receive()
                else:
                    await changed()  # the first listing, for the client was there before it
                yield gateway, changed
                tasks.cancel_scope.cancel()


@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_a_call_after_a_kill_is_served_by_a_new_process(endpoint, tmp_path):
    everything = servers.require(servers.live_server("everything", tmp_path))
    config = write_config(tmp_path / "mcpx", {"everything": everything.entry()})
    async with open_gateway(endpoint, config) as gateway:
        first = await gateway.exec("everything", "get-sum", {"a": 1, "b": 2})
        killed = kill(gateway, "server-everything")
        second = await gateway.exec("everything", "get-sum", {"a": 1, "b": 2})
        assert not second.is_error
        assert second.content == first.content
        assert child_of(gateway.pid, "server-everything") != killed
        failed = await gateway.log.wait_for("upstream.failed", server="everything")
        assert failed["cause"].startswith("the server process was killed by SIGKILL")
        await gateway.log.wait_for("upstream.ready", server="everything", count=2)


async def test_the_death_of_an_idle_server_is_noticed_without_a_call(config):
    async with open_gateway("stdio-legacy", config) as gateway:
        await gateway.log.wait_for("upstream.ready", server="tiny")
        killed = kill(gateway)
        await gateway.log.wait_for("upstream.failed", server="tiny")
        await gateway.log.wait_for("upstream.ready", server="tiny", count=2)
        assert (await gateway.exec("tiny", "stays")).structured_content["pid"] != killed


async def test_calls_of_a_dead_server_are_all_served_when_it_is_back(config, tools):
    async with open_gateway("stdio-auto", config) as gateway:
        await gateway.log.wait_for("upstream.ready", server="tiny")
        tools.rename(tools.with_suffix(".away"))
        kill(gateway)
        await gateway.log.wait_for("upstream.failed", server="tiny", failures=2)
        answers = []

        async def call():
            answers.append(await gateway.exec("tiny", "stays"))

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(call)
            await gateway.log.wait_for("upstream.failed", server="tiny", failures=3)
            tools.with_suffix(".away").rename(tools)
        assert len({answer.structured_content["pid"] for answer in answers}) == 1
        assert len(answers) == 20


@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_inspect_answers_during_an_outage_and_says_why(endpoint, config, tools):
    async with open_gateway(endpoint, config) as gateway:
        await gateway.log.wait_for("upstream.ready", server="tiny")
        before = (await gateway.inspect("tiny")).structured_content
        assert before["state"] == "ready"
        tools.rename(tools.with_suffix(".away"))
        kill(gateway)
        await gateway.log.wait_for("upstream.failed", server="tiny", failures=2)
        with anyio.fail_after(1):
            during = (await gateway.inspect("tiny")).structured_content
            one = (await gateway.inspect("tiny", "stays")).structured_content
        assert during["tools"] == before["tools"]
        assert during["state"].startswith(("waiting", "starting"))
        assert "exited with code 3" in during["state"]
        assert "the list is not there" in during["state"]
        assert one["name"] == "stays"
        assert one["state"].startswith(("waiting", "starting"))
        tools.with_suffix(".away").rename(tools)
        assert (await gateway.exec("tiny", "stays")).structured_content["tool"] == "stays"
        assert (await gateway.inspect("tiny")).structured_content["state"] == "ready"


@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_tools_that_changed_at_a_restart_are_announced_and_served(endpoint, config, tools):
    async with hearing_of_changes(endpoint, config) as (gateway, changed):
        tools.write_text(json.dumps(["stays", "comes"]), "utf-8")
        kill(gateway)
        await changed()
        while "comes()" not in (listing := (await gateway.descriptions())["inspect"]):
            await changed()  # that was the first listing, announced late
        assert "goes()" not in listing
        inspected = (await gateway.inspect("tiny")).structured_content
        assert [tool["name"] for tool in inspected["tools"]] == ["stays", "comes"]
        assert (await gateway.exec("tiny", "comes")).structured_content["tool"] == "comes"
        gone = await gateway.exec("tiny", "goes")
        assert gone.structured_content["code"] == "unknown_tool"


async def test_tools_that_change_while_the_server_runs_are_announced_too(tmp_path):
    start, *args = command("-m", "mcpx.demo.changing")
    entry = {"command": start, "args": args, "cwd": str(servers.HERE.parents[1])}
    config = write_config(tmp_path / "mcpx", {"tiny": entry})
    async with hearing_of_changes("stdio-legacy", config) as (gateway, changed):
        assert not (await gateway.exec("tiny", "add_tool", {"name": "newcomer"})).is_error
        await changed()
        assert "newcomer(" in (await gateway.descriptions())["inspect"]
        assert not (await gateway.exec("tiny", "newcomer")).is_error
