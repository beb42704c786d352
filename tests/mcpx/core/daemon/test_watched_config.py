"""A daemon that watches its configuration, and one that was stopped for a while."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import anyio
import pytest

from mcpx.core.telemetry.suspend import MIN_AWAY_S, TICK_S
from tests.mcpx.core.daemon.daemons import House, until
from tests.mcpx.scripted import entry

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
HANG = {"server_name": "s", "tool_name": "hang"}
ECHO = {"server_name": "t", "tool_name": "echo", "arguments": {"text": "hi"}}
CHANGED = "notifications/tools/list_changed"


def replace_config(house: House, text: str) -> None:
    """As editors save: another file takes the place of the old one."""
    new = Path(house.config + "~")
    new.write_text(text)
    new.replace(house.config)


def logged(house: House, event: str) -> bool:
    return any(line["event"] == event for line in house.log())


async def test_a_client_sees_what_was_added_and_is_told_of_a_file_that_cannot_be_used(house):
    house.write({"s": entry()})
    async with house.attached() as client:
        await client.initialize()
        await client.request("tools/list")
        replace_config(house, json.dumps({"mcpServers": {"s": entry(), "t": entry()}}))
        await until(lambda: logged(house, "config.reloaded"))
        assert (await client.call("exec", **ECHO))["content"][0]["text"] == "hi"
        replace_config(house, '{"mcpServers": ')
        await until(lambda: logged(house, "config.unusable"))
        shown = await client.call("inspect")
        assert "cannot be used" in shown["content"][-1]["text"]
        assert "config.json:1:" in shown["structuredContent"]["config_error"]
        status = house.status()
        assert status["daemon"]["config_error"] == shown["structuredContent"]["config_error"]
        assert [server["state"] for server in status["servers"]] == ["ready", "ready"]
        assert (await client.call("exec", **ECHO))["content"][0]["text"] == "hi"
    assert any(note["method"] == CHANGED for note in client.notifications)


async def test_a_client_is_told_when_there_is_a_query_tool_and_when_there_is_none(house):
    house.write({"s": entry()})
    hints = {"echo": {"readOnlyHint": True}}
    with_tiers = {"mcpServers": {"s": entry()}, "tiers": True, "annotations": hints}

    async with house.attached() as client:

        async def names_after(text):
            client.notifications.clear()
            replace_config(house, json.dumps(text))
            while not any(note["method"] == CHANGED for note in client.notifications):
                await client.request("ping")
                await anyio.sleep(0.01)  # the daemon needs the processor
            return [tool["name"] for tool in (await client.request("tools/list"))["tools"]]

        await client.initialize()
        await client.request("tools/list")
        assert "query" in await names_after(with_tiers)
        echo = ECHO | {"server_name": "s"}
        assert (await client.call("query", **echo))["content"][0]["text"] == "hi"
        assert "query" not in await names_after({"mcpServers": {"s": entry()}})


async def test_a_shim_and_its_daemon_go_on_after_they_were_stopped(house, ears):
    house.write({"s": entry(ears)}, call_timeout=MIN_AWAY_S)
    async with house.attached() as client:
        await client.initialize()
        hangs = await client.ask("tools/call", {"name": "exec", "arguments": HANG})
        await ears.hear("call", tool="hang")
        stopped = [house.pid, client.process.pid]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        await anyio.sleep(TICK_S + MIN_AWAY_S + 0.5)  # longer than the call may take
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        await client.call("exec", **{**HANG, "tool_name": "release"})
        answer = await client.answer(hangs)
        assert answer["result"]["content"][0]["text"] == "released"
        await until(lambda: logged(house, "suspend.over"))
        assert len(ears.of("started")) == 1
