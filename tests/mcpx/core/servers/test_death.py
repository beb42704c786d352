"""A child that dies: noticed at once, told honestly, and back before anybody waits long."""

from __future__ import annotations

import os
import random
import signal
import time
from functools import partial

import anyio
import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.errors import CallError, Code, Outcome
from tests.mcpx.scripted import one_server, soon

pytestmark = pytest.mark.anyio

AT_ONCE_S = 5.0  # a safety net: the promise is 50 ms, and what is waited for otherwise is 300 s
DIED_ROUNDS = 50


def kill(watch) -> int:
    pid = watch.hub.upstreams["s"].pid
    os.kill(pid, signal.SIGKILL)
    return pid


async def test_a_death_between_calls_is_noticed_without_any_call_and_mended(ears):
    async with one_server(ears) as watch:
        pid = kill(watch)
        await watch.leaves(State.READY, within=AT_ONCE_S)
        assert "SIGKILL" in watch.hub.upstreams["s"].info().cause
        await watch.becomes(State.READY)
        assert watch.hub.upstreams["s"].pid != pid
        assert watch.hub.upstreams["s"].info().cause is None
        assert await watch.text("echo", {"text": "back"}) == "back"
        assert len(ears.of("started")) == 2


@pytest.mark.parametrize(
    ("arguments", "how"), [({}, "was killed by SIGKILL"), ({"code": 7}, "exited with code 7")]
)
async def test_a_call_in_flight_is_told_how_the_server_died_and_what_it_said_last(arguments, how):
    async with one_server() as watch:
        error = await watch.failure("die", arguments)
        assert (error.code, error.outcome) == (Code.SERVER_DIED, Outcome.UNKNOWN)
        assert how in str(error)
        assert error.details["stderr"] == "these are my last words"
        assert "these are my last words" in str(error)


async def test_every_call_in_flight_fails_at_once(ears):
    async with one_server(ears) as watch:
        failed_at: list[float] = []

        async def hang() -> None:
            assert (await watch.failure("hang")).code is Code.SERVER_DIED
            failed_at.append(time.monotonic())

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(hang)
            await ears.hear("call", tool="hang", count=10)
            killed_at = time.monotonic()
            kill(watch)
        assert len(failed_at) == 10
        assert max(failed_at) - killed_at < AT_ONCE_S
        assert watch.hub.upstreams["s"].counters.in_flight == 0


@pytest.mark.parametrize("tool", ["die_once_read_only", "die_once_idempotent"])
async def test_a_harmless_call_is_sent_once_more_and_answered(ears, tmp_path, tool):
    async with one_server(ears, folder=str(tmp_path)) as watch:
        assert await watch.text(tool) == "alive again"
        assert len(ears.of("call", tool=tool)) == 2


async def test_a_harmless_call_is_not_sent_a_third_time(ears):
    async with one_server(ears) as watch:
        error = await watch.failure("die_read_only")
        assert (error.code, error.outcome) == (Code.SERVER_DIED, Outcome.UNKNOWN)
        assert len(ears.of("call", tool="die_read_only")) == 2


async def test_any_other_call_is_sent_once_however_often_the_server_is_killed(ears):
    chance = random.Random(2)
    answers: dict[str, Outcome | None] = {}
    async with one_server(ears) as watch:

        async def count(number: str, *, hold: bool) -> None:
            try:
                await watch.text("count", {"number": number, "hold": hold})
                answers[number] = None
            except CallError as error:
                answers[number] = error.outcome

        for turn in range(DIED_ROUNDS):
            pid = watch.hub.upstreams["s"].pid
            awaited, turn_begins = chance.randrange(4), len(ears.of("call"))
            async with anyio.create_task_group() as tasks:
                for call in range(6):  # where a call is awaited, the first is never answered
                    tasks.start_soon(partial(count, f"{turn}.{call}", hold=call == 0 and awaited > 0))
                if awaited:
                    await ears.hear("call", arguments={"number": f"{turn}.0", "hold": True})
                    await ears.hear("call", count=turn_begins + awaited)
                os.kill(pid, signal.SIGKILL)
            await watch.until(lambda pid=pid: watch.hub.upstreams["s"].pid not in {pid, None})
            await watch.becomes(State.READY)
    ran = [event["arguments"]["number"] for event in ears.of("call", tool="count")]
    assert len(ran) == len(set(ran))
    assert {number for number, outcome in answers.items() if outcome is None} <= set(ran)
    assert not {number for number, outcome in answers.items() if outcome is Outcome.NOT_SENT} & set(ran)
    assert len(answers) == DIED_ROUNDS * 6
    assert None in answers.values()
    assert Outcome.UNKNOWN in answers.values()


async def test_callers_who_come_while_it_restarts_are_served(ears):
    async with one_server(ears) as watch:
        kill(watch)
        await watch.leaves(State.READY)
        texts: list[str] = []

        async def ask(text: str) -> None:
            texts.append(await watch.text("echo", {"text": text}))

        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(ask, str(number))
        assert sorted(texts) == ["0", "1", "2", "3", "4"]
        assert len(ears.of("started")) == 2


async def test_a_tool_that_only_destroys_nothing_is_not_run_again(ears):
    """`destructiveHint: false` says that a run adds something: two runs may add it twice."""
    settings = {"annotations": {"die": {"destructiveHint": False}}}
    async with one_server(ears, settings=settings) as watch:
        error = await watch.failure("die")
        assert (error.code, error.outcome) == (Code.SERVER_DIED, Outcome.UNKNOWN)
        await watch.becomes(State.READY)
        assert await watch.text("echo", {"text": "behind it"}) == "behind it"
        assert len(ears.of("call", tool="die")) == 1


async def test_calls_keep_their_order_through_a_death(ears, tmp_path):
    settings = {"annotations": {"echo": {"readOnlyHint": True}}, "max_concurrency": 6}
    answers = tmp_path / "answers"
    async with one_server(ears, settings=settings) as watch, anyio.create_task_group() as tasks:
        upstream = watch.hub.upstreams["s"]
        for number in range(9):  # six in flight, three behind them
            tasks.start_soon(watch.text, "echo", {"text": str(number), "hold": str(answers)})
            if number < 6:
                await ears.hear("call", count=number + 1)
            else:
                await soon(lambda number=number: upstream.queued == number - 5)
        answers.touch()
        first = kill(watch)
    again = [event["arguments"]["text"] for event in ears.of("call") if event["pid"] != first]
    assert again == [str(number) for number in range(9)]
