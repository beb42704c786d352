"""`mcpx daemon ...`, `status`, `reload`, `restart`, `logs`, and the three tools through the daemon."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import anyio
import httpx2 as httpx
import pytest

from mcpx import __version__
from mcpx.core.store.folders import ensure_folder
from tests.mcpx.core.daemon.daemons import until
from tests.mcpx.scripted import entry
from tests.mcpx.serving import alive_in_group, end_group, environment, run_cli, serving

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
HANG = {"server_name": "s", "tool_name": "hang"}
ECHO = {"server_name": "s", "tool_name": "echo", "arguments": {"text": "hi"}}


def ok(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_start_says_what_it_did_and_status_and_stop_do_too(house):
    house.write({"s": entry()})
    done = house.run("daemon", "status")
    assert (done.returncode, done.stdout.splitlines()[0]) == (1, f"no daemon serves {house.config}")
    done = house.run("daemon", "status", "--json")
    files = {"config": house.config, "socket": str(house.place.socket)}
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (1, {"running": False, **files}, "")
    started = ok(house.run("daemon", "start"))
    assert started == f"started pid {house.pid}, serving {house.config}\n"
    assert (
        ok(house.run("daemon", "start"))
        == f"a daemon runs already: pid {house.pid}, serving {house.config}\n"
    )
    told = ok(house.run("daemon", "status"))
    assert told.startswith(f"pid {house.pid}, MCPX ")
    assert str(house.place.log) in told
    found = json.loads(ok(house.run("daemon", "status", "--json")))
    assert found.items() >= {"running": True, "pid": house.pid, "version": __version__, **files}.items()
    assert told.endswith(f"\nPATH {os.environ['PATH']}\n")  # where its servers' commands are found
    pid = house.pid
    assert os.getsid(pid) == pid  # a session of its own: it outlives the terminal
    assert ok(house.run("daemon", "stop")) == f"stopped pid {pid}\n"
    assert house.pid is None
    assert not house.place.socket.exists()
    assert ok(house.run("daemon", "stop")) == f"no daemon serves {house.config}\n"


def test_restart_changes_the_process(house):
    house.write({"s": entry()})
    first = ok(house.run("daemon", "restart"))
    assert "none ran" in first
    pid = house.pid
    assert f"(was {pid})" in ok(house.run("daemon", "restart"))
    assert house.pid not in {pid, None}


def test_a_broken_configuration_is_told_at_once_and_stops_nothing(house):
    house.write({"s": entry()})
    ok(house.run("daemon", "start"))
    pid = house.pid
    house.write({"s": entry()}, queue_size="many")
    for command in (("daemon", "start"), ("daemon", "restart"), ("reload",)):
        done = house.run(*command)
        assert done.returncode == 2
        assert "$.queue_size" in done.stderr
    assert house.pid == pid


def test_a_bad_entry_costs_that_server_alone_and_is_named_everywhere(house):
    house.write({"s": entry()})
    ok(house.run("daemon", "start"))
    house.write({"s": entry(), "typo": {"comand": "npx"}})
    reloaded = ok(house.run("reload")).splitlines()
    assert reloaded[0] == "added: typo"
    assert "untouched: s" in reloaded
    servers = json.loads(ok(house.run("status", "--json")))["servers"]
    assert [(each["name"], each["state"]) for each in servers][1] == ("typo", "invalid")
    told = 'neither "command" nor "url"; did you mean "command" where it says "comand"?'
    assert told in servers[1]["last_error"]
    assert "mcpx check" in servers[1]["remedy"]
    assert told in json.loads(ok(house.run("inspect", "--json")))[1]["cause"]
    assert told in ok(house.run("daemon", "logs")).replace("\\", "")
    assert "hi" in ok(house.run("exec", "s", "echo", "text=hi"))


async def test_run_stays_in_the_foreground_until_a_signal(house):
    house.write({"s": entry()})
    async with serving(house.folder, "daemon", "run", "--config", house.config) as daemon:
        await daemon.logged("socket.listening")
        assert house.pid == daemon.process.pid
        second = house.run("daemon", "run")
        assert second.returncode == 1
        assert f"a daemon serves {house.config} already (pid {house.pid})" in second.stderr
        daemon.process.send_signal(signal.SIGTERM)
        assert await daemon.exit_code() == 0


async def test_a_daemon_that_hangs_is_said_to(house):
    house.write({"s": entry()})
    ok(house.run("daemon", "start"))
    os.kill(house.pid, signal.SIGSTOP)
    done = await anyio.to_thread.run_sync(house.run, "status")
    assert done.returncode == 1
    assert "does not answer within" in done.stderr
    os.kill(house.pid, signal.SIGCONT)
    ok(house.run("daemon", "stop"))


async def test_reload_touches_only_what_changed(house, ears):
    other = house.folder / "other"
    os.mkfifo(other)
    kept, gone, changed = entry(ears), entry(), entry()
    house.write({"s": kept, "gone": gone, "changed": changed}, startup_wait=20)
    async with house.attached() as client:
        await client.initialize()
        call = await client.ask("tools/call", {"name": "exec", "arguments": HANG})
        await ears.hear("call", tool="hang")
        before = {server["name"]: server["pid"] for server in house.status()["servers"]}
        house.write({"s": kept, "changed": {**changed, "call_timeout": 7}, "new": entry()}, startup_wait=20)
        told = ok(house.run("reload"))
        assert told.splitlines()[:4] == ["added: new", "removed: gone", "changed: changed", "untouched: s"]
        await until(lambda: all(server["state"] == "ready" for server in house.status()["servers"]))
        after = {server["name"]: server["pid"] for server in house.status()["servers"]}
        assert list(after) == ["s", "changed", "new"]
        assert after["s"] == before["s"]
        assert after["changed"] != before["changed"]
        await client.call("exec", server_name="s", tool_name="release")
        assert (await client.answer(call))["result"]["content"][0]["text"] == "released"
        await client.call("exec", server_name="new", tool_name="echo", arguments={"text": "x"})


def test_restart_of_one_server(house):
    house.write({"s": entry(), "t": entry(), "broken": entry(exit=1)}, startup_wait=20)
    ok(house.run("daemon", "start"))
    ok(house.run("exec", "s", "echo", "text=warm"))
    before = {server["name"]: server["pid"] for server in house.status()["servers"]}
    assert ok(house.run("restart", "s")).startswith("restarted s: ")
    ok(house.run("exec", "s", "echo", "text=back"))
    after = {server["name"]: server["pid"] for server in house.status()["servers"]}
    assert after["s"] != before["s"]
    assert after["t"] == before["t"]
    done = house.run("restart", "tt")
    assert done.returncode == 1
    assert "did you mean" in done.stderr.lower()
    done = house.run("restart", "broken")
    assert done.returncode == 1
    assert "broken was started again, and is " in done.stdout
    assert "exited with code 1" in done.stdout


def test_the_tools_go_through_the_daemon_and_answer_as_without_one(house, ears):
    uri = "memo:///one"
    house.write(
        {"s": entry(ears, resources=[{"uri": uri, "name": "one", "text": "hello", "description": "d"}])}
    )
    asked = [
        ("inspect", "--json"),
        ("inspect", "s", "echo"),
        ("inspect", "s", "echo", "--json"),
        ("exec", "s", "echo", "text=hi"),
        ("exec", "s", "echo", "text=hi", "--json"),
        ("exec", "s", "echo", "wrong=1"),
        ("exec", "s", "ecco"),
        ("resources", "--json"),
        ("resources", "s"),
        ("resources", "s", uri),
        ("resources", "nobody"),
    ]
    alone = [house.run(*words) for words in asked]
    ok(house.run("daemon", "start"))
    started = len(ears.of("started"))
    together = [house.run(*words) for words in asked]
    for one, other in zip(alone, together, strict=True):
        assert (one.returncode, one.stdout, one.stderr) == (other.returncode, other.stdout, other.stderr)
    assert len(ears.of("started")) <= started + 1  # the daemon's own, if it came late


def test_a_call_from_the_terminal_that_is_interrupted_is_cancelled(house, ears):
    house.write({"s": entry(ears)})
    ok(house.run("daemon", "start"))
    process = subprocess.Popen(
        [sys.executable, "-m", "mcpx", "exec", "s", "hang", "--config", house.config],
        env=environment(house.folder),
        stderr=subprocess.DEVNULL,
    )
    try:
        anyio.run(ears.hear, "call")
        process.kill()
        anyio.run(ears.hear, "cancelled")
    finally:
        process.kill()
        process.wait()


def test_status_is_a_table_for_people(house):
    house.write({"s": entry()})
    ok(house.run("daemon", "start"))
    ok(house.run("exec", "s", "echo", "text=hi"))
    shown = ok(house.run("status"))
    assert "ready" in shown
    assert str(house.pid) in shown
    alone = ok(run_cli(house.folder, "--all", MCPX_CONFIG=str(house.config), HOME=str(house.folder)))
    assert f"servers: 1 ready\ndaemon: pid {house.pid}, up " in alone
    told = ok(run_cli(house.folder, "version", "--json", MCPX_CONFIG=str(house.config)))
    assert json.loads(told)["daemon"] == {"version": __version__, "pid": house.pid}


def test_without_a_daemon_the_commands_that_need_one_say_how_to_start_it(house):
    house.write({"s": entry()})
    for command in (("reload",), ("restart", "s")):
        done = house.run(*command)
        assert done.returncode == 1
        hint = f"start one with: mcpx daemon start --config {house.config}"
        assert done.stderr == f"mcpx: no daemon serves {house.config}; {hint}\n"
    Path(house.config).unlink()
    assert (
        f"there is no such file; to begin: mcpx setup --config {house.config}" in house.run("reload").stderr
    )


def test_without_a_daemon_status_shows_the_servers_of_the_configuration(house):
    house.write({"s": entry(), "off": {**entry(), "disabled": True}})
    done = house.run("status")
    assert done.returncode == 0
    assert re.search(r"^s +not running .*\noff +disabled ", done.stdout, re.MULTILINE)
    assert f"mcpx daemon start --config {house.config}" in done.stderr
    (row,) = json.loads(ok(house.run("status", "s", "--json")))["servers"]
    assert (row["name"], row["state"]) == ("s", "not running")
    assert "did you mean" in house.run("status", "of").stderr


def test_logs_of_a_server_and_of_the_daemon(house):
    house.write({"s": entry(stderr="first words\nlast words\n"), "quiet": entry()})
    ok(house.run("daemon", "start"))
    ok(house.run("exec", "s", "echo", "text=hi"))
    assert "last words" in ok(house.run("logs", "s", "-n", "1"))
    assert "said nothing" in house.run("logs", "quiet").stderr
    assert "did you mean quiet?" in house.run("logs", "quite").stderr
    assert "socket.listening" in ok(house.run("daemon", "logs"))


async def test_logs_can_be_followed(house):
    house.write({"s": entry()})
    ok(house.run("daemon", "start"))
    async with serving(house.folder, "daemon", "logs", "-f", "--config", house.config) as tail:
        async with house.attached() as client:
            await client.initialize()
        with anyio.fail_after(50):
            while b"client.left" not in await tail._line():
                pass


async def test_http_is_served_beside_the_socket_where_it_is_configured(house):
    house.write({"s": entry()}, http={"port": 0})
    ok(house.run("daemon", "start"))
    await until(lambda: any(line["event"] == "http.listening" for line in house.log()))
    url = next(line["url"] for line in house.log() if line["event"] == "http.listening")
    refused = httpx.post(url, json={})
    assert refused.status_code == 401
    token = (house.folder / "state" / "token").read_text().strip()
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    assert httpx.post(url, json=message, headers=headers).status_code == 200


# --- what is wrong with the disk


async def test_a_full_disk_for_the_log_costs_the_log_alone(house):
    house.write({"s": entry(stderr="words\n")})
    ensure_folder(house.place.folder)
    house.place.log.symlink_to("/dev/full")
    async with house.attached() as client:
        await client.initialize()
        for _ in range(300):  # more than any buffer holds
            assert (await client.call("exec", **ECHO))["isError"] is False
            await client.send("notifications/rubbish")
            await client.send_bytes(b"rubbish\n")
        assert (await client.call("exec", **ECHO))["isError"] is False
    ok(house.run("daemon", "stop"))


def test_a_log_that_cannot_be_opened_is_told_and_the_daemon_runs(house):
    house.write({"s": entry()})
    house.place.log.mkdir(parents=True)
    done = house.run("daemon", "start")
    assert "Is a directory; the daemon runs without a log" in done.stderr
    assert ok(done).startswith("started pid")


def test_a_state_folder_that_cannot_be_made_is_a_clear_error(house):
    house.write({"s": entry()})
    (house.folder / "state").write_text("in the way")
    done = house.run("daemon", "start")
    assert done.returncode == 1
    assert "name another folder with MCPX_STATE_DIR" in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_port_in_use_costs_http_alone_and_is_told_by_start_and_status(house):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        house.write({"s": entry()}, http={"port": taken.getsockname()[1]})
        done = house.run("daemon", "start")
        assert ok(done).startswith("started pid ")
        assert "HTTP is not served yet, and tried again: cannot listen on 127.0.0.1" in done.stderr
        assert "cannot listen on 127.0.0.1" in house.status()["daemon"]["http"]["error"]
        assert "http is not served (next attempt in " in ok(house.run("status"))
        assert "hi" in ok(house.run("exec", "s", "echo", "text=hi"))
    await until(lambda: house.status()["daemon"]["http"]["url"] is not None)


def test_attach_has_a_help_and_refuses_what_it_does_not_know(house):
    assert run_cli(house.folder, "attach", "--help").stdout.startswith("Usage: mcpx attach")
    done = run_cli(house.folder, "attach", "--confg", "x")
    assert done.returncode == 2
    assert "no such option: --confg" in done.stderr
    assert "attach" in run_cli(house.folder, "help", "--all").stdout
    assert json.loads(run_cli(house.folder, "config", "schema").stdout)


def test_what_a_daemon_keeps_is_for_its_owner_alone(house):
    house.write({"s": entry()})
    ok(house.run("daemon", "start"))
    note = house.place.folder / "config"
    assert note.read_text() == str(house.config)
    ok(house.run("exec", "s", "echo", '{"text": "hi"}'))
    ok(house.run("daemon", "stop"))
    note.chmod(0o644)
    ok(house.run("daemon", "start"))
    kept = [path for path in (house.folder / "state").rglob("*") if not path.is_symlink()]
    assert note in kept
    assert {str(path): oct(path.stat().st_mode) for path in kept if path.stat().st_mode & 0o077} == {}


async def test_a_restart_when_idle_waits_for_the_calls_that_run(house):
    house.write({"s": entry()})
    ok(house.run("daemon", "start"))
    before, done = house.pid, []

    async def restart():
        done.append(await anyio.to_thread.run_sync(house.run, "daemon", "restart", "--when-idle"))

    async with anyio.create_task_group() as tasks, house.attached() as client:
        await client.initialize()
        await client.ask("tools/call", {"name": "exec", "arguments": HANG})
        await until(lambda: house.status()["servers"][0]["in_flight"] == 1)
        tasks.start_soon(restart)
        for _ in range(3):  # each look takes longer than one of the command that waits
            assert house.status()["servers"][0]["in_flight"] == 1
            assert house.pid == before
        await client.close_input()  # it leaves, and its call with it
    assert f"(was {before})" in ok(done[0])
    assert json.loads(ok(house.run("daemon", "status", "--json")))["pid"] == house.pid != before


COUNT = {"tool_name": "count", "arguments": {}}


async def process(client, ears, server):
    """The process that serves this client's calls to that server."""
    result = await client.call("exec", server_name=server, **COUNT)
    assert result["isError"] is False, result
    return ears.of("call", tool="count")[-1]["pid"]


async def test_two_shims_share_one_server_and_have_one_each_of_another(house, ears):
    servers = {"shared": entry(ears), "own": entry(ears, settings={"sessions": "per_client"})}
    house.write(servers, startup_wait=20)
    async with house.attached() as one, house.attached() as two:
        for client in (one, two):
            await client.initialize()
            await client.request("tools/list")
        assert len(ears.of("started")) == 2  # nobody has called anything
        shared = {await process(client, ears, "shared") for client in (one, two, one)}
        own = [await process(client, ears, "own") for client in (one, two, one, two)]
        assert len(shared) == 1
        assert own[:2] == own[2:]
        assert own[0] != own[1]
        assert len(ears.of("started")) == 4
        row = next(row for row in house.status()["servers"] if row["name"] == "own")
        assert (row["sessions"], row["calls"]) == (2, 4)
        assert row["pid"] not in own  # it gives the catalogue, and belongs to nobody
        end_group(one.process.pid)  # a client that is killed
        await until(lambda: alive_in_group(own[0]) == [])
        assert await process(two, ears, "own") == own[1]
        row = next(row for row in house.status()["servers"] if row["name"] == "own")
        assert row["sessions"] == 1
