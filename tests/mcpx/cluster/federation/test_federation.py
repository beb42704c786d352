"""Servers of other MCPX as servers here: real hubs over HTTP, with real servers behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from mcpx.cluster.federation.expansion import ITSELF, PeerMemory
from mcpx.core.daemon.status_snapshot import snapshot
from mcpx.core.protocol.context import ClientId
from mcpx.errors import CallError, Code, Outcome
from mcpx.paths import configuration_folder
from tests.mcpx.cluster.federation.chain import open_link, peer
from tests.mcpx.scripted import PATIENCE_S, Ears, config_of, entry, soon

pytestmark = pytest.mark.anyio


async def test_a_server_two_hops_away_answers_and_fails_as_it_does_there(tmp_path: Path) -> None:
    async with (
        open_link(tmp_path / "c", {"s": entry()}) as far,
        open_link(tmp_path / "b", {"far": peer(far.url, **{"as": "far"})}) as middle,
        open_link(tmp_path / "a", {"lab": peer(middle.url, **{"as": "lab"})}) as near,
    ):
        await near.has("lab/far/s")
        assert await near.watch.text("echo", {"text": "héllo"}, server="lab/far/s") == "héllo"
        error = await near.watch.failure("fail", {"text": "no"}, server="lab/far/s")
        there = await far.watch.failure("fail", {"text": "no"}, server="s")
        assert (error.code, error.outcome) == (Code.UPSTREAM_ERROR, Outcome.FAILED)
        assert error.details == there.details
        assert str(error) == str(there)
        assert (error.server, error.tool) == ("lab/far/s", "fail")


async def test_a_call_whose_server_dies_there_is_unknown_here_and_ran_once(tmp_path: Path) -> None:
    with Ears(tmp_path / "ears") as ears:
        async with (
            open_link(tmp_path / "b", {"s": entry(ears)}) as far,
            open_link(tmp_path / "a", {"lab": peer(far.url)}) as near,
        ):
            await near.has("s")
            error = await near.watch.failure("die", {}, server="s")
            assert (error.code, error.outcome) == (Code.SERVER_DIED, Outcome.UNKNOWN)
            assert "cause" in error.details
            assert str(error).startswith("lab says: ")
            assert len(ears.of("call", tool="die")) == 1
            assert await near.watch.text("echo", {"text": "again"}, server="s") == "again"


async def test_a_call_in_flight_while_the_peer_goes_is_unknown(tmp_path: Path) -> None:
    with Ears(tmp_path / "ears") as ears:
        found: list[CallError] = []
        async with anyio.create_task_group() as tasks, open_link(tmp_path / "a", {}) as near:
            async with open_link(tmp_path / "b", {"s": entry(ears)}) as far:
                await near.hub.reload(config_of({"lab": peer(far.url)}))
                await near.has("s")

                async def call() -> None:
                    found.append(await near.watch.failure("hang", {}, server="s"))

                tasks.start_soon(call)
                await ears.hear("call", tool="hang")
            await soon(lambda: found)
            assert found[0].outcome is Outcome.UNKNOWN
            assert len(ears.of("call", tool="hang")) == 1


async def test_servers_come_and_go_with_those_of_the_peer_and_states_reload_nothing(tmp_path: Path) -> None:
    async with (
        open_link(tmp_path / "b", {"s": entry()}) as far,
        open_link(tmp_path / "a", {"own": entry(), "lab": peer(far.url, **{"as": "lab"})}) as near,
    ):
        await near.has("lab/s", "own")
        kept = near.hub.upstreams["own"], near.hub.upstreams["lab/s"]
        await far.hub.reload(config_of({"s": entry(), "t": entry()}))
        await near.has("lab/t")
        assert (near.hub.upstreams["own"], near.hub.upstreams["lab/s"]) == kept
        applied: list[Any] = []
        carry_out = near.hub.reloads._carry_out

        async def carry_out_noted(*given: Any, **more: Any) -> Any:
            applied.append(given)
            return await carry_out(*given, **more)

        near.hub.reloads._carry_out = carry_out_noted  # type: ignore[method-assign]
        await far.hub.restart("t")  # its state changes, twice at least
        await far.hub.reload(config_of({"s": entry()}))
        await soon(lambda: "lab/t" not in near.hub.upstreams)
        assert len(applied) == 1
        assert (near.hub.upstreams["own"], near.hub.upstreams["lab/s"]) == kept


async def test_what_a_peer_says_of_a_server_is_shown(tmp_path: Path) -> None:
    async with (
        open_link(tmp_path / "b", {"s": entry(), "gone": {"command": "/nonexistent/x"}}) as far,
        open_link(tmp_path / "a", {"lab": peer(far.url, **{"as": "lab"})}, settled=False) as near,
    ):
        await near.has("lab/s")
        await soon(lambda: near.hub.upstreams["lab/gone"].info().state == "parked")
        status = snapshot(near.hub, clients=0)
        gone = next(each for each in status.servers if each.name == "lab/gone")
        assert (gone.peer, gone.state) == ("lab", "parked")
        assert gone.last_error == "lab: command not found: /nonexistent/x"
        assert isinstance(status.peers, list)
        assert [(each.name, each.state, each.servers) for each in status.peers] == [("lab", "ready", 2)]


async def test_a_loop_is_left_out_at_any_length(tmp_path: Path) -> None:
    async with (
        open_link(tmp_path / "b", {}) as far,
        open_link(
            tmp_path / "a", {"own": entry(), "lab": peer(far.url, **{"as": "lab"})}, settled=False
        ) as near,
    ):
        back = {"s": entry(), "back": peer(near.url, **{"as": "back"})}
        await far.hub.reload(config_of(back))
        await far.has("back/own")
        await near.has("lab/s")
        federation = near.hub.peers
        assert federation is not None
        await soon(lambda: federation.left_out)
        assert set(near.hub.upstreams) == {"own", "lab/s"}
        assert [each.server for each in federation.left_out] == ["back/own"]
        itself = {"own": entry(), "me": peer(near.url, **{"as": "me"})}
        await near.hub.reload(config_of(itself))
        await soon(lambda: any(each.why == ITSELF for each in federation.left_out))
        assert set(near.hub.upstreams) == {"own"}


async def test_a_peer_that_is_down_keeps_its_servers_over_a_restart(tmp_path: Path) -> None:
    async with open_link(tmp_path / "b", {"s": entry()}) as far:
        url, port = far.url, int(far.url.rsplit(":", 1)[1].split("/")[0])
        async with open_link(tmp_path / "a", {"lab": peer(url, **{"as": "lab"})}) as near:
            await near.has("lab/s")
            memory = PeerMemory(configuration_folder("test", tmp_path / "a"))
            await soon(lambda: memory.read(near.hub.config.peers["lab"]))
    servers = {"lab": peer(url, **{"as": "lab"}, queue_timeout=0.2)}
    async with open_link(tmp_path / "a", servers, settled=False) as near:
        assert "lab/s" in near.hub.upstreams
        error = await near.watch.failure("echo", {"text": "x"}, server="lab/s")
        assert error.outcome is Outcome.NOT_SENT
        async with open_link(tmp_path / "b", {"s": entry()}, port=port):
            await near.has("lab/s")
            assert await near.watch.text("echo", {"text": "back"}, server="lab/s") == "back"


async def test_rules_of_the_entry_and_of_all_hold_by_the_names_here(tmp_path: Path) -> None:
    servers = {"s": entry(), "t": entry()}
    async with open_link(tmp_path / "b", servers) as far:
        own = peer(far.url, **{"as": "lab"}, tools={"deny": ["fail", "t.count"]})
        async with open_link(tmp_path / "a", {"lab": own}, tools={"deny": ["lab/s.hang"]}) as near:
            await near.has("lab/s", "lab/t")
            shown = {name: set(each.info().tools) for name, each in near.hub.upstreams.items()}
            assert "fail" not in shown["lab/s"] | shown["lab/t"]
            assert ("count" in shown["lab/s"], "count" in shown["lab/t"]) == (True, False)
            assert ("hang" in shown["lab/s"], "hang" in shown["lab/t"]) == (False, True)


async def test_who_waits_for_the_servers_at_the_start_waits_for_those_of_peers(tmp_path: Path) -> None:
    async with (
        open_link(tmp_path / "b", {"s": entry()}) as far,
        open_link(tmp_path / "a", {"lab": peer(far.url)}, settled=False) as near,
    ):
        await near.hub.listed(PATIENCE_S)
        assert near.hub.upstreams["s"].catalogue is not None


async def test_clients_of_a_per_client_server_have_processes_of_their_own_there(tmp_path: Path) -> None:
    with Ears(tmp_path / "ears") as ears:
        async with (
            open_link(tmp_path / "b", {"s": entry(ears, settings={"sessions": "per_client"})}) as far,
            open_link(tmp_path / "a", {"lab": peer(far.url)}) as near,
        ):
            await near.has("s")
            assert near.hub.upstreams["s"].config.sessions == "per_client"
            before = len(ears.of("started"))
            for client in (ClientId(), ClientId()):
                await near.hub.calls.exec("s", "echo", {"text": "x"}, client=client)
            assert len(ears.of("started")) == before + 2


async def test_a_server_is_restarted_there_and_its_log_read_there(tmp_path: Path) -> None:
    with Ears(tmp_path / "ears") as ears:
        async with (
            open_link(tmp_path / "b", {"s": entry(ears, stderr="Hello from far.")}) as far,
            open_link(tmp_path / "a", {"lab": peer(far.url)}) as near,
        ):
            await near.has("s")
            started = len(ears.of("started"))
            await near.hub.restart("s")
            await ears.hear("started", count=started + 1)
            lines = await near.hub.log_tail("s", 10)
            assert any("Hello from far." in line for line in lines)


async def test_an_entry_that_is_no_mcpx_is_parked_and_says_so(tmp_path: Path) -> None:
    async with open_link(tmp_path / "a", {"odd": {**entry(), "mcpx": True}}, settled=False) as near:
        await soon(lambda: near.hub.peers.status() and near.hub.peers.status()[0].state == "parked")
        assert near.hub.upstreams == {}


async def test_a_peer_that_is_taken_out_takes_its_servers_with_it(tmp_path: Path) -> None:
    async with (
        open_link(tmp_path / "b", {"s": entry()}) as far,
        open_link(tmp_path / "a", {"lab": peer(far.url)}) as near,
    ):
        await near.has("s")
        plan = await near.hub.reload(replace(config_of({}), source="test"))
        assert plan.removed == ("s",)
        assert near.hub.peers.status() == []
