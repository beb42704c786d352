"""The probe's judgement, in virtual time on both back ends."""

from __future__ import annotations

import math

import anyio
import pytest

from mcpx.core.config import HealthCheck
from mcpx.core.servers.health import Health
from mcpx.core.wire.envelope import MCPError
from supervisors import Signal

SETTINGS = HealthCheck(interval=30, timeout=5, failure_threshold=2)


class Server:
    """Answers probes until `silent_from`; `busy_until` says how long a call runs on it."""

    def __init__(self, silent_from=math.inf, busy_until=-math.inf):
        self.silent_from = silent_from
        self.busy_until = busy_until
        self.answered_at = -math.inf
        self.overdue = Signal()
        self.probes = []
        self.given_up = None

    @property
    def busy(self):
        return anyio.current_time() < self.busy_until

    async def ask(self):
        self.probes.append(anyio.current_time())
        if anyio.current_time() >= self.silent_from:
            await anyio.sleep_forever()

    def give_up(self, reason):
        self.given_up = reason

    async def watched(self, seconds=1000, settings=SETTINGS):
        """Watch for so long; why and when it was given up, if it was."""
        started = anyio.current_time()
        self.silent_from += started
        self.busy_until += started
        with anyio.move_on_after(seconds):
            await Health(settings, self, self.ask, self.give_up).watch()
        return self.given_up and (self.given_up, anyio.current_time() - started)


def test_a_healthy_idle_server_is_asked_at_every_interval_and_left_alone(virtual):
    async def main():
        server = Server()
        assert await server.watched(301) is None
        assert len(server.probes) == 10

    virtual(main)


def test_a_frozen_server_is_killed_within_interval_and_misses(virtual):
    async def main():
        server = Server(silent_from=31)
        reason, after = await server.watched()
        assert reason == "the server hangs: it did not answer 2 probes of 5 s"
        assert after == pytest.approx(60 + 10)

    virtual(main)


def test_a_server_busy_inside_its_deadline_is_never_judged(virtual):
    async def main():
        server = Server(silent_from=0, busy_until=500)
        _, after = await server.watched()
        assert after > 500
        assert all(at >= 500 for at in server.probes)

    virtual(main)


def test_a_call_that_comes_during_a_miss_excuses_it(virtual):
    async def main():
        server = Server(silent_from=0)

        async def call_later():
            await anyio.sleep(33)
            server.busy_until = anyio.current_time() + 100

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call_later)
            _, after = await server.watched()
            tasks.cancel_scope.cancel()
        assert after > 133

    virtual(main)


def test_a_server_in_doubt_is_probed_at_once_though_it_has_just_answered(virtual):
    async def main():
        server, renewed = Server(), []
        health = Health(SETTINGS, server, server.ask, server.give_up, renew=lambda: renewed.append(1))
        started = server.answered_at = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(health.watch)
            await anyio.sleep(3)
            health.distrust()
            await anyio.sleep(2)
            assert [at - started for at in server.probes] == [3]
            assert renewed == [1]
            await anyio.sleep(30)  # then as ever
            assert [at - started for at in server.probes] == [3, 30]
            server.silent_from = -math.inf
            health.distrust()
            await anyio.sleep(9.9)
            assert server.given_up is None  # two misses, as ever
            await anyio.sleep(0.2)
            assert server.given_up is not None
            tasks.cancel_scope.cancel()

    virtual(main)


def test_a_server_in_doubt_that_is_busy_is_not_judged(virtual):
    async def main():
        server = Server(silent_from=0, busy_until=math.inf)
        health = Health(SETTINGS, server, server.ask, server.give_up)
        with anyio.move_on_after(100):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(health.watch)
                await anyio.sleep(3)
                health.distrust()
        assert server.probes == []

    virtual(main)


def test_after_an_overdue_call_one_miss_is_a_hang(virtual):
    async def main():
        server = Server(silent_from=0)

        async def pass_the_deadline():
            await anyio.sleep(3)
            server.overdue.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pass_the_deadline)
            reason, after = await server.watched()
            tasks.cancel_scope.cancel()
        assert after == pytest.approx(3 + 5)
        assert "after a call had passed its deadline" in reason

    virtual(main)


def test_an_error_is_an_answer(virtual):
    async def main():
        server = Server()

        async def refuse():
            raise MCPError(-32601, "ping is not known")

        server.ask = refuse
        assert await server.watched(200) is None

    virtual(main)


def test_recent_traffic_spares_the_probe(virtual):
    async def main():
        server = Server()
        server.answered_at = anyio.current_time() + 25
        assert await server.watched(54) is None
        assert server.probes == []

    virtual(main)


def test_what_freezes_right_after_an_answer_is_not_given_a_second_interval(virtual):
    async def main():
        server = Server(silent_from=0)
        server.answered_at = anyio.current_time() + 20  # it froze then
        _, after = await server.watched()
        assert after == pytest.approx(20 + 30 + 10)

    virtual(main)


def test_it_can_be_switched_off(virtual):
    async def main():
        server = Server(silent_from=0)
        await Health(HealthCheck(enabled=False), server, server.ask, server.give_up).watch()
        assert server.probes == []

    virtual(main)
