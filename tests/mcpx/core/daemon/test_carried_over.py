"""A daemon that goes away under its clients: what they are told, and that their sessions go on."""

from __future__ import annotations

import json
import os
import signal
import time

import anyio
import pytest
from mcp import Client

from mcpx.core.wire.batch import BATCH_REVISION
from tests.mcpx.core.daemon.daemons import parameters, until
from tests.mcpx.scripted import entry
from tests.mcpx.serving import ENVELOPE, LEGACY, MODERN

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
ECHO = {"server_name": "s", "tool_name": "echo", "arguments": {"text": "hi"}}
HANG = {"server_name": "s", "tool_name": "hang"}
CHANGED = "notifications/tools/list_changed"


def text(result: dict) -> str:
    return str(result["content"][0]["text"])


def framed(version: str, **params) -> dict:
    return params | ({"_meta": ENVELOPE} if version == MODERN else {})


async def open_session(client, version: str) -> None:
    """A client's first words, to the list of tools; in the newer revision with a stream for changes."""
    if version != MODERN:
        await client.initialize(version)
    else:
        await client.request("server/discover", framed(version))
        await client.ask("subscriptions/listen", framed(version, notifications={"toolsListChanged": True}))
    await client.request("tools/list", framed(version))


async def hang(client, version: str) -> int:
    return await client.ask("tools/call", framed(version, name="exec", arguments=HANG))


async def lost(client, request: int) -> None:
    """The call has ended with an error that says that its outcome is unknown."""
    result = (await client.answer(request))["result"]
    assert result["isError"] is True
    told = result["structuredContent"]
    assert (told["code"], told["outcome"]) == ("server_died", "unknown")
    assert (told["server"], told["tool"]) == ("s", "hang")
    assert "outcome: unknown" in text(result)


async def echo(client, version: str) -> None:
    assert text(await client.request("tools/call", framed(version, name="exec", arguments=ECHO))) == "hi"


def restart(house) -> None:
    done = house.run("daemon", "restart")
    assert (done.returncode, done.stderr) == (0, "")


def kill(house) -> None:
    """SIGKILL; back when the daemon is really gone: until then its socket takes what it will never read."""
    pid = house.pid
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while house.pid == pid:
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize("version", [LEGACY, MODERN])
@pytest.mark.parametrize("end", [restart, kill])
async def test_calls_in_flight_end_as_unknown_and_the_next_ones_succeed(house, ears, end, version):
    house.write({"s": entry(ears)}, startup_wait=20)
    async with house.attached() as one, house.attached() as other:
        calls = []
        for client in (one, other):
            await open_session(client, version)
            calls.append(await hang(client, version))
        await ears.hear("call", tool="hang", count=2)
        before = house.pid
        await anyio.to_thread.run_sync(end, house)
        for client, call in zip((one, other), calls, strict=True):
            await lost(client, call)
            await echo(client, version)
        await until(lambda: len(ears.of("started")) == 2)
        assert house.pid not in {before, None}
        assert len(house.daemons()) == 1
        for client in (one, other):
            await client.request("tools/list", framed(version))  # behind whatever the shim has asked
            assert [told["method"] for told in client.notifications if told["method"] == CHANGED] == []
            assert all(line.startswith("mcpx: ") for line in client.other_stderr)


@pytest.mark.parametrize("end", [restart, kill])
async def test_a_batch_in_flight_ends_in_one_array_and_the_next_one_succeeds(house, ears, end):
    house.write({"s": entry(ears)}, startup_wait=20)
    async with house.attached() as client:
        await open_session(client, BATCH_REVISION)
        call = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "exec", "arguments": HANG}}
        await client.send_bytes(json.dumps([call | {"id": "a"}, call | {"id": "b"}]).encode() + b"\n")
        await ears.hear("call", tool="hang", count=2)
        await anyio.to_thread.run_sync(end, house)
        answers = {each["id"]: each["result"]["structuredContent"] for each in await client.array()}
        assert {key: each["outcome"] for key, each in answers.items()} == {"a": "unknown", "b": "unknown"}
        call["params"]["arguments"] = ECHO
        await client.send_bytes(json.dumps([call | {"id": "a"}, call | {"id": "b"}]).encode() + b"\n")
        assert [text(each["result"]) for each in await client.array()] == ["hi", "hi"]


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_the_tools_are_announced_after_a_restart_only_if_they_changed(house, ears, version):
    tools = house.folder / "tools.json"
    tools.write_text(json.dumps([{"name": "echo", "inputSchema": {"type": "object"}}]))
    house.write({"s": entry(ears, tools=str(tools))}, startup_wait=20, start="eager")
    async with house.attached() as client:
        await open_session(client, version)
        restart(house)
        await echo(client, version)
        more = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "brand_new")]
        tools.write_text(json.dumps(more))
        assert client.notifications == client.notifications[:1]  # at most the stream's own acknowledgement
        restart(house)
        while CHANGED not in [told["method"] for told in client.notifications]:
            client._take(await client._line())
        listed = await client.request("tools/list", framed(version))
        assert "brand_new" in listed["tools"][0]["description"]
        told = [told for told in client.notifications if told["method"] == CHANGED]
        assert len(told) == 1
        if version == MODERN:
            assert told[0]["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 2


async def test_changes_are_heard_of_in_the_new_session_too(house, ears):
    house.write({"s": entry(ears)}, startup_wait=20)
    async with house.attached() as client:
        await open_session(client, MODERN)
        restart(house)
        await echo(client, MODERN)
        await client.request("tools/list", framed(MODERN))
        add = {"server_name": "s", "tool_name": "add", "arguments": {"name": "late"}}
        await client.request("tools/call", framed(MODERN, name="exec", arguments=add))
        with anyio.fail_after(50):
            while CHANGED not in [told["method"] for told in client.notifications]:
                client._take(await client._line())
        kinds = [told["method"] for told in client.notifications]
        assert kinds.count("notifications/subscriptions/acknowledged") == 1


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_servers_that_are_still_on_their_way_are_no_change(house, ears, version):
    """The new daemon's first lists show them starting; they are compared when they have started."""
    house.write({"s": entry(ears)}, startup_wait=0.001)
    async with house.attached() as client:
        await open_session(client, version)
        await echo(client, version)
        listed = await client.request("tools/list", framed(version))
        assert "echo(text" in listed["tools"][0]["description"]
        before = len(client.notifications)
        restart(house)
        await echo(client, version)
        add = {"server_name": "s", "tool_name": "add", "arguments": {"name": "late"}}
        await client.request("tools/call", framed(version, name="exec", arguments=add))
        with anyio.fail_after(50):
            while CHANGED not in methods(client)[before:]:
                client._take(await client._line())
        listed = await client.request("tools/list", framed(version))
        assert "late" in listed["tools"][0]["description"]  # no other change was told before this one
        assert methods(client)[before:].count(CHANGED) == 1


def methods(client) -> list[str]:
    return [told["method"] for told in client.notifications]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_sdks_client_sees_no_disconnect(house, ears, mode):
    house.write({"s": entry(ears)}, startup_wait=20)
    with anyio.fail_after(90):
        async with Client(parameters(house), mode=mode, cache=None) as client:
            await client.list_tools()
            results = []

            async def call() -> None:
                results.append(await client.call_tool("exec", HANG))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await ears.hear("call", tool="hang")
                kill(house)
            assert results[0].is_error
            assert results[0].structured_content["outcome"] == "unknown"
            assert (await client.call_tool("exec", ECHO)).content[0].text == "hi"


async def test_other_requests_in_flight_end_in_an_error_that_says_unknown(house, ears):
    uri = "memo:///one"
    resource = {"uri": uri, "name": "one", "text": "x", "description": "d"}
    house.write({"s": entry(ears, resources=[resource], unread=True)})
    async with house.attached() as client:
        await client.initialize()
        reading = await client.ask("resources/read", {"uri": uri})
        await ears.hear("read")
        kill(house)
        error = (await client.answer(reading))["error"]
        assert (error["data"]["code"], error["data"]["outcome"]) == ("server_died", "unknown")


def stop(house) -> None:
    assert house.run("daemon", "stop").returncode == 0


def terminate(house) -> None:
    """As a service manager does."""
    os.kill(house.pid, signal.SIGTERM)


@pytest.mark.parametrize("end", [stop, terminate])
async def test_a_daemon_that_was_stopped_stays_so_until_the_client_speaks(house, ears, end):
    house.write({"s": entry(ears)})
    async with house.attached() as client:
        await client.initialize()
        call = await hang(client, LEGACY)
        await ears.hear("call", tool="hang")
        await anyio.to_thread.run_sync(end, house)
        await lost(client, call)
        await until(lambda: house.pid is None)
        assert house.place.stopped.exists()
        await until(lambda: house.daemons() == [])
        await echo(client, LEGACY)
        assert len(house.daemons()) == 1
        assert not house.place.stopped.exists()


async def test_an_idle_shim_joins_a_daemon_that_was_started_by_hand(house):
    house.write({"s": entry()})
    async with house.attached() as client:
        await client.initialize()
        assert house.run("daemon", "stop").returncode == 0
        assert house.run("daemon", "start").returncode == 0
        await house.joined(1)
        await echo(client, LEGACY)


async def test_what_is_asked_while_there_is_no_daemon_is_sent_to_the_next(house, ears):
    house.write({"s": entry(ears)})
    async with house.attached() as client:
        await client.initialize()
        await echo(client, LEGACY)
        kill(house)
        asked = [await client.ask("tools/call", {"name": "exec", "arguments": ECHO}) for _ in range(50)]
        texts = [text((await client.answer(each))["result"]) for each in asked]
        # the first may have been on its way to the daemon that died; nothing is lost without a word
        assert set(texts[-40:]) == {"hi"}


async def test_a_daemon_that_never_stays_is_given_up_with_its_cause(house, ears):
    house.write({"s": entry(ears)})
    async with house.attached() as client:
        await client.initialize()
        house.write({"s": entry(ears)}, queue_size="many")
        kill(house)
        told = await client.call("inspect")
        assert "$.queue_size" in told["content"][0]["text"]
        refused = await client.call("exec", **ECHO)
        assert refused["structuredContent"]["outcome"] == "not_sent"
        house.write({"s": entry(ears)})
        await until_served(client)


async def until_served(client) -> None:
    """The configuration is mended: the next calls get through, once the shim has calmed down."""
    with anyio.fail_after(50):
        while (await client.call("exec", **ECHO))["isError"]:  # noqa: ASYNC110 - there is no event
            await anyio.sleep(0.2)
