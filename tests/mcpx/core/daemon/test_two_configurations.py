"""Two configurations on one machine: what one daemon logs and counts is not the other's."""

from __future__ import annotations

import json
import os
import signal
import time
from datetime import datetime

import pytest

from mcpx.core.daemon.lifecycle import report
from mcpx.core.events.stats import Count, Totals
from mcpx.core.events.stats_file import StatsFile, stats_file
from mcpx.core.store.paths import acquire_lock
from mcpx.version import __version__
from tests.mcpx.core.daemon.daemons import House, until
from tests.mcpx.scripted import entry
from tests.mcpx.serving import run_cli

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


@pytest.fixture
def second(house):
    """Another configuration, with the same state folder."""
    folder = house.folder / "second"
    folder.mkdir()
    (folder / "state").symlink_to(house.folder / "state")
    made = House(folder)
    yield made
    made.close()


def ok(done):
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_logs_and_sums_of_servers_of_one_name_are_kept_apart(house, second):
    for calls, each, words in ((1, house, "one\n"), (2, second, "other\n")):
        each.write({"s": entry(stderr=words)}, startup_wait=20)
        async with each.attached() as client:
            await client.initialize()
            for _ in range(calls):
                await client.call("exec", server_name="s", tool_name="echo", arguments={"text": "hi"})
    assert house.pid != second.pid
    for _ in range(2):  # with daemons and without
        assert [ok(each.run("logs", "s")).split()[-1] for each in (house, second)] == ["one", "other"]
        sums = [
            json.loads(ok(each.run("stats", "--json")))["all_time"]["servers"] for each in (house, second)
        ]
        assert [rows[0]["calls"] for rows in sums] == [1, 2]
        ok(house.run("daemon", "stop"))
        ok(second.run("daemon", "stop"))
    assert json.loads(ok(house.run("stats", "--all", "--json")))["all_time"]["total"]["calls"] == 3


def test_a_link_to_a_configuration_joins_its_daemon(house):
    house.write({"s": entry()})
    link = house.folder / "link.json"
    link.symlink_to(house.config)
    ok(house.run("daemon", "start"))
    told = ok(run_cli(house.folder, "daemon", "start", "--config", str(link)))
    assert told.startswith(f"a daemon runs already: pid {house.pid}")


def test_the_sums_that_all_configurations_once_shared_are_taken_over_by_the_first(tmp_path, monkeypatch):
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path))
    summed = Totals(since="2026-11-02")
    summed.add("client", "s", "tool", Count(1, 10, 5))
    StatsFile(tmp_path).add(summed)
    assert stats_file(tmp_path / "configs" / "a").read().total.calls == 1
    assert stats_file(tmp_path / "configs" / "b").read().total.calls == 0
    assert stats_file(tmp_path / "configs" / "a").add(summed).total.calls == 2


def test_the_daemons_of_all_configurations_are_listed_and_ended(house, second):
    for each in (house, second):
        each.write({"s": {"command": "true", "disabled": True}})
        ok(each.run("daemon", "start"))
    first, other = json.loads(ok(run_cli(house.folder, "daemon", "list", "--json")))
    assert (first["config"], first["pid"]) == (house.config, house.pid)
    assert (other["config"], other["pid"]) == (second.config, second.pid)
    assert [each["pid"] for each in json.loads(ok(second.run("daemon", "list", "--json")))] == [second.pid]
    assert {key: first[key] for key in ("version", "clients", "servers", "ready", "asleep")} == {
        "version": __version__,
        "clients": 0,
        "servers": 1,
        "ready": 0,
        "asleep": 0,
    }
    assert 0 <= time.time() - datetime.fromisoformat(first["since"]).timestamp() < 100
    os.kill(house.pid, signal.SIGKILL)
    gone_by = time.monotonic() + 10
    while house.pid is not None:
        assert time.monotonic() < gone_by
        time.sleep(0.01)
    shown = ok(run_cli(house.folder, "daemon", "list"))
    assert second.config in shown
    assert house.config not in shown
    assert not house.place.socket.exists()
    assert run_cli(house.folder, "daemon", "stop", "--all", "--config", "x").returncode == 2
    pid = second.pid
    assert (
        ok(run_cli(house.folder, "daemon", "stop", "--all"))
        == f"stopped pid {pid}, serving {second.config}\n"
    )
    assert second.pid is None
    assert json.loads(ok(run_cli(house.folder, "daemon", "list", "--json"))) == []
    assert ok(run_cli(house.folder, "daemon", "stop", "--all")) == "no daemon runs\n"


def test_a_daemon_that_does_not_answer_is_listed_with_the_reason(house):
    lock = acquire_lock(house.place)
    (row,) = report()
    assert (row["config"], row["pid"]) == (house.config, os.getpid())
    assert row["error"] == "it does not listen: it is starting or ending"
    os.close(lock)
    assert report() == []


async def test_a_daemon_that_nobody_uses_ends_and_the_next_client_starts_another(house):
    house.write({"s": entry()}, idle_exit=0.3)
    async with house.attached() as client:
        await client.initialize()
        first = house.pid
        await client.call("exec", server_name="s", tool_name="echo", arguments={"text": "hi"})
        assert house.pid == first
    await until(lambda: house.pid is None)
    assert not house.place.stopped.exists()
    assert [line["signal"] for line in house.log() if line["event"] == "mcpx.stopping"] == ["idle"]
    async with house.attached() as client:
        await client.initialize()  # answered before there is a daemon
        await client.call("exec", server_name="s", tool_name="echo", arguments={"text": "hi"})
        assert house.pid not in {first, None}
