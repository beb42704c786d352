"""The hub as a whole: settling, observers, and an end that leaves nothing."""

from __future__ import annotations

import os
import time

import anyio
import pytest
from msgspec.structs import replace

from mcpx.core.catalog.model import Catalogue
from mcpx.core.catalog.snapshot import State
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.policy.policy import ServerPolicy
from mcpx.core.running import Environment
from mcpx.core.servers.server import Server
from mcpx.core.system.endpoint import Endpoint
from mcpx.core.telemetry.log import redacted
from mcpx.errors import Code
from supervisors import ChildStopped
from tests.mcpx.scripted import config_of, entry, one_server, open_watched
from tests.mcpx.serving import alive_in_group, started_with

pytestmark = pytest.mark.anyio


async def test_it_is_settled_when_every_server_is_ready_or_has_failed_once():
    servers = {"s": entry(), "none": {"command": "there-is-no-such-command"}, "exits": entry(exit=1)}
    async with open_watched(config_of(servers), settled=False) as watch:
        assert await watch.hub.settled(50)
        assert watch.state() is State.READY
        assert watch.state("none") is State.PARKED


async def test_without_a_server_to_start_it_is_settled_at_once():
    servers = {"off": {**entry(), "disabled": True}}
    async with open_watched(config_of(servers), settled=False) as watch:
        assert await watch.hub.settled(0.5)
        error = await watch.failure("echo", server="off")
        assert error.code is Code.SERVER_UNAVAILABLE
        assert "is switched off" in str(error)


async def test_settling_takes_no_longer_than_it_may():
    async with one_server(settled=False, silent=True) as watch:
        began = time.monotonic()
        assert await watch.hub.settled(0.1) is False
        assert time.monotonic() - began < 2


async def test_an_observer_hears_no_more_after_it_said_so():
    async with one_server() as watch:
        first, second = [], []
        watch.hub.observe(lambda name, _diff: first.append(name))
        end = watch.hub.observe(lambda name, _diff: second.append(name))
        await watch.text("add", {"name": "one"})
        await watch.until(lambda: watch.hub.registry.get_tool("s", "one") is not None)
        end()
        await watch.text("add", {"name": "two"})
        await watch.until(lambda: watch.hub.registry.get_tool("s", "two") is not None)
        assert (first, second) == (["s", "s"], ["s"])


async def test_when_it_ends_no_process_of_any_server_is_left(ears):
    servers = {
        "good": entry(ears),
        "stubborn": entry(ears, stubborn=True),
        "parent": entry(ears, grandchild=True),
    }
    began = 0.0
    async with open_watched(config_of(servers)):
        groups = [event["pid"] for event in ears.of("started")]
        assert len(groups) == 3
        assert all(alive_in_group(group) for group in groups)
        began = time.monotonic()
    assert time.monotonic() - began < 6
    assert [alive_in_group(group) for group in groups] == [[], [], []]


async def test_a_call_that_runs_past_the_grace_time_is_told_that_the_session_was_closed(ears):
    codes = []
    async with anyio.create_task_group() as tasks, one_server(ears) as watch:

        async def call() -> None:
            codes.append(await watch.outcome("hang"))

        tasks.start_soon(call)
        await ears.hear("call", tool="hang")
    assert codes == [Code.SERVER_DIED]


async def test_fifty_servers_come_up_and_go(ears):
    servers = {f"s{number}": entry(ears) for number in range(50)}
    async with open_watched(config_of(servers)) as watch:
        assert {info.state for info in watch.hub.registry.list_servers()} == {State.READY}
        assert await watch.text("echo", {"text": "x"}, server="s49") == "x"
    assert [event["pid"] for event in ears.of("started") if alive_in_group(event["pid"])] == []


async def test_what_was_opened_before_the_tree_is_closed_if_the_tree_is_never_run(monkeypatch):
    hub = Hub(config_of({}))
    closed = []

    def fail():
        raise OSError("no such device")

    monkeypatch.setattr(hub.fleet.ledger, "sweep", fail)
    monkeypatch.setattr(hub.audit, "close", lambda: closed.append("audit"))
    monkeypatch.setattr(hub.workers, "close", lambda: closed.append("workers"))
    with pytest.raises(OSError, match="no such device"):
        await hub.run()
    assert sorted(closed) == ["audit", "workers"]


async def test_a_late_event_of_a_session_that_is_gone_is_dropped():
    async with one_server() as watch:
        fleet = watch.hub.fleet
        version = fleet.version
        fleet._on_event(ChildStopped(child="s-of-before", generation=1, cause=None))
        assert fleet.version == version
        assert await watch.text("echo", {"text": "x"}) == "x"


async def test_two_hubs_in_one_process_keep_their_environments_and_their_secrets_apart(ears):
    def config(name, secret):
        made = config_of({"s": entry(ears, settings={"env": {"TOKEN": secret}})})
        return replace(made, environment=Environment({"HOME": f"/home/{name}", "PATH": os.environ["PATH"]}))

    async with open_watched(config("one", "secret-of-one")), open_watched(config("two", "secret-of-two")):
        pids = [(await ears.hear("started", count=count))["pid"] for count in (1, 2)]
        for home in ("/home/one", "/home/two"):
            assert [started_with(pid, "HOME", home) for pid in pids].count(True) == 1
        line = redacted("secret-of-one and secret-of-two")
        assert "secret-of" not in line


async def test_a_server_that_is_started_from_outside_the_tree_has_the_environment_of_its_hub(ears):
    made = config_of({"s": entry(ears)})
    environment = Environment({"HOME": "/home/one", "PATH": os.environ["PATH"]})
    async with open_watched(replace(made, environment=environment)) as watch:
        await watch.hub.restart("s")
        pids = [each["pid"] for each in ears.of("started")]
        assert started_with(pids[-1], "HOME", "/home/one")


SECRET = "count"  # a tool that the profile hides
PROFILES = {"profiles": {"p": {"tools": {"deny": [SECRET]}}}}


def names_in(found) -> set[str]:
    """The tools that an answer names, whatever shape it has."""
    if isinstance(found, Catalogue):
        return set(found.tools)
    return set(found) if isinstance(found, list | dict) else set()


async def test_a_new_attribute_of_a_server_cannot_leak_through_a_profile(monkeypatch):
    async with open_watched(config_of({"s": entry()}, **PROFILES)) as watch:
        await watch.hub.settled(50)
        monkeypatch.setattr(
            Server, "all_tools", property(lambda self: list(self.catalogue.tools)), raising=False
        )
        monkeypatch.setattr(Server, "whole", lambda self: self.catalogue, raising=False)
        server = watch.hub.upstreams["s"]
        assert SECRET in server.all_tools
        assert SECRET in server.whole().tools
        shown = HubView(watch.hub, Endpoint(profile="p")).upstreams["s"]
        assert not hasattr(shown, "all_tools")
        assert not hasattr(shown, "whole")
        with pytest.raises(AttributeError):
            shown.all_tools = server.all_tools  # nor can it be put there
        public = [name for name in dir(shown) if not name.startswith("_")]
        assert "catalogue" in public
        assert all(SECRET not in names_in(getattr(shown, name)) for name in public)
        assert not any(getattr(shown, name) is server for name in public)


async def test_a_new_question_to_a_policy_is_not_answered_for_the_unnarrowed_server(monkeypatch):
    def first_rule(self):
        return self._first_rule_of_all

    async with open_watched(config_of({"s": entry()}, **PROFILES)) as watch:
        await watch.hub.settled(50)
        watch.hub.upstreams["s"].policy._first_rule_of_all = "count"
        monkeypatch.setattr(ServerPolicy, "first_rule", first_rule, raising=False)
        shown = HubView(watch.hub, Endpoint(profile="p")).upstreams["s"]
        assert watch.hub.upstreams["s"].policy.first_rule() == "count"
        with pytest.raises(AttributeError):
            shown.policy.first_rule()
