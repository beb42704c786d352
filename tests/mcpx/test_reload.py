"""A new configuration in a running MCPX: only what differs is touched; and a restart on request."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager

import anyio
import pytest
from msgspec.structs import replace

from mcpx.catalog.model import State
from mcpx.config import HttpGateway
from mcpx.errors import CallError, Code
from mcpx.gateway.clients import Clients
from mcpx.gateway.server import GatewayServer
from mcpx.reloading import Reloaded, compare, in_force
from supervisors import ChildSpec
from tests.mcpx.line import Line
from tests.mcpx.scripted import PATIENCE_S, config_of, entry, one_server, open_watched
from tests.mcpx.serving import alive_in_group

pytestmark = pytest.mark.anyio
MISSING = {"command": "there-is-no-such-command"}


def changed(base):
    """An entry for another process: it differs in one variable."""
    return {**base, "env": {"VARIANT": "other"}}


@asynccontextmanager
async def calling(watch, ears, *, server="s"):
    """A call that hangs in that server; what became of it, in a list."""
    ended = []

    async def call():
        try:
            ended.append(await watch.text("hang", server=server))
        except CallError as error:
            ended.append(error)

    calls = len(ears.of("call", tool="hang"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await ears.hear("call", tool="hang", count=calls + 1)
        yield ended
        tasks.cancel_scope.cancel()


async def soon(holds):
    """Wait for what no event tells of."""
    with anyio.fail_after(PATIENCE_S):
        while not holds():
            await anyio.lowlevel.checkpoint()


# --- the decision


def test_servers_are_told_apart_by_everything_in_their_entry():
    base = entry()
    old = config_of({"same": base, "gone": base, "other": base})
    new = config_of({"fresh": base, "other": {**base, "call_timeout": 7}, "same": base})
    assert compare(old, new) == Reloaded(
        added=("fresh",), removed=("gone",), changed=("other",), untouched=("same",)
    )
    assert not compare(new, new).touches_servers


def test_a_setting_for_all_servers_changes_those_that_do_not_have_their_own():
    servers = {"follows": entry(), "has its own": entry(settings={"call_timeout": 5})}
    plan = compare(config_of(servers, call_timeout=1), config_of(servers, call_timeout=2))
    assert (plan.changed, plan.untouched) == (("follows",), ("has its own",))


def test_the_largest_message_reaches_every_server_that_runs():
    servers = {"on": entry(), "off": {**entry(), "disabled": True}}
    plan = compare(config_of(servers), config_of(servers, max_message_bytes=2048))
    assert (plan.changed, plan.untouched) == (("on",), ("off",))
    assert plan.settings == ("max_message_bytes",)


def test_settings_are_in_force_at_once_or_named_for_as_long_as_they_are_not():
    old = config_of({"s": entry()})
    http = HttpGateway(port=9, allowed_hosts=("h",))
    new = replace(old, catalog_token_budget=9, http=http, shutdown_grace=1.0)
    plan = compare(old, new)
    assert plan.settings == ("catalog_token_budget",)
    assert plan.needs_restart == ("shutdown_grace", "http.port", "http.allowed_hosts")
    effective = in_force(old, new)
    assert (effective.catalog_token_budget, effective.http, effective.shutdown_grace) == (
        9,
        old.http,
        old.shutdown_grace,
    )
    again = compare(effective, new)
    assert (again.settings, again.needs_restart) == ((), plan.needs_restart)


# --- the deed


async def test_one_added_one_removed_one_changed_and_one_untouched(ears):
    base = entry(ears)
    old = {"same": base, "gone": base, "other": base}
    new = {"same": base, "other": changed(base), "fresh": base}
    async with open_watched(config_of(old)) as watch, calling(watch, ears, server="same") as ended:
        before = dict(watch.hub.upstreams)
        pids = {name: upstream.pid for name, upstream in before.items()}
        reloaded = await watch.hub.reload(config_of(new))
        assert reloaded == Reloaded(
            added=("fresh",), removed=("gone",), changed=("other",), untouched=("same",)
        )
        for name in new:
            await watch.becomes(State.READY, name)
        assert list(watch.hub.upstreams) == list(new)
        assert watch.hub.upstreams["same"] is before["same"]
        assert watch.hub.upstreams["same"].pid == pids["same"]
        assert watch.hub.upstreams["same"].queue.lifecycle().generation == 1
        assert watch.hub.upstreams["other"].pid not in pids.values()
        assert alive_in_group(pids["gone"]) == alive_in_group(pids["other"]) == []
        assert len(ears.of("started")) == 5  # three, then the changed one and the new one
        assert ended == []
        await watch.text("release", server="same")
        await soon(lambda: ended)
        assert ended == ["released"]
        assert [await watch.text("echo", {"text": n}, server=n) for n in new] == list(new)
        error = await watch.failure("echo", {"text": "x"}, server="gone")
        assert error.code is Code.UNKNOWN_SERVER


async def test_a_call_that_runs_may_finish_when_its_server_is_removed(ears):
    base = entry(ears)
    answers = []
    async with open_watched(config_of({"s": base, "t": base}, shutdown_grace=PATIENCE_S)) as watch:

        async def crowd():
            answers.append(await watch.text("crowd", {"size": 1}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(crowd)  # answered after a moment
            await ears.hear("call", tool="crowd")
            await watch.hub.reload(config_of({"t": base}))
            assert answers == ["at most 1"]


async def test_calls_to_a_server_that_is_leaving_are_refused_with_the_cause(ears):
    base = entry(ears)
    async with open_watched(config_of({"s": base, "t": base}, shutdown_grace=1)) as watch:
        async with calling(watch, ears) as ended, anyio.create_task_group() as tasks:
            tasks.start_soon(watch.hub.reload, config_of({"t": base}))
            await soon(lambda: watch.state() is State.STOPPED)
            error = await watch.failure("echo", {"text": "x"})
            assert error.code is Code.SERVER_UNAVAILABLE
            assert "removed from the configuration" in str(error)
            assert ended == []
        assert (await watch.failure("echo", {"text": "x"})).code is Code.UNKNOWN_SERVER
    assert ended[0].code is Code.SERVER_DIED  # past the grace time


async def test_a_call_to_a_changed_server_waits_for_its_new_process(ears):
    base = entry(ears)
    async with open_watched(config_of({"s": base}, shutdown_grace=0.5)) as watch:
        async with calling(watch, ears) as ended, anyio.create_task_group() as tasks:
            old = watch.hub.upstreams["s"]
            tasks.start_soon(watch.hub.reload, config_of({"s": changed(base)}))
            await soon(lambda: watch.hub.upstreams["s"] is not old)
            info = watch.hub.registry.get_server_info("s")
            assert (info.state, info.cause) == (
                State.STARTING,
                "its process with the old configuration is ending",
            )
            assert info.tools  # the last known ones
            assert await watch.text("echo", {"text": "new"}) == "new"
        assert isinstance(ended[0], CallError)  # it ran past the grace time
        assert ended[0].code is Code.SERVER_DIED
        assert len(ears.of("started")) == 2


async def test_calls_without_end_during_reloads_are_answered_or_refused_in_so_many_words(ears):
    """Whatever the turn in which a call meets a reload, it ends, and never as unknown."""
    base = entry()
    with_s, without = {"s": base, "t": base}, {"t": base}
    codes = []
    async with open_watched(config_of(with_s, shutdown_grace=5)) as watch:

        async def call_on():
            while True:
                try:
                    assert await watch.text("echo", {"text": "x"}) == "x"
                    codes.append(None)
                except CallError as error:
                    codes.append(error.code)
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(call_on)
            for servers in (without, with_s, {"s": changed(base), "t": base}, with_s, without, with_s):
                await watch.hub.reload(config_of(servers, shutdown_grace=5))
                if "s" in servers:
                    await watch.becomes(State.READY)
            answered = codes.count(None)
            await soon(lambda: codes.count(None) > answered)
            tasks.cancel_scope.cancel()
    assert set(codes) <= {None, Code.UNKNOWN_SERVER, Code.SERVER_UNAVAILABLE}
    assert codes.count(None) > 0


async def test_two_reloads_at_once_are_carried_out_one_after_the_other(ears):
    base = entry(ears)
    async with open_watched(config_of({"a": base})) as watch:
        done = []

        async def reload(servers):
            done.append(await watch.hub.reload(config_of(servers)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reload, {"b": base})
            tasks.start_soon(reload, {"c": base})
        assert [(each.added, each.removed) for each in done] == [(("b",), ("a",)), (("c",), ("b",))]
        await watch.becomes(State.READY, "c")
        assert list(watch.hub.upstreams) == watch.hub.supervisor.names() == ["c"]
    assert [each["pid"] for each in ears.of("started") if alive_in_group(each["pid"])] == []


async def test_a_reload_whose_caller_goes_away_is_carried_out_to_its_end(ears):
    base = entry(ears)
    async with open_watched(config_of({"a": base, "b": base})) as watch:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await watch.hub.reload(config_of({"b": changed(base), "c": base}))
        assert list(watch.hub.upstreams) == ["b", "c"]
        await watch.becomes(State.READY, "b")
        await watch.becomes(State.READY, "c")


async def test_servers_that_cannot_start_come_and_go_too():
    async with open_watched(config_of({"s": entry(), "none": MISSING})) as watch:
        assert watch.state("none") is State.PARKED
        await watch.hub.reload(config_of({"s": entry(), "none": entry()}))
        await watch.becomes(State.READY, "none")
        await watch.hub.reload(config_of({"s": entry(), "none": {**entry(), "disabled": True}}))
        assert watch.state("none") is State.DISABLED
        assert watch.hub.registry.list_tools("none") == []
        await watch.hub.reload(config_of({"s": entry(), "none": entry()}))
        await watch.becomes(State.READY, "none")
        await watch.hub.reload(config_of({"s": entry(), "none": MISSING}))
        await watch.becomes(State.PARKED, "none")
        await watch.hub.reload(config_of({"s": entry()}))
        assert list(watch.hub.upstreams) == ["s"]


async def test_observers_hear_of_servers_that_come_and_go_and_of_none_that_stay():
    base = entry()
    async with open_watched(config_of({"same": base, "gone": base})) as watch:
        heard = []
        watch.hub.observe(lambda name, diff: heard.append((name, diff.tools, diff.about)))
        await watch.hub.reload(config_of({"same": base, "fresh": base}))
        await watch.becomes(State.READY, "fresh")
        assert ("gone", True, True) in heard
        assert ("fresh", False, True) in heard  # it is listed at once
        assert ("fresh", True, True) in heard
        assert {name for name, _, _ in heard} == {"gone", "fresh"}


async def test_a_changed_server_with_the_same_tools_does_not_change_the_tools():
    base = entry()
    async with open_watched(config_of({"s": base})) as watch:
        heard = []
        watch.hub.observe(lambda _name, diff: heard.append(diff.tools))
        await watch.hub.reload(config_of({"s": changed(base)}))
        await watch.becomes(State.READY)
        assert heard
        assert not any(heard)


async def test_settings_of_how_things_are_shown_are_in_force_at_once():
    rows = [{"name": f"n{number}", "value": number} for number in range(20)]
    text = str(rows).replace("'", '"')
    servers = {"s": entry()}
    async with open_watched(config_of(servers)) as watch:
        heard = []
        watch.hub.observe(lambda name, diff: heard.append((name, diff.tools, diff.about)))
        assert await watch.text("echo", {"text": text}) != text
        pid = watch.hub.upstreams["s"].pid
        shown = (await watch.hub.router.inspect("s", "echo")).content[0]["text"]
        reloaded = await watch.hub.reload(
            config_of(servers, toon_compression_enabled=False, schema_compression_enabled=False)
        )
        assert reloaded.settings == ("schema_compression_enabled", "toon_compression_enabled")
        assert reloaded.untouched == ("s",)
        assert await watch.text("echo", {"text": text}) == text
        assert (await watch.hub.router.inspect("s", "echo")).content[0]["text"] != shown
        assert watch.hub.upstreams["s"].pid == pid
        assert heard == [("s", False, True)]


async def test_clients_hear_of_it_and_see_the_new_servers_and_settings():
    rows = [{"name": f"n{number}", "value": number} for number in range(20)]
    text = str(rows).replace("'", '"')
    call = {
        "name": "exec",
        "arguments": {"server_name": "s", "tool_name": "echo", "arguments": {"text": text}},
    }
    async with open_watched(config_of({"s": entry(), "gone": entry()})) as watch:
        clients = Clients(watch.hub)
        watch.hub.root.add(ChildSpec(name="clients", run=clients.run))
        async with Line(watch.hub).connected(GatewayServer(watch.hub, clients)) as line:
            await line.initialize()

            async def described():
                return (await line.ask("tools/list", {}))["tools"][0]["description"]

            before = await line.ask("tools/call", call)
            assert "gone" in await described()
            await watch.hub.reload(config_of({"s": entry(), "fresh": entry()}))
            await line.hear("notifications/tools/list_changed")
            assert "fresh" in await described()
            assert "gone" not in await described()
            settings = {"toon_compression_enabled": False, "include_structured_content": "never"}
            await watch.hub.reload(config_of({"s": entry(), "fresh": entry()}, **settings))
            for line.slow in (False, True):  # both lanes
                after = await line.ask("tools/call", call)
                assert (after["content"][0]["text"], "structuredContent" in after) == (text, False)
            assert line.fast == 2
            assert before["content"][0]["text"] != text
            assert before["structuredContent"] == {"result": rows}


async def test_when_mcpx_stops_during_a_reload_nothing_is_left(ears):
    base = entry(ears)
    stubborn = entry(ears, stubborn=True)
    async with anyio.create_task_group() as tasks, open_watched(config_of({"s": stubborn})) as watch:
        tasks.start_soon(watch.hub.reload, config_of({"s": base, "new": base}))
        await soon(lambda: "new" in watch.hub.upstreams)
    assert [each["pid"] for each in ears.of("started") if alive_in_group(each["pid"])] == []


# --- a restart


async def test_a_restart_lets_the_calls_that_run_finish_and_those_that_come_wait(ears):
    base = entry(ears)
    config = config_of({"s": base, "t": base}, shutdown_grace=PATIENCE_S)
    async with open_watched(config) as watch:
        pid = watch.hub.upstreams["s"].pid
        answers, ready = [], []

        async def crowd():
            answers.append(await watch.text("crowd", {"size": 1}))

        async def restart():
            ready.append(await watch.hub.restart("s"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(crowd)  # answered after a moment
            await ears.hear("call", tool="crowd")
            tasks.start_soon(restart)
            await soon(lambda: watch.state() is State.STARTING)
            assert await watch.text("echo", {"text": "waited"}) == "waited"
        assert answers == ["at most 1"]
        assert ready[0].state is State.READY
        assert watch.hub.upstreams["s"].pid != pid
        assert watch.hub.upstreams["s"].queue.lifecycle().failures == 0
        assert len(ears.of("started")) == 3


async def test_a_restart_wakes_a_parked_server(tmp_path):
    wanted = tmp_path / "wanted"
    settings = {"restart": {"initial": 0.01, "park_after": 1, "park_probe": 300}}
    async with one_server(settings=settings, wants=str(wanted)) as watch:
        assert watch.state() is State.PARKED
        info = await watch.hub.restart("s")
        assert info.state is State.PARKED  # it was tried, and failed again
        wanted.touch()
        began = time.monotonic()
        assert (await watch.hub.restart("s")).state is State.READY
        assert time.monotonic() - began < 10


async def test_what_cannot_be_restarted_says_why():
    async with open_watched(config_of({"files": entry(), "off": {**entry(), "disabled": True}})) as watch:
        with pytest.raises(CallError, match="files") as unknown:
            await watch.hub.restart("fils")
        assert unknown.value.code is Code.UNKNOWN_SERVER
        with pytest.raises(CallError, match="disabled") as disabled:
            await watch.hub.restart("off")
        assert disabled.value.code is Code.SERVER_UNAVAILABLE
