"""Clients of one daemon that see different servers, through the shim and from the command line."""

from __future__ import annotations

import pytest

from tests.mcpx.core.daemon.test_carried_over import restart
from tests.mcpx.scripted import entry
from tests.mcpx.serving import run_cli, serving

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
PROFILES = {"work": {"servers": ["s"], "tools": {"s": ["echo"]}}}
ECHO = {"tool_name": "echo", "arguments": {"text": "hi"}}


def attached(house, *options):
    return serving(house.folder, "attach", "--config", house.config, *options)


async def code(client, server, tool="echo"):
    result = await client.call("exec", server_name=server, **ECHO | {"tool_name": tool})
    return result.get("structuredContent", {}).get("code")


async def test_each_shim_has_its_endpoint_for_good_and_all_share_the_servers(house, ears):
    house.write({"s": entry(ears), "other": entry()}, profiles=PROFILES, startup_wait=20)
    async with (
        attached(house, "--profile", "work") as work,
        attached(house, "--only=other,other") as other,
        attached(house) as whole,
    ):
        for client in (work, other, whole):
            await client.initialize()
        for again in (False, True):
            if again:
                restart(house)
            assert [await code(work, each) for each in ("s", "other")] == [None, "unknown_server"]
            assert [await code(other, each) for each in ("s", "other")] == ["unknown_server", None]
            assert [await code(whole, each) for each in ("s", "other")] == [None, None]
            assert await code(work, "s", "count") == "unknown_tool"
        assert len(house.daemons()) == 1
    assert len(ears.of("started")) == 2
    done = house.run("inspect", "--profile", "work", "--json")
    assert '"name": "other"' not in done.stdout
    house.write({"s": entry(ears)})
    house.run("reload")
    async with attached(house, "--profile", "work") as late:
        await late.initialize()
        refused = (await late.call("inspect"))["content"][0]["text"]
        assert "there is no profile" in refused
        assert "none is configured" in refused


@pytest.mark.parametrize("command", ["attach", "serve"])
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--server", "s", "--profile", "work"], "--server shows one server as it is"),
        (["--server=s", "--only=s"], "--server shows one server as it is"),
        (["--only", ","], "--only wants"),
    ],
)
def test_what_does_not_go_together(house, command, options, problem):
    house.write({"s": entry()}, profiles=PROFILES)
    config = ["--config", house.config] if command == "attach" else [house.config]
    done = run_cli(house.folder, command, *config, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr or "no server is named" in done.stderr


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--profile", "wrok"], 'there is no profile "wrok"; did you mean "work"?'),
        (["--only", "t"], 'there is no server "t"; there is "s"'),
        (["--transport", "http", "--profile", "work"], "/mcp/PROFILE"),
    ],
)
def test_what_serve_refuses(house, options, problem):
    house.write({"s": entry()}, profiles=PROFILES)
    done = run_cli(house.folder, "serve", house.config, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr


async def test_serve_starts_only_what_is_shown(house, ears):
    house.write({"s": entry(), "other": entry(ears)}, profiles=PROFILES)
    async with serving(house.folder, "serve", house.config, "--profile", "work") as client:
        await client.initialize()
        assert [await code(client, each) for each in ("s", "other")] == [None, "unknown_server"]
        assert await code(client, "s", "count") == "unknown_tool"
        settings = {"profiles": PROFILES, "result_token_budget": 7}
        house.write({"s": entry(), "other": entry(ears)}, **settings)
        reloaded = await client.logged("config.reloaded")
        assert (reloaded["added"], reloaded["settings"]) == ([], ["result_token_budget"])
        assert ears.of("started") == []
        both = {"work": {"servers": ["s", "other"], "tools": {"s": []}}}
        house.write({"s": entry(), "other": entry(ears)}, **settings | {"profiles": both})
        await client.logged("config.reloaded", added=["other"])
        assert [await code(client, each) for each in ("s", "other")] == ["unknown_tool", None]
