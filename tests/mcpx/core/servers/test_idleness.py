"""`idle_stop`: a server that nobody uses is stopped until it is needed again."""

from __future__ import annotations

import json
import time
from functools import partial
from types import SimpleNamespace

import anyio
import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.core.daemon.status_snapshot import snapshot
from mcpx.core.protocol.context import ClientId
from mcpx.core.servers import health
from mcpx.core.servers.actor import Session
from mcpx.core.servers.health import Idleness
from mcpx.core.servers.server import Server
from supervisors import Phase, Signal
from tests.mcpx.scripted import PATIENCE_S, config_of, entry, one_server, open_watched, soon
from tests.mcpx.scripted_server import TOOLS
from tests.mcpx.serving import alive_in_group

pytestmark = pytest.mark.anyio
IDLE_S = 0.15
SHORT = {"idle_stop": IDLE_S}
LONG = {"idle_stop": 3600.0}


async def call(watch, client, tool="count", **arguments):
    with anyio.fail_after(PATIENCE_S):
        return await watch.hub.calls.exec("s", tool, arguments, client=client)


async def test_an_idle_server_is_stopped_and_the_next_call_starts_it(ears):
    announced = []
    async with one_server(ears, settings=SHORT) as watch:
        watch.hub.observe(lambda name, diff: announced.append(name))
        for starts in (1, 2):
            await watch.becomes(State.ASLEEP)
            pid = ears.of("started")[-1]["pid"]
            await soon(lambda pid=pid: not alive_in_group(pid))
            assert len(ears.of("started")) == starts
            assert await watch.text("echo", {"text": "awake"}) == "awake"
        status = snapshot(watch.hub, clients=0).servers[0]
        assert (status.restarts, status.failures, status.errors) == (0, 0, 0)
    assert announced == []


async def test_a_server_is_not_stopped_unless_its_entry_says_so(ears):
    servers = {"s": entry(ears), "clock": entry(settings=SHORT)}
    async with open_watched(config_of(servers)) as watch:
        await watch.becomes(State.ASLEEP, "clock")
        assert watch.state() is State.READY


async def test_time_in_which_mcpx_could_not_run_is_not_idle(ears, monkeypatch):
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + clock.away_s, away_s=0.0)
    monkeypatch.setattr(health, "time", clock)
    monkeypatch.setattr(health, "MAX_PAUSE_S", 0.01)
    servers = {"s": entry(ears, settings=LONG), "clock": entry(settings=SHORT)}
    async with open_watched(config_of(servers)) as watch:
        await watch.becomes(State.ASLEEP, "clock")
        clock.away_s = 2 * LONG["idle_stop"]
        await watch.text("echo", {"text": "x"}, server="clock")
        await watch.becomes(State.ASLEEP, "clock")
        assert watch.state() is State.READY


async def test_a_server_with_a_call_is_not_stopped(ears):
    servers = {"s": entry(ears, settings=SHORT), "clock": entry(settings=SHORT)}
    async with open_watched(config_of(servers)) as watch, anyio.create_task_group() as tasks:
        tasks.start_soon(watch.text, "hang")
        await ears.hear("call", tool="hang")
        starts = len(ears.of("started"))  # it may have slept before
        for _ in range(2):
            await watch.becomes(State.ASLEEP, "clock")
            await watch.text("echo", {"text": "x"}, server="clock")
        assert watch.state() is State.READY
        await watch.text("release")
        await watch.becomes(State.ASLEEP)
        assert len(ears.of("started")) == starts


async def test_calls_that_come_as_it_is_stopped_are_all_answered(ears):
    """Whatever the moment: none is sent to the one that leaves, and none is lost."""
    async with one_server(ears, settings={"idle_stop": 0.001}) as watch:
        for number in range(40):
            assert await watch.text("echo", {"text": str(number)}) == str(number)
            await anyio.lowlevel.checkpoint()
        assert snapshot(watch.hub, clients=0).servers[0].errors == 0


async def test_the_sessions_of_clients_sleep_each_by_itself(ears):
    async with one_server(ears, settings=SHORT | {"sessions": "per_client"}) as watch:
        one, two = ClientId(), ClientId()
        await watch.becomes(State.ASLEEP)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, watch, one, "hang")
            busy = (await ears.hear("call", tool="hang"))["pid"]
            await call(watch, two)
            idle = ears.of("call", tool="count")[-1]["pid"]
            await soon(lambda: not alive_in_group(idle))
            assert alive_in_group(busy)
            await call(watch, two)
            assert ears.of("call", tool="count")[-1]["pid"] not in {idle, busy}
            assert watch.state() is State.ASLEEP  # nobody needs the one that belongs to no client
            await call(watch, one, "release")
        await soon(lambda: not alive_in_group(busy))
        watch.hub.client_left(one)
        watch.hub.client_left(two)
        await soon(lambda: watch.hub.supervisor.names() == ["s"])


async def test_new_tools_of_which_a_clients_own_session_says_wake_the_one_that_is_shown(ears, tmp_path):
    tools = tmp_path / "tools"
    tools.write_text(json.dumps(TOOLS))
    settings = {"start": "on_demand", "sessions": "per_client"}
    async with one_server(ears, settings=settings, tools=str(tools)) as watch:
        await watch.becomes(State.ASLEEP)
        one = ClientId()
        await call(watch, one)
        assert watch.state() is State.ASLEEP
        tools.write_text(json.dumps([*TOOLS, {"name": "fresh", "inputSchema": {"type": "object"}}]))
        await call(watch, one, "add", name="more")
        await watch.until(lambda: "fresh" in watch.hub.upstreams["s"].catalogue.tools)
        assert len(ears.of("started")) == 3


class Parts:
    """A session that is not in use, but for what is given."""

    def __init__(self, *, suspended=(), **given):
        self.rested = False
        self.others = []
        self.suspended = suspended
        self.session = SimpleNamespace(
            config=SimpleNamespace(idle_stop=0.01, start="auto"),
            only_lists=False,
            queue=SimpleNamespace(has_callers=False, wanted_at=0.0, rest=self.rest),
            server=SimpleNamespace(
                other_era=SimpleNamespace(session=None), main=None, sessions=lambda: self.others
            ),
            subscriptions=SimpleNamespace(uris=[]),
            has_open_tasks=lambda: False,
        )
        self.session.keeps_something = lambda: Session.keeps_something(self.session)
        self.session.server.main = self.session
        self.session.__dict__.update(given)
        self.session.server.is_kept_awake_by = partial(Server.is_kept_awake_by, self.session.server)
        self.calls = SimpleNamespace(running=list, answered_at=0.0, detach=lambda: None)
        self.changes = Signal()

    def rest(self):
        self.rested = True

    async def watch(self):
        with anyio.move_on_after(0.2):
            await Idleness(self.session, self.calls, self.suspended, self.changes).watch()
        return self.rested


def other_era(parts, phase):
    other = SimpleNamespace(queue=SimpleNamespace(lifecycle_phase=lambda: phase), is_guest=False)
    parts.session.server.other_era.session = other
    parts.others = [other]
    return parts


@pytest.mark.parametrize(
    ("given", "rests"),
    [
        ({}, True),
        ({"subscriptions": SimpleNamespace(uris=["memo://a"])}, False),
        ({"suspended": ["a call"]}, False),
        ({"has_open_tasks": lambda: True}, False),
    ],
)
async def test_what_keeps_a_server_awake(given, rests):
    assert await Parts(**given).watch() is rests


@pytest.mark.parametrize(("phase", "rests"), [(Phase.UP, False), (Phase.IDLE, True)])
async def test_a_session_in_the_other_era_keeps_the_shared_one_awake_while_it_serves(phase, rests):
    assert await other_era(Parts(), phase).watch() is rests


async def test_a_listing_that_is_due_keeps_a_server_awake():
    parts = Parts()
    parts.changes.set()
    assert not await parts.watch()
