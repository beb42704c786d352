"""Calls while the server is not ready: how many may wait, how long, and what they are told."""

from __future__ import annotations

import json
import os
import signal
import time

import anyio
import pytest

import mcpx.core.servers.fleet.supervision
from mcpx.core.catalog.snapshot import State
from mcpx.errors import Code, Outcome
from supervisors import Parking
from tests.mcpx.scripted import QUICK, one_server

pytestmark = pytest.mark.anyio

FEW = {"restart": {**QUICK, "park_after": 2, "park_probe": 60}}

counted = pytest.mark.linux(
    "where a pipe does not tell what was read, what ends at once is started again, and asked otherwise"
)


@pytest.fixture
def wanted(tmp_path):
    """A file that the server wants to see when it starts."""
    file = tmp_path / "wanted"
    file.touch()
    return file


async def silence(watch, wanted) -> None:
    """The server is killed; the next one answers nothing."""
    wanted.unlink()
    os.kill(watch.hub.upstreams["s"].pid, signal.SIGKILL)
    await watch.leaves(State.READY)


async def test_one_call_more_than_may_wait_fails_at_once(wanted):
    settings = {"queue_size": 2, "queue_timeout": 30}
    async with one_server(settings=settings, wants=str(wanted), without="silent") as watch:
        await silence(watch, wanted)
        upstream = watch.hub.upstreams["s"]
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(watch.outcome, "count")
            while len(upstream.queue.ref.mailbox) < 2:
                await anyio.lowlevel.checkpoint()
            began = time.monotonic()
            error = await watch.failure("count")
            assert time.monotonic() - began < 5
            assert (error.code, error.outcome) == (Code.OVERLOADED, Outcome.NOT_SENT)
            assert "2 calls are waiting" in str(error)
            tasks.cancel_scope.cancel()
        assert len(upstream.queue.ref.mailbox) == 0


async def test_a_call_that_waited_too_long_is_told_the_state_and_the_cause(wanted):
    settings = {"queue_timeout": 0.3, "connect_timeout": 30}
    async with one_server(settings=settings, wants=str(wanted), without="silent") as watch:
        await silence(watch, wanted)
        error = await watch.failure("count")
        assert (error.code, error.outcome) == (Code.SERVER_UNAVAILABLE, Outcome.NOT_SENT)
        assert "starting" in str(error)
        assert "was killed by SIGKILL" in str(error)
        assert error.details["state"] == "starting"


async def test_a_call_that_waits_for_a_free_slot_is_told_that_it_is_busy(ears):
    settings = {"queue_timeout": 0.3, "max_concurrency": 1}
    async with one_server(ears, settings=settings) as watch, anyio.create_task_group() as tasks:
        tasks.start_soon(watch.outcome, "hang")
        await ears.hear("call", tool="hang")
        error = await watch.failure("count")
        assert (error.code, error.outcome) == (Code.OVERLOADED, Outcome.NOT_SENT)
        assert "1 calls are running" in str(error)
        assert ears.of("call", tool="count") == []
        tasks.cancel_scope.cancel()


async def test_while_it_is_away_its_catalogue_is_still_there(wanted):
    async with one_server(wants=str(wanted), without="silent") as watch:
        await silence(watch, wanted)
        info = watch.hub.registry.get_server_info("s")
        assert info.state is State.STARTING
        assert "echo" in info.tools


@counted
async def test_a_server_that_fails_too_often_is_parked_and_tried_once_for_the_calls_that_come(ears, tmp_path):
    async with one_server(ears, settings=FEW, wants=str(tmp_path / "nothing")) as watch:
        await watch.becomes(State.PARKED)
        assert len(ears.of("started")) == 2
        for _ in range(2):
            began = time.monotonic()
            error = await watch.failure("count")
            assert time.monotonic() - began < 1.0
            assert (error.code, error.outcome) == (Code.SERVER_UNAVAILABLE, Outcome.NOT_SENT)
            for expected in ("parked", "exited with code 3", "the file that I want is missing"):
                assert expected in str(error)
            assert len(ears.of("started")) == 3  # once for the first of them, and not for the second


async def test_a_call_that_waits_when_it_is_parked_is_refused_then(wanted):
    settings = {**FEW, "queue_timeout": 30}
    async with one_server(settings=settings, wants=str(wanted)) as watch:
        wanted.unlink()
        os.kill(watch.hub.upstreams["s"].pid, signal.SIGKILL)
        await watch.leaves(State.READY)
        error = await watch.failure("count")
        assert error.code is Code.SERVER_UNAVAILABLE
        assert error.details["state"] == "parked"
        assert "exited with code 3" in error.details["cause"]


@counted
async def test_a_parked_server_that_was_mended_answers_the_next_call(ears, tmp_path, monkeypatch):
    """Without the ten seconds in which a parked server is not tried for a caller's sake."""
    monkeypatch.setattr(
        mcpx.core.servers.fleet.supervision, "Parking", lambda **given: Parking(**given, refusal=0.0)
    )
    wanted = tmp_path / "wanted"
    async with one_server(ears, settings=FEW, wants=str(wanted)) as watch:
        await watch.becomes(State.PARKED)
        for _ in range(2):
            refused = await watch.failure("echo", {"text": "too early"})
            assert (refused.code, refused.details["state"]) == (Code.SERVER_UNAVAILABLE, "parked")
        assert len(ears.of("started")) == 4  # each of these calls had it tried
        wanted.touch()
        assert await watch.text("echo", {"text": "mended"}) == "mended"


async def test_a_parked_server_that_was_mended_answers_the_first_call(tmp_path):
    wanted = tmp_path / "wanted"
    async with one_server(settings=FEW, wants=str(wanted)) as watch:
        await watch.becomes(State.PARKED)
        wanted.touch()
        assert await watch.text("echo", {"text": "mended"}) == "mended"


async def test_a_parked_server_is_probed_by_itself(tmp_path):
    restart = {**QUICK, "park_after": 1, "park_probe": 0.2}
    wanted = tmp_path / "wanted"
    async with one_server(settings={"restart": restart}, wants=str(wanted)) as watch:
        await watch.becomes(State.PARKED)
        wanted.touch()
        await watch.becomes(State.READY)


@counted
async def test_a_call_ends_the_wait_for_the_next_attempt(ears, tmp_path):
    restart = {"initial": 60, "cap": 60}
    wanted = tmp_path / "wanted"
    async with one_server(ears, settings={"restart": restart}, wants=str(wanted)) as watch:
        await watch.becomes(State.WAITING)
        assert watch.hub.upstreams["s"].info().retry_in_s > 20
        wanted.touch()
        assert await watch.text("echo", {"text": "now"}) == "now"  # at most a second later
        assert len(ears.of("started")) == 3


async def test_calls_are_refused_once_the_hub_stops(ears):
    async with one_server(ears) as watch:
        watch.hub.stop()
        error = await watch.failure("count")
        assert (error.code, error.outcome) == (Code.SERVER_UNAVAILABLE, Outcome.NOT_SENT)
        assert "stopped" in str(error)
        assert json.dumps(error.to_dict())


async def test_nothing_is_kept_of_a_call_that_waited_once_it_is_answered():
    async with one_server(settings={"max_concurrency": 1, "queue_timeout": 60}) as watch:
        queue = watch.hub.upstreams["s"].queue
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(watch.outcome, "count")
            while not len(queue._expiry):
                await anyio.lowlevel.checkpoint()
        assert len(queue._expiry) == 0  # what waited has its whole result, until its timeout were over
