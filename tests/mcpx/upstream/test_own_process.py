"""A stdio server has one process for clients of both eras, and a second where each era is to have its own."""

from __future__ import annotations

import os
import signal

import anyio
import msgspec
import pytest

from mcpx.catalog.model import State
from mcpx.core.status import snapshot
from mcpx.upstream.call_queue import RawReply
from mcpx.upstream.context import ClientId
from mcpx.upstream.requests import CallTool
from tests.mcpx.scripted import PATIENCE_S, QUICK, config_of, soon
from tests.mcpx.serving import alive_in_group
from tests.mcpx.upstream.raw import entry, heard, raw_server, refusal
from tests.mcpx.upstream.session.test_handshake import DISCOVER, HANDSHAKE, MODERN
from tests.mcpx.upstream.test_companion import companion, send

pytestmark = pytest.mark.anyio


async def pong(upstream) -> bool:
    reply = RawReply()
    upstream.submit(CallTool("echo", b"{}"), reply)
    with anyio.fail_after(PATIENCE_S):
        return b"pong" in bytes(await reply.wait())


def main_of(watch):
    return watch.hub.upstreams["s"]


async def test_clients_of_both_eras_share_the_process_of_a_server_that_speaks_both(tmp_path):
    async with raw_server(tmp_path, answers=DISCOVER) as watch:
        for modern in (True, False):
            assert main_of(watch).in_era(modern) is main_of(watch)
            with anyio.fail_after(PATIENCE_S):
                await send(watch, modern, tool="echo").wait()
        assert heard(tmp_path) == [*HANDSHAKE, "tools/call", "tools/call"]


async def test_each_era_gets_a_process_of_its_own_where_that_is_asked_for(tmp_path):
    async with raw_server(tmp_path, answers=DISCOVER) as watch:
        main = main_of(watch)
        assert main.in_era(False, own_process=True) is main
        other = main.in_era(True, own_process=True)
        assert await pong(other)  # it waits for the process
        assert main.in_era(True, own_process=True) is other
        assert (main.era, other.era) == ("handshake", "modern")
        assert (main.greeting.discover, other.greeting.initialize) == (None, None)
        assert msgspec.json.decode(other.greeting.discover)["supportedVersions"] == ["2026-07-28"]
        assert heard(tmp_path) == [*HANDSHAKE, *MODERN, "tools/call"]
        assert main.pid != other.pid
        assert main.in_era(True) is main  # the three tools go on with one


async def test_whether_a_server_speaks_the_other_era_is_found_out_once(tmp_path):
    async with raw_server(tmp_path, answers=DISCOVER) as watch:
        main = main_of(watch)
        assert await main.speaks(False)
        assert heard(tmp_path) == HANDSHAKE
        answers = []
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(_ask, main, answers)
        assert answers == [True] * 3
        assert heard(tmp_path) == [*HANDSHAKE, *MODERN]


async def _ask(main, answers):
    answers.append(await main.speaks(True))


ONE_ERA = {
    "it refuses": {"answers": {}},
    "it leaves": {"first": "initialize", "answers": {}, "settings": {"restart": QUICK}},
    "it exits": {"answers": {"server/discover": "exit"}, "settings": {"restart": QUICK}},
    "it is silent": {"answers": {"server/discover": "silent"}, "settings": {"connect_timeout": 0.5}},
    "it is too old": {"answers": {"server/discover": refusal(-32022)}},
}


@pytest.mark.parametrize("how", ONE_ERA)
async def test_a_server_of_one_era_keeps_one_process(how, tmp_path):
    async with raw_server(tmp_path, **ONE_ERA[how]) as watch:
        main = main_of(watch)
        before = main.in_era(True, own_process=True)
        assert before is not main
        assert await pong(before)  # served by the main process in the end
        assert await main.speaks(True) is False
        assert main.in_era(True, own_process=True) is main
        await watch.until(lambda: watch.hub.supervisor.names() == ["s"])
        assert (main.last_error, main.queue.lifecycle().failures) == (None, 0)
        started = heard(tmp_path).count("started")
        assert started == 2
        assert await main.speaks(True) is False
        assert heard(tmp_path).count("started") == started


async def test_a_server_of_the_modern_era_alone_keeps_one_process(tmp_path):
    async with raw_server(tmp_path, answers={**DISCOVER, "initialize": refusal(-32022)}) as watch:
        main = main_of(watch)
        assert (await main.speaks(True), await main.speaks(False)) == (True, False)
        assert main.in_era(False, own_process=True) is main
        assert heard(tmp_path).count("started") == 1  # it has said so already


async def test_a_pinned_server_has_one_process(tmp_path):
    async with raw_server(tmp_path, answers=DISCOVER, settings={"era": "handshake"}) as watch:
        main = main_of(watch)
        assert (await main.speaks(True), await main.speaks(False)) == (False, True)
        assert main.in_era(True, own_process=True) is main
        assert heard(tmp_path) == HANDSHAKE


async def test_the_death_of_one_process_is_that_eras_alone(tmp_path):
    settings = {"restart": QUICK}
    async with raw_server(tmp_path, answers=DISCOVER, settings=settings) as watch:
        main = main_of(watch)
        assert await main.speaks(True)
        other = companion(watch)
        first = other.pid
        os.kill(first, signal.SIGKILL)
        await watch.until(lambda: other.queue.lifecycle().generation == 2 and other.info().ready)
        assert await pong(main.in_era(True, own_process=True))
        assert (main.queue.lifecycle().generation, watch.state()) == (1, State.READY)
        os.kill(main.pid, signal.SIGKILL)
        await watch.until(lambda: main.queue.lifecycle().generation == 2 and main.info().ready)
        assert companion(watch) is other
        assert await pong(main.in_era(True, own_process=True))
        (row,) = snapshot(watch.hub, clients=0, started=0).servers
        assert row.restarts == 2
        assert heard(tmp_path).count("server/discover") == 2


async def test_both_processes_are_restarted_replaced_and_ended_with_the_server(tmp_path):
    async with raw_server(tmp_path, answers=DISCOVER, settings={"restart": QUICK}) as watch:
        main = main_of(watch)
        assert await main.speaks(True)
        pids = [main.pid, companion(watch).pid]
        await watch.hub.restart("s")
        await watch.until(lambda: companion(watch).info().ready)
        assert [alive_in_group(pid) for pid in pids] == [[], []]
        pids = [main.pid, companion(watch).pid]
        changed = entry(tmp_path, answers=DISCOVER, settings={"env": {"A": "b"}})
        await watch.hub.reload(config_of({"s": changed}, auto_describe=False))
        assert [alive_in_group(pid) for pid in pids] == [[], []]
        await watch.becomes(State.READY)
        assert companion(watch) is None
        assert await main_of(watch).speaks(True)
        pids = [main_of(watch).pid, companion(watch).pid]
    await soon(lambda: [alive_in_group(pid) for pid in pids] == [[], []])


async def test_clients_with_sessions_of_their_own_have_them_in_their_era(tmp_path):
    settings = {"sessions": "per_client"}
    async with raw_server(tmp_path, answers=DISCOVER, settings=settings) as watch:
        clients = [(ClientId(), modern) for modern in (True, False)]
        for client, modern in clients * 2:
            with anyio.fail_after(PATIENCE_S):
                await send(watch, modern, client, tool="echo").wait()
        called = ["tools/call"]
        assert heard(tmp_path) == [*HANDSHAKE, *MODERN, *called, *HANDSHAKE, *called, *called, *called]
        assert [own.era for own in main_of(watch).private] == ["modern", "handshake"]


async def test_clients_with_sessions_of_their_own_get_those_that_the_server_speaks(tmp_path):
    settings = {"sessions": "per_client"}
    async with raw_server(tmp_path, first="initialize", settings=settings) as watch:
        for _ in range(2):
            with anyio.fail_after(PATIENCE_S):
                await send(watch, True, ClientId(), tool="echo").wait()
        # the first is asked in its own era, which ends the process; the second is not
        called = "tools/call"
        assert heard(tmp_path) == [*HANDSHAKE, "started", *HANDSHAKE, called, *HANDSHAKE, called]
