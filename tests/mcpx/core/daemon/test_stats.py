"""The tokens that a daemon has counted: asked of it, left in the file at its end, and found there again."""

from __future__ import annotations

import json
import os
import signal

import anyio
import pytest

from mcpx.core.events.stats_file import StatsFile
from tests.mcpx.core.daemon.daemons import until
from tests.mcpx.scripted import Gate, entry
from tests.mcpx.serving import LEGACY, run_cli

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
CHANGED = "notifications/tools/list_changed"
ECHO = {"server_name": "s", "tool_name": "echo", "arguments": {"text": "some words " * 50}}


async def asked(house):
    done = await anyio.to_thread.run_sync(house.run, "stats", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


async def test_counts_survive_the_daemon(house):
    house.write({"s": entry()})
    async with house.attached() as client:
        await client.initialize()
        await client.request("tools/list")
        for _ in range(3):
            await client.call("exec", **ECHO)
        running = await asked(house)
    rows = {row["tool"]: row for row in running["all_time"]["tools"]}
    assert running["since_start"] == running["all_time"]
    assert [row["client"] for row in running["all_time"]["clients"]] == ["test"]
    assert set(rows) == {"(menu)", "echo"}
    assert rows["echo"]["calls"] == 3
    assert rows["echo"]["direct"] == rows["echo"]["spent"] > 100
    assert rows["(menu)"]["spent"] > 100

    os.kill(house.pid, signal.SIGTERM)
    await until(lambda: house.pid is None)
    ended = await asked(house)
    assert ended["all_time"] == running["all_time"]
    assert ended["since_start"] is None
    path = house.place.log.parent
    assert StatsFile(path).read().total.calls == 3

    async with house.attached() as client:
        await client.initialize()
        await client.call("exec", **ECHO)
        again = await asked(house)
    assert again["since_start"]["total"]["calls"] == 1
    assert again["all_time"]["total"]["calls"] == 4


async def test_a_call_that_the_end_of_the_daemon_cuts_off_has_failed(house):
    house.write({"s": entry()})
    async with house.attached() as client:
        await client.initialize()
        request = await client.ask("tools/call", {"name": "exec", "arguments": {**ECHO, "tool_name": "hang"}})
        while (await anyio.to_thread.run_sync(house.status))["daemon"]["calls"]["running"] == 0:
            pass
        os.kill(house.pid, signal.SIGTERM)
        answer = await client.answer(request)
    assert answer["result"]["structuredContent"]["outcome"] == "unknown"
    ended = await asked(house)
    counted = {end: ended["all_time"]["total"][end] for end in ("ok", "failed", "refused", "cancelled")}
    assert counted == {"ok": 0, "failed": 1, "refused": 0, "cancelled": 0}
    (line,) = (json.loads(each) for each in house.run("audit", "--json").stdout.splitlines())
    assert (line["outcome"], line["code"]) == ("unknown", "daemon_died")


async def opened(client, name):
    """A client of that name that has shaken hands."""
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": name, "version": "1"}}
    await client.request("initialize", hello)
    await client.send("notifications/initialized")


async def told_of_tools(client, times=1):
    """The client has heard so often that the tools have changed."""
    while [each["method"] for each in client.notifications].count(CHANGED) < times:
        client._take(await client._line())


async def menus(house):
    """The direct and the spent tokens of each client, of all time; none has called anything."""
    report = (await asked(house))["all_time"]
    assert {row["tool"] for row in report["tools"]} <= {"(menu)"}
    assert sum(row["direct"] for row in report["servers"]) == report["total"]["direct"]
    assert sum(row["spent"] for row in report["servers"]) == report["total"]["spent"]
    return {row["client"]: (row["direct"], row["spent"]) for row in report["clients"]}


async def test_a_menu_that_grows_while_servers_come_up_counts_once(house):
    with Gate(house.folder / "gate") as gate:
        late = {name: entry(gate=str(gate.path)) for name in ("b", "c")}
        house.write({"a": entry(), **late}, startup_wait=0.001, start="eager")
        async with house.attached() as one, house.attached() as other:
            for client, name in ((one, "once"), (other, "always")):
                await opened(client, name)
                await client.request("tools/list")
            for times in (1, 2):
                gate.let_one_through()
                for client in (one, other):
                    await told_of_tools(client, times)
                await other.request("tools/list")
            async with house.attached() as third:
                await opened(third, "settled")
                await third.request("tools/list")
                counted = await menus(house)
        assert counted["once"] == counted["always"] == counted["settled"]


async def test_a_session_that_goes_on_at_the_next_daemon_is_not_counted_again(house):
    async def becomes(counted):
        with anyio.fail_after(50):
            while await menus(house) != counted:  # noqa: ASYNC110 - the daemon tells nobody
                await anyio.sleep(0.02)

    house.write({"a": entry()}, startup_wait=20, start="eager")
    async with house.attached() as client:
        await opened(client, "t")
        await client.request("tools/list")
        before = await menus(house)
        await anyio.to_thread.run_sync(house.run, "daemon", "restart")
        await client.request("tools/list")  # which the daemon may have before the shim's comparison
        await becomes(before)
        assert (await asked(house))["since_start"]["total"]["direct"] == 0
        await anyio.to_thread.run_sync(house.run, "daemon", "stop")
    async with house.attached() as again:  # answered at first from what is remembered
        await opened(again, "t")
        await again.request("tools/list")
        twice = {"t": tuple(2 * each for each in before["t"])}
        await becomes(twice)
        await again.request("tools/list")
        assert await menus(house) == twice


async def test_what_doctor_asks_in_the_name_of_clients_counts_for_nobody(house):
    house.write({"a": entry()}, startup_wait=20, start="eager")
    home = house.folder / "home"
    (home / ".claude").mkdir(parents=True)
    environ = {"HOME": str(home), "SHELL": "/bin/false"}
    options = ("--config", house.config)

    def run(*command):
        return run_cli(house.folder, *command, *options, **environ)

    done = await anyio.to_thread.run_sync(run, "install", "cursor", "claude-code", "codex", "--yes")
    assert done.returncode == 0, done.stderr
    async with house.attached() as client:
        await opened(client, "claude-code")
        await client.request("tools/list")
        files = house.place.folder / "attach"
        await until(lambda: len(list(files.glob("*.json"))) == 1)
        before, remembered = await asked(house), {each.name for each in files.iterdir()}
        for more in ((), ("--no-start",)):
            done = await anyio.to_thread.run_sync(run, "doctor", "--json", *more)
            found = {each["subject"]: each for each in json.loads(done.stdout)["findings"]}
            for name in ("claude-code", "cursor", "codex"):
                assert found[name]["details"]["tools"] == 4, found[name]
        assert await asked(house) == before
        assert [row["client"] for row in before["all_time"]["clients"]] == ["claude-code"]
        assert {each.name for each in files.iterdir()} == remembered
        assert house.status()["daemon"]["clients"] == 1
