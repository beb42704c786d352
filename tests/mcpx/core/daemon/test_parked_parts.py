"""Parts that keep failing: those that calls can do without are parked, and MCPX goes on; others end it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import anyio.to_thread
import pytest

from mcpx.core.daemon.hub import SIDE_PARTS
from tests.mcpx.core.daemon.daemons import until
from tests.mcpx.scripted import entry
from tests.mcpx.serving import serving

pytestmark = pytest.mark.anyio

BREAKING = Path(__file__).with_name("breaking_daemon.py")
IN_A_CLUSTER = {"cluster", "gateways", "ray", "reports"}


@asynccontextmanager
async def daemon_with(house, ears, **servers):
    """A daemon, the folder that breaks its parts, and a client of it."""
    broken = house.folder / "broken"
    broken.mkdir()
    house.write({"s": entry(ears), **servers}, startup_wait=3)
    command = serving(house.folder, house.config, str(broken), command=lambda: [str(BREAKING)])
    async with command as daemon:
        await daemon.logged("socket.listening")
        async with house.attached() as client:
            await client.initialize()
            yield daemon, broken, client


async def works(client):
    answer = await client.call("exec", server_name="s", tool_name="echo", arguments={"text": "hi"})
    return answer["content"][0]["text"] == "hi"


def parked(house):
    return {part["name"]: part for part in house.status()["daemon"].get("parked", ())}


async def test_side_parts_are_parked_while_calls_go_on_and_come_back(house, ears):
    other = {"url": "http://127.0.0.1:9/mcp", "mcpx": True}  # nobody is there, but there is a federation
    async with daemon_with(house, ears, other=other) as (daemon, broken, client):
        assert await works(client)
        here = SIDE_PARTS.keys() - IN_A_CLUSTER
        for name in here:
            (broken / name).touch()
        for name in here:
            said = await daemon.logged("part.parked", part=name)
            assert said["missing"] == SIDE_PARTS[name]
        assert await works(client)
        found = await anyio.to_thread.run_sync(parked, house)
        assert found.keys() == here
        page = found["page"]
        assert page["cause"] == "ValueError: page is broken"
        assert page["failing_s"] > 0
        assert 0 < page["next_attempt_in_s"] <= 30
        for command in (("status",), ("doctor",)):
            shown = " ".join((await anyio.to_thread.run_sync(house.run, *command)).stdout.split())
            for name in here:
                assert f"the part {name} of MCPX is parked" in shown
            assert "mcpx reload" in shown
        for mark in broken.iterdir():
            mark.unlink()
        done = await anyio.to_thread.run_sync(house.run, "reload")
        assert done.returncode == 0, done.stderr
        await until(lambda: not parked(house))
        opened = await anyio.to_thread.run_sync(house.run, "ui", "--print")
        assert opened.returncode == 0, opened.stderr
        async with house.attached() as newcomer:
            await newcomer.initialize()
            assert await works(newcomer)
        assert await works(client)


async def test_who_needs_a_parked_part_has_it_tried_and_is_told_why_it_is_down(house, ears):
    async with daemon_with(house, ears) as (daemon, broken, _client):
        (broken / "page").touch()
        await daemon.logged("part.parked", part="page")
        for _ in range(2):
            asked = await anyio.to_thread.run_sync(house.run, "ui", "--print")
            assert asked.returncode == 1
        assert "the part page of MCPX is parked" in asked.stderr
        assert "ValueError: page is broken" in asked.stderr


@pytest.mark.parametrize("name", ["gateway", "upstreams"])
async def test_an_essential_part_that_keeps_failing_ends_the_daemon(house, ears, name):
    async with daemon_with(house, ears) as (daemon, broken, _client):
        (broken / name).touch()
        assert await daemon.exit_code() == 1
        assert (await daemon.logged("mcpx.failed"))["cause"].endswith(f"{name} is broken")
