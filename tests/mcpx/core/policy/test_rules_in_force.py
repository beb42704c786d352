"""A reload is in force at once: for what is listed, for calls that wait, and for what is subscribed to."""

from __future__ import annotations

import os
import signal
from contextlib import asynccontextmanager

import anyio
import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.protocol.requests import CallTool
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.system.endpoint import DEFAULT_ENDPOINT, Endpoint
from mcpx.errors import CallError, Code, Outcome
from supervisors import ChildSpec
from tests.mcpx.core.policy import listing
from tests.mcpx.line import Line
from tests.mcpx.scripted import config_of, entry, open_watched, soon

pytestmark = pytest.mark.anyio
NO_COUNT = {"tools": {"deny": ["count"]}}
PROFILE = {"profiles": {"p": {}}}
WITHOUT_COUNT = {"profiles": {"p": {"tools": {"deny": ["count"]}}}}


async def waiting(watch, count=1):
    await soon(lambda: len(watch.hub.upstreams["s"].queue.ref.mailbox) == count)


@pytest.mark.parametrize("after", [NO_COUNT, WITHOUT_COUNT, {"tools": {"allow": ["hang", "release"]}}])
async def test_a_call_that_waits_for_a_slot_is_not_sent_once_its_tool_is_denied(ears, after):
    servers = {"s": entry(ears, settings={"max_concurrency": 1})}
    async with open_watched(config_of(servers, **PROFILE)) as watch, anyio.create_task_group() as tasks:
        view = HubView(watch.hub, Endpoint(profile="p"))
        found = []

        async def count():
            try:
                await view.calls.exec("s", "count")
            except CallError as error:
                found.append(error)

        tasks.start_soon(watch.outcome, "hang")
        await ears.hear("call", tool="hang")
        tasks.start_soon(count)
        await waiting(watch)
        await watch.hub.reload(config_of(servers, **(PROFILE | after)))
        await soon(lambda: found)
        assert (found[0].code, found[0].outcome) == (Code.UNKNOWN_TOOL, Outcome.NOT_SENT)
        assert "count" not in found[0].details["available"]
        assert not ears.of("call", tool="count")
        tasks.cancel_scope.cancel()


async def test_the_calls_of_others_go_on_where_one_profile_is_narrowed(ears):
    servers = {"s": entry(ears, settings={"max_concurrency": 1})}
    async with open_watched(config_of(servers, **PROFILE)) as watch, anyio.create_task_group() as tasks:
        tasks.start_soon(watch.outcome, "hang")
        await ears.hear("call", tool="hang")
        tasks.start_soon(watch.outcome, "count")
        await waiting(watch)
        await watch.hub.reload(config_of(servers, **WITHOUT_COUNT))
        assert len(watch.hub.upstreams["s"].queue.ref.mailbox) == 1
        tasks.cancel_scope.cancel()


async def test_a_call_that_waits_for_its_server_is_not_sent_once_its_tool_is_denied(ears, tmp_path):
    wanted = tmp_path / "wanted"
    wanted.touch()
    servers = {"s": entry(ears, wants=str(wanted), without="silent")}
    async with open_watched(config_of(servers)) as watch, anyio.create_task_group() as tasks:
        found = []

        async def count():
            found.append(await watch.failure("count"))

        wanted.unlink()
        os.kill(watch.hub.upstreams["s"].pid, signal.SIGKILL)
        await watch.leaves(State.READY)
        tasks.start_soon(count)
        await waiting(watch)
        await watch.hub.reload(config_of(servers, **NO_COUNT))
        await soon(lambda: found)
        assert found[0].code == Code.UNKNOWN_TOOL
        tasks.cancel_scope.cancel()


async def test_a_call_whose_connection_was_lost_is_not_repeated_once_its_tool_is_denied():
    servers = {"s": entry()}
    async with open_watched(config_of(servers)) as watch:
        upstream = watch.hub.upstreams["s"]
        await watch.hub.reload(config_of(servers, **NO_COUNT))
        for lost in (None, CallError(Code.SERVER_DIED, "lost", server="s")):
            reply = RawReply()
            upstream.queue.put_back(CallTool("count", b"{}"), reply, lost)
            assert reply.error.code == (Code.SERVER_DIED if lost else Code.UNKNOWN_TOOL)
        assert not upstream.queue.waiting


async def test_a_call_whose_arguments_are_being_checked_is_not_sent_once_its_tool_is_denied(
    ears, monkeypatch
):
    servers = {"s": entry(ears)}
    async with open_watched(config_of(servers)) as watch, anyio.create_task_group() as tasks:
        verdicts, found = [], []
        checker = watch.hub.faces.checker
        monkeypatch.setattr(checker, "accepts", lambda *_given: False)
        monkeypatch.setattr(checker, "judge", lambda _tool, raw, then, *_: verdicts.append((raw, then)))

        async def count():
            found.append(await watch.failure("count"))

        tasks.start_soon(count)
        await soon(lambda: verdicts)
        await watch.hub.reload(config_of(servers, **NO_COUNT))
        raw, judged = verdicts[0]
        judged(raw)
        await soon(lambda: found)
        assert found[0].code == Code.UNKNOWN_TOOL
        assert not ears.of("call", tool="count")


async def test_what_a_reload_allows_again_is_there_again():
    servers = {"s": entry()}
    async with open_watched(config_of(servers, **NO_COUNT)) as watch:
        pid = watch.hub.upstreams["s"].pid
        assert await watch.outcome("count") == Code.UNKNOWN_TOOL
        reloaded = await watch.hub.reload(config_of(servers))
        assert (reloaded.settings, reloaded.untouched) == (("tools",), ("s",))
        assert await watch.outcome("count") is None
        assert watch.hub.upstreams["s"].pid == pid


# --- lists and subscriptions

OFFER = {
    "tools": ["poke", "wipe"],
    "prompts": ["greet"],
    "resources": ["note:///a"],
    "templates": ["x:///{y}"],
}


def offering(folder, more=None, **settings):
    return {"s": listing.entry("s", folder / "notes", OFFER | (more or {}), **settings)}


@asynccontextmanager
async def client_of(watch, endpoint=DEFAULT_ENDPOINT):
    sessions = ClientSessions(watch.hub)
    endpoints = Endpoints(watch.hub, sessions)
    watch.hub.root.add(ChildSpec(name="clients", run=sessions.run))
    async with Line(watch.hub).connected(endpoints.gateway(endpoint)) as line:
        await line.initialize()
        for kind in ("tools", "resources", "prompts"):
            await line.ask(f"{kind}/list", {})
        yield line


@pytest.mark.parametrize("endpoint", [DEFAULT_ENDPOINT, Endpoint(profile="p")], ids=["all", "profile"])
async def test_clients_are_told_of_the_lists_that_a_rule_changes(tmp_path, endpoint):
    rules = {
        "tools": {"deny": ["wipe"]},
        "resources": {"deny": ["note:*"]},
        "prompts": {"deny": ["*"]},
    }
    after = {"profiles": {"p": rules}} if endpoint.profile else rules | PROFILE
    async with (
        open_watched(config_of(offering(tmp_path), **PROFILE)) as watch,
        client_of(watch, endpoint) as line,
    ):
        await watch.hub.reload(config_of(offering(tmp_path), **after))
        for kind in ("tools", "resources", "prompts"):
            await line.hear(f"notifications/{kind}/list_changed")
        assert (await line.ask("resources/list", {}))["resources"] == []
        assert (await line.ask("prompts/list", {}))["prompts"] == []


async def test_a_subscription_to_what_is_denied_is_silent_and_goes_on_when_it_is_allowed_again(tmp_path):
    def notes():
        return (tmp_path / "notes").read_text()

    async def touch(line):
        arguments = {"server_name": "s", "tool_name": "poke", "arguments": {"touch": "note:///a"}}
        await line.ask("tools/call", {"name": "exec", "arguments": arguments})

    async with open_watched(config_of(offering(tmp_path))) as watch, client_of(watch) as line:
        await line.ask("resources/subscribe", {"uri": "mcpx://s/note:///a"})
        await touch(line)
        await line.hear("notifications/resources/updated")
        await watch.hub.reload(config_of(offering(tmp_path), resources={"deny": ["note:*"]}))
        await soon(lambda: "resources/unsubscribe note:///a" in notes())
        reads = notes().count("resources/read")
        await touch(line)
        await touch(line)
        await line.ask("ping", {})
        assert "notifications/resources/updated" not in line.notifications
        assert notes().count("resources/read") == reads
        await line.ask("resources/subscribe", {"uri": "mcpx://s/note:///a"})
        assert line.error
        await watch.hub.reload(config_of(offering(tmp_path)))
        await soon(lambda: notes().count("resources/subscribe note:///a") == 2)
        await touch(line)
        await line.hear("notifications/resources/updated")


async def test_what_is_denied_is_not_read_for_a_description(tmp_path):
    settings = {"auto_describe": True, "resources": {"deny": ["note:///b"]}}
    offered = {"resources": ["note:///a", "note:///b"], "mime_type": "text/plain"}
    async with open_watched(config_of(offering(tmp_path, offered, **settings))) as watch:
        await watch.hub.described(5)
    assert (tmp_path / "notes").read_text().split() == ["resources/read", "note:///a"]


async def test_annotations_that_a_person_gives_are_shown_at_once_in_place_of_the_servers(tmp_path):
    hints = {"poke": {"readOnlyHint": True}, "w*": {"destructiveHint": True}}
    async with open_watched(config_of(offering(tmp_path))) as watch:
        assert watch.hub.registry.get_tool("s", "poke").annotations is None
        await watch.hub.reload(config_of(offering(tmp_path, annotations=hints)))
        assert watch.hub.registry.get_tool("s", "poke").annotations == {"readOnlyHint": True}
        assert watch.hub.registry.get_tool("s", "wipe").annotations == {"destructiveHint": True}
