"""A gateway over real nodes: where servers run, and what happens when a node goes, comes back or is drained."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import anyio
import pytest

from mcpx.catalog.snapshot import State
from mcpx.errors import CallError, Code, Outcome
from tests.mcpx.cluster.gateways import StandInRay, open_gateway, running_nodes, send
from tests.mcpx.scripted import PATIENCE_S, Ears, config_of, entry, soon

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
            assert max(took) - began < 2.0
            assert {error.code for error in errors} == {Code.SERVER_DIED}
            assert {error.outcome for error in errors} == {Outcome.UNKNOWN}
            assert "node a was lost" in str(errors[0])
            assert await gateway.text("echo", {"text": "again"}) == "again"
            assert time.monotonic() - began < 10.0
            assert gateway.node() == "b"
            counted = [call["arguments"]["number"] for call in ears.of("call", tool="count")]
            assert sorted(counted) == [0, 1, 2, 3, 4]
