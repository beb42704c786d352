"""Calls that are watched while they run: answered, refused, asked about, and in a flood."""

from __future__ import annotations

import weakref
from contextlib import asynccontextmanager

import anyio
import msgspec
import pytest

from mcpx.core.events.audit.audit import Audit
from mcpx.core.events.call_watch import MAX_CALLS, MAX_FAILED, MAX_NEW, CallWatch, last_of
from mcpx.core.events.meter import Meter
from mcpx.core.events.records import Records
from mcpx.core.events.watched_call import MAX_ARGUMENTS_BYTES, MAX_TARGET_CHARS
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.server import GatewayServer
from mcpx.core.protocol.context import Origin
from mcpx.core.telemetry.metrics import Activity
from mcpx.errors import CallError, Code
from supervisors import Reply
from tests.mcpx.core.policy.agreeing import Person, open_call_site
from tests.mcpx.line import Line
from tests.mcpx.scripted import config_of, entry, one_server, open_watched, soon

ORIGIN = Origin(transport="socket", client="test/1")
RESOURCE = {
    "uri": "memo://a",
    "name": "a",
    "mimeType": "text/plain",
    "description": "Known.",
    "text": "A" * 400,
}


@asynccontextmanager
async def client_of(watch):
    server = GatewayServer(watch.hub, ClientSessions(watch.hub))
    async with Line(watch.hub).connected(server) as line:
        await line.initialize()
        yield line


async def exec_by(line, tool, arguments=None, **more):
    given = {"server_name": "s", "tool_name": tool, "arguments": arguments or {}, **more}
    return await line.ask("tools/call", {"name": "exec", "arguments": given})


def shown(watch):
    return [call.shown for call in watch.hub.call_watch.calls()]


@pytest.mark.anyio
@pytest.mark.parametrize("slow", [False, True], ids=["fast", "sdk"])
async def test_a_call_is_seen_from_its_beginning_to_its_answer(slow):
    async with one_server() as watch, client_of(watch) as line:
        line.slow = slow
        with watch.hub.call_watch.following():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(exec_by, line, "hang")
                await soon(lambda: shown(watch))
                (running,) = shown(watch)
                assert (running["client"], running["server"], running["tool"]) == ("test/1", "s", "hang")
                assert (running["kind"], running["outcome"], running["ms"]) == ("tool", None, None)
                await watch.text("release")
            (ended,) = [call for call in shown(watch) if call["tool"] == "hang"]
            assert ended["id"] == running["id"]
            assert (ended["outcome"], ended["code"], ended["cut"]) == ("ok", None, False)
            assert ended["ms"] > 0
            assert 0 < ended["tokens_out"] <= ended["tokens_direct"] + 5
            assert ended["bytes_out"] > 0


@pytest.mark.anyio
@pytest.mark.parametrize("slow", [False, True], ids=["fast", "sdk"])
async def test_failures_have_their_code_and_cost_what_the_client_is_told(slow):
    async with one_server() as watch, client_of(watch) as line:
        line.slow = slow
        with watch.hub.call_watch.following():
            await exec_by(line, "fail", {"text": "no"})
            await exec_by(line, "echo", {"text": 3})
            await exec_by(line, "nothing")
            failed, invalid, unknown = shown(watch)
            assert (failed["outcome"], failed["code"]) == ("failed", "upstream_error")
            assert (invalid["outcome"], invalid["code"]) == ("not_sent", "invalid_arguments")
            assert (unknown["outcome"], unknown["code"]) == ("not_sent", "unknown_tool")
            assert failed["tokens_out"] > 0
            assert invalid["tokens_out"] > 0
            assert failed["tokens_direct"] == 0


@pytest.mark.anyio
async def test_a_result_that_is_cut_says_so():
    async with one_server() as watch, client_of(watch) as line:
        with watch.hub.call_watch.following():
            await exec_by(line, "echo", {"text": "many words " * 2000}, max_tokens=200)
            (call,) = shown(watch)
            assert call["cut"]
            assert call["tokens_out"] < 1000 < call["tokens_direct"]
            assert call["tokens_in"] > 1000


@pytest.mark.anyio
async def test_a_resource_is_a_call_too():
    async with one_server(resources=[RESOURCE]) as watch, client_of(watch) as line:
        with watch.hub.call_watch.following():
            given = {"server_name": "s", "uri": "memo://a"}
            await line.ask("tools/call", {"name": "resources", "arguments": given})
            (call,) = shown(watch)
            assert (call["kind"], call["tool"], call["outcome"]) == ("resource", "memo://a", "ok")
            assert call["read_only"]
            assert call["tokens_out"] > 50


@pytest.mark.anyio
async def test_nothing_is_known_of_calls_that_nobody_watches():
    async with one_server() as watch, client_of(watch) as line:
        await exec_by(line, "echo", {"text": "before"})
        assert (watch.hub.records.watch, watch.hub.meter.watch) == (None, None)
        with watch.hub.call_watch.following():
            with watch.hub.call_watch.following():
                pass
            await exec_by(line, "echo", {"text": "seen"})
            (call,) = watch.hub.call_watch.calls()
            assert call.arguments is not None
        await exec_by(line, "echo", {"text": "after"})
        (call,) = watch.hub.call_watch.calls()
        assert (call.arguments, call.shown["repeatable"]) == (None, False)
        assert (watch.hub.records.watch, watch.hub.meter.watch) == (None, None)


@pytest.mark.anyio
async def test_a_call_that_nobody_watches_any_more_is_not_shown_as_running_for_ever():
    async with one_server() as watch, client_of(watch) as line, anyio.create_task_group() as tasks:
        with watch.hub.call_watch.following():
            tasks.start_soon(exec_by, line, "hang")
            await soon(lambda: shown(watch))
        (call,) = watch.hub.call_watch.calls()
        assert (call.arguments, call.shown["end"]) == (None, None)
        await watch.text("release")
        await soon(lambda: watch.hub.records.watch is None)
        assert [(each["tool"], each["end"]) for each in shown(watch)] == [("hang", "ok")]


@pytest.mark.anyio
async def test_a_person_who_is_asked_and_agrees_is_told_of_in_the_same_row(tmp_path):
    async with open_call_site(tmp_path) as site:
        with site.hub.call_watch.following():
            await site.call(Person("once"))
            (call,) = [each.shown for each in site.hub.call_watch.calls()]
            assert (call["outcome"], call["approval"]) == ("ok", "once")
            assert call["rule"]


@pytest.mark.anyio
async def test_a_transparent_endpoint_is_watched_with_no_audit_log():
    config = config_of({"s": entry()}, audit="off")
    async with open_watched(config) as watch:
        with watch.hub.call_watch.following():
            await watch.text("echo", {"text": "x"})
            (call,) = shown(watch)
            assert (call["outcome"], call["transport"]) == ("ok", "library")
        assert watch.hub.audit.folder is None


# --- in a flood, with no server


class Large:
    """A request with large arguments."""


class Flood:
    """Calls that an audit log hears of, and nobody sends."""

    def __init__(self, folder):
        self.records = Records(Audit(lambda: folder))
        self.watch = CallWatch(self.records, Meter({}, Activity()), {})

    def begin(self, name="t", arguments=b"{}", request=None):
        entry = self.records.begin("tool", "s", name, arguments, ORIGIN, request=request)
        reply = Reply()
        reply.observer = entry
        return reply


@pytest.fixture
def flood(tmp_path):
    flood = Flood(tmp_path)
    with flood.watch.following():
        yield flood


def in_one_window(monkeypatch):
    monkeypatch.setattr("mcpx.core.events.call_watch.WINDOW_US", 1 << 60)


def test_a_flood_is_counted_and_its_failures_are_kept(flood, monkeypatch):
    in_one_window(monkeypatch)
    replies = [flood.begin() for _ in range(500)]
    for reply in replies[100:]:
        reply.reject(CallError(Code.TIMEOUT, "slow", server="s"))
    assert len(flood.watch.calls()) == MAX_NEW + MAX_FAILED
    assert flood.watch.skipped == 500 - MAX_NEW - MAX_FAILED
    codes = [call.shown["code"] for call in flood.watch.calls()]
    assert codes.count("timeout") == MAX_FAILED


def test_what_runs_stays_and_what_has_ended_makes_room(flood, monkeypatch):
    monkeypatch.setattr("mcpx.core.events.call_watch.MAX_NEW", 1 << 30)
    running = flood.begin("runs")
    for _ in range(3 * MAX_CALLS):
        flood.begin().resolve(msgspec.Raw(b'{"content":[]}'))
    kept = flood.watch.calls()
    assert len(kept) == MAX_CALLS + 1
    assert kept[-1].shown["tool"] == "runs"
    running.resolve(msgspec.Raw(b'{"content":[],"isError":true}'))
    assert kept[-1].shown["outcome"] == "tool_error"
    assert kept[-1] in flood.watch.calls()


def test_more_that_run_than_are_kept_do_not_grow_without_bound(flood, monkeypatch):
    monkeypatch.setattr("mcpx.core.events.call_watch.MAX_NEW", 1 << 30)
    monkeypatch.setattr("mcpx.core.events.call_watch.MAX_RUNNING", 300)
    replies = [flood.begin(f"t{number}") for number in range(500)]
    assert [call.shown["tool"] for call in flood.watch.calls()] == [f"t{number}" for number in range(300)]
    for reply in replies[:100]:
        reply.resolve(msgspec.Raw(b'{"content":[]}'))
    flood.watch.find_running(for_us=0)  # there is room for more of those that run
    running = [call.shown["tool"] for call in flood.watch.calls() if call.shown["end"] is None]
    assert running == [f"t{number}" for number in range(100, 400)]
    for reply in replies[100:]:
        reply.resolve(msgspec.Raw(b'{"content":[]}'))
    assert len(flood.watch.calls()) == MAX_CALLS
    assert all(call.shown["outcome"] == "ok" for call in flood.watch.calls())
    assert flood.records.running == {}


def test_a_call_that_was_skipped_at_its_beginning_is_found_when_it_takes_long(flood, monkeypatch):
    in_one_window(monkeypatch)
    for _ in range(MAX_NEW):
        flood.begin().resolve(msgspec.Raw(b'{"content":[]}'))
    long = flood.begin("long")
    assert flood.watch.skipped == 1
    flood.watch.find_running(for_us=0)
    assert [call.shown["tool"] for call in flood.watch.calls() if call.shown["end"] is None] == ["long"]
    assert flood.watch.skipped == 0
    long.resolve(msgspec.Raw(b'{"content":[]}'))
    assert [call.shown["tool"] for call in flood.watch.calls()][-1] == "long"


def test_what_runs_is_found_again_by_who_looks_later(flood):
    with flood.watch.following():
        early = flood.begin("early")
    flood.watch._stop()  # nobody looks
    assert [call.shown["tool"] for call in flood.watch.calls()] == ["early"]  # whose end is still noted
    middle = flood.begin("middle")
    with flood.watch.following():
        assert {call.shown["tool"] for call in flood.watch.calls()} == {"early", "middle"}
        for reply in (early, middle):
            reply.reject(CallError(Code.TIMEOUT, "slow", server="s"))
        assert [call.shown["end"] for call in flood.watch.calls()] == ["failed", "failed"]


def test_quick_calls_leave_half_of_the_places_to_slow_ones():
    def call(number, ms):
        return {"id": number, "ms": ms}

    slow = [call(number, 1000.0) for number in range(MAX_CALLS)]
    quick = [call(MAX_CALLS + number, 3.0) for number in range(MAX_CALLS)]
    kept = last_of([*slow, *quick])
    assert kept == [*slow[MAX_CALLS // 2 :], *quick[MAX_CALLS // 2 :]]
    assert last_of([*quick, *slow]) == slow
    assert last_of(quick[:3]) == quick[:3]


def test_news_come_in_the_order_of_their_changes_and_a_part_at_a_time(flood):
    replies = [flood.begin(f"t{number}") for number in range(5)]
    replies[0].resolve(msgspec.Raw(b'{"content":[]}'))
    first = flood.watch.changed(0, 3)
    assert [call.shown["tool"] for call in first] == ["t1", "t2", "t3"]
    rest = flood.watch.changed(first[-1].version, 3)
    assert [(call.shown["tool"], call.shown["outcome"]) for call in rest] == [("t4", None), ("t0", "ok")]
    assert flood.watch.changed(flood.watch.version, 3) == []


def test_long_arguments_and_names_are_not_kept(flood):
    flood.begin("x" * 100_000, b'{"text":"%b"}' % (b"y" * MAX_ARGUMENTS_BYTES))
    (call,) = flood.watch.calls()
    assert (call.arguments, call.shown["repeatable"], call.argument_names()) == (None, False, None)
    assert len(call.shown["tool"]) < 300
    assert call.shown["tokens_in"] > 1000
    assert len(call.name) == MAX_TARGET_CHARS


def test_a_name_that_is_too_long_to_be_kept_is_not_called_again(flood):
    flood.watch._is_read_only = lambda _entry: True
    for length in (MAX_TARGET_CHARS, MAX_TARGET_CHARS + 1):
        flood.begin("x" * length)
    assert [call.shown["repeatable"] for call in flood.watch.calls()] == [True, False]


def test_of_large_calls_that_never_tell_their_cost_no_request_is_kept(flood, monkeypatch):
    """As of clients that leave before they are answered: each request holds what it was called with."""
    monkeypatch.setattr("mcpx.core.events.call_watch.MAX_NEW", 1 << 30)
    alive = []
    for number in range(20):
        request = Large()
        alive.append(weakref.ref(request))
        reply = flood.begin(f"t{number}", b'"%b"' % (b"y" * MAX_ARGUMENTS_BYTES), request)
        del request
        reply.resolve(msgspec.Raw(b'{"content":[]}'))
    assert [ref() is not None for ref in alive] == [False] * 20


def test_arguments_that_cannot_be_read_have_no_names(flood):
    flood.begin("t", b"\xff\xfe")
    (call,) = flood.watch.calls()
    assert call.argument_names() is None
    flood.begin("t", b'{"a":1,"b":{}}')
    assert flood.watch.calls()[-1].argument_names() == ["a", "b"]


def test_a_fault_of_the_watch_costs_no_call(flood, monkeypatch):
    monkeypatch.setattr(flood.watch, "_keep", lambda *_: 1 / 0)
    reply = flood.begin()
    reply.resolve(msgspec.Raw(b'{"content":[]}'))
    assert reply.settled
