"""A new configuration in a running MCPX: only what differs is touched."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager

import anyio
import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.server import GatewayServer
from mcpx.core.policy.policy import ServerPolicy
from mcpx.core.servers.call_rate import CallRate
from mcpx.core.servers.fleet.fleet import Fleet
from mcpx.core.servers.fleet.reload import ReloadError, ReloadPlan
from mcpx.errors import CallError, Code
from supervisors import ChildSpec
from tests.mcpx.line import Line
from tests.mcpx.scripted import PATIENCE_S, config_of, entry, open_watched, soon
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


async def test_of_servers_that_come_and_go_no_pins_stay_in_memory_and_all_in_files(tmp_path):
    base = entry(settings={"start": "eager"})  # one that is remembered may sleep at first
    async with open_watched(config_of({"same": base}), state=tmp_path / "state") as watch:
        pins = watch.hub.fleet.pins
        for number in range(3):
            await watch.hub.reload(config_of({"same": base, f"s{number}": base}))
            await watch.becomes(State.READY, f"s{number}")
            await soon(lambda: len(pins._pins) == 2)
        await watch.hub.reload(config_of({"same": base, "s0": base}))
        await watch.becomes(State.READY, "s0")
        assert watch.hub.upstreams["s0"].policy.pins.record.state == "pinned"
        await soon(lambda: [known[0].name for known in pins._pins.values()] == ["same", "s0"])
        assert len(list(pins.files.folder.glob("*.json"))) == 5  # and their index


async def test_one_added_one_removed_one_changed_and_one_untouched(ears):
    base = entry(ears)
    old = {"same": base, "gone": base, "other": base}
    new = {"same": base, "other": changed(base), "fresh": base}
    async with open_watched(config_of(old)) as watch, calling(watch, ears, server="same") as ended:
        before = dict(watch.hub.upstreams)
        pids = {name: upstream.pid for name, upstream in before.items()}
        reloaded = await watch.hub.reload(config_of(new))
        assert reloaded == ReloadPlan(
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
    async with open_watched(config_of({"a": base}, shutdown_grace=0.5)) as watch:
        done = []

        async def reload(servers):
            done.append(await watch.hub.reload(config_of(servers, shutdown_grace=0.5)))

        # the first takes its grace time, the second by itself would take none
        async with calling(watch, ears, server="a"), anyio.create_task_group() as tasks:
            tasks.start_soon(reload, {"b": base})
            await soon(lambda: watch.state("a") is State.STOPPED)
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


async def test_when_mcpx_stops_during_a_reload_nothing_is_left(ears):
    base = entry(ears)
    stubborn = entry(ears, stubborn=True)
    async with anyio.create_task_group() as tasks, open_watched(config_of({"s": stubborn})) as watch:
        tasks.start_soon(watch.hub.reload, config_of({"s": base, "new": base}))
        await soon(lambda: "new" in watch.hub.upstreams)
    assert [each["pid"] for each in ears.of("started") if alive_in_group(each["pid"])] == []


async def test_after_the_end_a_reload_starts_nothing(ears):
    base = entry(ears)
    async with open_watched(config_of({"s": base})) as watch:
        hub = watch.hub
    await hub.reload(config_of({"s": changed(base), "fresh": base}))
    assert len(ears.of("started")) == 1
    for name in ("s", "fresh"):
        assert hub.registry.get_server_info(name).state is State.STOPPED


@contextmanager
def broken(monkeypatch, kind, name, server, *, once=False):
    """A method of a server's that raises for that server."""
    works, raised = getattr(kind, name), []

    def fail(self, first, *args, **more):
        of = getattr(first, "name", None)
        if of == server and not (once and raised):
            raised.append(1)
            raise RuntimeError("out of luck")
        return works(self, first, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(kind, name, fail)
        yield


@pytest.mark.parametrize(
    ("kind", "name"), [(ServerPolicy, "configure"), (CallRate, "configure"), (Fleet, "make")]
)
async def test_a_reload_that_fails_before_a_server_is_touched_leaves_everything_as_it_was(
    ears, monkeypatch, kind, name
):
    base = entry(ears)
    old = config_of({"same": base, "other": base})
    new = config_of({"same": {**base, "tools": {"deny": ["echo"]}}, "other": changed(base), "fresh": base})
    async with open_watched(old) as watch:
        hub = watch.hub
        before = hub.config, dict(hub.upstreams), {name: each.pid for name, each in hub.upstreams.items()}
        fails = broken(monkeypatch, kind, name, "other", once=True)
        with fails, pytest.raises(ReloadError, match="out of luck") as failed:
            await hub.reload(new)
        assert not failed.value.in_force
        assert (hub.config, dict(hub.upstreams)) == before[:2]
        assert {name: each.pid for name, each in hub.upstreams.items()} == before[2]
        assert await watch.text("echo", {"text": "x"}, server="same") == "x"
        plan = await hub.reload(new)  # as if nothing had been
        assert (plan.added, plan.changed) == (("fresh",), ("other",))
        error = await watch.failure("echo", {"text": "x"}, server="same")
        assert error.code is Code.UNKNOWN_TOOL


async def test_a_reload_that_fails_at_one_server_changes_the_others_and_names_it(ears, monkeypatch):
    base = entry(ears)
    new = config_of({"a": changed(base), "b": changed(base), "c": base, "d": base})
    async with open_watched(config_of({"a": base, "b": base, "gone": base})) as watch:
        with broken(monkeypatch, Fleet, "start", "c"), pytest.raises(ReloadError) as failed:
            await watch.hub.reload(new)
        assert failed.value.in_force
        assert "c (out of luck); all else is in force. Run mcpx restart" in str(failed.value)
        assert list(watch.hub.upstreams) == ["a", "b", "c", "d"]
        assert "mcpx restart tries again" in watch.hub.upstreams["c"].info().cause
        for name in ("a", "b", "d"):
            await watch.becomes(State.READY, name)
        await watch.hub.restart("c")
        assert await watch.text("echo", {"text": "x"}, server="c") == "x"


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
        await watch.hub.reload(config_of({"s": {**base, "env": {"VARIANT": "other"}}}))
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
        shown = (await watch.hub.calls.inspect("s", "echo")).content[0]["text"]
        reloaded = await watch.hub.reload(
            config_of(servers, toon_compression_enabled=False, schema_compression_enabled=False)
        )
        assert reloaded.settings == ("schema_compression_enabled", "toon_compression_enabled")
        assert reloaded.untouched == ("s",)
        assert await watch.text("echo", {"text": text}) == text
        assert (await watch.hub.calls.inspect("s", "echo")).content[0]["text"] != shown
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
        clients = ClientSessions(watch.hub)
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
            for line.slow in (False, True):  # both paths
                after = await line.ask("tools/call", call)
                assert (after["content"][0]["text"], "structuredContent" in after) == (text, False)
            assert line.fast == 2
            assert before["content"][0]["text"] != text
            assert before["structuredContent"] == {"result": rows}
