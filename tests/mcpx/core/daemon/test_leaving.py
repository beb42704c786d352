"""When a daemon that nobody uses ends: on a virtual clock."""

from __future__ import annotations

from types import SimpleNamespace

import anyio
import pytest
from async_solipsism import EventLoop

from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.leaving import IdleExit, Use
from supervisors.child import Incarnation

pytestmark = pytest.mark.anyio


class Daemon:
    """What is watched: a setting, one server, and two frontends."""

    def __init__(self, idle_exit):
        self.config = SimpleNamespace(idle_exit=idle_exit)
        self.queue = SimpleNamespace(has_callers=False)
        self.counters = SimpleNamespace(in_flight=0)
        self.has_task = False
        self.sign_ins = SimpleNamespace(are_waited_for=False)
        server = SimpleNamespace(
            counters=self.counters,
            has_open_tasks=lambda: self.has_task,
            sessions=lambda: [SimpleNamespace(queue=self.queue)],
        )
        self.upstreams = {"s": server}
        self.socket = self.http = Use(has_clients=False, so_far=0)
        self.ended = []

    async def watch(self, *, seconds):
        """Have it watched for some time; how long it took to end it, if it was ended."""
        began = anyio.current_time()

        def end():
            self.ended.append(anyio.current_time() - began)

        child = IdleExit(
            lambda: self.config.idle_exit,
            lambda: Hub.is_working(self),
            [lambda: self.socket, lambda: self.http],
            end,
        )
        incarnation = Incarnation("idle exit", 1, lambda _generation: None)
        with anyio.move_on_after(seconds):
            await child.run(incarnation)
        return self.ended


@pytest.fixture
def anyio_backend():
    return "asyncio", {"loop_factory": EventLoop}


async def test_a_daemon_that_nobody_has_used_for_so_long_ends():
    (after,) = await Daemon(86400.0).watch(seconds=90000)
    assert after == pytest.approx(86400, abs=31)


async def test_by_default_it_never_does():
    assert await Daemon(0.0).watch(seconds=10**5) == []


async def test_the_setting_is_looked_up_so_that_a_reload_changes_it():
    daemon = Daemon(0.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: daemon.watch(seconds=2000))
        await anyio.sleep(500)
        daemon.config.idle_exit = 600.0
        await anyio.sleep(1)
    assert daemon.ended == [pytest.approx(600, abs=40)]


@pytest.mark.parametrize("frontend", ["socket", "http"])
async def test_the_time_counts_from_the_last_use(frontend):
    daemon = Daemon(100.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: daemon.watch(seconds=1000))
        setattr(daemon, frontend, Use(has_clients=True, so_far=1))
        await anyio.sleep(300)
        setattr(daemon, frontend, Use(has_clients=False, so_far=2))
        await anyio.sleep(50)
        setattr(daemon, frontend, Use(has_clients=False, so_far=3))  # came and went between two looks
    assert daemon.ended == [pytest.approx(450, abs=15)]


@pytest.mark.parametrize("what", ["waits", "runs", "task", "sign-in"])
async def test_a_daemon_with_a_call_a_task_or_a_sign_in_does_not_end(what):
    daemon = Daemon(100.0)
    daemon.queue.has_callers, daemon.counters.in_flight = what == "waits", int(what == "runs")
    daemon.has_task, daemon.sign_ins.are_waited_for = what == "task", what == "sign-in"
    assert await daemon.watch(seconds=1000) == []
