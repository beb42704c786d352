"""A client whose MCPX cannot start: its session opens, inspect says why, and later the tools come."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import pytest

from tests.mcpx.core.daemon.daemons import processes, until
from tests.mcpx.scripted import entry
from tests.mcpx.serving import ENVELOPE, LEGACY, MODERN, PATIENCE_S, Served, serving

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
NAMES = ["inspect", "exec", "resources"]
CHANGED = "notifications/tools/list_changed"
ECHO = {"server_name": "s", "tool_name": "echo", "arguments": {"text": "hi"}}


def framed(version: str, **params: object) -> dict:
    return {**params, "_meta": ENVELOPE} if version == MODERN else params


async def opened(client: Served, version: str = LEGACY) -> str:
    """Open a session that must have no daemon; what inspect says."""
    if version == MODERN:
        assert MODERN in (await client.request("server/discover", framed(version)))["supportedVersions"]
        wanted = {"notifications": {"toolsListChanged": True}}
        await client.ask("subscriptions/listen", framed(version, **wanted))
    else:
        assert (await client.initialize(version))["protocolVersion"] == version
    listed = await client.request("tools/list", framed(version))
    assert [tool["name"] for tool in listed["tools"]] == NAMES
    told = await client.request("tools/call", framed(version, name="inspect", arguments={}))
    assert not told["isError"]
    return str(told["content"][0]["text"])


async def heard_of_tools(client: Served, version: str = LEGACY) -> None:
    """Wait for the notification, and use a tool."""
    with anyio.fail_after(PATIENCE_S):
        while not any(each["method"] == CHANGED for each in client.notifications):
            client._take(await client._line())
    called = await client.request("tools/call", framed(version, name="exec", arguments=ECHO))
    assert called["content"][0]["text"] == "hi"
    listed = await client.request("tools/list", framed(version))
    assert "echo" in listed["tools"][0]["description"]


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_there_is_no_configuration_and_then_there_is(house, version):
    async with house.attached() as client:
        told = await opened(client, version)
        assert house.config in told
        assert "mcpx setup" in told
        house.write({"s": entry()}, startup_wait=20)
        await heard_of_tools(client, version)
        await client.close_input()
        assert await client.exit_code() == 0


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_the_configuration_is_broken_and_then_mended(house, version):
    (house.folder / "config.json").write_text('{"mcpServers": {')
    async with house.attached() as client:
        told = await opened(client, version)
        assert f"{house.config}:1:" in told
        assert f"mcpx check --config {house.config}" in told
        call = await client.request("tools/call", framed(version, name="exec", arguments=ECHO))
        assert call["isError"]
        assert call["structuredContent"]["outcome"] == "not_sent"
        house.write({"s": entry()}, startup_wait=20)
        await heard_of_tools(client, version)
        assert len([line for line in client.other_stderr if house.config in line]) == 1


async def test_the_folder_cannot_be_used_and_then_it_can(house):
    house.write({"s": entry()}, startup_wait=20)
    state = house.folder / "state"
    state.write_text("in the way")
    async with house.attached() as client:
        assert str(state) in await opened(client)
        state.unlink()
        await heard_of_tools(client)


async def test_a_profile_that_there_is_not_and_then_there_is(house):
    house.write({"s": entry()}, startup_wait=20)
    async with serving(house.folder, "attach", "--config", house.config, "--profile", "work") as client:
        assert '"work"' in await opened(client)
        house.write({"s": entry()}, startup_wait=20, profiles={"work": {"servers": ["s"]}})
        await heard_of_tools(client)


async def test_the_client_of_one_server_that_there_is_not(house):
    house.write({"other": entry()})
    async with serving(house.folder, "attach", "--config", house.config, "--server", "s") as client:
        await client.initialize()
        (tool,) = (await client.request("tools/list"))["tools"]
        told = await client.call(tool["name"])
        assert "Servers: other" in told["content"][0]["text"]
        house.write({"s": entry()})
        with anyio.fail_after(PATIENCE_S):
            while not any(each["method"] == CHANGED for each in client.notifications):
                client._take(await client._line())
        assert "echo" in [tool["name"] for tool in (await client.request("tools/list"))["tools"]]
        assert (await client.call("echo", text="hi"))["content"][0]["text"] == "hi"


@pytest.mark.parametrize("options", [[], ["--profile", "work"]])
async def test_a_client_that_starts_servers_of_its_own_is_served_nevertheless(house, options):
    house.write({"s": entry()}, queue_size="many")
    async with serving(house.folder, "serve", house.config, *options) as client:
        assert "$.queue_size" in await opened(client)
        house.write({"s": entry()}, startup_wait=20, profiles={"work": {"servers": ["s"]}})
        await heard_of_tools(client)
        own = processes("serve", "--config", house.config)
        assert len(own) == 1
        await client.close_input()
        assert await client.exit_code() == 0
        assert processes(house.config) == []


async def test_servers_of_its_own_end_with_a_client_that_is_killed(house):
    async with serving(house.folder, "serve", house.config) as client:
        assert "no such file" in await opened(client)
        house.write({"s": entry()}, startup_wait=20)
        await heard_of_tools(client)
        client.process.kill()
        await until(lambda: processes(house.config) == [])


async def test_wrong_options_are_explained_by_inspect_too(house):
    async with serving(house.folder, "attach", "--expose", "some") as client:
        assert "--expose wants three, all or both" in await opened(client)
        await client.close_input()
        assert await client.exit_code() == 2


async def test_a_daemon_that_does_not_answer_does_not_keep_the_session_from_opening(house):
    """Something listens on the socket and never answers the greeting, as a daemon that is stopped."""
    house.write({"s": entry()})
    house.place.socket.parent.mkdir(parents=True, mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(house.place.socket))
        listener.listen(1)
        async with house.attached() as client:
            await client.initialize()
            listed = await client.request("tools/list")
            assert [tool["name"] for tool in listed["tools"]] == NAMES


@contextmanager
def full_disk(folder: Path) -> Iterator[Path]:
    """A file system of its own at `folder`, full until the file that is yielded is removed."""
    folder.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted")
    try:
        filler = folder / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        yield filler
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


async def test_a_full_disk_ends_in_a_sentence(house):
    house.write({"s": entry()}, startup_wait=20)
    with full_disk(house.folder / "state") as filler:
        try:
            for command in (("daemon", "run"), ("daemon", "start")):
                done = house.run(*command)
                assert done.returncode == 1
                assert "No space left on device; make room" in done.stderr
                assert "Traceback" not in done.stderr
            async with house.attached() as client:
                assert "No space left on device" in await opened(client)
                filler.unlink()
                await heard_of_tools(client)
        finally:
            house.close()
