"""Silence is noticed: the judgement in virtual time, and what is learned of a server beside its calls."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import anyio
import pytest
from mcp_types import METHOD_NOT_FOUND

from mcpx.core.servers.causes import Unhealthy
from mcpx.core.servers.silence import SOON_S, WAITED_S, Manner, Manners, Silence
from mcpx.core.servers.transport.exchange import ConnectionDropped, NotExecuted, Refused
from mcpx.core.wire.envelope import MCPError
from supervisors.testing import virtual_backends

AFTER_S, TIMEOUT_S = 15.0, 5.0


@pytest.fixture
def virtual():
    """Run on trio alone: the virtual clock of asyncio takes no times that add up inexactly."""
    return lambda main: anyio.run(main, backend="trio", backend_options=dict(virtual_backends())["trio"])


@dataclass(eq=False)
class Call:
    """A call in flight, as far as it is looked at."""

    tool: str | None
    started: float
    request = SimpleNamespace(method="resources/read")


class Server:
    """One server, with its calls and the way to it. `answers` and `connects` may be changed at any time."""

    def __init__(self, manners=None, **settings):
        self.answers = self.connects = True
        self.failure = None
        self.calls = []
        self.heard_at = 0.0
        self.on_sent = None
        self.probes = []
        self.reached = 0
        self.given_up = None
        self.manners = manners or Manners()
        self.silence = Silence(
            self,
            self.probe,
            self.reach,
            self.give_up,
            self.manners,
            after_s=AFTER_S,
            timeout_s=TIMEOUT_S,
            clock=anyio.current_time,
            **settings,
        )

    # --- as the calls

    def silent_since(self):
        return max(self.heard_at, min(call.started for call in self.calls)) if self.calls else None

    def running(self):
        return list(self.calls)

    def call(self, tool="slow"):
        sent = Call(tool, anyio.current_time())
        self.calls.append(sent)
        if self.on_sent is not None:
            self.on_sent(sent)
        return sent

    def end(self, call):
        self.calls.remove(call)
        self.heard_at = anyio.current_time()

    # --- as the server

    async def probe(self):
        self.probes.append(anyio.current_time())
        if self.failure is not None:
            raise self.failure
        await self.until(lambda: self.answers)

    async def until(self, holds, step_s=1 / 64):
        while not holds():  # noqa: ASYNC110 - in virtual time
            await anyio.sleep(step_s)

    async def reach(self):
        self.reached += 1
        if not self.connects:
            await anyio.sleep_forever()

    def give_up(self, reason):
        self.given_up = reason, anyio.current_time()


async def playing(server, play):
    """Play something while the silence is watched; whether, and after how long, the server was given up."""
    began = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.silence.watch)
        await anyio.wait_all_tasks_blocked()
        await play()
        tasks.cancel_scope.cancel()
    if server.given_up is None:
        return None
    reason, at = server.given_up
    return reason, at - began


async def a_long_call(server, tool="slow", seconds=300.0):
    call = server.call(tool)
    with anyio.move_on_after(seconds):
        await server.until(lambda: server.given_up, 1)
    server.end(call)


def played(virtual, play, server_of=Server):
    found = []

    async def main():
        server = server_of()
        found.extend((server, await playing(server, partial(play, server))))

    virtual(main)
    return found


def test_a_busy_server_that_answers_is_probed_after_each_silence_and_left_alone(virtual):
    server, given_up = played(virtual, a_long_call)
    assert given_up is None
    assert 300 / (AFTER_S + 1) - 1 <= len(server.probes) <= 300 / AFTER_S + 1


def test_a_server_to_which_no_connection_can_be_made_is_gone(virtual):
    async def play(server):
        server.answers = server.connects = False
        await a_long_call(server)

    _, (reason, after) = played(virtual, play)
    assert reason == ("nothing has come from the server for 20 s, and no connection can be made within 5 s")
    assert after == pytest.approx(AFTER_S + TIMEOUT_S, abs=0.1)


@pytest.mark.parametrize("failure", [NotExecuted("refused"), ConnectionDropped("reset")])
def test_a_server_that_refuses_or_drops_the_probe_is_gone_at_once(virtual, failure):
    async def play(server):
        await anyio.sleep(1)
        call = server.call()
        await anyio.sleep(SOON_S / 2)
        unhealthy = Unhealthy("it does not answer")
        unhealthy.__cause__ = failure
        server.failure = unhealthy
        with anyio.move_on_after(100):
            await server.until(lambda: server.given_up, 1)
        server.end(call)

    _, (reason, after) = played(virtual, play)
    assert reason == f"nothing has come from the server for 15 s, and it cannot be reached: {failure}"
    assert after == pytest.approx(1 + AFTER_S, abs=0.1)


@pytest.mark.parametrize(
    "answer", [MCPError(METHOD_NOT_FOUND, "no ping"), Refused(503), Unhealthy("HTTP 503")]
)
def test_any_answer_is_a_sign_of_life(virtual, answer):
    async def play(server):
        server.failure = answer
        await a_long_call(server, seconds=100)

    assert played(virtual, play)[1] is None


def test_a_server_that_answered_during_this_tool_must_do_so_again(virtual):
    async def play(server):
        call = server.call()
        await anyio.sleep(1)  # it answers a probe meanwhile
        server.end(call)
        server.answers = False
        await a_long_call(server)

    _, (reason, after) = played(virtual, play)
    assert reason == "nothing has come from the server for 20 s, and it does not answer a probe within 5 s"
    assert after == pytest.approx(1 + AFTER_S + TIMEOUT_S, abs=0.1)


def test_a_server_that_does_one_thing_at_a_time_is_left_alone(virtual):
    async def play(server):
        server.answers = False
        await a_long_call(server, seconds=60)
        server.answers = True
        await anyio.sleep(1)
        assert server.manners.should_answer(["slow"]) is False
        await server_was_quick(server, "quick")
        assert server.manners.should_answer(["quick"]) is False, "one tool keeps it from answering"
        server.answers = False
        await a_long_call(server, "quick", seconds=60)

    assert played(virtual, play)[1] is None


async def server_was_quick(server, tool):
    call = server.call(tool)
    await anyio.sleep(SOON_S / 2)
    server.end(call)
    await anyio.sleep(1)


def test_a_tool_that_was_always_quick_is_no_reason_to_be_silent_but_just_once(virtual):
    async def play(server):
        await server_was_quick(server, "quick")
        server.answers = False
        await a_long_call(server, "quick")

    server, (reason, _) = played(virtual, play)
    assert "does not answer" in reason

    async def again(server):
        server.answers = False
        await a_long_call(server, "quick", seconds=100)

    assert played(virtual, again, partial(Server, server.manners))[1] is None


def test_a_server_of_which_nothing_is_known_gets_the_benefit_of_the_doubt(virtual):
    async def play(server):
        server.answers = False
        await a_long_call(server, seconds=100)

    server, given_up = played(virtual, play)
    assert given_up is None
    assert server.reached > 1


def test_another_mcpx_always_answers(virtual):
    async def play(server):
        server.answers = False
        await a_long_call(server)

    _, (_, after) = played(virtual, play, partial(Server, from_mcpx=True))
    assert after == pytest.approx(AFTER_S + TIMEOUT_S, abs=0.1)


def test_progress_and_the_answers_to_other_calls_are_no_silence(virtual):
    async def play(server):
        server.manners.learn("slow", Manner.MEANWHILE)
        server.answers = server.connects = False
        call = server.call()
        for _ in range(10):
            await anyio.sleep(AFTER_S - 1)
            server.heard_at = anyio.current_time()
        server.end(call)
        await anyio.sleep(100)

    server, given_up = played(virtual, play)
    assert given_up is None
    assert server.probes == []


def test_an_answer_during_the_look_excuses_the_server(virtual):
    async def play(server):
        server.manners.learn("slow", Manner.MEANWHILE)
        server.answers = False
        call = server.call()
        await anyio.sleep(AFTER_S + TIMEOUT_S / 2)
        server.heard_at = anyio.current_time()
        await anyio.sleep(TIMEOUT_S)
        server.end(call)

    assert played(virtual, play)[1] is None


def test_each_kind_is_learned_by_one_probe_at_the_most(virtual):
    async def play(server):
        for tool in ("a", "a", "b", None, None):
            call = server.call(tool)
            await anyio.sleep(SOON_S * 2)
            server.end(call)
        await server_was_quick(server, "c")

    server, _ = played(virtual, play)
    assert len(server.probes) == 3
    assert server.manners.should_answer(["a", "b", "resources/read"])


def test_a_probe_that_waits_for_the_end_of_the_call_tells_that_it_had_to(virtual):
    async def play(server):
        server.answers = False
        call = server.call("blocks")
        await anyio.sleep(SOON_S + WAITED_S * 2)
        server.end(call)
        server.answers = True
        await anyio.sleep(1)

    server, _ = played(virtual, play)
    assert server.manners._known == {"blocks": Manner.AFTERWARDS}
