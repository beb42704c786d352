"""`mcpx/servers`, `mcpx/restart` and `mcpx/log`: what another MCPX asks, and who is answered."""

from __future__ import annotations

import json
from functools import partial

import anyio
import pytest

from mcpx.cluster.federation.directory import read_directory
from mcpx.cluster.federation.own_directory import own_id
from mcpx.core.catalog.snapshot import State
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.system.endpoint import Endpoint
from tests.mcpx.core.gateway.endpoints import HttpEndpoint, LineEndpoint
from tests.mcpx.core.gateway.peer.peers import open_peers
from tests.mcpx.scripted import PATIENCE_S, config_of, entry

pytestmark = pytest.mark.anyio
SERVERS = {"shop": entry(), "down": entry(exit=3), "own": entry(settings={"sessions": "per_client"})}


async def client(peers, era="handshake", **endpoint):
    line = LineEndpoint(peers.hub, modern=era == "modern", slow=False)
    await peers._stack.enter_async_context(line.connected(peers.endpoints.gateway(Endpoint(**endpoint))))
    await line.open()
    return line


async def directory(peer, **params):
    with anyio.fail_after(PATIENCE_S):
        answer = await peer.answer("mcpx/servers", params)
    assert answer.error is None, answer.error
    return read_directory(bytes(answer.result))


@pytest.mark.parametrize("endpoint", ["handshake", "modern", "http"])
async def test_servers_with_their_states(endpoint):
    async with open_peers(SERVERS) as peers:
        await peers.watch.becomes(State.PARKED, "down")
        if endpoint == "http":
            http = await peers.join("http", "modern")
            asking = HttpEndpoint(http._client, peers.url, modern=True)
            await asking.open()
        else:
            asking = await client(peers, endpoint)
        found = await directory(asking)
        by_name = {each.name: each for each in found.servers}
        assert list(by_name) == list(SERVERS)
        assert found.mcpx.id == peers.hub.peers.directory.id
        assert all(each.via == [found.mcpx.id] for each in found.servers)
        shop, down = by_name["shop"], by_name["down"]
        assert (shop.state, shop.sessions, shop.tools > 0) == ("ready", "shared", True)
        assert shop.pid == peers.hub.upstreams["shop"].pid
        assert shop.memory_bytes is None or shop.memory_bytes > 1 << 20
        assert (down.state, down.pid, down.tools) == ("parked", None, 0)
        assert "code 3" in (down.last_error or "")
        assert down.described.startswith("parked")
        assert by_name["own"].sessions == "per_client"
        assert (await directory(asking)).version == found.version


async def test_a_change_answers_who_waits_and_nothing_else_does(tmp_path):
    tools = tmp_path / "tools"
    tools.write_text(json.dumps([{"name": "add", "inputSchema": {"type": "object"}}]))
    async with open_peers({"shop": entry(tools=str(tools)), "other": entry()}) as peers:
        asking, other = await client(peers), await client(peers, only=("other",))
        version = (await directory(asking)).version
        others = (await directory(other)).version
        assert (await directory(asking, since=version, wait_s=0.05)).version == version
        assert (await directory(asking, since=version + 7, wait_s=60)).version == version
        async with anyio.create_task_group() as tasks:
            found = []

            async def wait(peer, known):
                found.append(await directory(peer, since=known, wait_s=60))

            tasks.start_soon(wait, asking, version)
            await anyio.wait_all_tasks_blocked()
            await peers.hub.restart("shop")
        assert found[0].version != version
        added = config_of({"shop": entry(tools=str(tools)), "new": entry()})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait, asking, found[0].version)
            await anyio.wait_all_tasks_blocked()
            await peers.hub.reload(added)
        assert {each.name for each in found[1].servers} >= {"new"}
        gone = await directory(other, since=others, wait_s=60)
        assert [each.name for each in gone.servers] == []


async def test_what_a_endpoint_hides_is_not_told_and_a_profile_may_not_restart(tmp_path):
    profiles = {"work": {"servers": ["shop"], "tools": {"shop": ["echo"]}}}
    async with open_peers(SERVERS, profiles=profiles) as peers:
        narrow, wide = await client(peers, profile="work"), await client(peers)
        found = await directory(narrow)
        assert [(each.name, each.tools) for each in found.servers] == [("shop", 1)]
        for method in ("mcpx/restart", "mcpx/log", "mcpx/else"):
            assert (await narrow.answer(method, {"server": "shop"})).error["code"] == -32601
        before = peers.hub.upstreams["shop"].pid
        assert (await wide.answer("mcpx/restart", {"server": "shop"})).error is None
        assert peers.hub.upstreams["shop"].pid not in {before, None}
        unknown = (await wide.answer("mcpx/restart", {"server": "shob"})).error
        assert unknown["data"]["mcpx"]["code"] == "unknown_server"
        assert (await wide.answer("mcpx/servers", {"since": "x"})).error["code"] == -32602


async def test_the_end_of_a_log():
    """By a name that no other test has: log files outlive their tests."""
    async with open_peers({"logged": entry(stderr="".join(f"line {n}\n" for n in range(50)))}) as peers:
        asking = await client(peers)
        found = (await asking.answer("mcpx/log", {"server": "logged", "lines": 2})).result
        assert [line[-7:] for line in json.loads(bytes(found))["lines"]] == ["line 48", "line 49"]
        assert (await asking.answer("mcpx/log", {"server": "logged", "lines": 0})).error["code"] == -32602
        everything = json.loads(bytes((await asking.answer("mcpx/log", {"server": "logged"})).result))
        assert len(everything["lines"]) == 50


async def test_who_waits_is_answered_when_mcpx_ends():
    async with open_peers({"s": entry()}) as peers:
        view = HubView(peers.hub)
        asked = partial(peers.hub.peers.directory.answer, view)
        known = await asked(read_request())
        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(asked, read_request(since=known.version, wait_s=60.0))
                await anyio.wait_all_tasks_blocked()
                peers.hub.stop()


def read_request(**members):
    from mcpx.cluster.federation.directory import DirectoryRequest  # noqa: PLC0415

    return DirectoryRequest(**members)


def test_the_id_is_made_once_and_a_file_that_is_none_is_replaced(tmp_path):
    folder = tmp_path / "a" / "b"
    first = own_id(folder)
    assert own_id(folder) == first
    assert (folder / "id").stat().st_mode & 0o777 == 0o600
    (folder / "id").write_text("rubbish")
    second = own_id(folder)
    assert second != first
    assert own_id(folder) == second
    assert sorted(each.name for each in folder.iterdir()) == ["id"]
    (tmp_path / "file").touch()
    assert len(own_id(tmp_path / "file" / "c")) == len(first)  # it cannot be kept
