"""Many clients on one daemon: who is started, who is not, and what a client that leaves takes with it."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest
from mcp import Client

from tests.mcpx.core.daemon.daemons import House, parameters, processes, until
from tests.mcpx.scripted import entry
from tests.mcpx.serving import ENVELOPE, MODERN

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
ECHO = {"server_name": "s", "tool_name": "echo", "arguments": {"text": "hi"}}
HANG = {"server_name": "s", "tool_name": "hang"}


def text(result: dict) -> str:
    return str(result["content"][0]["text"])


async def test_a_shim_starts_the_daemon_and_the_next_one_joins_it(house, ears):
    house.write({"s": entry(ears)})
    async with house.attached() as first, house.attached() as second:
        for client in (first, second):
            assert (await client.initialize())["serverInfo"]["name"] == "mcpx"
            assert text(await client.call("exec", **ECHO)) == "hi"
        assert len(house.daemons()) == 1
        assert len(ears.of("started")) == 1
        for client in (first, second):
            await client.close_input()
            assert await client.exit_code() == 0
            assert client.other_stderr == []
    assert house.pid is not None  # it stays for the next client


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_sdks_client_is_served_in_both_eras(house, mode):
    house.write({"s": entry()})
    with anyio.fail_after(60):
        async with Client(parameters(house), mode=mode, cache=None) as client:
            assert (client.protocol_version == MODERN) is (mode == "auto")
            assert [tool.name for tool in (await client.list_tools()).tools] == [
                "inspect",
                "exec",
                "resources",
            ]
            assert (await client.call_tool("exec", ECHO)).content[0].text == "hi"


async def test_eight_clients_and_ten_servers_are_ten_children_and_one_daemon(house):
    names = [f"s{number}" for number in range(10)]
    house.write({name: entry() for name in names}, startup_wait=30)
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(house.attached()) for _ in range(8)]
        for client in clients:
            await client.initialize()
            await client.request("tools/list")
        for client, name in zip(clients, names, strict=False):
            assert text(await client.call("exec", **{**ECHO, "server_name": name})) == "hi"
        assert len(house.daemons()) == 1
        assert len(processes("attach", house.config)) == 8
        (daemon,) = house.daemons()
        children = children_of(daemon)
        assert len(children) == 10
        told = house.status()
        assert told["daemon"]["pid"] == daemon == house.pid
        assert told["daemon"]["clients"] == 8
        assert sorted(server["pid"] for server in told["servers"]) == sorted(children)


def children_of(pid: int) -> list[int]:
    return [child for child in processes() if parent_of(child) == pid]


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


async def test_twenty_shims_at_once_start_one_daemon(house, ears):
    house.write({"s": entry(ears)}, startup_wait=30)
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(house.attached()) for _ in range(20)]
        async with anyio.create_task_group() as tasks:
            for client in clients:
                tasks.start_soon(converse, client)
        assert len(house.daemons()) == 1
    assert len(ears.of("started")) == 1
    listening = [line for line in house.log() if line["event"] == "socket.listening"]
    assert len(listening) == 1


async def converse(client) -> None:
    await client.initialize()
    assert text(await client.call("exec", **ECHO)) == "hi"


async def test_a_client_that_is_killed_has_its_calls_cancelled_within_a_second(house, ears):
    house.write({"s": entry(ears, settings={"max_concurrency": 1})}, shutdown_grace=30)
    async with house.attached() as dying, house.attached() as other:
        await dying.initialize()
        await other.initialize()
        await dying.ask("tools/call", {"name": "exec", "arguments": HANG})
        call = await ears.hear("call", tool="hang")
        dying.process.kill()
        with anyio.fail_after(1):
            await ears.hear("cancelled", id=call["id"])
        assert text(await other.call("exec", **ECHO)) == "hi"  # the one place is free
        await house.joined(1)


async def test_a_client_whose_host_dies_leaves_no_shim_and_no_call(house, ears):
    """The host is killed, not the shim: both ends of its pipes close, and nobody reads the answers."""
    house.write({"s": entry(ears)}, shutdown_grace=30)
    async with house.attached() as client:
        await client.initialize()
        await client.ask("tools/call", {"name": "exec", "arguments": HANG})
        call = await ears.hear("call", tool="hang")
        client.close_output()
        await client.close_input()
        with anyio.fail_after(1):
            await ears.hear("cancelled", id=call["id"])
        assert await client.exit_code(within=1) == 0


async def test_a_client_that_closes_its_input_still_gets_its_answers(house, ears):
    house.write({"s": entry(ears)}, shutdown_grace=30)
    async with house.attached() as client, house.attached() as other:
        await client.initialize()
        await other.initialize()
        call = await client.ask("tools/call", {"name": "exec", "arguments": HANG})
        await ears.hear("call", tool="hang")
        await client.close_input()
        await other.call("exec", server_name="s", tool_name="release")
        assert text((await client.answer(call))["result"]) == "released"
        assert await client.exit_code() == 0


async def test_a_large_answer_passes_whole(house):
    house.write({"s": entry()}, result_token_budget=0)
    size = 10_000_000
    async with house.attached() as client:
        await client.initialize()
        huge = {"server_name": "s", "tool_name": "huge", "arguments": {"bytes": size}}
        assert len(text(await client.call("exec", **huge))) == size
        long = {**ECHO, "arguments": {"text": "y" * size}}
        assert len(text(await client.call("exec", **long))) == size


async def test_rubbish_of_a_client_costs_nobody_anything(house):
    house.write({"s": entry()})
    async with house.attached() as client:
        await client.initialize()
        await client.send_bytes(
            b'not json\n[]\n{"id": [], "method": 3}\n\xff\xfe\n\n{"jsonrpc": "2.0", "id": 9}\n'
        )
        await client.send("notifications/cancelled", {"requestId": []})
        assert text(await client.call("exec", **ECHO)) == "hi"


async def test_a_session_of_the_revision_without_a_handshake(house):
    house.write({"s": entry()})
    async with house.attached() as client:
        found = await client.request("server/discover", {"_meta": ENVELOPE})
        assert MODERN in found["supportedVersions"]
        call = {"name": "exec", "arguments": ECHO, "_meta": ENVELOPE}
        assert text(await client.request("tools/call", call)) == "hi"


@pytest.mark.linux("elsewhere such a folder is refused")
async def test_a_state_folder_with_a_long_name(house, monkeypatch):
    long = House(house.folder / ("long" * 40))
    long.folder.mkdir()
    monkeypatch.setenv("MCPX_STATE_DIR", f"{long.folder}/state")
    long.write({"s": entry()})
    try:
        async with long.attached() as client:
            await client.initialize()
            assert text(await client.call("exec", **ECHO)) == "hi"
            assert long.status()["daemon"]["clients"] == 1
            assert len(str(long.place.socket)) > 160
            assert long.place.socket.is_socket()
    finally:
        long.close()


async def test_thousands_that_connect_and_vanish_leave_nothing(house):
    house.write({"s": entry()}, watch_config=False)  # a watch opens files, a second after the start
    assert house.run("daemon", "start").returncode == 0
    pid = house.pid
    assert pid is not None
    assert house.run("inspect", "s").returncode == 0  # the server is up: its pipes are there
    files = open_files(pid)  # perhaps with those of the command that has just ended
    await crowd(house, 1000)  # what is made once is made
    await until(lambda: open_files(pid) <= files)
    memory = resident(pid)
    await crowd(house, 3000)
    await until(lambda: open_files(pid) <= files)
    assert resident(pid) - memory < 2_000_000, "bytes of 3,000 clients that are gone"
    assert house.status()["daemon"]["clients"] == 0


async def crowd(house, count: int) -> None:
    """Clients that come and go: some say nothing, some half a line, some begin a session."""
    hello = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    for number in range(count):
        with socket.socket(socket.AF_UNIX) as joined:
            joined.connect(str(house.place.socket))
            if number % 3:
                joined.sendall(hello if number % 3 == 1 else hello[:10])
        if number % 50 == 0:
            await anyio.lowlevel.checkpoint()


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_sigterm_ends_a_shim_and_not_the_daemon(house):
    house.write({"s": entry()})
    async with house.attached() as client:
        await client.initialize()
        client.process.send_signal(signal.SIGTERM)
        assert await client.exit_code(within=2) == -signal.SIGTERM
    assert house.pid is not None
