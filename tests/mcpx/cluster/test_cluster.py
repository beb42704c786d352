"""A gateway over real nodes: where servers run, and what happens when a node goes, returns or is drained."""

from __future__ import annotations

import io
import json
import signal
import time
from collections import Counter
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace
from rich.console import Console

from mcpx.cli.operations.status_table import render
from mcpx.cluster.node_table import FIRST_WAIT_S
from mcpx.cluster.node_watch import MAX_SILENCE_S
from mcpx.core.catalog.snapshot import State
from mcpx.core.daemon.monitoring import Scrapes, exposition, read
from mcpx.core.daemon.status_snapshot import snapshot
from mcpx.core.protocol.context import ClientId
from mcpx.core.system.processes import memory_now
from mcpx.errors import CallError, Code, Outcome
from mcpx.page.cards import card
from tests.mcpx.cluster.gateways import Gateway, StandInRay, open_gateway, running_nodes, send
from tests.mcpx.scripted import Ears, config_of, entry, soon

pytestmark = pytest.mark.anyio


async def test_a_server_runs_on_a_node_and_answers_as_if_it_were_here(tmp_path: Path) -> None:
    ray = StandInRay()
    config = config_of({"s": entry(), "here": entry(settings={"place": False})})
    async with (
        running_nodes(tmp_path, "a", ray=ray),
        open_gateway(config, ray, tmp_path) as gateway,
    ):
        await gateway.becomes(State.READY)
        assert gateway.node() == "a"
        assert gateway.node("here") is None
        assert await gateway.text("echo", {"text": "hello"}) == "hello"
        assert await gateway.text("echo", {"text": "too"}, server="here") == "too"
        error = await gateway.failure("fail", {"text": "no"})
        assert error.code is Code.UPSTREAM_ERROR
        assert gateway.hub.upstreams["s"].pid is None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_node_that_goes_in_the_middle_of_calls(tmp_path: Path, number: signal.Signals) -> None:
    ray = StandInRay()
    with Ears(tmp_path / "ears") as ears:
        async with (
            running_nodes(tmp_path, "a", "b", ray=ray) as nodes,
            open_gateway(config_of({"s": entry(ears)}), ray, tmp_path) as gateway,
        ):
            await gateway.becomes(State.READY)
            await gateway.answers("a", "b")
            assert gateway.node() == "a"
            errors: list[CallError] = []
            took: list[float] = []

            async def call(number: int) -> None:
                errors.append(await gateway.failure("count", {"hold": True, "number": number}))
                took.append(time.monotonic())

            async with anyio.create_task_group() as tasks:
                for each in range(5):
                    tasks.start_soon(call, each)
                await ears.hear("call", count=5)
                began = time.monotonic()
                send(nodes[0], number)
            # a socket that was closed says so; silence is believed later on a machine that is busy
            assert max(took) - began < (2.0 if number == signal.SIGKILL else MAX_SILENCE_S + 1.0)
            assert {error.code for error in errors} == {Code.SERVER_DIED}
            assert {error.outcome for error in errors} == {Outcome.UNKNOWN}
            assert "node a was lost" in str(errors[0])
            assert await gateway.text("echo", {"text": "again"}) == "again"
            assert time.monotonic() - max(took) < 8.0
            assert gateway.node() == "b"
            counted = [call["arguments"]["number"] for call in ears.of("call", tool="count")]
            assert sorted(counted) == [0, 1, 2, 3, 4]


async def test_calls_that_wait_go_to_the_next_node(tmp_path: Path) -> None:
    ray = StandInRay()
    config = config_of({"s": entry(settings={"max_concurrency": 1})})
    async with (
        running_nodes(tmp_path, "a", "b", ray=ray) as nodes,
        open_gateway(config, ray, tmp_path) as gateway,
    ):
        await gateway.becomes(State.READY)
        await gateway.answers("a", "b")
        texts: list[str] = []

        async def call(number: int) -> None:
            texts.append(await gateway.text("echo", {"text": str(number)}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gateway.failure, "count", {"hold": True})
            await soon(lambda: gateway.hub.upstreams["s"].counters.in_flight)
            for number in range(10):
                tasks.start_soon(call, number)
            await soon(lambda: gateway.hub.upstreams["s"].queued == 10)
            send(nodes[0], signal.SIGKILL)
        assert sorted(map(int, texts)) == list(range(10))
        assert gateway.node() == "b"


async def test_a_drained_node_loses_no_call_though_they_never_cease(tmp_path: Path) -> None:
    ray, heard = StandInRay(), tmp_path / "heard"
    config = config_of({"s": entry(ears=str(heard)), "idle": entry()})
    async with (
        running_nodes(tmp_path, "a", "b", ray=ray),
        open_gateway(config, ray, tmp_path) as gateway,
    ):
        await gateway.becomes(State.READY)
        await gateway.becomes(State.READY, "idle")
        await gateway.answers("a", "b")
        assert gateway.node() == gateway.node("idle") == "a"
        over, sent = anyio.Event(), 0

        async def call_on_and_on(name: int) -> None:
            nonlocal sent
            number = 0
            while not over.is_set():
                number += 1
                sent += 1
                await gateway.text("count", {"text": f"{name}.{number}"})

        async with anyio.create_task_group() as tasks:
            for name in range(8):
                tasks.start_soon(call_on_and_on, name)
            await soon(lambda: sent > 50)
            assert await gateway.cluster.draining.drain("a", 10.0) == []
            await soon(lambda: gateway.node() == gateway.node("idle") == "b")
            before = sent
            await soon(lambda: sent > before + 50)
            over.set()
        calls = [line for line in map(json.loads, heard.read_text().splitlines()) if line["event"] == "call"]
        texts = [call["arguments"]["text"] for call in calls]
        assert len(texts) == len(set(texts)) == sent
        assert len({call["pid"] for call in calls}) == 2


async def test_a_drain_says_what_is_left(tmp_path: Path) -> None:
    ray = StandInRay()
    config = config_of({"s": entry(), "bound": entry(settings={"place": {"node": "a"}})})
    async with (
        running_nodes(tmp_path, "a", "b", ray=ray),
        open_gateway(config, ray, tmp_path) as gateway,
    ):
        for name in ("s", "bound"):
            await gateway.becomes(State.READY, name)
        await gateway.answers("a", "b")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gateway.text, "hang")
            await soon(lambda: gateway.hub.upstreams["s"].counters.in_flight)
            left = await gateway.cluster.draining.drain("a", 0.3)
            assert sorted(left) == ["bound: no other node can take it (a is being drained)", "s: it is busy"]
            await gateway.text("release")
        await soon(lambda: gateway.node() == "b")
        assert gateway.node("bound") == "a"
        assert await gateway.text("echo", {"text": "there"}, server="bound") == "there"
        await gateway.cluster.draining.undrain("a")
        assert gateway.node() == "b", "what has moved stays"


async def test_a_server_waits_for_a_node_that_can_take_it(tmp_path: Path) -> None:
    ray = StandInRay()
    config = config_of({"s": entry(settings={"place": {"resources": {"gpu": 1}}})})
    async with (
        running_nodes(tmp_path, "a", "b", ray=ray) as nodes,
        open_gateway(config, ray, tmp_path) as gateway,
    ):
        await gateway.leaves(State.STARTING)
        assert gateway.state() is State.WAITING
        assert gateway.hub.upstreams["s"].main.last_error == "no node has that", "as Ray says"
        ray.add("b", nodes[1], resources={"GPU": 1.0}, free={"GPU": 1.0})
        assert await gateway.text("echo", {"text": "hello"}) == "hello"
        assert gateway.node() == "b"


async def test_nothing_is_placed_before_the_first_nodes_were_heard(tmp_path: Path) -> None:
    ray = StandInRay()
    async with running_nodes(tmp_path, "later", "quick", ray=ray) as nodes:
        later, quick = ray.nodes["later"], ray.nodes["quick"]
        ray.nodes = {"later": replace(later, endpoint=None, actor="starting"), "quick": quick}
        async with open_gateway(config_of({"s": entry()}), ray, tmp_path) as gateway:
            await gateway.answers("quick")
            assert gateway.node() is None
            ray.add("later", nodes[0])
            assert await gateway.text("echo", {"text": "hello"}) == "hello"
            assert gateway.node() == "later", "which has it reserved"


async def test_a_first_node_that_cannot_run_is_not_waited_for(tmp_path: Path) -> None:
    ray = StandInRay()
    async with running_nodes(tmp_path, "broken", "works", ray=ray):
        broken = replace(ray.nodes["broken"], endpoint=None, actor="failing", problem="no such file")
        ray.nodes = {"broken": broken, "works": ray.nodes["works"]}
        async with open_gateway(config_of({"s": entry()}), ray, tmp_path) as gateway:
            with anyio.fail_after(FIRST_WAIT_S - 1):
                await gateway.becomes(State.READY)
            assert gateway.node() == "works"


async def test_clients_sessions_are_spread_and_the_lost_ones_placed_again(tmp_path: Path) -> None:
    ray = StandInRay()
    config = config_of({"s": entry(settings={"sessions": "per_client"})})
    async with (
        running_nodes(tmp_path, "a", "b", "c", ray=ray) as nodes,
        open_gateway(config, ray, tmp_path) as gateway,
    ):
        await gateway.becomes(State.READY)
        await gateway.answers("a", "b", "c")
        clients = [ClientId() for _ in range(9)]
        for client in clients:
            assert await text_of(gateway, client) == "hello"
        upstream = gateway.hub.upstreams["s"]

        def spread() -> Counter[str | None]:
            return Counter(
                gateway.cluster.node_of(each.child) for each in upstream.clients.by_client.values()
            )

        assert set(spread()) == {"a", "b", "c"}
        assert max(spread().values()) <= 4
        send(nodes[2], signal.SIGKILL)
        await gateway.loses("c")
        for client in clients:
            assert await text_of(gateway, client) == "hello"
        assert set(spread()) == {"a", "b"}
        for client in clients:
            gateway.hub.client_left(client)
        await soon(
            lambda: not any(node.sessions for node in gateway.cluster.nodes if node.name != gateway.node())
        )


async def test_starts_on_nodes_do_not_wait_for_those_on_this_machine(tmp_path: Path) -> None:
    ray = StandInRay()
    here = {f"here-{number}": entry(silent=True, settings={"place": False}) for number in range(2)}
    config = config_of({**here, "s": entry(), "t": entry()}, max_starting=1)
    async with (
        running_nodes(tmp_path, "a", ray=ray),
        open_gateway(config, ray, tmp_path) as gateway,
    ):
        await gateway.becomes(State.READY)
        await gateway.becomes(State.READY, "t")
        assert {gateway.state(name) for name in here} == {State.STARTING}


async def test_gateways_that_place_at_the_same_moment_do_not_overfill_a_node(tmp_path: Path) -> None:
    ray = StandInRay()
    config = config_of({"s": entry(settings={"sessions": "per_client"})})
    free = memory_now().free
    assert free is not None
    async with (
        running_nodes(tmp_path, "a", "b", ray=ray),
        open_gateway(config, ray, tmp_path, name="one") as one,
        open_gateway(config, ray, tmp_path, name="two") as two,
    ):
        for gateway in (one, two):
            await gateway.becomes(State.READY)
            await gateway.answers("a", "b")
            gateway.cluster.memory.note("s", free * 6 // 10, 1)
        async with anyio.create_task_group() as tasks:
            for gateway in (one, two):
                tasks.start_soon(text_of, gateway, ClientId())
        private = [
            each for gateway in (one, two) for each in gateway.hub.upstreams["s"].clients.by_client.values()
        ]
        nodes = [
            gateway.cluster.node_of(each.child) for gateway, each in zip((one, two), private, strict=True)
        ]
        assert sorted(map(str, nodes)) == ["a", "b"]


async def text_of(gateway: Gateway, client: ClientId) -> str:
    done = await gateway.hub.calls.exec("s", "echo", {"text": "hello"}, client=client)
    return str(done.shaped.content[0]["text"])


async def test_a_node_that_comes_back_ends_what_went_elsewhere(tmp_path: Path) -> None:
    ray = StandInRay()
    with Ears(tmp_path / "ears") as ears:
        async with (
            running_nodes(tmp_path, "a", "b", ray=ray) as nodes,
            open_gateway(config_of({"s": entry(ears)}), ray, tmp_path) as gateway,
        ):
            await gateway.becomes(State.READY)
            await gateway.answers("a", "b")
            send(nodes[0], signal.SIGSTOP)
            await gateway.loses("a")
            await soon(lambda: gateway.node() == "b")
            await gateway.becomes(State.READY)
            send(nodes[0], signal.SIGCONT)
            await gateway.answers("a")
            node = gateway.cluster.nodes.get("a")
            await soon(lambda: node is not None and node.report is not None and not node.report.servers)
            assert await gateway.text("echo", {"text": "one"}) == "one"
            assert gateway.node() == "b"


async def test_two_gateways_share_a_server(tmp_path: Path) -> None:
    ray = StandInRay()
    with Ears(tmp_path / "ears") as ears:
        config = config_of({"s": entry(ears)})
        async with (
            running_nodes(tmp_path, "a", "b", ray=ray) as nodes,
            open_gateway(config, ray, tmp_path, name="one") as one,
            open_gateway(config, ray, tmp_path, name="two") as two,
        ):
            for gateway in (one, two):
                await gateway.becomes(State.READY)
                await gateway.answers("a", "b")
                await gateway.text("count", {"text": "x"})
            assert one.node() == two.node() == "a"
            assert len({call["pid"] for call in ears.of("call")}) == 1
            send(nodes[0], signal.SIGKILL)
            for gateway in (one, two):
                await gateway.loses("a")
                assert await gateway.text("count", {"text": "x"}) == "x"
            assert one.node() == two.node() == "b"
            assert len({call["pid"] for call in ears.of("call")}) == 2


async def test_nodes_are_shown_with_what_is_on_them(tmp_path: Path) -> None:
    ray = StandInRay()
    config = config_of({"s": entry(stderr="hello from there\n")})
    async with (
        running_nodes(tmp_path, "a", "b", ray=ray) as nodes,
        open_gateway(config, ray, tmp_path) as gateway,
    ):
        await gateway.becomes(State.READY)
        await gateway.answers("a", "b")
        status = snapshot(gateway.hub, clients=0)
        assert status.servers[0].node == "a"
        assert isinstance(status.nodes, list)
        assert [(node.name, node.state, node.sessions) for node in status.nodes] == [
            ("a", "ready", 1),
            ("b", "ready", 0),
        ]
        console = Console(file=io.StringIO(), width=120)
        console.print(render(status))
        assert "2 of 2 nodes ready" in console.file.getvalue()  # type: ignore[attr-defined]
        metrics, _ = exposition(read(gateway.hub, clients=0), Scrapes(), "")
        assert b'mcpx_node_up{node="a"} 1' in metrics
        assert b'mcpx_node_sessions{node="a"} 1' in metrics
        upstream = gateway.hub.upstreams["s"]
        await soon(lambda: upstream.placed_use is not None and upstream.placed_use.cpu is not None)
        [server] = snapshot(gateway.hub, clients=0).servers
        assert isinstance(server.memory_bytes, int)
        assert server.memory_bytes > 1 << 20
        assert isinstance(server.cpu_share, float)
        assert card(gateway.hub, "s", {})["memory_bytes"] == round(server.memory_bytes, -6)
        metrics, _ = exposition(read(gateway.hub, clients=0), Scrapes(), "")
        assert b'mcpx_server_memory_bytes{server="s"} ' in metrics
        assert "hello from there" in (await gateway.hub.log_tail("s", 5))[-1]
        send(nodes[1], signal.SIGKILL)
        await gateway.loses("b")
        metrics, _ = exposition(read(gateway.hub, clients=0), Scrapes(), "")
        assert b'mcpx_node_up{node="b"} 0' in metrics


async def test_a_restart_starts_the_process_on_the_node_anew(tmp_path: Path) -> None:
    ray = StandInRay()
    with Ears(tmp_path / "ears") as ears:
        async with (
            running_nodes(tmp_path, "a", ray=ray),
            open_gateway(config_of({"s": entry(ears)}), ray, tmp_path) as gateway,
        ):
            await gateway.becomes(State.READY)
            await ears.hear("started")
            info = await gateway.hub.restart("s")
            assert info.ready
            await ears.hear("started", count=2)
            assert await gateway.text("echo", {"text": "anew"}) == "anew"


async def test_a_server_that_dies_at_its_node_is_shown_so_and_its_call_is_unknown(tmp_path: Path) -> None:
    ray = StandInRay()
    wanted = tmp_path / "wanted"
    wanted.touch()
    patient = {"restart": {"initial": 30.0, "cap": 60.0}}
    config = config_of({"s": entry(settings=patient, wants=str(wanted))})
    async with (
        running_nodes(tmp_path, "a", ray=ray),
        open_gateway(config, ray, tmp_path) as gateway,
    ):
        await gateway.becomes(State.READY)
        wanted.unlink()
        error = await gateway.failure("die")
        assert error.code is Code.SERVER_DIED
        assert error.outcome is Outcome.UNKNOWN
        assert "these are my last words" in str(error)
        await soon(lambda: gateway.state() is State.WAITING)
        info = gateway.hub.upstreams["s"].info()
        assert info.cause is not None
        assert info.cause.startswith("a: ")


async def test_a_gateway_that_stood_still_gives_up_no_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpx.cluster.node_watch.SILENCE_S", 1.0)
    ray = StandInRay()
    async with (
        running_nodes(tmp_path, "a", ray=ray, report_interval_s=0.1),
        open_gateway(config_of({"s": entry()}), ray, tmp_path) as gateway,
    ):
        await gateway.becomes(State.READY)
        time.sleep(1.5)  # noqa: ASYNC251 - this is the fault
        node = gateway.cluster.nodes.get("a")
        for _ in range(5):
            await gateway.cluster.nodes.news.wait()
            assert node is not None
            assert node.answers
        life = gateway.hub.upstreams["s"].queue.lifecycle()
        assert life.generation == 1


async def test_a_node_of_which_ray_knows_nothing_for_a_moment_stays(tmp_path: Path) -> None:
    ray = StandInRay()
    async with (
        running_nodes(tmp_path, "a", "b", ray=ray) as nodes,
        open_gateway(config_of({"s": entry()}), ray, tmp_path) as gateway,
    ):
        await gateway.becomes(State.READY)
        await gateway.answers("a", "b")
        ray.say(
            a=replace(ray.nodes["a"], endpoint=None, actor="failing", problem="its actor does not answer")
        )
        assert await gateway.text("echo", {"text": "still here"}) == "still here"
        assert gateway.hub.upstreams["s"].queue.lifecycle().generation == 1
        ray.add("a", nodes[0])
        ray.say(a=None)
        await soon(lambda: gateway.node() == "b")
        assert await gateway.text("echo", {"text": "there"}) == "there"
