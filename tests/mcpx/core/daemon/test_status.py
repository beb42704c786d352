"""The snapshot of a running hub: exactly the documented JSON, with the numbers that are so."""

from __future__ import annotations

import os

import anyio
import msgspec
import pytest

from mcpx import __version__
from mcpx.core.catalog.snapshot import State
from mcpx.core.daemon.status import Status
from mcpx.core.daemon.status_snapshot import snapshot
from mcpx.core.events.stats import INSPECT, MENU
from mcpx.core.telemetry.contained import contain
from tests.mcpx.scripted import config_of, entry, one_server, open_watched

pytestmark = pytest.mark.anyio

SERVER_KEYS = [
    *("name", "state", "pid", "transport", "protocol_version", "uptime_s", "restarts", "failures"),
    *("next_attempt_in_s", "last_error", "tools", "resources", "templates", "prompts", "in_flight"),
    *("queued", "calls", "errors", "running", "ok", "failed", "refused", "cancelled", "cached"),
    *("latency_ms", "tokens"),
]


def row(watch, name="s"):
    status = snapshot(watch.hub, clients=0, started=anyio.current_time())
    return next(server for server in status.servers if server.name == name)


async def test_it_encodes_to_exactly_the_documented_json():
    async with one_server() as watch:
        await watch.text("echo", {"text": "x"})
        started = anyio.current_time() - 90
        plain = msgspec.json.decode(msgspec.json.encode(snapshot(watch.hub, clients=3, started=started)))
        assert list(plain) == ["daemon", "servers"]
        daemon = plain["daemon"]
        assert list(daemon) == ["pid", "version", "uptime_s", "clients", "tokens", "calls"]
        assert (daemon["pid"], daemon["version"], daemon["clients"]) == (os.getpid(), __version__, 3)
        assert 90 <= daemon["uptime_s"] < 100
        (server,) = plain["servers"]
        assert list(server) == SERVER_KEYS
        assert list(server["latency_ms"]) == ["p50", "p95", "p99"]
        nothing = {"direct": 0, "spent": 0, "tools": {}}
        assert server["tokens"] == {"since_start": nothing, "all_time": nothing}
        nothing = {"direct": 0, "spent": 0, "clients": {}}
        assert daemon["tokens"] == {"since_start": nothing, "all_time": nothing}
        assert msgspec.json.decode(msgspec.json.encode(plain), type=Status).servers[0].name == "s"


async def test_a_ready_server_shows_what_it_is_and_has_done():
    resources = [{"uri": "file:///a", "name": "a", "mimeType": "text/plain", "text": "x", "description": "d"}]
    async with one_server(resources=resources) as watch:
        before = row(watch)
        assert (before.calls, before.latency_ms.p50, before.latency_ms.p99) == (0, None, None)
        for _ in range(3):
            await watch.text("echo", {"text": "x"})
        await watch.failure("fail", {"text": "no"})
        server = row(watch)
        assert (server.state, server.transport, server.pid) == (
            "ready",
            "stdio",
            watch.hub.upstreams["s"].pid,
        )
        assert server.protocol_version
        assert (server.tools, server.resources, server.templates, server.prompts) == (
            len(watch.hub.registry.list_tools("s")),
            1,
            0,
            0,
        )
        assert (server.calls, server.errors, server.in_flight, server.queued) == (4, 1, 0, 0)
        assert 0 < server.latency_ms.p50 <= server.latency_ms.p95 <= server.latency_ms.p99 < 10_000
        assert (server.restarts, server.failures, server.last_error, server.next_attempt_in_s) == (
            0,
            0,
            None,
            None,
        )
        assert server.uptime_s is not None


async def test_the_tokens_of_a_server_are_those_of_its_tools_and_its_menu():
    async with one_server() as watch:
        watch.hub.meter.note_listing(object(), "c", 10)
        menu = row(watch).tokens.since_start
        assert menu.direct > menu.spent == 10
        answer = b'{"content":[{"type":"text","text":"%b"}]}' % (b"long " * 800)
        watch.hub.meter.of_client("c").note("s", "echo", answer, [answer.replace(b"long ", b"")])
        watch.hub.meter.of_client("c").note("", INSPECT, b"", [answer])
        server, whole = row(watch).tokens, snapshot(watch.hub, clients=0).daemon.tokens
        assert server.since_start == server.all_time
        assert set(server.since_start.tools) == {MENU, "echo"}
        assert set(whole.all_time.clients) == {"c"}
        assert server.since_start.direct - menu.direct > 500
        assert server.since_start.spent == menu.spent
        assert whole.since_start.direct == server.since_start.direct
        assert whole.since_start.spent > server.since_start.spent


async def test_a_server_that_died_and_is_back_shows_its_restart_and_why():
    settings = {"restart": {"initial": 0.01, "cap": 0.01, "healthy_after": 300}}
    async with one_server(settings=settings) as watch:
        await watch.failure("die", {"code": 7})
        await watch.until(lambda: row(watch).restarts == 1 and watch.state() is State.READY)
        server = row(watch)
        assert (server.state, server.failures, server.errors) == ("ready", 1, 1)
        assert "exited with code 7" in server.last_error
        assert "last words" in server.last_error


async def test_servers_that_do_not_run_say_why_and_when_it_is_tried_again():
    slow = {"restart": {"initial": 100, "cap": 100}}
    servers = {
        "waits": entry(settings=slow, exit=3),
        "none": {"command": "there-is-no-such-command"},
        "off": {**entry(), "disabled": True},
        "unset": {**entry(), "env": {"KEY": "${THIS_IS_NOT_SET_ANYWHERE}"}},
    }
    async with open_watched(config_of(servers)) as watch:
        await watch.becomes(State.WAITING, "waits")
        waits, none, off, unset = (row(watch, name) for name in servers)
        assert (waits.state, waits.pid, waits.uptime_s, waits.failures) == ("waiting", None, None, 2)
        assert 0 < waits.next_attempt_in_s <= 100
        assert "exited with code 3" in waits.last_error
        assert (none.state, none.failures) == ("parked", 1)
        assert "there-is-no-such-command" in none.last_error
        assert (off.state, off.last_error, off.restarts) == ("disabled", None, 0)
        assert (unset.state, unset.missing) == ("needs setup", ["THIS_IS_NOT_SET_ANYWHERE"])
        assert "mcpx restart unset" in unset.remedy
        assert "THIS_IS_NOT_SET_ANYWHERE" in unset.last_error


async def test_calls_in_flight_and_in_the_queue_are_counted(ears):
    async with one_server(ears, settings={"max_concurrency": 2}) as watch:
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(watch.outcome, "hang")
            await ears.hear("call", tool="hang", count=2)
            server = row(watch)
            assert (server.in_flight, server.queued, server.calls, server.running) == (2, 3, 5, 5)
            assert isinstance(server.silent_s, float)
            tasks.cancel_scope.cancel()
        assert (row(watch).in_flight, row(watch).queued) == (0, 0)
        assert (row(watch).calls, row(watch).running, row(watch).cancelled, row(watch).errors) == (5, 0, 5, 0)
        assert row(watch).silent_s is msgspec.UNSET


async def test_a_restart_on_request_is_no_failure():
    async with one_server() as watch:
        await watch.hub.restart("s")
        server = row(watch)
        assert (server.state, server.restarts, server.failures, server.last_error) == ("ready", 1, 0, None)


async def test_a_server_in_every_stage_of_its_leaving_has_a_row(ears):
    base = entry(ears)
    async with open_watched(config_of({"s": base, "t": base, "u": base}, shutdown_grace=0.5)) as watch:
        seen = set()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch.outcome, "hang")
            await ears.hear("call", tool="hang")
            tasks.start_soon(watch.hub.restart, "t")

            async def reload():
                await watch.hub.reload(config_of({"t": base, "u": {**base, "env": {"A": "b"}}}))
                tasks.cancel_scope.cancel()

            tasks.start_soon(reload)
            while True:
                status = snapshot(watch.hub, clients=0, started=0)
                seen |= {(server.name, server.state) for server in status.servers}
                await anyio.lowlevel.checkpoint()
        assert ("s", "stopped") in seen
        assert ("u", "starting") in seen
        assert ("t", "starting") in seen


async def test_faults_that_were_contained_are_counted_by_the_place_where_they_ended():
    async with one_server() as watch:
        assert snapshot(watch.hub, clients=0).daemon.faults is msgspec.UNSET
        for _ in range(3):
            contain(ValueError("odd"), "router")
        contain(ValueError("odd"), "answer")
        assert snapshot(watch.hub, clients=0).daemon.faults == {"router": 3, "answer": 1}
