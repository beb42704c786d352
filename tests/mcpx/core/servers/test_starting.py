"""Servers that do not come up: each with a clear cause, and none of them in the way of the others."""

from __future__ import annotations

import gc
import time

import anyio
import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.errors import Code
from tests.mcpx.scripted import QUICK, config_of, entry, one_server, open_watched

pytestmark = pytest.mark.anyio

ONCE = {"restart": {**QUICK, "park_after": 1, "park_probe": 60}}


async def cause(**script) -> str:
    """Why a server with that script is parked after its only attempt."""
    settings = {**ONCE, **script.pop("settings", {})}
    async with one_server(settings=settings, **script) as watch:
        await watch.becomes(State.PARKED)
        return watch.hub.upstreams["s"].info().cause


async def test_an_exit_at_start_is_told_with_its_code_and_its_last_words():
    told = await cause(exit=5, stderr="no API key\nset ONE\n")
    assert "exited with code 5" in told
    assert "no API key\nset ONE" in told


@pytest.mark.parametrize("method", ["initialize", "notifications/initialized", "tools/list"])
async def test_an_exit_during_the_handshake_is_told_with_its_code(method):
    assert "exited with code 4" in await cause(exit_at=method)


async def test_a_handshake_that_is_never_answered_ends_with_the_connect_timeout():
    told = await cause(silent=True, stderr="still loading\n", settings={"connect_timeout": 0.5})
    assert "no answer to the handshake within 0.5 s" in told
    assert "still loading" in told


@pytest.mark.parametrize("kind", ["same", "new"])
async def test_a_list_without_an_end_is_told_as_such(kind):
    assert "list of tools does not end" in await cause(endless=kind)


async def test_a_list_of_tools_that_is_no_list_is_told_as_such(tmp_path):
    tools = tmp_path / "tools.json"
    tools.write_text('{"name": 3}')
    assert "the server's answer has no list of tools" in await cause(tools=str(tools))


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("there-is-no-such-command", "command not found: there-is-no-such-command"),
        ("/", "no permission to run /"),
    ],
)
async def test_a_command_that_cannot_run_is_parked_at_the_first_attempt(command, told):
    async with open_watched(config_of({"s": {"command": command}})) as watch:
        info = watch.hub.upstreams["s"].info()
        assert (info.state, info.cause.partition(". Searched: ")[0]) == (State.PARKED, told)
        error = await watch.failure("anything")
        assert error.code is Code.SERVER_UNAVAILABLE
        assert told in str(error)


async def test_a_working_folder_that_is_not_there_is_named(tmp_path):
    gone = tmp_path / "gone"
    async with open_watched(config_of({"s": {**entry(), "cwd": str(gone)}})) as watch:
        info = watch.hub.upstreams["s"].info()
        assert (info.state, info.missing) == (State.NEEDS_SETUP, (str(gone),))
        assert str(gone) in info.cause
        gone.mkdir()
        assert await watch.text("echo", {"text": "now"}) == "now"


async def test_bad_servers_leave_the_others_working_in_less_than_the_startup_wait():
    servers = {
        "none": {"command": "there-is-no-such-command"},
        "silent": entry(silent=True),
        "unset": {"command": "x", "env": {"KEY": "${THIS_IS_NOT_SET_ANYWHERE}"}},
        "exits": entry(exit=1),
        "s": entry(),
        "t": entry(),
    }
    config = config_of(servers)
    async with open_watched(config, settled=False) as watch:
        began = time.monotonic()
        await watch.becomes(State.READY, "s")
        await watch.becomes(State.READY, "t")
        assert time.monotonic() - began < config.startup_wait
        assert await watch.text("echo", {"text": "fine"}) == "fine"
        states = {info.name: info.state for info in watch.hub.registry.list_servers()}
        assert (states["none"], states["silent"]) == (State.PARKED, State.STARTING)
        assert states["unset"] is State.NEEDS_SETUP
        assert "THIS_IS_NOT_SET_ANYWHERE" in watch.hub.registry.get_server_info("unset").cause
        assert await watch.hub.settled(0.01) is False  # the silent one


async def test_no_more_servers_start_at_a_time_than_allowed(ears):
    servers = {f"s{number}": entry(ears, silent=True) for number in range(4)}
    config = config_of(servers, max_starting=2, connect_timeout=1)
    async with open_watched(config, settled=False):
        await ears.hear("started", count=2)
        began = time.monotonic()
        await ears.hear("started", count=3)
        assert time.monotonic() - began > 0.5


async def test_a_server_that_behaves_is_seen_off_at_once_even_before_it_is_ready(ears):
    async with one_server(ears, settled=False, silent=True) as watch:
        await ears.hear("started")
        await watch.until(lambda: watch.hub.upstreams["s"].queue.lifecycle().generation == 1)
        began = time.monotonic()
    assert time.monotonic() - began < 1.5


def test_a_start_that_is_broken_off_at_any_moment_leaves_nothing():
    """Not even a pipe: what is still open after the loop is a warning when collected, and an error here."""

    async def start_and_break_off(turns) -> None:
        async with one_server(settled=False, silent=True):
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()

    for turns in range(10):
        anyio.run(start_and_break_off, turns)
    gc.collect()
